"""The page's payload: the results of all commands as one plain, frozen JSON object, packed by column.

What the page shows is in here and nowhere else, so that a report mailed last year still shows what was measured.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from shapescope import __version__
from shapescope.show.missing import REASONS
from shapescope.show.result import Result

SCHEMA = 1
# Rows that one file can hold and still open in a second; whole shapes beyond are left out, and the page says which.
_MOST_ROWS = {"kernels": 60_000, "launches": 20_000, "join": 20_000}
_SHAPE = ("rank", "runner", "variant", "size", "step", "replay_file")
ABSOLUTE_PATH = re.compile(r"(?<![\w.:/])(?:[A-Za-z]:)?[/\\](?:[^/\\\s:;,'\"()]+[/\\])+")


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing known of a run; `missing` says why the value is not."""

    name: str
    value: str | None
    missing: str = "not recorded"


@dataclass(frozen=True, slots=True)
class Page:
    """What one page shows. `tables` are keyed by the section that shows them: mostly the command's name. `device` has the
    `name`, the `peak` FLOP/s by number type and the `bandwidth` in bytes/s of a known device."""

    title: str
    facts: Sequence[Fact]
    tables: Mapping[str, Result]
    environment: Mapping[str, str] = field(default_factory=dict)
    device: Mapping[str, Any] | None = None
    base_title: str | None = None
    base_environment: Mapping[str, str] = field(default_factory=dict)


def payload(page: Page, *, live: bool = False, hide_paths: bool = False) -> dict[str, Any]:
    """The plain object. `live` tells the page that a server stands behind it; `hide_paths` keeps only base names of paths."""
    plain = {
        "schema": SCHEMA,
        "version": __version__,
        "live": live,
        "title": page.title,
        "facts": [{"name": fact.name, "value": fact.value, "missing": fact.missing} for fact in page.facts],
        "tables": {name: _packed(name, result) for name, result in page.tables.items()},
        "environment": dict(page.environment),
        "device": page.device,
        "base": None
        if page.base_title is None
        else {"title": page.base_title, "environment": dict(page.base_environment)},
        "reasons": REASONS,
    }
    return _without_paths(plain) if hide_paths else plain


def _packed(name: str, result: Result) -> dict[str, Any]:
    bounded, left_out = bound(result, _MOST_ROWS.get(name))
    return {
        "command": result.command,
        "columns": list(result.columns),
        "count": len(bounded.rows),
        "data": {column: pack([row.get(column) for row in bounded.rows]) for column in result.columns},
        "summary": dict(result.summary),
        "warnings": [{"code": w.code, "message": w.message, "file": w.file} for w in result.warnings],
        "partial": result.partial,
        "streams": None if result.streams is None else list(result.streams),
        "left_out": left_out,
    }


def bound(result: Result, most: int | None) -> tuple[Result, str | None]:
    """Keep whole shapes, in order, while they fit; also returns what was left out, in words."""
    if most is None or len(result.rows) <= most:
        return result, None
    sizes: dict[tuple[Any, ...], int] = {}
    for row in result.rows:
        key = _shape(row)
        sizes[key] = sizes.get(key, 0) + 1
    kept: set[tuple[Any, ...]] = set()
    room = most
    # The first rank of a shape before any second one: a reader looks at shapes before ranks.
    for key in sorted(sizes, key=lambda shape: (shape[0] is not None, shape[0] or 0)):
        if sizes[key] <= room:
            kept.add(key)
            room -= sizes[key]
    rows = [row for row in result.rows if _shape(row) in kept]
    words = (
        f"{len(result.rows) - len(rows):,} of {len(result.rows):,} rows"
        f" ({len(sizes) - len(kept)} of {len(sizes)} shapes and ranks)"
        f" are left out of this file to keep it small: `shapescope {result.command} RUN` has them all"
    )
    return replace(result, rows=rows), words


def _shape(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row.get(name) for name in _SHAPE)


def pack(values: Sequence[Any]) -> dict[str, Any]:
    """One column in its smallest plain form: `all` the same, `words` by index, or `values` as they are."""
    numbers = all(isinstance(value, (int, float, type(None))) and not isinstance(value, bool) for value in values)
    spelled = [value if isinstance(value, (int, float, type(None))) else msgspec.json.encode(value) for value in values]
    distinct = {(word, type(word)): at for at, word in enumerate(spelled)}
    if len(distinct) == 1:
        return {"all": values[0]}
    if numbers or 2 * len(distinct) > len(values):
        return {"values": list(values)}
    index = {word: at for at, word in enumerate(distinct)}
    return {"words": [values[at] for at in distinct.values()], "at": [index[word, type(word)] for word in spelled]}


def unpack(column: Mapping[str, Any], count: int) -> list[Any]:
    """The exact inverse of `pack`."""
    if "all" in column:
        return [column["all"]] * count
    if "words" in column:
        return [column["words"][at] for at in column["at"]]
    return list(column["values"])


def _without_paths(value: Any) -> Any:
    if isinstance(value, str):
        return ABSOLUTE_PATH.sub("…/", value)
    if isinstance(value, dict):
        return {_without_paths(key): _without_paths(item) for key, item in value.items()}
    return [_without_paths(item) for item in value] if isinstance(value, list) else value


def flat(environment: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """A nested environment as dotted names and texts, in its own order."""
    for name, value in environment.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{name}.")
        elif value is not None:
            yield f"{prefix}{name}", " ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
