"""The compiled scanner and the fallback say the same about every text, wherever it is cut into blocks."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from reference import reference_events, rows

from shapescope.errors import InputError
from shapescope.read.chrome import decode_with
from shapescope.read.columns import INTEGERS, SCHEMA, TEXTS, PythonFrames, Trace
from shapescope.read.document import Reader
from shapescope.read.fallback import FallbackReader
from shapescope.read.walker import ARGS_FIELDS, EVENT_FIELDS

_scanner = pytest.importorskip("shapescope.read._scanner", reason="the compiled scanner was not built")
from shapescope.read.compiled import CompiledReader  # noqa: E402

WHOLE = 1 << 20
MODES: tuple[PythonFrames, ...] = ("all", "modules", "none")

SPICE = [
    b"\\u0041", b"\\ud83d\\ude00", b"\\ud800", b"\\", b"\\x", b"null", b"1e3", b"-0.0005", b"9" * 20, b'"', b"[[[[[[", b"{}",
    b"],", b"}", b"]", b"\xf0\x9f\x98\x80", b"\xed\xa0\x80", b": ", b",,", b'"args": {', b'"cat": "python_function", ',
    b'"name": "nn.Module: x", ', b'"ts": ', b"\x01", b"\n", b"-0", b'"args": 5, ', b'"pid": -0, ', b'}, {"ph": "X", ',
    b'{"name": ', b'"stream": "7", ', b"true", b"NaN", b'"dur": "1.5", ', b'], "traceName": "x"}', b'"traceEvents": [',
    b"1.23456", b"5e-1", b'"id": "0x1f", ', b"1e99", b"0." + b"0" * 30 + b"1",
]  # fmt: skip


def result(reader: type[Reader], path: Path, python: PythonFrames, block_bytes: int) -> list[Trace] | str:
    try:
        return decode_with(reader, path, python, block_bytes)
    except InputError as error:
        return str(error)


def assert_agree(path: Path, python: PythonFrames, small_block: int) -> None:
    first = result(CompiledReader, path, python, WHOLE)
    for reader, block in ((CompiledReader, small_block), (FallbackReader, WHOLE), (FallbackReader, small_block)):
        other = result(reader, path, python, block)
        if isinstance(first, str) or isinstance(other, str):
            assert first == other
            continue
        assert [(each.losses, each.metadata, each.unwanted) for each in first] == [
            (each.losses, each.metadata, each.unwanted) for each in other
        ]
        for one, two in zip(first, other, strict=True):
            assert one.events.schema == two.events.schema
            assert one.events.equals(two.events, null_equal=True)


def mutated(text: bytes, rng: random.Random, times: int) -> bytes:
    changed = bytearray(text)
    for _ in range(times):
        if not changed:
            break
        at, length = rng.randrange(len(changed)), rng.randrange(200)
        match rng.randrange(6):
            case 0:
                changed[at] ^= 1 << rng.randrange(8)
            case 1:
                changed[at] = rng.randrange(256)
            case 2:
                del changed[at : at + length]
            case 3:
                changed[at:at] = changed[at : at + length]
            case 4:
                changed[at:at] = rng.choice(SPICE)
            case 5 if rng.random() < 0.2:
                del changed[at:]
    return bytes(changed)


def test_both_know_the_same_columns() -> None:
    assert [*INTEGERS, *TEXTS] == _scanner.COLUMNS == list(SCHEMA)


NAMES = (
    "eager/triton_example.json.gz", "nvidia_old/cpu_only.json.gz", "eager/mi250_minitoy.json.gz",
    "sglang_qwen3_8b_mi300x_bs32/replay.json.gz",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("python", MODES)
def test_on_real_traces(traces: Path, name: str, python: PythonFrames) -> None:
    for small_block in (100, 4999):
        assert_agree(traces / name, python, small_block)


@pytest.mark.parametrize("name", NAMES)
def test_on_damaged_real_traces(traces: Path, tmp_path: Path, name: str) -> None:
    text = gzip.decompress((traces / name).read_bytes())
    path = tmp_path / "trace.json"
    for seed in range(40):
        rng = random.Random(seed)
        start = rng.choice([0, rng.randrange(len(text))])
        path.write_bytes(mutated(text[start : start + rng.choice([700, 5000, 60_000])], rng, rng.randrange(6)))
        assert_agree(path, rng.choice(MODES), rng.choice([64, 100, 1000, 5000]))


numbers = st.one_of(
    st.integers(-(1 << 70), 1 << 70),
    st.integers(0, 10**6),
    st.floats(),
    st.decimals(-(10**17), 10**17, places=3).map(str),
)
words = st.one_of(st.text(max_size=20), st.sampled_from(["python_function", "nn.Module: Layer_0", "X", "kernel", "7"]))
scalars = st.one_of(numbers, words, st.none(), st.booleans())
values = st.one_of(scalars, st.lists(st.one_of(scalars, st.lists(scalars, max_size=3)), max_size=3))
arguments = st.dictionaries(st.sampled_from([*ARGS_FIELDS, "other", "cat"]), values, max_size=6)
events = st.fixed_dictionaries(
    {}, optional={**dict.fromkeys(EVENT_FIELDS, values), "args": st.one_of(arguments, values), "other": values}
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    found=st.lists(events, max_size=8),
    indent=st.sampled_from([None, 1, 2]),
    ascii_only=st.booleans(),
    python=st.sampled_from(MODES),
    small_block=st.integers(1, 300),
)
def test_on_generated_traces(
    tmp_path: Path,
    found: list[dict[str, Any]],
    indent: int | None,
    ascii_only: bool,
    python: PythonFrames,
    small_block: int,
) -> None:
    text = json.dumps({"traceEvents": found}, indent=indent, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    path = tmp_path / "trace.json"
    path.write_bytes(text)
    assert_agree(path, python, small_block)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(found=st.lists(events, min_size=1, max_size=8), seed=st.integers(0, 1 << 32), python=st.sampled_from(MODES))
def test_on_damaged_generated_traces(
    tmp_path: Path, found: list[dict[str, Any]], seed: int, python: PythonFrames
) -> None:
    rng = random.Random(seed)
    text = json.dumps({"traceEvents": found}, indent=rng.choice([None, 2])).encode()
    path = tmp_path / "trace.json"
    path.write_bytes(mutated(text, rng, rng.randrange(1, 5)))
    assert_agree(path, python, rng.choice([3, 64, 1000]))


def test_both_equal_json_where_values_are_of_their_columns_types(tmp_path: Path) -> None:
    rng = random.Random(5)
    found = [
        {
            "ph": "X", "cat": rng.choice(["cpu_op", "é"]), "name": rng.choice(["a\n\"b\\", "😀", "", "x" * 300]),
            "pid": rng.choice([1, "one"]), "ts": rng.randrange(10**15), "dur": rng.randrange(10**6) / 1000,
            "args": {
                "External id": rng.randrange(1 << 63), "Input Dims": [[rng.randrange(9)], []],
                "stream": rng.choice(["0x7", 7]),
            },
        }
        for _ in range(35_000)
    ]  # fmt: skip
    text = json.dumps({"traceEvents": found}).encode()
    path = tmp_path / "trace.json"
    path.write_bytes(text)
    expected = reference_events(text)
    for reader in (CompiledReader, FallbackReader):
        (trace,) = decode_with(reader, path, "all")
        assert rows(trace.events) == expected
