"""Folders as people have them: which file is what, whose it is, and what cannot be trusted."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import mini
import polars as pl
import pytest

from shapescope.errors import InputError, UsageError
from shapescope.model import (
    Evidence,
    GraphKey,
    ManifestRow,
    Memory,
    Rank,
    RunManifest,
    Status,
    Timing,
    TraceIdentity,
    to_plain,
)
from shapescope.read.assembly import rank_name
from shapescope.read.run import open_run
from shapescope.store.manifest import ManifestWriter, write_run
from shapescope.store.spans import Mark, span_name

SHARED_ROLES = {
    "README.md": "not-a-trace",
    "eager/b200.json.gz": "eager",
    "eager/h100_qwen1.5_0.5b.json.gz": "eager",
    "eager/mi250_minitoy.json.gz": "eager",
    "eager/mi300_qwen1.5_0.5b.json.gz": "eager",
    "eager/triton_example.json.gz": "eager",
    "nvidia_old/a100_graph_replay.json.gz": "replay",
    "nvidia_old/cpu_only.json.gz": "cpu",
    "nvidia_old/ns_resolution.json.gz": "eager",
    "sglang_qwen3_8b_mi300x_bs32/capture/bs_32_rank0.json.gz": "capture",
    "sglang_qwen3_8b_mi300x_bs32/replay.json.gz": "replay",
    "sglang_qwen3_8b_mi300x_bs32/truth_join.csv.gz": "not-a-trace",
    "vllm_gptoss_mi300x_piecewise/replay.json.gz": "replay",
    "vllm_gptoss_mi300x_piecewise/truth_join.csv.gz": "not-a-trace",
}


def test_every_real_file_gets_its_role(traces: Path) -> None:
    run = open_run(traces)
    found = dict(run.check().select("file", "role").iter_rows())
    (capture,) = (name for name in found if name.startswith("vllm_gptoss_mi300x_piecewise/capture/"))
    assert found == {**SHARED_ROLES, capture: "capture"}
    assert not run.partial
    assert [w.code for w in run.warnings if w.code == "several-runs"] == ["several-runs"]
    assert run.shapes().select("size", "status").rows() == [(None, "missing"), (32, "ok"), (8192, "ok")]


def frames(count: int) -> list[mini.Event]:
    return [mini.event("python_function", f"layer_{n}.py(1): forward_{n}", 5 * n, 4) for n in range(count)]


def serving(ts: float = 0) -> list[mini.Event]:
    names = [f"k{n}" for n in range(5)]
    return [*mini.replay(ts, names, correlation=1), *mini.replay(ts + 100, names, correlation=2)]


@pytest.fixture
def case_03(tmp_path: Path) -> Path:
    stray = [mini.kernel("fill", 1, 1, correlation=900), mini.kernel("fill", 3, 1, correlation=901)]
    one = [mini.capture(10, 4, dims=[[8, 64]])]
    mini.write(
        tmp_path / "cuda_graph_capture-DecodeCudaGraphRunner-TP-3.json.gz",
        [*stray, *mini.capture(10, 600), *frames(20_000)],
    )
    mini.write(tmp_path / "1785.1-TP-3.trace.json.gz", serving())
    for name in (
        "bs_8_rank0.json.gz",
        "DecodeCudaGraphRunner_bs_8_rank0.json.gz",
        "EAGLEDraftCudaGraphRunner_bs_8_rank0.json.gz",
        "DecodeCudaGraphRunner_bs_8_dense_lora_stream_1_rank3.json.gz",
    ):
        mini.write(tmp_path / name, one[0])
    mini.write(
        tmp_path / "graph_capture_rank_0.99.pt.trace.json.gz",
        [
            mini.span("capture_8_FULL", 0, 100),
            *mini.capture(10, 5),
            mini.span("capture_8_PIECEWISE", 200, 400),
            *(event for ts in (210, 310, 410) for event in mini.capture(ts, 2)),
        ],
    )
    mini.write(tmp_path / "dp0_pp0_tp0_dcp0_ep0_rank0.99.pt.trace.json.gz", serving())
    mini.write(tmp_path / "host_1.async_llm.99.pt.trace.json.gz", [mini.op("aten::add", 0, 5)])
    return tmp_path


def test_case_03_which_file_is_what(case_03: Path) -> None:
    run = open_run(case_03)
    check = run.check()
    by_file = check.unique("file")
    assert sorted(by_file["role"]) == ["capture"] * 6 + ["cpu"] + ["replay"] * 2
    largest = max(case_03.iterdir(), key=lambda path: path.stat().st_size)
    assert largest.name.startswith("cuda_graph_capture")
    assert sorted(check.filter(pl.col("role") == "replay")["file"]) == [
        "1785.1-TP-3.trace.json.gz",
        "dp0_pp0_tp0_dcp0_ep0_rank0.99.pt.trace.json.gz",
    ]
    captures = check.filter(pl.col("role") == "capture").select("key", "rank", "key_source")
    assert sorted(captures.rows(), key=str) == sorted(
        [
            ("DecodeCudaGraphRunner unlabelled-0", 3, None),
            ("bs=8", 0, "name"),
            ("DecodeCudaGraphRunner bs=8", 0, "name"),
            ("EAGLEDraftCudaGraphRunner bs=8", 0, "name"),
            ("DecodeCudaGraphRunner bs=8 dense,lora,stream=1", 3, "name"),
            ("tokens=8 full", 0, "annotation"),
            ("tokens=8 piecewise", 0, "annotation"),
        ],
        key=str,
    )


def test_case_03_capture_tables_count_launches_and_show_no_device_time(case_03: Path) -> None:
    run = open_run(case_03)
    shapes = run.shapes().filter(pl.col("launches").is_not_null())
    found = {
        (row["runner"], row["variant"], row["size"]): (row["launches"], row["segments"])
        for row in shapes.iter_rows(named=True)
    }
    assert found == {
        ("DecodeCudaGraphRunner", "", None): (600, 1),
        (None, "", 8): (4, 1),
        ("DecodeCudaGraphRunner", "", 8): (4, 1),
        ("EAGLEDraftCudaGraphRunner", "", 8): (4, 1),
        ("DecodeCudaGraphRunner", "dense,lora,stream=1", 8): (4, 1),
        (None, "full", 8): (5, 1),
        (None, "piecewise", 8): (6, 3),
    }
    assert shapes["time_ns"].null_count() == shapes.height
    assert set(run.streams()["file"]) == {
        "1785.1-TP-3.trace.json.gz",
        "dp0_pp0_tp0_dcp0_ep0_rank0.99.pt.trace.json.gz",
    }


def test_case_07_ranks_from_metadata_then_name_else_apart(tmp_path: Path) -> None:
    """Compact JSON, two files with a rank in their metadata and two without any: four inputs stay four ranks."""
    mini.write(tmp_path / "a.json", serving(), **mini.world(3, 8))
    mini.write(tmp_path / "b.json", serving(), **mini.world(5, 8))
    mini.write(tmp_path / "c.json", serving())
    mini.write(tmp_path / "d.json", serving())
    run = open_run(tmp_path)
    ranks = run.check()["rank"].to_list()
    assert [rank_name(rank) for rank in ranks] == [3, 5, "unknown-1", "unknown-2"]
    assert run.shapes()["rank"].n_unique() == 4
    (missing,) = (w for w in run.warnings if w.code == "rank-missing")
    assert "0-2, 4, 6-7" in missing.message


def test_names_with_several_dimensions_stay_apart_and_files_of_one_place_together(tmp_path: Path) -> None:
    for size in (4, 8):
        for place in ("TP-0-DP-1", "TP-0-DP-2"):
            mini.write(tmp_path / f"{size}-{place}.trace.json.gz", serving())
    assert open_run(tmp_path).check()["rank"].to_list() == [-1, -2, -1, -2]


def merged(pids: tuple[int, int] = (4001, 4002)) -> list[mini.Event]:
    """Two ranks in one file: the same correlation ids, other processes and devices."""
    events = []
    for number, pid in enumerate(pids):
        for launch in range(4):
            names = [f"rank{number}_k{n}" for n in range(4)]
            events += mini.replay(100 * launch, names, correlation=100 + launch, pid=pid, device=number)
    return events


def test_case_14_merged_ranks_are_split_again(tmp_path: Path) -> None:
    mini.write(tmp_path / "merged.json", merged())
    run = open_run(tmp_path)
    per_launch = run.replayed.group_by("rank", "launch").agg(pl.len(), pl.col("kernel").str.slice(0, 5).unique())
    assert per_launch.height == 8
    assert per_launch["len"].to_list() == [4] * 8
    assert all(len(names) == 1 for names in per_launch["kernel"])
    assert run.replayed["time_ns"].sum() == 2 * 4 * 4 * 2000
    assert run.streams().select("rank", "device", "kernels").rows() == [(-1, 0, 16), (-2, 1, 16)]
    assert "merged-processes" in {str(warning.code) for warning in run.warnings}


def test_case_14_labels_of_a_merged_file_give_ranks(tmp_path: Path) -> None:
    labels = [
        {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": f"python rank {rank}"}}
        for pid, rank in ((4001, 6), (4002, 2))
    ]
    mini.write(tmp_path / "merged.json", [*labels, *merged()])
    assert sorted(open_run(tmp_path).check()["rank"]) == [2, 6]


def test_case_14_many_merged_pairs_finish(tmp_path: Path) -> None:
    events: list[mini.Event] = []
    for number in range(400):
        events += mini.replay(50 * number, ["a", "b"], correlation=number % 7, pid=10_000 + number, device=number)
    mini.write(tmp_path / "merged.json", events)
    run = open_run(tmp_path)
    assert run.replayed.group_by("rank").len()["len"].to_list() == [2] * 400


@pytest.mark.parametrize(
    ("cat", "names"),
    [
        ("cuda_runtime", ["hipLaunchKernel", "hipModuleLaunchKernel", "hipExtModuleLaunchKernel"]),
        ("cuda_driver", ["cuLaunchKernelEx", "cudaLaunchKernelExC", "cudaLaunchCooperativeKernel"]),
    ],
)
def test_case_14_launches_are_known_by_correlation(tmp_path: Path, cat: str, names: list[str]) -> None:
    """All kernels on stream 0, launched by whatever name."""
    events = []
    for number, name in enumerate(names):
        events += [
            mini.call(name, 10 * number, 2, correlation=number, cat=cat),
            mini.kernel(f"k{number}", 10 * number + 5, 2, correlation=number, stream=0),
        ]
    events += mini.replay(100, ["g0", "g1"], correlation=50, stream=0)
    run = open_run(mini.write(tmp_path / "trace.json", events))
    assert run.assembly.eager["api"].to_list() == names
    assert run.replayed["kernel"].to_list() == ["g0", "g1"]
    assert run.streams().select("stream", "kernels").rows() == [(0, 5)]


def test_swapped_names_are_found_by_their_dims(tmp_path: Path) -> None:
    """A counter out of step files 4 as 8 and 8 as 4; the other sizes are right."""
    for claimed, real in ((2, 2), (4, 8), (8, 4), (16, 16)):
        events = mini.capture(0, 3, dims=[[real, 64], [64, 64]])
        mini.write(tmp_path / f"DecodeCudaGraphRunner_bs_{claimed}_rank0.json.gz", events)
    run = open_run(tmp_path)
    rows = {row["key"]: row for row in run.check().iter_rows(named=True)}
    assert {key: row["status"] for key, row in rows.items()} == {
        "DecodeCudaGraphRunner bs=16": "ok",
        "DecodeCudaGraphRunner bs=2": "ok",
        "DecodeCudaGraphRunner bs=4": "conflict",
        "DecodeCudaGraphRunner bs=8": "conflict",
    }
    wrong = rows["DecodeCudaGraphRunner bs=4"]
    assert (wrong["key_source"], wrong["inferred_key"]) == ("name", "DecodeCudaGraphRunner bs=8")
    assert wrong["confidence"] > 0.9
    assert [problem["code"] for problem in wrong["problems"]] == ["name-content-mismatch"]
    assert sorted(run.shapes()["size"]) == [2, 4, 8, 16]
    (row,) = run.shapes().filter(pl.col("size") == 8).iter_rows(named=True)
    assert row["files"] == ["DecodeCudaGraphRunner_bs_4_rank0.json.gz"]


def test_without_dims_the_profilers_step_numbers_tell_who_is_out_of_order(tmp_path: Path) -> None:
    """Every third step is a capture, from the largest size to the smallest; 4 and 8 have changed places."""
    for number, size in enumerate((32, 16, 4, 8, 2, 1)):
        events = [mini.span(f"ProfilerStep#{3 * number + 2}", 0, 100), *mini.capture(10, 3)]
        mini.write(tmp_path / f"bs_{size}_rank0.json.gz", events)
    run = open_run(tmp_path)
    wrong = run.check().filter(pl.col("status") == "conflict").sort("key")
    assert wrong.select("key", "inferred_key", "confidence").rows() == [("bs=4", "bs=8", 0.5), ("bs=8", "bs=4", 0.5)]
    assert sorted(run.shapes()["size"]) == [1, 2, 4, 8, 16, 32]


def test_some_dims_rounded_up_are_no_mismatch(tmp_path: Path) -> None:
    for size, rounded in ((1, 16), (16, 16), (17, 32), (32, 32), (64, 64)):
        mini.write(
            tmp_path / f"bs_{size}_rank0.json.gz", mini.capture(0, 3, dims=[[size, 64], [size, 8], [rounded, 8]])
        )
    assert open_run(tmp_path).check()["status"].to_list() == ["ok"] * 5


@pytest.mark.parametrize("tokens", [1, 4])
def test_a_multiple_of_the_size_in_dims_is_no_mismatch(tmp_path: Path, tokens: int) -> None:
    """A verify step runs several tokens a request."""
    for size in (1, 2, 8):
        mini.write(tmp_path / f"bs_{size}_rank0.json.gz", mini.capture(0, 3, dims=[[size * tokens, 64], [64, 64]]))
    assert open_run(tmp_path).check()["status"].to_list() == ["ok"] * 3


def test_a_lone_capture_whose_dims_never_show_its_size_is_doubted(tmp_path: Path) -> None:
    mini.write(tmp_path / "bs_8_rank0.json.gz", mini.capture(0, 3, dims=[[48, 64], [5000, 64]]))
    (row,) = open_run(tmp_path).check().iter_rows(named=True)
    assert (row["key"], row["inferred_key"], row["status"]) == ("bs=8", None, "ok")  # 48 may be 8 requests of 6 tokens
    mini.write(tmp_path / "bs_8_rank0.json.gz", mini.capture(0, 3, dims=[[30, 64], [5000, 64]]))
    (row,) = open_run(tmp_path).check().iter_rows(named=True)
    assert (row["key"], row["inferred_key"], row["status"]) == ("bs=8", "bs=30", "conflict")


def test_a_capture_of_cpu_activities_alone_is_one_by_its_recorders_word(tmp_path: Path) -> None:
    """On NVIDIA a window may hold no runtime call at all: no launches to count, and none is made up."""
    key = GraphKey.of("R", 8)
    events = [
        mini.span("shapescope.capture runner=R&phase=decode&size=8&unit=requests", 0, 100),
        mini.op("aten::mm", 10, 50, [[8, 64]]),
        mini.op("aten::add", 70, 20),
        mini.op("aten::add", 71, 10),
    ]
    gpu = {"deviceProperties": [{"id": 0, "name": "NVIDIA H100"}]}
    mini.write(tmp_path / "R_bs_8_rank0.json.gz", events, **identity(key, Evidence.CAPTURE, Rank()), **gpu)
    ManifestWriter(tmp_path, Rank(), "host", 1).append(
        ManifestRow(key, Rank(), Evidence.CAPTURE, 0, Status.OK, launches=7)
    )
    run = open_run(tmp_path)
    assert run.check().select("role", "key").rows() == [("capture", "R bs=8")]
    assert run.shapes().select("launches", "segments", "kernels", "status").rows() == [(7, None, None, "ok")]
    assert not run.launches().height


def test_a_graph_launched_while_capturing_is_no_replay(tmp_path: Path) -> None:
    events = mini.capture(0, 2, dims=[[8, 64]])
    events.insert(-1, mini.call("cudaGraphLaunch", 28, correlation=77))
    run = open_run(mini.write(tmp_path / "bs_8_rank0.json.gz", events))
    assert run.check()["role"].to_list() == ["capture"]
    assert run.shapes().select("size", "launches").rows() == [(8, 2)]


def test_a_span_beats_a_name(tmp_path: Path) -> None:
    events = [mini.span("capture_16_DECODE", 0, 100), *mini.capture(10, 3, dims=[[16, 64]])]
    mini.write(tmp_path / "DecodeCudaGraphRunner_bs_8_rank0.json.gz", events)
    (row,) = open_run(tmp_path).check().iter_rows(named=True)
    assert (row["key"], row["key_source"]) == ("DecodeCudaGraphRunner bs=16", "annotation")
    assert (row["status"], [p["code"] for p in row["problems"]]) == ("conflict", ["name-content-mismatch"])


def test_a_file_beside_the_captures_names_them(tmp_path: Path) -> None:
    mini.write(tmp_path / "graph_capture_rank_0.1.pt.trace.json.gz", mini.capture(0, 3))
    rows = [{"file": "graph_capture_rank_0.1.pt.trace.json.gz", "batch_size": 24, "mode": "FULL"}]
    (tmp_path / "execution_details.json").write_text(json.dumps(rows))
    assert open_run(tmp_path).check().select("key", "key_source").rows() == [("tokens=24 full", "name")]


def test_what_is_no_trace_never_stops_the_others(tmp_path: Path) -> None:
    good = mini.write(tmp_path / "bs_8_rank0.json.gz", mini.capture(0, 400, dims=[[8, 64]]))
    (tmp_path / "empty.json.gz").write_bytes(b"")
    (tmp_path / "header.json.gz").write_bytes(gzip.compress(b"", mtime=0)[:10])
    (tmp_path / "cut.json.gz").write_bytes(good.read_bytes()[:-400])
    (tmp_path / "notes.txt").write_text("not a trace")
    (tmp_path / "config.json").write_text('{"nodes": [], "schema": "1.1.1"}')
    run = open_run(tmp_path)
    found = {row["file"]: (row["role"], row["status"]) for row in run.check().iter_rows(named=True)}
    assert found == {
        "bs_8_rank0.json.gz": ("capture", "ok"),
        "empty.json.gz": ("not-a-trace", "empty"),
        "header.json.gz": ("not-a-trace", "empty"),
        "cut.json.gz": ("capture", "partial"),
        "notes.txt": ("not-a-trace", "not-a-trace"),
        "config.json": ("not-a-trace", "not-a-trace"),
    }
    assert run.partial
    assert {"truncated", "no-data", "not-a-trace"} <= {str(warning.code) for warning in run.warnings}


@pytest.mark.parametrize("content", [b"", b"{}", b"hello", gzip.compress(b"", mtime=0)])
def test_one_path_without_a_trace_is_an_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"trace\.json|no-data"):
        open_run(path)
    with pytest.raises(InputError, match="does not exist"):
        open_run(tmp_path / "missing")


def test_an_empty_folder_is_a_run_of_nothing(tmp_path: Path) -> None:
    run = open_run(tmp_path)
    assert [str(warning.code) for warning in run.warnings] == ["no-data"]
    for table in (run.shapes(), run.launches(), run.check(), run.streams(), run.kernels("op")):
        assert not table.height


def test_kernels_are_grouped_only_by_what_is_known(tmp_path: Path) -> None:
    run = open_run(mini.write(tmp_path / "bs_8_rank0.json.gz", mini.capture(0, 3, dims=[[8, 64]], name="gemm")))
    (row,) = run.kernels("kernel").iter_rows(named=True)
    assert (row["kernel"], row["calls"], row["time_ns"], row["seq"], row["dims"]) == ("gemm", 3, None, None, "[[8,64]]")
    with pytest.raises(UsageError, match="'color'"):
        run.kernels("color")


def identity(key: GraphKey, evidence: Evidence, rank: Rank, **more: Any) -> dict[str, Any]:
    return {"shapescope": to_plain(TraceIdentity(key, rank, evidence, "run", **more))}


def test_our_own_run_knows_its_shapes_whatever_the_files_are_called(tmp_path: Path) -> None:
    keys = {size: GraphKey.of("DecodeRunner", size) for size in (1, 2, 4)}
    rank = Rank()
    write_run(tmp_path, RunManifest("run", "now", "test", None, tuple(keys.values())))
    writer = ManifestWriter(tmp_path, rank, "host", 1)
    timing = Timing((100, 110, 120, 130, 140), context_len=1)
    for size in (1, 2):
        key = keys[size]
        writer.append(ManifestRow(key, rank, Evidence.CAPTURE, 0, Status.MISSING))
        writer.append(
            ManifestRow(
                key, rank, Evidence.CAPTURE, 0, Status.OK, file=f"graph_capture_profile/{size}.json.gz", launches=3,
                capture_ns=1000 * size, record_ns=50, memory=Memory(0, 100, 120),
            )
        )  # fmt: skip
        writer.append(ManifestRow(key, rank, Evidence.REPLAY, 0, Status.OK, timing=timing))
        folder = tmp_path / "graph_capture_profile"
        mini.write(folder / f"{size}.json.gz", mini.capture(0, 3), **identity(key, Evidence.CAPTURE, rank))
        events = mini.replay(0, ["gemm_0", "gemm_1", "gemm_2"], correlation=9)
        mini.write(folder / f"{size}.replay.json.gz", events, **identity(key, Evidence.REPLAY, rank, timing=timing))
    writer.append(ManifestRow(keys[4], rank, Evidence.CAPTURE, 0, Status.FAILED, reason="OutOfMemoryError"))
    run = open_run(tmp_path)
    shapes = {row["size"]: row for row in run.shapes().iter_rows(named=True)}
    assert {size: row["status"] for size, row in shapes.items()} == {1: "ok", 2: "ok", 4: "failed"}
    one = shapes[2]
    assert (one["launches"], one["capture_ns"], one["record_ns"], one["memory_bytes"]) == (3, 2000, 50, 120)
    assert (one["time_ns"], one["time_p10_ns"], one["time_p90_ns"], one["replays"]) == (120, 104, 136, 5)
    assert (one["time_source"], one["context_len"], one["time_per_token_ns"]) == ("replay-dummy", 1, 60)
    assert (one["busy_ns"], one["span_ns"], one["gap_ns"]) == (6000, 8000, 2000)
    assert len(one["files"]) == 2
    assert shapes[4]["time_ns"] is None
    assert set(run.check()["key_source"]) == {"metadata"}
    assert not run.partial


def test_a_requested_shape_without_a_capture_is_missing(tmp_path: Path) -> None:
    write_run(tmp_path, RunManifest("run", "now", "test", None, (GraphKey.of("R", 1),), world_size=2))
    run = open_run(tmp_path)
    assert run.shapes().select("size", "rank", "status").rows() == [(1, 0, "missing"), (1, 1, "missing")]


def test_a_combined_trace_holds_every_shape(tmp_path: Path) -> None:
    events: list[mini.Event] = []
    for number, size in enumerate((8, 4)):
        at = 1000 * number
        key = f"runner=R&phase=decode&size={size}&unit=requests&variant=dense"
        events += [mini.span(f"shapescope.capture {key}", at, 500), *mini.capture(at + 10, 3 + number)]
    plain = to_plain(TraceIdentity(None, Rank(tp=1, rank=1, tp_size=2, world_size=2), Evidence.CAPTURE, "run"))
    mini.write(tmp_path / "cuda_graph_capture-R-TP-1.json.gz", events, shapescope=plain)
    run = open_run(tmp_path)
    rows = run.shapes().select("runner", "size", "variant", "rank", "launches", "segments").rows()
    assert rows == [("R", 4, "dense", 1, 4, 1), ("R", 8, "dense", 1, 3, 1)]
    assert run.launches().filter(pl.col("size") == 4)["seq"].to_list() == [0, 1, 2, 3]


def test_nodes_stand_in_for_nameless_launches(tmp_path: Path) -> None:
    key = GraphKey.of("R", 8)
    launches = [
        mini.call("cudaStreamBeginCapture", 0),
        mini.op("aten::mm", 8, 10, [[8, 64]]),
        mini.call("cudaLaunchKernel", 10, 2, correlation=1),
        mini.call("cudaStreamEndCapture", 50),
    ]
    mini.write(tmp_path / "R_bs_8_rank0.json.gz", launches, **identity(key, Evidence.CAPTURE, Rank()))
    nodes = [
        {
            "id": 3,
            "kind": "kernel",
            "kernel": "gemm",
            "grid": [8, 1, 1],
            "block": [256, 1, 1],
            "shared_memory": 0,
            "depends_on": [],
        }
    ]
    (tmp_path / "R_bs_8_rank0.nodes.json").write_text(json.dumps({"schema": 1, "key": to_plain(key), "nodes": nodes}))
    run = open_run(tmp_path)
    assert run.launches().select("source", "kernel", "op", "grid").rows() == [
        ("capture", None, "aten::mm", None),
        ("nodes", "gemm", None, "[8,1,1]"),
    ]
    (shape,) = run.shapes().iter_rows(named=True)
    assert (shape["launches"], shape["kernels"], shape["ops"], len(shape["files"])) == (1, 1, 1, 2)


def test_a_replay_that_lost_kernels_stays_out_of_averages(tmp_path: Path) -> None:
    names = ["a", "b", "c"]
    events = [
        *(event for n in range(3) for event in [mini.span("step[DECODE bs=3]", 100 * n, 50)]),
        *mini.replay(10, names, correlation=1),
        *mini.replay(110, names[:2], correlation=2),
        *mini.replay(210, names, correlation=3, dur=3),
    ]
    run = open_run(mini.write(tmp_path / "x-TP-0.trace.json", events))
    (shape,) = run.shapes().iter_rows(named=True)
    assert (shape["size"], shape["phase"], shape["status"]) == (3, "decode", "missing")
    assert (shape["replays"], shape["replays_seen"], round(shape["completeness"], 3)) == (2, 3, 0.889)
    assert shape["busy_ns"] == 7500
    assert run.launches().select("seq", "kernel", "calls", "time_ns").rows() == [
        (0, "a", 1, 2500),
        (1, "b", 1, 2500),
        (2, "c", 1, 2500),
    ]
    assert "kernels-missing" in {str(warning.code) for warning in run.warnings}


def test_a_graph_launch_without_any_kernel_says_so(tmp_path: Path) -> None:
    run = open_run(mini.write(tmp_path / "trace.json", [mini.call("cudaGraphLaunch", 0, correlation=1)]))
    assert run.check()["role"].to_list() == ["replay"]
    assert "kernels-missing" in {str(warning.code) for warning in run.warnings}


STEPS = {
    "step[DECODE bs=117]": (120, 117, "fits"),
    "decode[bs=117/128 tok=117 d=117]": (128, 117, "stated"),
    "execute_context_0(0)_generation_117(117)": (120, 117, "fits"),
    "execute_context_0(0_0)_generation_117(117_1)": (120, 117, "fits"),
    "step[DECODE bs=64 g_sq=128 g_sk=640]": (64, 64, "fits"),
}


def test_case_04_each_step_finds_its_captured_size(tmp_path: Path) -> None:
    """The kernels start after their span has closed: the launch's own time on the CPU tells the step."""
    for size in (64, 112, 120, 128):
        mini.write(
            tmp_path / "capture" / f"R_bs_{size}_rank0.json.gz", mini.capture(0, 4, dims=[[size, 64]], name="k{}")
        )
    events: list[mini.Event] = []
    for number, text in enumerate(STEPS):
        at = 1000 * number
        events.append(mini.span(text, at, 20))
        events += mini.replay(at + 5, ["k0", "k1", "k2", "k3"], correlation=number, start=at + 500)
    events.append(mini.span("step[DECODE bs=130]", 9000, 400))
    for number in range(40):
        events += [
            mini.call("hipLaunchKernel", 9001 + 5 * number, 2, correlation=100 + number),
            mini.kernel("eager", 9500 + 5 * number, 2, correlation=100 + number),
        ]
    mini.write(tmp_path / "x-TP-0.trace.json.gz", events)
    run = open_run(tmp_path)
    found = run.executions.sort("execution").select("size", "real_size", "resolved_by").rows()
    assert found == list(STEPS.values())
    assert run.replayed.height == 20
    assert run.replayed["complete"].all()


def test_a_token_sized_capture_is_met_by_tokens(tmp_path: Path) -> None:
    for size in (64, 128, 256):
        mini.write(tmp_path / "capture" / f"R_tokens_{size}_rank0.json.gz", mini.capture(0, 2, dims=[[size, 64]]))
    text = "execute_context_0(0)_generation_64(128)"
    mini.write(tmp_path / "x-TP-0.trace.json.gz", [mini.span(text, 0, 20), *mini.replay(5, ["a", "b"], correlation=1)])
    run = open_run(tmp_path)
    assert run.executions.select("size", "unit", "real_size").rows() == [(128, "tokens", 128)]


def test_two_runs_in_one_folder_stay_two(tmp_path: Path) -> None:
    for name in ("monday", "tuesday"):
        mini.write(tmp_path / name / "capture" / "bs_8_rank0.json.gz", mini.capture(0, 2, dims=[[8, 8]]))
        mini.write(tmp_path / name / "x-TP-0.trace.json.gz", serving())
    run = open_run(tmp_path)
    sized = run.shapes().filter(pl.col("size") == 8)
    assert sized.select("run", "size").rows() == [(0, 8), (1, 8)]
    assert "duplicate-key" not in {str(warning.code) for warning in run.warnings}


def test_several_members_of_one_file_are_all_read(tmp_path: Path) -> None:
    members = [json.dumps(mini.document(serving(), **mini.world(rank, 2))).encode() for rank in (0, 1)]
    (tmp_path / "both.json.gz").write_bytes(b"".join(map(gzip.compress, members)))
    run = open_run(tmp_path)
    assert run.check().select("role", "rank").rows() == [("replay", 0), ("replay", 1)]
    assert "multiple-members" in {str(warning.code) for warning in run.warnings}
    assert run.replayed.height == 20


@pytest.mark.parametrize("again", [False, True])
def test_without_any_rank_captures_still_tell_sizes_unless_two_are_of_one_key(tmp_path: Path, again: bool) -> None:
    for size in (4, 8):
        mini.write(tmp_path / "capture" / f"R_bs_{size}.json", mini.capture(0, 2, dims=[[size, 8]]))
    if again:
        mini.write(tmp_path / "capture" / "R_bs_8.json.gz", mini.capture(0, 2, dims=[[8, 8]]))
    mini.write(tmp_path / "x.json", [mini.span("step[DECODE bs=5]", 0, 50), *mini.replay(5, ["a", "b"], correlation=1)])
    assert open_run(tmp_path).executions["size"].to_list() == [5 if again else 8]


def test_one_key_captured_twice_is_told(tmp_path: Path) -> None:
    for name in ("bs_8_rank0.json.gz", "bs_8_rank0_dup1.json.gz"):
        mini.write(tmp_path / name, mini.capture(0, 2, dims=[[8, 8]]))
    run = open_run(tmp_path)
    assert "duplicate-key" in {str(warning.code) for warning in run.warnings}
    assert run.check()["key"].to_list() == ["bs=8", "bs=8"]


def test_of_a_key_captured_several_times_replays_run_the_last(tmp_path: Path) -> None:
    for number, launches in enumerate((5, 4, 3, 2)):
        mini.write(tmp_path / f"bs_8_rank0_dup{number}.json", mini.capture(0, launches, dims=[[8, 8]]))
    step = [mini.span("step[DECODE bs=8]", 0, 50), *mini.replay(5, ["a", "b"], correlation=1)]
    mini.write(tmp_path / "x-TP-0.trace.json", step, **mini.world(0, 1))
    assert open_run(tmp_path).executions.select("size", "expected", "complete").rows() == [(8, 2, True)]


def test_each_replay_of_a_measuring_window_is_an_execution_of_its_own(tmp_path: Path) -> None:
    """The window's own span around three replays, each in a span; a piecewise replay is one execution of two launches."""
    key = GraphKey.of("DecodeRunner", 8)
    name = span_name(Mark.REPLAY, key)
    identity = to_plain(TraceIdentity(key, Rank(), Evidence.REPLAY))
    on_cpu = [mini.span(name, 0, 900)]
    piecewise = [mini.span(name, 0, 900)]
    for n in range(3):
        at = 100 * n + 10
        on_cpu += [
            mini.span(name, at, 50),
            mini.op("aten::mm", at + 1, 10, [[8, 64]]),
            mini.op("aten::add", at + 20, 5),
        ]
        piecewise.append(mini.span(name, at, 50))
        piecewise += mini.replay(at + 1, ["gemm"], correlation=10 * n) + mini.replay(
            at + 20, ["norm"], correlation=10 * n + 1
        )
    for folder, events in (("cpu", on_cpu), ("device", piecewise)):
        mini.write(tmp_path / folder / "DecodeRunner_bs_8_rank0.replay.json", events, shapescope=identity)
        run = open_run(tmp_path / folder)
        assert run.executions.select("size", "kernels", "complete").rows() == [(8, 2, True)] * 3
        assert run.replayed["execution"].to_list() == [0, 0, 1, 1, 2, 2]
