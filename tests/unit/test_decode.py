"""Clean traces: every column of every event, against json."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from reference import reference_events, rows

from shapescope.errors import InputError
from shapescope.read.chrome import decode
from shapescope.read.columns import MODULE_PREFIX, PYTHON_CATEGORY, SCHEMA, Losses

CLEAN = Losses()
REAL = (
    "eager/b200.json.gz", "eager/h100_qwen1.5_0.5b.json.gz", "eager/mi250_minitoy.json.gz",
    "eager/mi300_qwen1.5_0.5b.json.gz", "eager/triton_example.json.gz", "nvidia_old/a100_graph_replay.json.gz",
    "nvidia_old/cpu_only.json.gz", "nvidia_old/ns_resolution.json.gz", "sglang_qwen3_8b_mi300x_bs32/replay.json.gz",
    "sglang_qwen3_8b_mi300x_bs32/capture/bs_32_rank0.json.gz", "vllm_gptoss_mi300x_piecewise/replay.json.gz",
    "vllm_gptoss_mi300x_piecewise/capture/graph_capture_rank_0.1773709679453551615.pt.trace.json.gz",
)  # fmt: skip

EVENT: dict[str, Any] = {
    "ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1.5, "dur": 2,
    "args": {"stream": 7, "grid": [1, 2, 3], "correlation": 11},
}  # fmt: skip


def write(folder: Path, text: bytes, name: str = "trace.json") -> Path:
    path = folder / name
    path.write_bytes(text)
    return path


def trace_text(*events: Any, indent: int | None = None, **fields: Any) -> bytes:
    return json.dumps({"schemaVersion": 1, "traceEvents": list(events), **fields}, indent=indent).encode()


@pytest.mark.parametrize("name", REAL)
def test_every_column_of_every_real_event_equals_json(traces: Path, name: str) -> None:
    text = gzip.decompress((traces / name).read_bytes())
    (trace,) = decode(traces / name, python="all")
    assert dict(trace.events.schema) == dict(SCHEMA)
    assert trace.losses == CLEAN
    expected = reference_events(text)
    assert trace.events.height == len(expected)
    for got, wanted in zip(rows(trace.events), expected, strict=True):
        assert got == wanted
    fields = json.loads(text)
    del fields["traceEvents"]
    assert trace.metadata == fields


def test_python_frames_are_kept_as_asked(traces: Path) -> None:
    path = traces / "sglang_qwen3_8b_mi300x_bs32/capture/bs_32_rank0.json.gz"
    every = decode(path, python="all")[0].events
    is_frame = pl.col("cat").cast(pl.String).eq_missing(PYTHON_CATEGORY)
    is_module = pl.col("name").cast(pl.String).str.starts_with(MODULE_PREFIX)
    assert decode(path)[0].events.equals(every.filter(~is_frame | is_module))
    assert decode(path, python="none")[0].events.equals(every.filter(~is_frame))
    assert every.filter(is_frame & is_module).height == 508


@pytest.mark.parametrize("spelled", ["5.5", "5.500", "5500e-3", '"5.5"', "0.0055E3", "5.4999999999999999999999"])
def test_times_are_exact_however_they_are_spelled(tmp_path: Path, spelled: str) -> None:
    text = trace_text(EVENT).replace(b'"ts": 1.5', f'"ts": {spelled}'.encode())
    assert decode(write(tmp_path, text))[0].events["ts"].to_list() == [5500]


def test_epoch_microseconds_keep_their_nanoseconds(tmp_path: Path) -> None:
    events = b'[{"ph":"X","ts":1672924880617000.123,"dur":.040},{"ph":"X","ts":1672924880617000.163,"dur":0.040}]'
    events = events.replace(b":.040", b":0.040")
    (trace,) = decode(write(tmp_path, events))
    assert trace.events["ts"].to_list() == [1672924880617000123, 1672924880617000163]
    assert trace.events["dur"].to_list() == [40, 40]


@pytest.mark.parametrize("indent", [None, 0, 1, 2])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_fields_before_and_after_the_events(tmp_path: Path, indent: int | None, mark: bytes) -> None:
    text = mark + trace_text(EVENT, EVENT, indent=indent, traceName="é", baseTimeNanoseconds=1719853884000000001)
    (trace,) = decode(write(tmp_path, text))
    assert trace.metadata == {"schemaVersion": 1, "traceName": "é", "baseTimeNanoseconds": 1719853884000000001}
    assert trace.events.height == 2
    assert trace.losses == CLEAN


@pytest.mark.parametrize("lead", [b"", b"\n ", b"\xef\xbb\xbf"])
def test_a_bare_list_of_events(tmp_path: Path, lead: bytes) -> None:
    (trace,) = decode(write(tmp_path, lead + json.dumps([EVENT, EVENT]).encode()))
    assert (trace.events.height, trace.metadata, trace.losses) == (2, {}, CLEAN)


def test_what_a_file_holds_counts_not_its_name(tmp_path: Path) -> None:
    text = trace_text(EVENT)
    plain = decode(write(tmp_path, text, "plain.json.gz"))
    packed = decode(write(tmp_path, gzip.compress(text), "packed.json"))
    assert plain[0].events.equals(packed[0].events)


def test_each_gzip_member_is_a_trace_of_its_own(tmp_path: Path) -> None:
    members = [gzip.compress(trace_text({**EVENT, "pid": pid}, rank=pid)) for pid in (3, 4)]
    found = decode(write(tmp_path, b"".join(members)))
    assert [(trace.member, trace.metadata["rank"], trace.events["pid"].to_list()) for trace in found] == [
        (0, 3, ["3"]),
        (1, 4, ["4"]),
    ]


def test_a_document_in_many_gzip_members_is_one_trace(tmp_path: Path) -> None:
    text = trace_text(*[EVENT] * 50)
    slices = b"".join(gzip.compress(text[start : start + 97]) for start in range(0, len(text), 97))
    (trace,) = decode(write(tmp_path, slices))
    assert (trace.events.height, trace.losses) == (50, CLEAN)


def test_documents_one_after_the_other(tmp_path: Path) -> None:
    found = decode(write(tmp_path, trace_text(EVENT, rank=0) + b"\n" + trace_text(EVENT, EVENT, rank=1)))
    assert [(trace.events.height, trace.metadata["rank"], trace.losses) for trace in found] == [
        (1, 0, CLEAN),
        (2, 1, CLEAN),
    ]


@pytest.mark.parametrize(
    "text",
    [
        b"hello",
        b'{"schema": "1.1.0-chakra", "nodes": [{"id": 1}]}',
        b'[[1, "create", 512], [2, "free", 512]]',
        b'[{"a": 1}]',
        b'{"traceEvents": 5}',
        b"\x80\x04\x95pickle",
        b"7",
    ],
)
def test_what_is_no_trace_is_refused(tmp_path: Path, text: bytes) -> None:
    with pytest.raises(InputError, match=r"trace\.json"):
        decode(write(tmp_path, text))


def test_a_missing_path_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        decode(tmp_path / "missing.json")
    with pytest.raises(InputError, match="cannot be read"):
        decode(tmp_path)


@pytest.mark.parametrize(
    "text", [b"", b"  \n", gzip.compress(b"", mtime=0)[:10], gzip.compress(b"", mtime=0), b'{"schemaVersion": 1, "dev']
)
def test_a_file_without_data_says_so(tmp_path: Path, text: bytes) -> None:
    (trace,) = decode(write(tmp_path, text))
    assert trace.events.height == 0
    assert dict(trace.events.schema) == dict(SCHEMA)
    assert trace.losses.reason is not None
    assert trace.losses.reason.startswith("no-data: ")
