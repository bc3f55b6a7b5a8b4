"""A result or a page as a notebook cell shows it."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from shapescope.show.html import report
from shapescope.show.page import Page, payload
from shapescope.show.values import readable

if TYPE_CHECKING:
    from shapescope.show.result import Result

_MOST_ROWS = 100
_HEIGHT_PX = 900


@dataclass(frozen=True, slots=True)
class Report:
    """A page that a notebook shows in a frame of its own: its script reaches nothing of the notebook."""

    page: Page

    def _repr_html_(self) -> str:
        document = escape(report(payload(self.page)), quote=True)
        style = f"width:100%;height:{_HEIGHT_PX}px;border:0"
        return f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{document}"></iframe>'


def table(result: Result) -> str:
    """The first rows as a plain HTML table."""
    numeric = {
        c for c in result.columns if all(isinstance(row.get(c), (int, float, type(None))) for row in result.rows)
    }
    head = "".join(f"<th>{escape(column)}</th>" for column in result.columns)
    body = "".join(
        "<tr>" + "".join(_cell(column, row.get(column), column in numeric) for column in result.columns) + "</tr>"
        for row in result.rows[:_MOST_ROWS]
    )
    more = len(result.rows) - _MOST_ROWS
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" + (
        f"<p>{more} more rows</p>" if more > 0 else ""
    )


def _cell(column: str, value: object, numeric: bool) -> str:
    style = ' style="text-align:right"' if numeric else ""
    return f"<td{style}>{escape(readable(column, value))}</td>"
