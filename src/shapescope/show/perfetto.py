"""A replay trace again, each graph kernel with its op, dims, module and status in its args: for Perfetto, offline.

The text is passed on as it is, byte for byte, but for the events of graph kernels: these are written anew from their own
raw values, so that no number changes. The trace is never in memory as a whole, and the file appears whole or not at all.
"""

from __future__ import annotations

import contextlib
import re
from collections import defaultdict, deque
from collections.abc import Generator, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias, cast

import msgspec
import polars as pl

from shapescope.errors import InputError, OutputError
from shapescope.read.blocks import Blocks
from shapescope.read.columns import LARGEST_EVENT
from shapescope.read.processes import DEVICE, OPS
from shapescope.read.run import Run
from shapescope.read.values import Values
from shapescope.read.walker import RawEvent, read_event
from shapescope.store.layout import temporary_file

# On a CPU the kernels of a replay are ops.
_KERNEL = re.compile(rb'"cat"\s{0,64}:\s{0,64}"(?:' + "|".join((*DEVICE, *OPS)).encode() + rb')"')
_EVENT_BEGINS = re.compile(rb'\{\s{0,64}"(?:ph|cat|name|pid|tid|ts|dur|id|args)"\s{0,64}:')
_LONGEST_BEGIN = 256
_SHOWN = {
    "op": "op", "dims": "dims", "types": "types", "module": "module", "status": "status", "captured size": "size",
    "real size": "real_size",
}  # fmt: skip
_JSON_TEXT = ("dims", "types")

Key: TypeAlias = tuple[int | None, int | None, str | None]
"""An event's start and duration in ns and its name; equal ones are told apart by their order."""


def write_annotated(run: Run, kernels: pl.DataFrame, file: str, output: Path) -> int:
    """Write the replay trace `file` of a run again, with what `kernels` (of a join) know; returns how many are annotated.

    Compressed where `output` ends in `.gz`. Raises InputError where the trace cannot be read, OutputError where the
    output cannot be written, or is the trace itself.
    """
    parts = run.assembly.parts.filter(pl.col("file") == file)
    if parts.is_empty():
        raise InputError(f"{file} is no trace of {run.path}")
    source = run.parts[parts["part"][0]].path
    if output.exists() and output.samefile(source):
        raise OutputError(f"{output} is the trace itself, which stays as it is")
    told = _told(kernels.filter(pl.col("file") == file))
    expected = sum(map(len, told.values()))
    temporary = temporary_file(output.parent)
    try:
        with _opened(temporary, compressed=output.suffix == ".gz") as target:
            for piece in _annotated(source, told):
                target.write(piece)
        temporary.chmod(0o644)
        temporary.replace(output)
    except OSError as error:
        raise OutputError(f"cannot write {output}: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()
    return expected - sum(map(len, told.values()))


def _opened(path: Path, *, compressed: bool) -> BinaryIO:
    if not compressed:
        return path.open("wb")
    try:
        from isal import igzip
    except ImportError:  # no wheel for this platform
        import gzip

        return cast(BinaryIO, gzip.open(path, "wb", compresslevel=3))
    return cast(BinaryIO, igzip.open(path, "wb", compresslevel=1))


def _told(kernels: pl.DataFrame) -> Mapping[Key, deque[bytes]]:
    """What is to be added to each kernel's args, as JSON fields."""
    told: defaultdict[Key, deque[bytes]] = defaultdict(deque)
    ordered = kernels.sort("ts", maintain_order=True).select("ts", "dur", "kernel", *_SHOWN.values())
    for ts, dur, name, *values in ordered.iter_rows():
        told[ts, dur, name].append(_fields(dict(zip(_SHOWN, values, strict=True))))
    return told


def _fields(values: Mapping[str, Any]) -> bytes:
    """Known values as the inside of a JSON object."""
    known = {name: msgspec.Raw(value.encode()) if name in _JSON_TEXT else value
             for name, value in values.items() if value is not None}  # fmt: skip
    return msgspec.json.encode(known)[1:-1]


def _annotated(source: Path, told: Mapping[Key, deque[bytes]]) -> Iterator[bytes]:
    text = b""
    for block, _ in Blocks(source):
        text += block
        end = yield from _passed_on(text, told, final=False)
        text = text[end:]
    yield from _passed_on(text, told, final=True)


def _passed_on(text: bytes, told: Mapping[Key, deque[bytes]], *, final: bool) -> Generator[bytes, None, int]:
    """Pass on whole events; returns where the rest begins."""
    at = 0
    for match in _KERNEL.finditer(text):
        begin = _event_before(text, match.start())
        if begin < at:
            continue
        event: RawEvent = {}
        end = read_event(text, begin, event)
        if not isinstance(end, int):
            continue
        if (fields := _take(told, event)) is not None:
            yield text[at:begin]
            yield _with_fields(text[begin:end], fields)
            at = end
    rest = len(text) if final else max(at, _unfinished(text))
    yield text[at:rest]
    return rest


def _unfinished(text: bytes) -> int:
    """Where the last event of a text begins, which may go on behind it; the end where none does."""
    begin = _event_before(text, len(text))
    if begin < 0:
        begin = text.rfind(b"{", max(0, len(text) - _LONGEST_BEGIN))
    return begin if begin >= 0 else len(text)


def _event_before(text: bytes, at: int) -> int:
    """Where the event begins that goes on at `at`; -1 where none does."""
    start = max(0, at - LARGEST_EVENT)
    begin = text.rfind(b"{", start, at)
    while begin >= 0 and not _EVENT_BEGINS.match(text, begin):
        begin = text.rfind(b"{", start, begin)
    return begin


def _take(told: Mapping[Key, deque[bytes]], event: RawEvent) -> bytes | None:
    """What is known of this event, once."""
    values = Values()
    key = (values.nanoseconds(event.get("ts")), values.nanoseconds(event.get("dur")), values.text(event.get("name")))
    waiting = told.get(key)
    return waiting.popleft() if waiting else None


def _with_fields(event: bytes, fields: bytes) -> bytes:
    """An event with more fields in its args; all other values stay as they are spelled."""
    raw = msgspec.json.decode(event, type=dict[str, msgspec.Raw])
    args = bytes(raw.get("args", b"{}")).rstrip()[:-1].rstrip()
    between = b"" if args.endswith(b"{") else b", "
    raw["args"] = msgspec.Raw(args + between + fields + b"}")
    return b"{" + b", ".join(_pairs(raw.items())) + b"}"


def _pairs(items: Iterable[tuple[str, msgspec.Raw]]) -> Iterator[bytes]:
    for name, value in items:
        yield msgspec.json.encode(name) + b": " + bytes(value)
