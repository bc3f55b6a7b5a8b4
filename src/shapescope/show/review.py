"""A run as a comment on a pull request: what matters open, the rest folded, and never longer than GitHub accepts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from shapescope import __version__
from shapescope.show.missing import REASONS
from shapescope.show.page import ABSOLUTE_PATH, Page
from shapescope.show.result import Result
from shapescope.show.values import DASH, readable

LONGEST = 65_535
_LONGEST_CELL = 90
_MOST_ROWS = 200
_SHAPES = (
    "runner",
    "size",
    "variant",
    "rank",
    "launches",
    "time_ns",
    "time_source",
    "replays",
    "time_per_token_ns",
    "capture_ns",
    "status",
)
_SWITCHES = ("kind", "op", "dims_pattern", "size_from", "size_to", "family_from", "family_to", "time_ratio", "source")
_DIFF = (
    "verdict",
    "size",
    "op",
    "dims",
    "family_base",
    "family_head",
    "base_ns",
    "head_ns",
    "ratio",
    "n_base",
    "n_head",
    "reason",
)
# All that HTML or Markdown reads as more than a character, even inside an HTML element.
_ACTIVE = frozenset("&<>\"'|`*_\\[]~#@:")
_FINDINGS = ("severity", "size", "what", "cost_ns", "evidence")


def review(page: Page, *, hide_paths: bool = False) -> str:
    """GitHub Markdown of at most `LONGEST` characters; tables give up rows, not columns, until it fits."""
    rows = _MOST_ROWS
    while True:
        text = "\n".join(_lines(page, rows))
        text = ABSOLUTE_PATH.sub("…/", text) if hide_paths else text
        if len(text) <= LONGEST or rows == 0:
            return text[:LONGEST]
        rows //= 2


def _lines(page: Page, rows: int) -> Iterator[str]:
    yield f"### shapescope: {_code(page.title)}"
    known = [f"{fact.name} {_code(fact.value)}" for fact in page.facts if fact.value is not None]
    yield "\n" + " · ".join(known) + "\n"
    tables = page.tables
    if "diff" in tables:
        changed = [row for row in tables["diff"].rows if row["verdict"] != "same"]
        yield f"**Against {_code(page.base_title or '')}: {len(changed)} of {len(tables['diff'].rows)} rows changed**\n"
        yield from _table(_DIFF, changed, rows)
    if "findings" in tables:
        yield from _folded("findings", _FINDINGS, tables["findings"].rows, rows, opened=True)
    yield from _folded("shapes", _SHAPES, tables["shapes"].rows, rows)
    if "switches" in tables:
        yield from _folded("switches", _SWITCHES, tables["switches"].rows, rows)
    yield from _warnings(tables, rows)
    yield f"<sub>shapescope {__version__}</sub>\n"


def _folded(
    name: str, columns: Sequence[str], found: Sequence[Mapping[str, Any]], rows: int, *, opened: bool = False
) -> Iterator[str]:
    yield f"<details{' open' if opened and found else ''}><summary>{name} ({len(found)})</summary>\n"
    yield from _table(columns, found, rows)
    yield "\n</details>\n"


def _table(columns: Sequence[str], found: Sequence[Mapping[str, Any]], rows: int) -> Iterator[str]:
    shown = [column for column in columns if any(row.get(column) not in (None, "") for row in found)]
    if not shown:
        yield "None.\n"
        return
    yield "| " + " | ".join(_heading(column) for column in shown) + " |"
    yield "|" + "".join(
        " ---: |" if all(_is_number(row.get(column)) for row in found) else " --- |" for column in shown
    )
    for row in found[:rows]:
        yield "| " + " | ".join(_cell(column, row.get(column)) for column in shown) + " |"
    if len(found) > rows:
        yield f"\n{len(found) - rows} more rows"
    yield ""


def _warnings(tables: Mapping[str, Result], rows: int) -> Iterator[str]:
    found = dict.fromkeys((w.code, w.message, w.file) for table in tables.values() for w in table.warnings)
    if not found:
        return
    yield f"<details><summary>warnings ({len(found)})</summary>\n"
    for code, message, file in list(found)[:rows]:
        yield f"- **{code}** {_code(message)}" + (f" {_code(file)}" if file else "")
    if len(found) > rows:
        yield f"- {len(found) - rows} more"
    yield "\n</details>\n"


def _heading(column: str) -> str:
    return re.sub(r"_(ns|bytes)$", "", column).replace("_", " ")


def _is_number(value: Any) -> bool:
    return value is None or isinstance(value, (int, float))


def _cell(column: str, value: Any) -> str:
    text = readable(column, value)
    if text == DASH:
        return f'<span title="{escape(REASONS.get(column, "not recorded"))}">{DASH}</span>'
    return text if _is_number(value) else _code(text)


def _code(text: str) -> str:
    """Text that GitHub neither renders nor links: in a code element a name mentions nobody and refers to no issue."""
    shown = readable("", text)
    if len(shown) > _LONGEST_CELL:
        shown = f"{shown[: _LONGEST_CELL - 1]}…"
    inert = "".join(f"&#{ord(c)};" if c in _ACTIVE else c for c in shown)
    return f"<code>{inert}</code>"
