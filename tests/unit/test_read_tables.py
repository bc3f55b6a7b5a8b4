"""Launches, replayed kernels and eager kernels against hand-proved truth, and launches that no op announces."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path

import mini
import polars as pl
import pytest

from shapescope.read.chrome import decode
from shapescope.read.classify import segments
from shapescope.read.processes import Process, processes, streams
from shapescope.read.replays import replayed_kernels, replays, steps
from shapescope.read.run import open_run
from shapescope.read.tables import captured_launches, eager_kernels

PAIRS = {"sglang_qwen3_8b_mi300x_bs32": (544, 1), "vllm_gptoss_mi300x_piecewise": (361, 25)}


def only_process(path: Path) -> Process:
    (trace,) = decode(path, python="modules")
    (process,) = processes(trace)
    return process


def truth(folder: Path, order: str) -> list[dict[str, str]]:
    with gzip.open(folder / "truth_join.csv.gz", "rt") as file:
        rows = list(csv.DictReader(file))
    return sorted(rows, key=lambda row: (int(row["region"]), int(row[order])))


@pytest.mark.parametrize("name", PAIRS)
def test_captured_launches_equal_the_truth(traces: Path, name: str) -> None:
    (path,) = (traces / name / "capture").iterdir()
    process = only_process(path)
    found = captured_launches(process, segments(process))
    expected = truth(traces / name, "pos_capture")
    launches, pieces = PAIRS[name]
    assert (found.height, found["segment"].n_unique(), len(expected)) == (launches, pieces, launches)
    assert found["dims_source"].unique().to_list() == ["op"]
    for row, right in zip(found.iter_rows(named=True), expected, strict=True):
        assert (row["kernel"], row["api"], row["op"]) == (right["kernel"], right["api"], right["innermost_cpu_op"])
        assert (row["dims"], row["module"], row["block"]) == (right["input_dims"], right["nn_module"], right["block"])
        grid, block = json.loads(right["grid"]), json.loads(right["block"])
        if row["api"] == "hipExtModuleLaunchKernel":
            grid = [-(-items // size) for items, size in zip(grid, block, strict=True)]
        assert json.loads(row["grid"]) == grid


@pytest.mark.parametrize("name", PAIRS)
def test_replayed_kernels_equal_the_truth(traces: Path, name: str) -> None:
    process = only_process(traces / name / "replay.json.gz")
    found = replayed_kernels(process, replays(process, steps(process), segments(process)))
    expected = sorted(truth(traces / name, "pos_replay"), key=lambda row: int(row["launch"]))
    assert found.select("launch", "seq", "kernel").rows() == [
        (int(row["launch"]), int(row["pos_replay"]), row["kernel"]) for row in expected
    ]
    assert found["dur"].sum() == {544: 9_656_404, 361: 149_919_755}[found.height]


def test_the_capture_folder_gives_its_launches_and_no_stray_kernel(traces: Path) -> None:
    run = open_run(traces / "sglang_qwen3_8b_mi300x_bs32" / "capture")
    launches = run.launches()
    assert launches.height == 544
    assert launches["size"].unique().to_list() == [32]
    assert launches["rank"].unique().to_list() == [0]
    assert launches["source"].unique().to_list() == ["capture"]
    assert not launches["time_ns"].drop_nulls().len()
    assert launches["seq"].to_list() == list(range(544))
    assert not any("fill" in kernel.lower() for kernel in launches["kernel"])
    assert run.shapes().select("launches", "segments", "status").rows() == [(544, 1, "ok")]
    assert not run.streams().height


def test_the_piecewise_capture_has_its_segments_and_tokens(traces: Path) -> None:
    run = open_run(traces / "vllm_gptoss_mi300x_piecewise" / "capture")
    (shape,) = run.shapes().iter_rows(named=True)
    assert (shape["size"], shape["unit"], shape["variant"]) == (8192, "tokens", "piecewise")
    assert (shape["launches"], shape["segments"], shape["rank"]) == (361, 25, 0)


@pytest.mark.parametrize("name", PAIRS)
def test_a_replay_meets_its_capture(traces: Path, name: str) -> None:
    run = open_run(traces / name)
    (shape,) = run.shapes().iter_rows(named=True)
    assert (shape["status"], shape["replays"], shape["completeness"]) == ("ok", 1, 1.0)
    assert run.executions["resolved_by"].to_list() == ["fits"]
    replayed = run.launches().filter(pl.col("source") == "replay")
    assert replayed["time_ns"].sum() == {32: 9_656_404, 8192: 149_919_755}[shape["size"]]


def test_stacks_are_there_only_when_asked_for(traces: Path) -> None:
    folder = traces / "sglang_qwen3_8b_mi300x_bs32" / "capture"
    stacks = open_run(folder, stacks=True).assembly.captured["stack"]
    assert stacks.null_count() == 0
    assert "nn.Module: VocabParallelEmbedding_0" in stacks[0].to_list()
    assert len(stacks[0]) > 10
    assert open_run(folder).assembly.captured["stack"].null_count() == 544


def mini_process(tmp_path: Path, events: list[mini.Event]) -> Process:
    return only_process(mini.write(tmp_path / "trace.json", events))


def test_only_an_op_around_the_launch_on_its_own_thread_counts(tmp_path: Path) -> None:
    """Case 05, input C: no op encloses the Triton launch, though one ended before it and one is open elsewhere."""
    process = mini_process(
        tmp_path,
        [
            mini.op("aten::add", 0, 10, [[8, 16]]),
            mini.op("aten::bmm", 15, 50, [[99, 99]], tid=2),
            mini.call("cuLaunchKernel", 20, 2, correlation=1, cat="cuda_driver"),
            mini.kernel("triton_poi_fused_0", 30, 5, correlation=1),
        ],
    )
    (row,) = eager_kernels(process).iter_rows(named=True)
    assert (row["kernel"], row["api"]) == ("triton_poi_fused_0", "cuLaunchKernel")
    assert (row["op"], row["dims"], row["types"], row["dims_source"]) == (None, None, None, None)


@pytest.mark.parametrize(
    ("external_id", "source"), [(1, "op"), (2, "op-by-time-not-id"), (77, "op-by-time"), (None, "op-by-time")]
)
def test_the_two_links_to_an_op_are_compared(tmp_path: Path, external_id: int | None, source: str) -> None:
    link = {} if external_id is None else {"External id": external_id}
    process = mini_process(
        tmp_path,
        [
            mini.op("aten::linear", 0, 100, [[4, 4]], **{"External id": 2}),
            mini.op("aten::mm", 10, 50, [[8, 8]], **{"External id": 1}),
            mini.call("cudaLaunchKernel", 20, 2, correlation=1, **link),
            mini.kernel("gemm", 30, 5, correlation=1),
        ],
    )
    (row,) = eager_kernels(process).iter_rows(named=True)
    assert (row["op"], row["dims"], row["dims_source"]) == ("aten::mm", "[[8,8]]", source)


def test_a_cpu_capture_counts_each_dispatched_op_once(tmp_path: Path) -> None:
    """The mode lists an op outside and inside; composites around, views, and what an op calls itself are no launches."""
    process = mini_process(
        tmp_path,
        [
            mini.span("shapescope.segment 0", 0, 1000),
            mini.op("aten::linear", 10, 200, [[4, 8], [8, 8]]),
            mini.op("aten::t", 20, 10),
            mini.op("PythonDispatchMode", 21, 8),
            mini.op("aten::t", 22, 6),
            mini.op("aten::mm", 40, 100, [[4, 8], [8, 8]]),
            mini.op("PythonDispatchMode", 41, 98),
            mini.op("aten::mm", 42, 90, [[4, 8], [8, 8]]),
            mini.op("aten::sum", 300, 100, [[4, 8]]),
            mini.op("PythonDispatchMode", 301, 98),
            mini.op("aten::sum", 302, 90, [[4, 8]]),
            mini.op("aten::sum", 303, 80, [[4, 8]]),
            mini.op("aten::sum", 304, 70, [[4, 8]]),
            mini.op("aten::relu", 2000, 10, [[4, 8]]),
        ],
    )
    found = captured_launches(process, segments(process))
    assert found["kernel"].to_list() == ["aten::mm", "aten::sum"]
    assert found["op"].to_list() == ["aten::mm", "aten::sum"]
    assert found["dims"].to_list() == ["[[4,8],[8,8]]", "[[4,8]]"]


def test_without_a_listed_mode_the_doubling_alone_tells(tmp_path: Path) -> None:
    events = [mini.span("shapescope.capture ", 0, 1000)]
    for at in (10, 200):
        events += [mini.op("aten::addmm", at, 100, [[4]]), mini.op("aten::addmm", at + 1, 90, [[4]])]
        events += [mini.op("aten::copy_", at + 5, 20), mini.op("aten::copy_", at + 6, 10)]
    process = mini_process(tmp_path, events)
    assert captured_launches(process, segments(process))["op"].to_list() == ["aten::addmm", "aten::addmm"]


def test_copies_and_fills_in_a_capture_are_launches_without_a_kernel(tmp_path: Path) -> None:
    process = mini_process(
        tmp_path,
        [
            mini.call("cudaStreamBeginCapture", 0),
            mini.call("cudaLaunchKernel", 10, 2, correlation=1),
            mini.call("cudaMemcpyAsync", 20, 2, correlation=2),
            mini.call("cudaMemsetAsync", 30, 2, correlation=3),
            mini.call("cudaEventRecord", 40, 2, correlation=4),
            mini.call("cudaGraphLaunch", 45, 2, correlation=5),
            mini.call("cudaStreamEndCapture", 50),
        ],
    )
    found = captured_launches(process, segments(process))
    assert found.select("kernel", "work").rows() == [(None, "kernel"), ("Memcpy", "memcpy"), ("Memset", "memset")]


def test_a_lost_end_of_capture_closes_at_the_next_begin(tmp_path: Path) -> None:
    first, second = mini.capture(0, 2), mini.capture(100, 3)
    process = mini_process(tmp_path, [*first[:-1], *second, mini.call("hipLaunchKernel", 500, kernel="outside")])
    found = segments(process)
    assert found["closed"].to_list() == [False, True]
    assert captured_launches(process, found)["segment"].to_list() == [0, 0, 1, 1, 1]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("7", 7), (" 7 ", 7), ("-1", -1), ("0x7f", 127), (" 0x7f3c", 32572), ("0", 0), ("007", 7), (None, None), ("", None),
        ("0x", None), ("7a", None), ("1_0", None), ("\u0663", None), (str(2**63 - 1), 2**63 - 1), (str(2**63), None),
        ("0" * 40 + "7", 7),
    ],
)  # fmt: skip
def test_streams_are_numbers_or_hexadecimal_text(text: str | None, number: int | None) -> None:
    assert streams(pl.Series([text, "3"], dtype=pl.String)).to_list() == [number, 3]
