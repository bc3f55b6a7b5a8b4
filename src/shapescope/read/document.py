"""One JSON document of a trace file: text around a list of events, and the list itself, which a reader takes.

head  {"schemaVersion": 1, .., "traceEvents": [   or just [
list  {..}, {..}, ..                              -> reader
tail  ], "traceName": .., ..}
"""

from __future__ import annotations

import re
from collections import deque
from pathlib import Path
from typing import Any, Protocol

from shapescope.errors import InputError
from shapescope.read.columns import Decoded, Losses, PythonFrames, Trace, join_chunks
from shapescope.read.metadata import find_head, find_tail, is_cut, parse_metadata, salvage_metadata
from shapescope.read.walker import OTHER_LIST

BLANK = b" \t\r\n\0"

_HEAD_LIMIT = 64 << 20
_TAIL_LIMIT = 64 << 20
_EVENTS_BEGIN = re.compile(rb'"traceEvents"[ \t\r\n]*:[ \t\r\n]*\[')
_RECENT_BYTES = 1 << 16
_LONGEST_BEGIN = 256
_BARE_BEGIN = re.compile(rb"(?:\xef\xbb\xbf)?[ \t\r\n]*\[")
_EVENT_FIELDS = rb'"(?:ph|cat|name|pid|tid|ts|dur|id|args|bp|s)"'
_DOCUMENT_BEGINS = re.compile(rb"(?:\xef\xbb\xbf)?[ \t\r\n]*\{[ \t\r\n]*(?!" + _EVENT_FIELDS + rb')"[^"]*"[ \t\r\n]*:')


class Reader(Protocol):
    """Turns the text of one list of events into columns."""

    def __init__(self, python: PythonFrames, bare: bool, lost: bool) -> None:
        """`bare`: the list is the whole document, so that nothing need follow its end. `lost`: the text does not begin
        with an event; find the first."""

    def feed(self, block: bytes, final: bool = False) -> bool:
        """Take the next text; True once the list has ended. `final`: there is no more."""

    def rest(self) -> bytes:
        """What was fed beyond the end of the list."""

    def finish(self) -> Decoded:
        """All events, and what was lost."""


_BEHEADED = "corrupt: the beginning of the list of events is missing"


def begins_document(block: bytes) -> bool:
    """Whether a text begins a document of its own, rather than going on with events."""
    return _DOCUMENT_BEGINS.match(block) is not None


class Document:
    """Takes text until the document ends."""

    def __init__(self, reader: type[Reader], python: PythonFrames) -> None:
        self._make_reader = reader
        self._python = python
        self._reader: Reader | None = None
        self._head = bytearray()
        self._tail = bytearray()
        # The latest text: the list's end is looked for in it where the last event is damaged.
        self._recent: deque[bytes] = deque()
        self._recent_bytes = 0
        self._head_of_other = b""
        self._bare = False
        self._list_ended = False
        self._cut_off = False  # another document begins before the list has ended
        self._try_tail_at = 0
        self._metadata: dict[str, Any] | None = None
        self._fragment: Decoded | None = None

    @property
    def complete(self) -> bool:
        """Whether what follows belongs to another document."""
        return self._metadata is not None or self._cut_off

    @property
    def begun(self) -> bool:
        """Whether any text has come."""
        return self._reader is not None or bool(self._head.strip(BLANK))

    @property
    def is_trace(self) -> bool:
        """Whether events were found."""
        return self._reader is not None or self._fragment is not None

    @property
    def head_bytes(self) -> int:
        return len(self._head)

    def feed(self, block: bytes) -> bytes:
        """Take text; returns what follows the end of the document."""
        if self._reader is None:
            block = self._feed_head(block)
        if self._reader is None:
            return b""
        if self._list_ended:
            self._tail += block
        elif block:
            self._remember(block)
            if self._reader.feed(block) and (other := self._end_list()):
                return other
        return self._feed_tail() if self._list_ended else b""

    def close(self) -> bytes:
        """There is no more text. Returns what follows the end of the document."""
        if self._reader is None:
            self._read_fragment()
        if self._reader is None or self.complete:
            return b""
        if not self._list_ended and self._reader.feed(b"", final=True) and (other := self._end_list()):
            return other
        self._try_tail_at = 0
        return self._feed_tail() if self._list_ended else b""

    def trace(self, path: Path, member: int, damage: str | None, bytes_behind: int) -> Trace:
        """The result, once closed. `damage`: why the file's bytes end early; `bytes_behind`: what follows the last document."""
        if self._fragment is not None:
            losses = Losses(
                self._fragment.lost_events, self._fragment.lost_bytes, _BEHEADED, self._fragment.lost_values
            )
            metadata = salvage_metadata(bytes(self._head), b"")
            return Trace(path, member, self._fragment.events, metadata, losses, self._fragment.unwanted)
        if self._reader is None:
            return self._without_events(path, member, damage)
        decoded = self._reader.finish()
        if self._bare and not _holds_events(decoded):
            raise InputError(f"{path}: a JSON list, but not of profiler events")
        lost_bytes = decoded.lost_bytes + bytes_behind - len(self._head_of_other)
        if not self._list_ended and not self._cut_off and damage is None:
            lost_bytes -= self._find_end()
        counts = decoded.lost_events, max(0, lost_bytes), decoded.lost_values
        metadata = self._metadata if self._metadata is not None else self._damaged_metadata()
        losses = Losses(counts[0], counts[1], damage or self._reason(*counts), counts[2])
        return Trace(path, member, decoded.events, metadata, losses, decoded.unwanted)

    def _find_end(self) -> int:
        """Look for the end of the list where the reader could not see it since the last event is damaged; returns how many
        of the bytes it gave up are none of that event."""
        tail = find_tail(b"".join(self._recent)[-_RECENT_BYTES:])
        if tail is None:
            return 0
        self._list_ended = True
        parsed = parse_metadata(bytes(self._head), tail)
        self._metadata = parsed[0] if parsed else None
        return len(tail) + 1

    def _reason(self, events: int, skipped: int, values: int) -> str | None:
        if not self._list_ended:
            return "truncated: the text ends within the list of events"
        if self._metadata is None:
            whole = bytes(self._tail).rstrip(BLANK).endswith(b"}")
            return "corrupt: the fields behind the events" if whole else "truncated: the text ends behind the events"
        counts = [(events, "event"), (skipped, "byte"), (values, "value")]
        said = ", ".join(f"{count} {what}{'s' * (count != 1)}" for count, what in counts if count)
        return f"corrupt: lost or repaired {said}" if said else None

    def _damaged_metadata(self) -> dict[str, Any]:
        parsed = parse_metadata(bytes(self._head), b"}") if not self._tail else None
        return parsed[0] if parsed else salvage_metadata(bytes(self._head), bytes(self._tail))

    def _feed_head(self, block: bytes) -> bytes:
        """Look for the beginning of the events; returns the text behind it."""
        if len(self._head) > _HEAD_LIMIT:
            return b""
        text = self._head + block if self._head else block
        self._bare = _BARE_BEGIN.match(text) is not None
        searched = max(0, len(self._head) - _LONGEST_BEGIN)
        begin = _BARE_BEGIN.match(text) if self._bare else _EVENTS_BEGIN.search(text, searched)
        if begin is None:
            self._head += block
            return b""
        self._head = bytearray(text[: begin.end()])
        self._reader = self._make_reader(self._python, self._bare, lost=False)
        return bytes(text[begin.end() :])

    def _read_fragment(self) -> None:
        """Look for events where the beginning of their list is damaged or missing."""
        if b'"ph"' not in self._head:
            return
        reader = self._make_reader(self._python, bare=False, lost=True)
        if not reader.feed(bytes(self._head)):
            reader.feed(b"", final=True)
        decoded = reader.finish()
        if decoded.events.height:
            self._fragment = decoded

    def _remember(self, block: bytes) -> None:
        self._recent.append(block)
        self._recent_bytes += len(block)
        while self._recent_bytes - len(self._recent[0]) >= _RECENT_BYTES:
            self._recent_bytes -= len(self._recent.popleft())

    def _end_list(self) -> bytes:
        """The list has ended. Returns the text of another document, if that is what ended it."""
        assert self._reader is not None
        rest = self._reader.rest()
        if rest.startswith(OTHER_LIST):
            self._cut_off = True
            self._head_of_other = find_head(b"".join(self._recent).removesuffix(rest))
            return self._head_of_other + rest
        self._list_ended = True
        self._recent.clear()
        self._tail += rest
        return b""

    def _feed_tail(self) -> bytes:
        if self._bare:
            self._metadata = {}
            return bytes(self._tail)
        if len(self._tail) < self._try_tail_at or len(self._tail) > _TAIL_LIMIT:
            return b""
        parsed = parse_metadata(bytes(self._head), bytes(self._tail))
        if parsed is None:
            self._try_tail_at = 2 * len(self._tail)
            return b""
        self._metadata, end = parsed
        behind = bytes(self._tail[end:])
        del self._tail[end:]
        return behind

    def _without_events(self, path: Path, member: int, damage: str | None) -> Trace:
        head = bytes(self._head)
        if not head.strip(BLANK):
            reason = f"no-data: {damage.partition(': ')[2]}" if damage else "no-data: the file is empty"
        elif head.lstrip(BLANK + b"\xef\xbb\xbf")[:1] != b"{":
            raise InputError(f"{path}: not a profiler trace, and not JSON")
        elif damage or is_cut(head):
            reason = "no-data: the text ends before the first event"
        else:
            raise InputError(f"{path}: {_what_it_is(head)}, not a profiler trace (it has no list `traceEvents`)")
        return Trace(path, member, join_chunks([]), salvage_metadata(head, b""), Losses(0, len(head), reason))


def _holds_events(decoded: Decoded) -> bool:
    """Whether a bare list is one of events: every event has a phase."""
    events = decoded.events
    if events.height:
        return events["ph"].null_count() < events.height
    return not decoded.lost_events and not decoded.lost_bytes


def _what_it_is(head: bytes) -> str:
    return "an execution trace" if b'"nodes"' in head and b'"schema"' in head else "JSON"
