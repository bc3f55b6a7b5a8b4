"""Results as text for machines and reviews: JSON, CSV, Markdown."""

from __future__ import annotations

import csv
import io
from typing import Any

import msgspec

from shapescope import __version__
from shapescope.show.result import Result
from shapescope.show.values import readable

# A spreadsheet runs a cell that begins with one of these as a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_MARKDOWN = str.maketrans({c: f"\\{c}" for c in "\\`*_{}[]<>#|~"})


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


def _csv_cell(value: Any) -> Any:
    if isinstance(value, (list, tuple, dict)):
        value = msgspec.json.encode(value).decode()
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
