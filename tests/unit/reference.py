"""Columns the slow and obvious way: json with decimals, one event after the other."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

from shapescope.read.columns import LISTS
from shapescope.read.walker import ARGS_FIELDS, EVENT_FIELDS

EXACT_TIMES = ("ts", "dur")


def reference_events(text: bytes) -> list[dict[str, Any]]:
    """Rows of columns; lists are parsed, not raw."""
    document = json.loads(text.decode("utf-8-sig"), parse_float=Decimal)
    return [reference_row(event) for event in (document if isinstance(document, list) else document["traceEvents"])]


def reference_row(event: dict[str, Any]) -> dict[str, Any]:
    args = event.get("args") or {}
    found = [(column, event.get(key)) for key, column in EVENT_FIELDS.items()]
    found += [(column, args.get(key)) for key, column in ARGS_FIELDS.items()]
    return {column: _value(column, value) for column, value in found}


def _value(column: str, value: Any) -> Any:
    if value is None:
        return None
    if column in EXACT_TIMES:
        nanoseconds = Decimal(value) * 1000
        assert nanoseconds == int(nanoseconds)
        return int(nanoseconds)
    if column in LISTS:
        return value
    return str(value) if column in TEXT_COLUMNS else value


TEXT_COLUMNS = frozenset(
    ("ph", "cat", "name", "pid", "tid", "stream", "kernel", "kind", "bytes", "collective", "arg_name")
)


def rows(events: Any) -> list[dict[str, Any]]:
    """A decoded frame in the same form."""
    found = []
    for row in events.to_dicts():
        for column in LISTS:
            if row[column] is not None and row[column][:1] == "[":
                row[column] = json.loads(row[column], parse_float=Decimal)
        found.append(row)
    return found
