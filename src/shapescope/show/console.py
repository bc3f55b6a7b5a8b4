"""Results on a terminal, through rich: one line a row, readable at 80 columns and without colour."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from shapescope.show.result import Result
from shapescope.show.values import Unit, column_unit, printable, readable

DEFAULT_ROWS = 40
# What places a row: said once above the table where it is the same in every row.
_PLACE = ("run", "runner", "phase", "size", "variant", "rank", "context_len")
_LONGEST_CELL = 64


def show(
    console: Console,
    result: Result,
    *,
    top: int | None = None,
    every_column: bool = False,
    quiet: bool = False,
) -> None:
    """Print a table, its totals and, unless quiet, its warnings. Columns that no row fills are left out."""
    rows = list(result.rows)[: DEFAULT_ROWS if top is None else top]
    columns = result.columns if every_column or not result.shown else result.shown
    filled = [c for c in columns if any(row.get(c) not in (None, "", []) for row in rows)]
    common = [c for c in filled if c in _PLACE and len(rows) > 1 and len({row.get(c) for row in rows}) == 1]
    if common:
        _line(console, " · ".join(f"{_words(c)} {readable(c, rows[0].get(c))}" for c in common), style="dim")
    if rows:
        console.print(_table(rows, [column for column in filled if column not in common]))
    if len(result.rows) > len(rows):
        _line(console, f"{len(result.rows) - len(rows)} more rows (--top {len(result.rows)} shows all)", style="dim")
    for name, value in result.summary.items():
        if value in (None, {}) or _is_table(value):
            continue
        _line(console, f"{_words(name)}: {readable(name, value)}")
    for problem in () if quiet else result.warnings:
        where = f" ({printable(problem.file)})" if problem.file else ""
        _line(console, f"{problem.code}: {printable(problem.message)}{where}", style="yellow")


def _is_table(value: Any) -> bool:
    """Whether a total is a table of its own, which JSON holds."""
    return isinstance(value, list) and (not value or isinstance(value[0], dict))


def _line(console: Console, text: str, style: str = "") -> None:
    console.print(Text(text, style=style), soft_wrap=True)


def _table(rows: Sequence[Any], columns: Sequence[str]) -> Table:
    """Times and sizes share one unit a column, named in its heading, so that numbers stand under numbers.

    Where the terminal is too narrow, text is cut and numbers are not.
    """
    table = Table(box=None, pad_edge=False, header_style="bold")
    units = [column_unit(column, [row.get(column) for row in rows]) for column in columns]
    for column, unit in zip(columns, units, strict=True):
        numeric = unit is not None or all(isinstance(row.get(column), (int, float, type(None))) for row in rows)
        table.add_column(_heading(column, unit), justify="right" if numeric else "left", no_wrap=numeric)
    for row in rows:
        table.add_row(*(_cell(column, unit, row.get(column)) for column, unit in zip(columns, units, strict=True)))
    return table


def _cell(column: str, unit: Unit | None, value: Any) -> Text:
    text = readable(column, value) if unit is None or value is None else unit.number(value)
    return Text(_cut(text), no_wrap=True, overflow="ellipsis")


def _heading(column: str, unit: Unit | None) -> str:
    return _words(column) if unit is None else f"{_words(column)}\n{unit.name}"


def _words(column: str) -> str:
    words = column.removesuffix("_ns").removesuffix("_bytes").removesuffix("_len").replace("_", " ")
    return words.removeprefix("time ") if words != "time" else words


def _cut(text: str) -> str:
    """Cut in the middle: both ends of a file or kernel name tell it from others."""
    if len(text) <= _LONGEST_CELL:
        return text
    half = (_LONGEST_CELL - 1) // 2
    return f"{text[:half]}…{text[-half:]}"
