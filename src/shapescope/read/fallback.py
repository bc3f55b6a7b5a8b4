"""Events to columns in pure Python: msgspec over stretches that end where an event ends. Serves where the compiled
scanner was not built, and gives the same columns to the byte.

Invariant: msgspec is trusted only with stretches that it accepts as clean, typed JSON. A stretch that it refuses is cut
smaller until what is wrong is alone, and that goes to the walker.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import polars as pl
from msgspec.structs import astuple

from shapescope.read.columns import (
    INTEGERS,
    LARGEST_EVENT,
    LISTS,
    MODULE_PREFIX,
    PYTHON_CATEGORY,
    SCHEMA,
    TIMES,
    Decoded,
    PythonFrames,
    join_chunks,
    null_column,
)  # fmt: skip
from shapescope.read.values import LARGEST, Values
from shapescope.read.walker import ARGS_FIELDS, EVENT_FIELDS, RawEvent, Walker

_SMALLEST = 1 << 12
"""Bytes. A stretch this small that msgspec refuses is walked."""

_ABSENT = msgspec.Raw(b"")
_NO_TIME = msgspec.Raw(b"x")  # no JSON begins with it
_BETWEEN = re.compile(rb"[ \t\r\n,]*")
_OPENERS = rb'"(?:ph|cat|name|pid|tid|ts|dur|id|args)"'
_BOUNDARY = re.compile(rb"[ \t\r\n]*\}[ \t\r\n]*,[ \t\r\n]*\{(?=[ \t\r\n]*" + _OPENERS + rb"[ \t\r\n]*:)")


def _event_decoder(
    integer: Any, text: Any, word: Any, time: msgspec.Raw, absent: Any
) -> tuple[msgspec.json.Decoder[Any], Any]:
    """A decoder of a list of events, and its record for `args`. `word` is the type of the texts that are always strings
    in clean traces; `absent` stands for a missing value, `time` for a missing time."""

    def field(key: str, column: str) -> tuple[str, Any, Any]:
        if column in TIMES:
            return column, msgspec.Raw, msgspec.field(default=time, name=key)
        if column in LISTS:
            return column, msgspec.Raw, msgspec.field(default=_ABSENT, name=key)
        kind = integer if column in INTEGERS else word if column in ("ph", "cat", "name") else text
        return column, kind, msgspec.field(default=absent, name=key)

    args = msgspec.defstruct("Args", [field(*item) for item in ARGS_FIELDS.items()], gc=False)
    event = msgspec.defstruct(
        "Event", [*(field(*item) for item in EVENT_FIELDS.items()), ("args", args | None, None)], gc=False
    )
    return msgspec.json.Decoder(list[event]), args  # type: ignore[valid-type]


_CLEAN, _CleanArgs = _event_decoder(int | None, int | str | None, str | None, _NO_TIME, None)
_LENIENT, _LenientArgs = _event_decoder(msgspec.Raw, msgspec.Raw, msgspec.Raw, _ABSENT, _ABSENT)
_NO_ARGS = _CleanArgs()


class FallbackReader:
    """Takes the text behind the `[` of the events in pieces; gives a frame of columns."""

    def __init__(self, python: PythonFrames, bare: bool, lost: bool) -> None:
        self._python = python
        self._walker = Walker(bare, lost)
        self._values = Values()
        self._unwanted = 0
        self._chunks: list[pl.DataFrame] = []
        self._text = b""
        self._boundary = b""

    def feed(self, block: bytes, final: bool = False) -> bool:
        """True once the list of events has ended."""
        self._text = self._text + block if self._text else block
        if not final and len(self._text) <= LARGEST_EVENT and self._last_boundary(0, len(self._text)) < 0:
            return False
        at = self._read(final)
        self._text = self._text[at:]
        return self._walker.ended

    def rest(self) -> bytes:
        """What follows the list of events, as far as it was fed."""
        return self._text

    def finish(self) -> Decoded:
        """The events, what was lost of them, and how many are not kept."""
        lost = self._walker.lost_events, self._walker.lost_bytes, self._values.lost
        return Decoded(join_chunks(self._chunks), *lost, self._unwanted)

    def _read(self, final: bool) -> int:
        """Read all events that the text holds whole; returns where the rest begins."""
        at, size = 0, len(self._text)
        while not self._walker.ended:
            stop = self._last_boundary(at, at + size)
            if stop > at and not self._walker.lost:
                if self._take(at, stop):
                    at, size = stop, size * 2
                    continue
                if size > _SMALLEST:
                    size = (stop - at) // 4
                    continue
            if stop < 0 and at + size >= len(self._text) and not final and len(self._text) <= LARGEST_EVENT:
                break  # what is left is an unfinished event
            before = at
            at = self._walk(at, len(self._text) if stop < 0 and final else max(stop, at + 1), final)
            if at == before:
                break
            size = max(size, _SMALLEST) * 2
        return at

    def _last_boundary(self, start: int, end: int) -> int:
        """Where the last event that ends before `end` does, so far as the text between two events tells; else -1. It may
        stand within a string: then msgspec refuses both sides, and the walker decides."""
        found = self._text.rfind(self._boundary, start, end) if self._boundary else -1
        if found < 0 and (learned := _BOUNDARY.search(self._text, start, end)):
            self._boundary = learned[0]
            found = self._text.rfind(self._boundary, start, end)
        return found + self._boundary.index(b"}") + 1 if found >= 0 else -1

    def _walk(self, at: int, stop: int, final: bool) -> int:
        at = self._walker.walk(self._text, at, stop, final)
        events, self._walker.events = self._walker.events, []
        self._add_raw(events)
        return at

    def _take(self, start: int, stop: int) -> bool:
        """Decode a stretch of whole events; False where it is not clean."""
        between = _BETWEEN.match(self._text, start)
        text = b"".join((b"[", memoryview(self._text)[between.end() if between else start : stop], b"]"))
        try:
            events = _CLEAN.decode(text)
        except msgspec.ValidationError:
            return self._take_lenient(text)
        except (msgspec.DecodeError, RecursionError):
            return False
        found = len(events)
        if self._python != "all":
            events = [event for event in events if event.cat != PYTHON_CATEGORY or self._wanted(event.name)]
        if events:
            columns = _clean_columns(events, self._values)
            if columns is None:
                return self._take_lenient(text)
            self._chunks.append(pl.DataFrame(columns))
        self._unwanted += found - len(events)
        return True

    def _take_lenient(self, text: bytes) -> bool:
        """Events of clean JSON, but any value in any field."""
        try:
            events = _LENIENT.decode(text)
        except (msgspec.DecodeError, RecursionError):
            return False
        self._add_raw([_raw_event(event) for event in events])
        return True

    def _add_raw(self, events: list[RawEvent]) -> None:
        found = len(events)
        if self._python != "all":
            plain = Values()  # losses in what is not kept do not count
            events = [
                event
                for event in events
                if plain.text(event.get("cat")) != PYTHON_CATEGORY or self._wanted(plain.text(event.get("name")))
            ]
        self._unwanted += found - len(events)
        if events:
            self._chunks.append(_raw_frame(events, self._values))

    def _wanted(self, name: str | None) -> bool:
        """Whether a Python frame is kept."""
        return self._python == "modules" and name is not None and name.startswith(MODULE_PREFIX)


def _clean_columns(events: list[Any], values: Values) -> list[pl.Series] | None:
    """Columns of events that msgspec has typed; None where a value is outside the types after all."""
    in_times = Values()
    *event_values, args = _by_field(events)
    args_values = _by_field([_NO_ARGS if each is None else each for each in args])
    columns: list[pl.Series] = []
    for name, column in zip(
        (*EVENT_FIELDS.values(), *ARGS_FIELDS.values()), (*event_values, *args_values), strict=True
    ):
        series = _times(name, column, in_times) if name in TIMES else _clean_column(name, column)
        if series is None:
            return None
        columns.append(series)
    values.lost += in_times.lost
    return _in_order(columns)


def _by_field(records: list[Any]) -> list[list[Any]]:
    """The values of each field of all records."""
    flat: list[Any] = []
    # All values in one list, in one loop of C, and then by strides: sooner done than `zip` of that many tuples.
    deque(map(flat.extend, map(astuple, records)), maxlen=0)
    fields = len(flat) // len(records)
    return [flat[field::fields] for field in range(fields)]


def _clean_column(name: str, values: list[Any]) -> pl.Series | None:
    first, rows = values[0], len(values)
    if rows > 1 and values == [first] * rows:  # most columns of most stretches
        if first is None or first is _ABSENT:
            return null_column(name, rows)
        single = _clean_column(name, values[:1])
        return single if single is None else single.new_from_index(0, rows)
    if name in LISTS:
        return _lists(name, values)
    return _integers(name, values) if name in INTEGERS else _texts(name, values)


def _texts(name: str, values: list[Any]) -> pl.Series:
    try:
        return pl.Series(name, values, pl.String).cast(pl.Categorical)
    except TypeError:  # integers, or both
        integers = _integers(name, values)
    if integers is not None:
        return integers.cast(pl.String).cast(pl.Categorical)
    texts = [None if value is None else str(value) for value in values]
    return pl.Series(name, texts, pl.String).cast(pl.Categorical)


def _integers(name: str, values: list[Any]) -> pl.Series | None:
    try:
        series = pl.Series(name, values, pl.Int64)
    except TypeError:  # beyond 64 bits
        return None
    smallest = series.min()
    return series if not isinstance(smallest, int) or smallest >= -LARGEST else None


def _lists(name: str, values: list[Any]) -> pl.Series | None:
    try:
        texts = [None if value is _ABSENT else str(value, "utf-8") for value in values]
    except UnicodeDecodeError:
        return None
    series = pl.Series(name, texts, pl.String)
    return series.cast(pl.Categorical) if series.str.starts_with("[").all() else None


def _times(name: str, raw: list[Any], values: Values) -> pl.Series:
    """Microseconds as decimal text -> ns, without a float in between."""
    text = b",".join(raw)
    codes = np.frombuffer(text, np.uint8)
    points = np.flatnonzero(codes == ord("."))
    ends = np.append(np.flatnonzero(codes == ord(",")), len(codes))
    missing = codes[ends - 1] == ord("x")
    absent = int(np.count_nonzero(missing))
    digits = int(np.count_nonzero(codes - ord("0") < 10))  # unsigned: what is below wraps around
    if digits + len(points) + len(ends) - 1 + absent != len(codes) or len(ends) != len(raw):
        return _odd_times(name, raw, values)  # signs, exponents, strings, nulls
    numbers = np.fromstring(text.replace(b".", b"").replace(b"x", b"0"), np.int64, sep=",")
    present = ends[~missing] if absent else ends
    if len(points) != len(present) or (points != present - 4).any():  # not all have three decimals
        holder = np.searchsorted(ends, points)
        decimals = ends[holder] - points - 1
        scale = np.full(len(raw), 3)
        scale[holder] -= decimals
        if (decimals > 3).any() or (numbers * 10.0**scale >= 9e18).any():
            return _odd_times(name, raw, values)
        numbers *= 10**scale
    elif numbers.max() >= 9 * 10**18:
        return _odd_times(name, raw, values)
    series = pl.Series(name, numbers)
    return series.set(pl.Series(missing), None) if absent else series


def _odd_times(name: str, raw: list[Any], values: Values) -> pl.Series:
    exact = [None if value is _NO_TIME else values.nanoseconds(bytes(value)) for value in raw]
    return pl.Series(name, exact, pl.Int64)


def _raw_event(event: Any) -> RawEvent:
    raw = {name: bytes(getattr(event, name)) for name in EVENT_FIELDS.values()}
    if event.args is not None:
        raw |= {name: bytes(getattr(event.args, name)) for name in ARGS_FIELDS.values()}
    return {name: value for name, value in raw.items() if value}


def _raw_frame(events: list[RawEvent], values: Values) -> pl.DataFrame:
    convert = dict.fromkeys(INTEGERS, values.integer) | dict.fromkeys(TIMES, values.nanoseconds)
    return pl.DataFrame(
        [
            pl.Series(name, [convert.get(name, values.text)(event.get(name)) for event in events], dtype=dtype)
            for name, dtype in SCHEMA.items()
        ]
    )


def _in_order(columns: Sequence[pl.Series]) -> list[pl.Series]:
    by_name = {column.name: column for column in columns}
    return [by_name[name] for name in SCHEMA]
