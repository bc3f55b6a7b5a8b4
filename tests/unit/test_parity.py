"""Console, JSON, CSV and Markdown show the same numbers, for every table; a browser test holds the page to them too."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from shapescope.analyse.names import name_frame
from shapescope.read.run import Run, open_run
from shapescope.show import console, export
from shapescope.show.gather import TABLES
from shapescope.show.values import column_unit, readable


@pytest.fixture(scope="module")
def run(demo_run: Path) -> Run:
    return open_run(demo_run, namer=name_frame)


@pytest.mark.parametrize("name", sorted(TABLES))
def test_every_format_shows_the_same_numbers(name: str, run: Run) -> None:
    result = TABLES[name](run)
    rows = json.loads(export.to_json(result))["rows"]
    assert len(rows) == len(result.rows)
    _held_to_csv(rows, list(csv.DictReader(io.StringIO(export.to_csv(result)))))
    _held_to_markdown(rows, export.to_markdown(result), result.columns)
    _held_to_console(rows, result.columns)


def _held_to_csv(rows: list[dict[str, Any]], table: list[dict[str, str]]) -> None:
    assert len(table) == len(rows)
    for row, shown in zip(rows, table, strict=True):
        for column, value in row.items():
            if isinstance(value, (list, dict)):
                assert json.loads(shown[column]) == value, column
            elif not isinstance(value, str):
                assert shown[column] == ("" if value is None else str(value)), column


def _held_to_markdown(rows: list[dict[str, Any]], text: str, columns: tuple[str, ...]) -> None:
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    assert len(lines) == len(rows) + 2 - (not rows and not columns)
    for row, line in zip(rows, lines[2:], strict=True):
        cells = line.removeprefix("| ").removesuffix(" |").split(" | ")
        numbers = {column: cells[at] for at, column in enumerate(columns) if isinstance(row[column], (int, float))}
        for column, cell in numbers.items():
            assert cell.replace("\\", "") == readable(column, row[column]), column


def _held_to_console(rows: list[dict[str, Any]], columns: tuple[str, ...]) -> None:
    """A time or size stands in its column's unit, to the last digit that is shown."""
    if not rows:
        return
    table = console._table(rows, columns)
    for column, shown in zip(columns, table.columns, strict=True):
        unit = column_unit(column, [row[column] for row in rows])
        for row, cell in zip(rows, shown.cells, strict=True):
            value, text = row[column], str(cell)
            if unit is None or value is None:
                assert text == console._cut(readable(column, value)), column
            else:
                assert float(text.replace(",", "")) * unit.size == pytest.approx(value, abs=unit.size), column
