"""Results for machines and reviews: JSON, CSV, Markdown, Parquet and a spreadsheet."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

import msgspec

from shapescope import __version__
from shapescope.errors import MissingDependencyError
from shapescope.show.result import Result
from shapescope.show.values import readable

if TYPE_CHECKING:
    import polars as pl

# A spreadsheet holds so many characters in a cell, and runs a cell that begins with one of these as a formula.
_LONGEST_SHEET_CELL = 32_767
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_MARKDOWN = str.maketrans({c: f"\\{c}" for c in "\\`*_{}[]<>#|~&"})


def to_json(result: Result) -> str:
    """The contract's object: all rows, times in integer ns, missing as null."""
    content: dict[str, Any] = {
        "command": result.command,
        "version": __version__,
        "run": result.run,
        "partial": result.partial,
        "warnings": [{"code": w.code, "message": w.message, "file": w.file} for w in result.warnings],
        "summary": result.summary,
        "rows": [{column: row.get(column) for column in result.columns} for row in result.rows],
    }
    if result.streams is not None:
        content["streams"] = result.streams
    return msgspec.json.format(msgspec.json.encode(content), indent=2).decode()


def to_csv(result: Result) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(result.columns)
    for row in result.rows:
        writer.writerow([_csv_cell(row.get(column)) for column in result.columns])
    return text.getvalue()


def _flat(value: Any) -> Any:
    """A nested value as its JSON: tables of machines hold one value a cell."""
    return msgspec.json.encode(value).decode() if isinstance(value, (list, tuple, dict)) else value


def _csv_cell(value: Any) -> Any:
    value = _flat(value)
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def to_markdown(result: Result, top: int | None = None) -> str:
    """A GitHub table; rows beyond `top` are counted, not shown."""
    rows = result.rows if top is None else result.rows[:top]
    lines = [
        "| " + " | ".join(result.columns) + " |",
        "|" + " --- |" * len(result.columns),
        *("| " + " | ".join(_markdown_cell(c, row.get(c)) for c in result.columns) + " |" for row in rows),
    ]
    if len(rows) < len(result.rows):
        lines.append(f"\n{len(result.rows) - len(rows)} more rows")
    lines += [f"\n**{w.code}**: {_escaped(w.message)}" for w in result.warnings]
    return "\n".join(lines)


def _markdown_cell(column: str, value: Any) -> str:
    return _escaped(readable(column, value))


def _escaped(text: str) -> str:
    return text.translate(_MARKDOWN)


def to_parquet(result: Result) -> bytes:
    """All rows and columns; nested values as JSON text, times and sizes as whole numbers."""
    content = io.BytesIO()
    _frame(result).write_parquet(content)
    return content.getvalue()


def to_xlsx(result: Result) -> bytes:
    """One sheet. A name is a name there: neither a formula nor a link. MissingDependencyError without xlsxwriter."""
    try:
        import xlsxwriter
    except ModuleNotFoundError as error:
        raise MissingDependencyError("xlsxwriter", "xlsx") from error
    import polars as pl

    content = io.BytesIO()
    with xlsxwriter.Workbook(
        content, {"strings_to_formulas": False, "strings_to_urls": False, "in_memory": True}
    ) as book:
        fitting = _frame(result).with_columns(pl.col(pl.String).str.slice(0, _LONGEST_SHEET_CELL))
        fitting.write_excel(book, worksheet=result.command, autofit=True, freeze_panes=(1, 0))
    return content.getvalue()


def _frame(result: Result) -> pl.DataFrame:
    import polars as pl

    columns = {column: [_flat(row.get(column)) for row in result.rows] for column in result.columns}
    return pl.DataFrame({name: pl.Series(name, values, strict=False) for name, values in columns.items()})
