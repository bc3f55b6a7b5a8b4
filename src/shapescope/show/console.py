"""Results on a terminal, through rich: readable at 80 columns and without colour."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from shapescope.show.result import Result
from shapescope.show.values import printable, readable

DEFAULT_ROWS = 40
_LONGEST_CELL = 60


def show(
    console: Console,
    result: Result,
    *,
    top: int | None = None,
    columns: Sequence[str] | None = None,
    quiet: bool = False,
) -> None:
    """Print a table, its totals and, unless quiet, its warnings. Columns that no row fills are left out."""
    count = DEFAULT_ROWS if top is None else top
    rows = list(result.rows)[:count]
    shown = [c for c in columns or result.columns if any(row.get(c) not in (None, "", []) for row in rows)]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in shown:
        numeric = all(isinstance(row.get(column), (int, float, type(None))) for row in rows)
        table.add_column(_heading(column), justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(escape(_cut(readable(column, row.get(column)))) for column in shown))
    if rows:
        console.print(table)
    if len(result.rows) > len(rows):
        console.print(f"{len(result.rows) - len(rows)} more rows (--top {len(result.rows)} shows all)", style="dim")
    for name, value in result.summary.items():
        console.print(f"{_heading(name)}: {escape(readable(name, value))}")
    for warning in () if quiet else result.warnings:
        where = f" ({printable(warning.file)})" if warning.file else ""
        console.print(f"{warning.code}: {escape(printable(warning.message))}{escape(where)}", style="yellow")


def _heading(column: str) -> str:
    return column.removesuffix("_ns").removesuffix("_bytes").replace("_", " ")


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_CELL else f"{text[: _LONGEST_CELL - 1]}…"
