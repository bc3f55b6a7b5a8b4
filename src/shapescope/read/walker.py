"""Walk through events byte by byte where the text is not clean JSON, and lose as little as possible.

Slow and exact: only the stretches around damage come here. The compiled scanner (scanner/events.c) follows the same
rules; where they meet, both say the same about every byte. What is let through although JSON forbids it: surplus commas,
any bytes but a quote in a string, any word in a number's place. What is not: a missing comma, colon or bracket. Then the
event is lost, and the next one is looked for.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import TypeAlias

from shapescope.read.columns import (
    ARGS_INTEGERS,
    ARGS_TEXTS,
    EVENT_INTEGERS,
    EVENT_TEXTS,
    LARGEST_EVENT,
    TIMES,
)  # fmt: skip
from shapescope.read.values import Values

EVENT_FIELDS = TIMES | EVENT_INTEGERS | EVENT_TEXTS
ARGS_FIELDS = ARGS_INTEGERS | ARGS_TEXTS
RawEvent: TypeAlias = dict[str, bytes]
"""Column -> the value as the file spells it."""

_KNOWN_EVENT = {key.encode(): column for key, column in EVENT_FIELDS.items()}
_KNOWN_ARGS = {key.encode(): column for key, column in ARGS_FIELDS.items()}
_ARGS_COLUMNS = frozenset(ARGS_FIELDS.values())

_BLANK = rb"[ \t\r\n]"
_BLANKS = re.compile(_BLANK + rb"*")
_BETWEEN = re.compile(rb"[ \t\r\n,]*")
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_WORD = re.compile(rb"[0-9A-Za-z+.\-]*")
_BRACKET = re.compile(rb'["{}\[\]]')
_FIELD = rb'"(?:ph|cat|name|pid|tid|ts|dur|id|args)"'
_EVENT = rb"\{" + _BLANK + rb"{0,64}" + _FIELD + _BLANK + rb"{0,64}:"
_LIST = rb'"traceEvents"' + _BLANK + rb"{0,64}:" + _BLANK + rb"{0,64}\["
# Where the next event, or another list of events, may begin. Such bytes cannot stand within a string: its quotes are escaped.
_START = re.compile(_EVENT + rb"|" + _LIST)
_PART_OF_EVENT = rb"\{" + _BLANK + rb'{0,64}(?:"[a-z]{0,4}(?:"' + _BLANK + rb"{0,64})?)?"
_PART_OF_LIST = rb'"(?:t|tr|tra|trac|trace|traceE|traceEv|traceEve|traceEven|traceEvent|traceEvents)?'
_PART_OF_LIST += rb'|"traceEvents"' + _BLANK + rb"{0,64}(?::" + _BLANK + rb"{0,64})?"
_START_BEGINS = re.compile(rb"(?:" + _PART_OF_EVENT + rb"|" + _PART_OF_LIST + rb")\Z")
_START_LONGEST = 256


OTHER_LIST = b'"traceEvents"'
"""What the rest of a text begins with where another document's list of events begins before this one's has ended."""


class _Stop(Enum):
    """Why an event could not be read to its end."""

    MORE = "the text ends within the event"
    BAD = "this is no event"


class Walker:
    """Reads events out of text that arrives in pieces; remembers between them whether it is lost."""

    def __init__(self, bare: bool, lost: bool = False) -> None:
        self.events: list[RawEvent] = []
        self.ended = False
        self.lost = lost
        """Looking for the next event that can be read."""
        self.lost_events = 0
        self.lost_bytes = 0
        self._bare = bare
        self._unclaimed = False  # damage that did not begin with an event: is one hidden in it?
        self._mark = b""  # the last byte passed over that is no blank

    def walk(self, text: bytes, start: int, stop: int, final: bool) -> int:
        """Read events from `start` at least to `stop`, and until no longer lost. Returns where the rest of the text begins."""
        at = start
        while not self.ended and (at < stop or self.lost):
            if self.lost:
                begins = _START.search(text, at)
                found = begins.start() if begins else _look_on_from(text, at, final)
                self._pass_over(text, at, found)
                at = found
                if begins is None:
                    break
                if begins[0][:1] == b'"':
                    self.ended = True
                    return at
            else:
                at = _end(_BETWEEN, text, at)
            after = self._step(text, at, final) if at < len(text) else None
            if after is None:
                break
            at = after
        else:
            return at
        if final:
            self._pass_over(text, at, len(text))
            return len(text)
        return at

    def _step(self, text: bytes, at: int, final: bool) -> int | None:
        """One event, or one byte of damage. None: more text is needed."""
        if text[at] == 0x5D and not self.lost:
            ends = self._list_ends(text, at, final)
            if ends is None:
                return None
            if ends:
                self.ended = True
                return at + 1
        event: RawEvent = {}
        after = read_event(text, at, event) if text[at] == 0x7B else _Stop.BAD
        if after is _Stop.MORE and not final and len(text) - at <= LARGEST_EVENT:
            return None
        if isinstance(after, _Stop):
            self._damaged(text, at)
            return at + 1
        if self.lost and event.get("ph", b"null") == b"null":  # an object within an event, not an event
            self._pass_over(text, at, after)
            return after
        self.lost = self._unclaimed = False
        self.events.append(event)
        return after

    def _damaged(self, text: bytes, at: int) -> None:
        if self.lost:
            self.lost_events += self._mark != b":"  # behind a colon it was an object of the event that is lost already
        elif text[at] == 0x7B:
            self.lost_events += 1
        else:
            self._unclaimed = True
        self.lost = True
        self._pass_over(text, at, at + 1)

    def _pass_over(self, text: bytes, start: int, end: int) -> None:
        passed = text[start:end]
        self.lost_bytes += len(passed)
        if self._unclaimed and b'"' in passed:
            self.lost_events += 1
            self._unclaimed = False
        self._mark = passed.rstrip(b" \t\r\n")[-1:] or self._mark

    def _list_ends(self, text: bytes, at: int, final: bool) -> bool | None:
        """Whether the `]` at `at` closes the list of events: a flipped byte can fake one. None: cannot tell yet."""
        at = _end(_BLANKS, text, at + 1)
        if at >= len(text):
            return True if final else None
        if self._bare:
            return text[at] not in b",{"
        if text[at] != 0x2C:
            return text[at] == 0x7D
        at = _end(_BLANKS, text, at + 1)
        if at >= len(text):
            return True if final else None
        return text[at] == 0x22


def read_event(text: bytes, at: int, event: RawEvent) -> int | _Stop:
    """Fill `event` from the object whose `{` is at `at`; returns where it ends. Of a field written twice the last counts."""
    in_args, expected, at = False, True, at + 1
    while True:
        at = _end(_BLANKS, text, at)
        mark = text[at : at + 1]
        if not mark:
            return _Stop.MORE
        if mark == b",":
            expected, at = True, at + 1
            continue
        if mark == b"}":
            at += 1
            if not in_args:
                return at
            in_args = expected = False
            continue
        if mark != b'"' or not expected:
            return _Stop.BAD
        field = _field(text, at)
        if isinstance(field, _Stop):
            return field
        key, at = field
        expected = False
        if key == b"args" and not in_args:
            for column in _ARGS_COLUMNS & event.keys():
                del event[column]
            if text[at] == 0x7B:
                in_args = expected = True
                at += 1
                continue
        end = _value_end(text, at)
        if isinstance(end, _Stop):
            return end
        known = _KNOWN_ARGS if in_args else _KNOWN_EVENT
        if key in known:
            event[known[key]] = text[at:end]
        at = end


def _field(text: bytes, at: int) -> tuple[bytes, int] | _Stop:
    """The key whose quote is at `at`, and where its value begins."""
    quoted = _STRING.match(text, at)
    if quoted is None:
        return _Stop.MORE
    at = _end(_BLANKS, text, quoted.end())
    if at < len(text) and text[at] != 0x3A:
        return _Stop.BAD
    at = _end(_BLANKS, text, at + 1)
    if at >= len(text):
        return _Stop.MORE
    key = quoted[0][1:-1]
    if b"\\" in key:
        key = (Values().text(quoted[0]) or "").encode()
    return key, at


def _value_end(text: bytes, at: int) -> int | _Stop:
    mark = text[at]
    if mark == 0x22:
        quoted = _STRING.match(text, at)
        return quoted.end() if quoted else _Stop.MORE
    if mark in b"[{":
        return _nested_end(text, at)
    end = _end(_WORD, text, at)
    if end >= len(text):
        return _Stop.MORE
    return end if end > at and text[end] in b",}] \t\r\n" else _Stop.BAD


def _nested_end(text: bytes, start: int) -> int | _Stop:
    """Where the list or object at `start` ends. Within an object an opener must follow a colon, within a list a comma or
    an opener: otherwise one lost bracket would swallow all that follows."""
    at = start
    closers = bytearray()
    while bracket := _BRACKET.search(text, at):
        here, mark = bracket.start(), bracket[0]
        at = here + 1
        if mark == b'"':
            quoted = _STRING.match(text, here)
            if quoted is None:
                return _Stop.MORE
            at = quoted.end()
        elif mark in b"[{":
            if closers and _mark_before(text, here) not in (b":" if closers[-1] == 0x7D else b",["):
                return _Stop.BAD
            closers += b"]" if mark == b"[" else b"}"
        elif closers[-1] != mark[0]:
            return _Stop.BAD
        else:
            closers.pop()
            if not closers:
                return at
    return _Stop.MORE


def _look_on_from(text: bytes, at: int, final: bool) -> int:
    """Where to go on looking for a start once there is more text: one may have begun at the end."""
    begins = None if final else _START_BEGINS.search(text, max(at, len(text) - _START_LONGEST))
    return begins.start() if begins else len(text)


def _mark_before(text: bytes, at: int) -> int:
    """The last byte before `at` that is no blank; there is one."""
    at -= 1
    while text[at] in b" \t\r\n":
        at -= 1
    return text[at]


def _end(pattern: re.Pattern[bytes], text: bytes, at: int) -> int:
    match = pattern.match(text, at)
    return match.end() if match else at
