"""Each kind of damage on a trace of 1,000 kernels: the other kernels stay as they were, and the loss is counted."""

from __future__ import annotations

import gzip
import json
import zlib
from pathlib import Path
from typing import Any

import pytest

from shapescope.read.chrome import decode_with
from shapescope.read.columns import Losses, Trace
from shapescope.read.document import Reader
from shapescope.read.fallback import FallbackReader

KERNELS = 1000
HIT = 500
"""The kernel that the damage is done to."""

READERS: list[type[Reader]] = [FallbackReader]
try:
    from shapescope.read.compiled import CompiledReader

    READERS.append(CompiledReader)
except ImportError:
    pass


def kernel(index: int, pid: int = 0) -> dict[str, Any]:
    return {
        "ph": "X", "cat": "kernel", "name": f"kernel_{index}<float, 4>", "pid": pid, "tid": 7,
        "ts": 100 + index * 10.5, "dur": 5.25,
        "args": {"External id": index, "device": 0, "stream": 7, "correlation": index, "grid": [1, 2, 3], "block": [64, 1, 1]},
    }  # fmt: skip


def base(indent: int | None = None, rank: int = 0) -> bytes:
    events = [kernel(index, rank) for index in range(KERNELS)]
    trace = {"schemaVersion": 1, "distributedInfo": {"rank": rank}, "traceEvents": events, "traceName": "x"}
    return json.dumps(trace, indent=indent).encode()


@pytest.fixture(params=READERS, ids=lambda reader: reader.__name__)
def reader(request: pytest.FixtureRequest) -> type[Reader]:
    chosen: type[Reader] = request.param
    return chosen


@pytest.fixture(params=[None, 2], ids=["compact", "indented"])
def text(request: pytest.FixtureRequest) -> bytes:
    return base(request.param)


def read(folder: Path, text: bytes, reader: type[Reader]) -> list[Trace]:
    path = folder / "trace.json"
    path.write_bytes(text)
    return decode_with(reader, path)


def name_at(text: bytes) -> int:
    """A place within the name of the kernel that is hit."""
    return text.index(b"kernel_%d<" % HIT) + len(b"kernel_")


def changed(text: bytes, old: bytes, new: bytes) -> bytes:
    """Replace the first `old` behind the name of the kernel that is hit."""
    start = text.index(old, name_at(text))
    return text[:start] + new + text[start + len(old) :]


def check_others(trace: Trace, clean: Trace, without: int | None) -> None:
    """All kernels but `without` are those of the clean trace."""
    kept = [index for index in range(KERNELS) if index != without]
    assert trace.events.equals(clean.events[kept])


LOSING = {
    "a quote in the name": lambda text: text[: name_at(text)] + b'"' + text[name_at(text) :],
    "a quoted word in the name": lambda text: text[: name_at(text)] + b'"x"' + text[name_at(text) :],
    "the name's closing quote": lambda text: changed(text, b'4>"', b"4> "),
    "the colon behind a key": lambda text: changed(text, b'"dur":', b'"dur" '),
    "the comma behind a value": lambda text: changed(text, b"5.25,", b"5.25 "),
    "the closing brace of args": lambda text: changed(text, b"}", b" "),
    "the opening brace of args": lambda text: changed(text, b"{", b" "),
    "a closing bracket": lambda text: changed(text, b"]", b" "),
    "an opening bracket": lambda text: changed(text, b"[", b" "),
    "a bracket of the wrong kind": lambda text: changed(text, b"]", b"}"),
    "a hundred zero bytes": lambda text: text[: name_at(text)] + bytes(100) + text[name_at(text) + 100 :],
    "a list that never closes": lambda text: changed(text, b'"args"', b'"x": ' + b"[" * 100_000 + b', "args"'),
}

KEEPING = {
    "nothing": lambda text: text,
    "surplus commas between events": lambda text: text.replace(b", {", b",, {").replace(b",\n    {", b",\n,   {"),
    "a trailing comma in the list": lambda text: text.replace(b'], "traceName"', b'],, "traceName"').replace(
        b",,", b","
    ),
    "a byte order mark": lambda text: b"\xef\xbb\xbf" + text,
    "an exponent": lambda text: changed(text, b"5.25", b"525e-2"),
    "ids as strings": lambda text: changed(text, b'"External id": 500', b'"External id": "500"'),
    "times as strings": lambda text: changed(text, b"5.25", b'"5.25"'),
    "a key twice": lambda text: changed(text, b'"dur": 5.25', b'"dur": 7, "dur": 5.25'),
    "args twice": lambda text: changed(text, b'"args": {', b'"args": {"stream": 9, "kind": "x"}, "args": {'),
    "a comma at the end of args": lambda text: changed(text, b"}", b",}"),
    "a very deep value": lambda text: changed(
        text, b'"args"', b'"x": ' + b"[" * 100_000 + b"]" * 100_000 + b', "args"'
    ),
    "NaN where nobody looks": lambda text: changed(text, b'"args"', b'"x": NaN, "args"'),
}

REPAIRED = {
    "a control byte in the name": (lambda text: text[: name_at(text)] + b"\x01" + text[name_at(text) :], "name"),
    "a lone backslash": (lambda text: text[: name_at(text)] + b"\\p" + text[name_at(text) :], "name"),
    "half a surrogate pair": (lambda text: text[: name_at(text)] + b"\\ud800" + text[name_at(text) :], "name"),
    "bytes that are no UTF-8": (lambda text: text[: name_at(text)] + b"\xff\xfe" + text[name_at(text) :], "name"),
    "NaN": (lambda text: changed(text, b"5.25", b"NaN"), "dur"),
    "an infinity": (lambda text: changed(text, b"5.25", b"-Infinity"), "dur"),
    "an integer beyond 64 bits": (lambda text: changed(text, b'"device": 0', b'"device": ' + b"9" * 30), "device"),
    "a fraction of an id": (lambda text: changed(text, b'"device": 0', b'"device": 5.5'), "device"),
}  # fmt: skip


@pytest.mark.parametrize("damage", LOSING)
def test_only_the_damaged_event_is_lost(tmp_path: Path, reader: type[Reader], text: bytes, damage: str) -> None:
    (clean,) = read(tmp_path, text, reader)
    (trace,) = read(tmp_path, LOSING[damage](text), reader)
    check_others(trace, clean, without=HIT)
    assert trace.losses.events == 1
    assert trace.losses.reason is not None
    assert trace.losses.reason.startswith("corrupt: ")
    assert trace.metadata == clean.metadata


@pytest.mark.parametrize("oddity", KEEPING)
def test_what_does_no_harm_costs_nothing(tmp_path: Path, reader: type[Reader], text: bytes, oddity: str) -> None:
    (clean,) = read(tmp_path, text, reader)
    (trace,) = read(tmp_path, KEEPING[oddity](text), reader)
    check_others(trace, clean, without=None)
    assert trace.losses == Losses()
    assert trace.metadata == clean.metadata


@pytest.mark.parametrize("damage", REPAIRED)
def test_a_damaged_value_costs_only_itself(tmp_path: Path, reader: type[Reader], text: bytes, damage: str) -> None:
    change, column = REPAIRED[damage]
    (clean,) = read(tmp_path, text, reader)
    (trace,) = read(tmp_path, change(text), reader)
    assert trace.events.drop(column).equals(clean.events.drop(column))
    others = [index for index in range(KERNELS) if index != HIT]
    assert trace.events[column][others].equals(clean.events[column][others])
    assert (trace.losses.events, trace.losses.values) == (0, 1)
    assert trace.losses.reason == "corrupt: lost or repaired 1 value"


def test_a_missing_brace_between_events(tmp_path: Path, reader: type[Reader], text: bytes) -> None:
    (clean,) = read(tmp_path, text, reader)
    brace = text.rindex(b"{", 0, name_at(text))
    (trace,) = read(tmp_path, text[:brace] + b" " + text[brace + 1 :], reader)
    check_others(trace, clean, without=HIT)
    assert trace.losses.events == 1


@pytest.mark.parametrize("surplus", [b"}", b"]", b"x", b"}}]"])
def test_surplus_bytes_between_events_lose_none(
    tmp_path: Path, reader: type[Reader], text: bytes, surplus: bytes
) -> None:
    (clean,) = read(tmp_path, text, reader)
    end = text.rindex(b"}", 0, text.rindex(b"{", 0, name_at(text))) + 1
    (trace,) = read(tmp_path, text[:end] + surplus + text[end:], reader)
    check_others(trace, clean, without=None)
    assert trace.losses.events == 0
    assert trace.losses.bytes > 0


def test_the_last_event_is_damaged_and_the_fields_behind_it_are_read(
    tmp_path: Path, reader: type[Reader], text: bytes
) -> None:
    (clean,) = read(tmp_path, text, reader)
    last = text.index(b"kernel_999<")
    (trace,) = read(tmp_path, text[:last] + b'"' + text[last:], reader)
    check_others(trace, clean, without=999)
    assert trace.metadata == clean.metadata
    assert trace.losses.events == 1
    assert str(trace.losses.reason).startswith("corrupt: ")


def test_text_that_is_cut_off_keeps_all_whole_events(tmp_path: Path, reader: type[Reader], text: bytes) -> None:
    (clean,) = read(tmp_path, text, reader)
    (trace,) = read(tmp_path, text[: name_at(text)], reader)
    assert trace.events.equals(clean.events[:HIT])
    assert trace.losses.events == 1
    assert trace.losses.reason == "truncated: the text ends within the list of events"
    assert trace.metadata == {"schemaVersion": 1, "distributedInfo": {"rank": 0}}


@pytest.mark.parametrize("share", [0.1, 0.7, 0.99])
def test_gzip_data_that_is_cut_off_keeps_what_unpacks(
    tmp_path: Path, reader: type[Reader], text: bytes, share: float
) -> None:
    packed = gzip.compress(text)
    cut = packed[: int(len(packed) * share)]
    unpacked = zlib.decompressobj(31).decompress(cut)
    (plain,) = read(tmp_path, unpacked, reader)
    (trace,) = read(tmp_path, cut, reader)
    assert trace.events.height >= unpacked.count(b'"block"') - 1
    assert trace.events.equals(plain.events)
    assert trace.losses.reason == "truncated: the gzip data ends before its end marker"


def test_a_wrong_checksum_is_reported(tmp_path: Path, reader: type[Reader], text: bytes) -> None:
    packed = bytearray(gzip.compress(text))
    packed[-6] ^= 4
    (trace,) = read(tmp_path, bytes(packed), reader)
    assert trace.events.height == KERNELS
    assert str(trace.losses.reason).startswith("corrupt: gzip data")


def test_bytes_behind_gzip_data(tmp_path: Path, reader: type[Reader], text: bytes) -> None:
    (padded,) = read(tmp_path, gzip.compress(text) + bytes(1000), reader)
    assert padded.losses == Losses()
    (trace,) = read(tmp_path, gzip.compress(text) + b"garbage", reader)
    assert trace.events.height == KERNELS
    assert str(trace.losses.reason).startswith("corrupt: ")


def test_two_ranks_one_cut_off_by_the_other(tmp_path: Path, reader: type[Reader]) -> None:
    first, second = base(rank=0), base(rank=1)
    found = read(tmp_path, first[: name_at(first)] + second, reader)
    assert [(each.metadata["distributedInfo"]["rank"], each.events.height) for each in found] == [
        (0, HIT),
        (1, KERNELS),
    ]
    assert [set(each.events["pid"].to_list()) for each in found] == [{"0"}, {"1"}]
    assert str(found[0].losses.reason).startswith("truncated: ")
    assert found[1].losses == Losses()


def test_the_beginning_is_missing(tmp_path: Path, reader: type[Reader], text: bytes) -> None:
    (clean,) = read(tmp_path, text, reader)
    (trace,) = read(tmp_path, text[name_at(text) :], reader)
    assert trace.events.equals(clean.events[HIT + 1 :])
    assert str(trace.losses.reason).startswith("corrupt: ")


def test_any_flipped_bit_loses_at_most_one_event(tmp_path: Path, reader: type[Reader]) -> None:
    text = base()
    for at in range(60, len(text) - 60, len(text) // 37):
        for bit in (0, 3, 5):
            flipped = bytearray(text)
            flipped[at] ^= 1 << bit
            (trace,) = read(tmp_path, bytes(flipped), reader)
            assert trace.losses.events == KERNELS - trace.events.height <= 1
