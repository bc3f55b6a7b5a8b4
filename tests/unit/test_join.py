"""The join on real pairs, on the cases from public reports, and on what it must refuse to say."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mini
import polars as pl
import pytest

from shapescope.analyse.join import JOIN, JoinResult, join
from shapescope.cli import main
from shapescope.model import Evidence, GraphKey, Rank, TraceIdentity, to_plain
from shapescope.read.run import open_run
from shapescope.show import tables

Said = set[str]
DIALECTS = {
    "step[DECODE bs=117]": (120, 117),
    "decode[bs=117/128 tok=117 d=117]": (128, 117),
    "execute_context_0(0)_generation_117(117)": (120, 117),
    "execute_context_0(0_0)_generation_117(117_1)": (120, 117),
    "step[DECODE bs=64 g_sq=128 g_sk=640]": (64, 64),
    "step[DECODE bs=100]": (112, 100),
}


def joined(path: Path, *replays: Path) -> JoinResult:
    return join(open_run(path, replays=replays))


def codes(result: JoinResult) -> Said:
    return {str(warning.code) for warning in result.warnings}


def statuses(result: JoinResult) -> list[str]:
    return result.rows["status"].to_list()


@pytest.mark.parametrize(
    ("folder", "kernels", "time_ns"),
    [("sglang_qwen3_8b_mi300x_bs32", 544, 9_656_404), ("vllm_gptoss_mi300x_piecewise", 361, 149_919_755)],
)
def test_a_real_pair_is_joined_as_it_was_by_hand(traces: Path, folder: str, kernels: int, time_ns: int) -> None:
    result = joined(traces / folder / "capture", traces / folder / "replay.json.gz")
    truth = pl.read_csv(gzip.decompress((traces / folder / "truth_join.csv.gz").read_bytes()))
    rows = result.rows.sort("launch", "seq_replay")
    assert rows.columns == list(JOIN)
    assert statuses(result) == ["aligned"] * kernels
    assert rows["launch"].to_list() == truth["launch"].to_list()
    assert rows["seq_replay"].to_list() == truth["pos_replay"].to_list()
    assert rows["seq_capture"].to_list() == truth["pos_capture"].to_list()
    assert rows["kernel"].to_list() == truth["kernel"].to_list()
    assert rows["op"].to_list() == truth["innermost_cpu_op"].to_list()
    assert rows["dims"].to_list() == truth["input_dims"].to_list()
    assert rows["module"].to_list() == truth["nn_module"].to_list()
    assert rows["time_ns"].sum() == result.summary["attributed_time_ns"] == time_ns
    assert result.summary["attributed"] == kernels
    assert result.summary["complete_launches"] == result.summary["launches"] == truth["launch"].n_unique()
    assert not result.partial


def test_stacks_come_with_the_launch_where_they_are_read(traces: Path) -> None:
    folder = traces / "sglang_qwen3_8b_mi300x_bs32"
    rows = join(open_run(folder / "capture", replays=[folder / "replay.json.gz"], stacks=True)).rows
    assert rows["stack"].list.len().min() > 10


def captured(folder: Path, size: int, names: str = "k{}", launches: int = 4, **more: Any) -> Path:
    path = folder / "capture" / f"R_bs_{size}_rank0.json.gz"
    return mini.write(path, mini.capture(0, launches, dims=[[size, 64]], name=names), **more)


def test_case_04_every_dialect_finds_its_size(tmp_path: Path) -> None:
    for size in (64, 112, 120, 128):
        captured(tmp_path, size)
    events: list[mini.Event] = []
    for number, text in enumerate(DIALECTS):
        at = 1000 * number
        events += [mini.span(text, at, 20)]
        events += mini.replay(at + 5, ["k0", "k1", "k2", "k3"], correlation=number, start=at + 500)
    events.append(mini.span("step[DECODE bs=130]", 9000, 400))
    for number in range(40):
        events += [
            mini.call("hipLaunchKernel", 9001 + 5 * number, 2, correlation=100 + number),
            mini.kernel("eager", 9500 + 5 * number, 2, correlation=100 + number),
        ]
    mini.write(tmp_path / "x-TP-0.trace.json.gz", events)
    result = joined(tmp_path)
    assert statuses(result) == ["aligned"] * 24
    assert result.rows.unique("launch", maintain_order=True).select("size", "real_size").rows() == list(
        DIALECTS.values()
    )
    assert [json.loads(dims)[0][0] for dims in result.rows["dims"]] == result.rows["size"].to_list()
    summary = result.summary
    assert summary["attributed_time_ns"] == summary["time_ns"] == 24 * 2000
    assert summary["eager_steps"] == 1
    assert (summary["padded_slots"], summary["slots"]) == (3 + 11 + 3 + 3 + 0 + 12, 120 + 128 + 120 + 120 + 64 + 112)
    assert any(str(w.code) == "above-largest-size" and "130" not in w.message for w in result.warnings)
    assert not result.partial


GEMM, NORM, ATTENTION = "sm90_gemm_bf16_128x128", "fused_add_rmsnorm_kernel", "flash_fwd_splitkv_kernel"
OPS = [
    ("aten::mm", [[8, 4096], [4096, 4096]]),
    ("aten::rms_norm", [[8, 4096]]),
    ("aten::scaled_dot_product_attention", [[8, 32, 128]]),
]


def nvidia_capture(path: Path, key: GraphKey, **launch: Any) -> None:
    events = [mini.call("cudaStreamBeginCapture", 0)]
    for number, (name, dims) in enumerate(OPS):
        at = 10 * (number + 1)
        events.append(mini.op(name, at, 8, dims))
        args = {field: values[number] for field, values in launch.items()}
        events.append(mini.call("cudaLaunchKernel", at + 2, 2, correlation=number, **args))
    events.append(mini.call("cudaStreamEndCapture", 50))
    mini.write(path, events, shapescope=to_plain(TraceIdentity(key, Rank(), Evidence.CAPTURE, "run")))


def nvidia_replay(path: Path, names: list[str], ids: list[int] | None = None) -> None:
    events = [mini.span("step[DECODE bs=8]", 0, 50), mini.call("cudaGraphLaunch", 5, 2, correlation=9)]
    for number, name in enumerate(names):
        node = {} if ids is None else {"graph node id": (7 << 32) | ids[number]}
        events.append(mini.kernel(name, 20 + 3 * number, 2, correlation=9, **node))
    mini.write(path, events)


def test_case_05_nameless_launches_never_lend_their_dims(tmp_path: Path) -> None:
    nvidia_capture(tmp_path / "R_bs_8_rank0.json.gz", GraphKey.of("R", 8))
    nvidia_replay(tmp_path / "x-TP-0.trace.json.gz", [NORM, ATTENTION, GEMM])
    result = joined(tmp_path)
    assert statuses(result) == ["conflict"] * 3
    assert result.rows["dims"].null_count() == result.rows["op"].null_count() == result.rows["module"].null_count() == 3
    (candidate,) = result.rows["candidates"][0]
    assert (candidate["op"], candidate["seq"]) == ("aten::mm", 0)


def test_case_05_in_the_right_order_nothing_but_position_speaks(tmp_path: Path) -> None:
    nvidia_capture(tmp_path / "R_bs_8_rank0.json.gz", GraphKey.of("R", 8))
    nvidia_replay(tmp_path / "x-TP-0.trace.json.gz", [GEMM, NORM, ATTENTION])
    result = joined(tmp_path)
    assert statuses(result) == ["unverified"] * 3
    assert result.rows["dims"].null_count() == 3


def exact_dims(result: JoinResult) -> dict[str, str]:
    assert statuses(result) == ["exact"] * 3
    return dict(result.rows.select("kernel", "op").iter_rows())


def test_case_05_node_ids_on_both_sides_are_exact(tmp_path: Path) -> None:
    nvidia_capture(tmp_path / "R_bs_8_rank0.json.gz", GraphKey.of("R", 8), **{"graph node id": [4, 5, 6]})
    nvidia_replay(tmp_path / "x-TP-0.trace.json.gz", [NORM, ATTENTION, GEMM], ids=[5, 6, 4])
    told = exact_dims(joined(tmp_path))
    assert told == {GEMM: "aten::mm", NORM: "aten::rms_norm", ATTENTION: "aten::scaled_dot_product_attention"}


@pytest.mark.parametrize("named", [True, False])
def test_case_05_the_graphs_own_nodes_have_the_ids(tmp_path: Path, named: bool) -> None:
    key = GraphKey.of("R", 8)
    nvidia_capture(tmp_path / "R_bs_8_rank0.json.gz", key)
    names = [GEMM, NORM, ATTENTION] if named else [None] * 3
    nodes = [{"id": 4 + n, "kind": "kernel", "kernel": name, "depends_on": []} for n, name in enumerate(names)]
    nodes.insert(1, {"id": 40, "kind": "empty", "kernel": None, "depends_on": []})
    (tmp_path / "R_bs_8_rank0.nodes.json").write_text(json.dumps({"schema": 1, "key": to_plain(key), "nodes": nodes}))
    nvidia_replay(tmp_path / "x-TP-0.trace.json.gz", [NORM, ATTENTION, GEMM], ids=[5, 6, 4])
    told = exact_dims(joined(tmp_path))
    assert told == {GEMM: "aten::mm", NORM: "aten::rms_norm", ATTENTION: "aten::scaled_dot_product_attention"}


def test_node_ids_of_another_graph_are_found_out_by_what_runs(tmp_path: Path) -> None:
    """Ids count from 0 in every graph: alone they prove nothing."""
    nvidia_capture(tmp_path / "R_bs_8_rank0.json.gz", GraphKey.of("R", 8), **{"graph node id": [0, 1, 2]})
    nvidia_replay(tmp_path / "x-TP-0.trace.json.gz", [ATTENTION, GEMM, NORM], ids=[0, 1, 2])
    result = joined(tmp_path)
    assert statuses(result) == ["conflict"] * 3
    assert result.rows["dims"].null_count() == 3
    assert "graphs-differ" in codes(result)
    assert result.partial


def test_a_traced_warm_up_lends_its_names(tmp_path: Path) -> None:
    key = GraphKey.of("R", 8)
    nvidia_capture(tmp_path / "R_bs_8_rank0.json.gz", key)
    events: list[mini.Event] = []
    for number, ((op, dims), name) in enumerate(zip(OPS, [GEMM, NORM, ATTENTION], strict=True)):
        at = 10 * number
        events += [
            mini.op(op, at, 8, dims),
            mini.call("cudaLaunchKernel", at + 2, 2, correlation=number),
            mini.kernel(name, at + 5, 2, correlation=number),
        ]
    warm = to_plain(TraceIdentity(key, Rank(), Evidence.WARMUP, "run"))
    mini.write(tmp_path / "R_bs_8_rank0.warmup.json.gz", events, shapescope=warm)
    nvidia_replay(tmp_path / "x-TP-0.trace.json.gz", [GEMM, NORM, ATTENTION])
    assert statuses(joined(tmp_path)) == ["aligned"] * 3


def test_case_05_only_an_op_around_the_launch_on_its_thread_counts(tmp_path: Path) -> None:
    events = [
        mini.call("hipStreamBeginCapture", 0),
        mini.op("aten::add", 2, 8, [[8, 16]]),
        mini.op("aten::mm", 15, 20, [[99, 99]], tid=2),
        mini.call("hipModuleLaunchKernel", 20, 1, kernel="triton_poi_fused_0", correlation=1),
        mini.call("hipStreamEndCapture", 50),
    ]
    mini.write(tmp_path / "capture" / "R_bs_8_rank0.json.gz", events)
    steps = [mini.span("step[DECODE bs=8]", 0, 50), *mini.replay(5, ["triton_poi_fused_0"], correlation=1)]
    mini.write(tmp_path / "x-TP-0.trace.json.gz", steps)
    (row,) = joined(tmp_path).rows.iter_rows(named=True)
    assert (row["status"], row["op"], row["dims"]) == ("aligned", None, None)


def serve(names: list[str], step: str | None = "step[DECODE bs=8]", at: float = 0, **more: Any) -> list[mini.Event]:
    around = [mini.span(step, at, 50)] if step else []
    return [*around, *mini.replay(at + 5, names, correlation=int(at) + 1, **more)]


def test_case_14_merged_ranks_are_joined_apart(tmp_path: Path) -> None:
    for rank, name in ((0, "first"), (1, "second")):
        events = mini.capture(0, 4, dims=[[8, 64 + rank]], name="k{}")
        mini.write(tmp_path / "capture" / f"R_bs_8_rank{rank}.json.gz", events, **mini.world(rank, 2))
        assert name
    merged: list[mini.Event] = []
    for rank, pid in ((0, 4001), (1, 4002)):
        merged.append({"ph": "M", "name": "process_name", "pid": pid, "args": {"name": f"rank {rank}"}})
        merged.append(mini.span("step[DECODE bs=8]", 0, 50, pid=pid))
        merged += mini.replay(5, ["k0", "k1", "k2", "k3"], correlation=100, device=rank, pid=pid)
    for number, event in enumerate(merged):
        if event.get("cat") == "kernel":
            merged[number] = {**event, "pid": event["args"]["device"]}
    mini.write(tmp_path / "merged.json.gz", merged)
    result = joined(tmp_path)
    assert statuses(result) == ["aligned"] * 8
    wanted = {0: "[[8,64]]", 1: "[[8,65]]"}
    assert all(wanted[rank] == dims for rank, dims in result.rows.select("rank", "dims").iter_rows())
    assert result.summary["time_ns"] == 8 * 2000


def test_the_last_kernel_that_a_collector_dropped_is_shown_and_never_idle(tmp_path: Path) -> None:
    captured(tmp_path, 8)
    names = ["k0", "k1", "k2", "k3"]
    events = [*serve(names), *serve(names[:3], at=100), *serve(names, at=200)]
    mini.write(tmp_path / "x-TP-0.trace.json.gz", events)
    result = joined(tmp_path)
    assert statuses(result) == ["aligned"] * 11
    assert (result.summary["launches"], result.summary["complete_launches"]) == (3, 2)
    assert result.summary["completeness"] == pytest.approx(11 / 12)
    assert result.streams["idle"].null_count() == 1
    assert "idle-unreliable" in codes(result)


def test_a_launch_that_no_replay_shows_is_a_row_without_a_time(tmp_path: Path) -> None:
    captured(tmp_path, 8)
    mini.write(tmp_path / "x-TP-0.trace.json.gz", [*serve(["k0", "k1", "k3"]), *serve(["k0", "k1", "k3"], at=100)])
    result = joined(tmp_path)
    lacking = result.rows.filter(pl.col("status") == "missing")
    assert lacking.select("kernel", "seq_capture", "seq_replay", "time_ns", "size", "op").rows() == [
        ("k2", 2, None, None, 8, None)
    ]
    assert (result.summary["aligned"], result.summary["missing"], result.summary["kernels"]) == (6, 1, 6)


def test_one_of_two_like_kernels_dropped_leaves_both_ambiguous(tmp_path: Path) -> None:
    events = mini.capture(0, 3, dims=None, name="k")
    for number, event in enumerate(event for event in events if event["cat"] == "cpu_op"):
        event["args"]["Input Dims"] = [[8, number]]
    mini.write(tmp_path / "capture" / "R_bs_8_rank0.json.gz", events)
    mini.write(tmp_path / "x-TP-0.trace.json.gz", serve(["k", "k"]))
    result = joined(tmp_path)
    assert statuses(result) == ["ambiguous"] * 2
    assert result.rows["dims"].null_count() == 2
    assert [[c["dims"] for c in candidates] for candidates in result.rows["candidates"]] == [
        ["[[8,0]]", "[[8,1]]"],
        ["[[8,1]]", "[[8,2]]"],
    ]


def test_draft_and_target_never_mix(tmp_path: Path) -> None:
    for runner, width in (("DecodeCudaGraphRunner", 64), ("EAGLEDraftCudaGraphRunner", 32)):
        events = mini.capture(0, 2, dims=[[8, width]], name="k{}")
        mini.write(tmp_path / "capture" / f"{runner}_bs_8_rank0.json.gz", events)
    steps = [*serve(["k0", "k1"]), *serve(["k0", "k1"], step="step[DRAFT bs=8]", at=100)]
    mini.write(tmp_path / "x-TP-0.trace.json.gz", steps)
    rows = joined(tmp_path).rows.select("runner", "dims", "status").unique(maintain_order=True).rows()
    assert rows == [
        ("DecodeCudaGraphRunner", "[[8,64]]", "aligned"),
        ("EAGLEDraftCudaGraphRunner", "[[8,32]]", "aligned"),
    ]


def test_two_variants_of_one_size_are_told_apart_by_what_runs(tmp_path: Path) -> None:
    for variant, names, width in (("dense", "k{}", 64), ("lora", "lora_k{}", 32)):
        events = mini.capture(0, 6, dims=[[8, width]], name=names)
        mini.write(tmp_path / "capture" / f"R_bs_8_{variant}_rank0.json.gz", events)
    mini.write(tmp_path / "x-TP-0.trace.json.gz", serve([f"lora_k{n}" for n in range(6)]))
    result = joined(tmp_path)
    assert statuses(result) == ["aligned"] * 6
    assert set(result.rows["variant"]) == {"lora"}
    assert set(result.rows["dims"]) == {"[[8,32]]"}


def test_two_variants_that_run_the_same_kernels_stay_ambiguous(tmp_path: Path) -> None:
    for variant, width in (("dense", 64), ("lora", 32)):
        events = mini.capture(0, 2, dims=[[8, width]], name="k{}")
        mini.write(tmp_path / "capture" / f"R_bs_8_{variant}_rank0.json.gz", events)
    mini.write(tmp_path / "x-TP-0.trace.json.gz", serve(["k0", "k1"]))
    result = joined(tmp_path)
    assert statuses(result) == ["ambiguous"] * 2
    assert result.rows["dims"].null_count() == 2


def streams_pair(tmp_path: Path, order: list[tuple[str, int]]) -> JoinResult:
    """x, then `side` beside `main` on another stream, then y; twice."""
    launched = ["x", "side", "main", "y"] * 2
    events: list[mini.Event] = [mini.call("hipStreamBeginCapture", 0)]
    for number, name in enumerate(launched):
        at = 10 * (number + 1)
        events += [
            mini.op("aten::mm", at, 8, [[8, number]]),
            mini.call("hipLaunchKernel", at + 2, 2, kernel=name, correlation=number),
        ]
    events.append(mini.call("hipStreamEndCapture", 200))
    mini.write(tmp_path / "capture" / "R_bs_8_rank0.json.gz", events)
    kernels = [mini.kernel(name, 20 + 3 * n, 2, correlation=1, stream=stream) for n, (name, stream) in enumerate(order)]
    steps = [mini.span("step[DECODE bs=8]", 0, 50), mini.call("hipGraphLaunch", 5, 2, correlation=1), *kernels]
    mini.write(tmp_path / "x-TP-0.trace.json.gz", steps)
    return joined(tmp_path)


def test_streams_may_start_their_kernels_in_any_order(tmp_path: Path) -> None:
    order = [("x", 1), ("main", 1), ("side", 2), ("y", 1), ("x", 1), ("side", 2), ("main", 1), ("y", 1)]
    result = streams_pair(tmp_path, order)
    assert statuses(result) == ["aligned"] * 8
    assert result.rows["seq_capture"].to_list() == [0, 2, 1, 3, 4, 5, 6, 7]
    assert sorted(result.streams["stream"]) == [1, 2]


def test_copies_and_fills_are_classes_of_their_own(tmp_path: Path) -> None:
    events: list[mini.Event] = [
        mini.call("cudaStreamBeginCapture", 0),
        mini.op("aten::zero_", 10, 8, [[8]]),
        mini.call("cudaMemsetAsync", 12, 2, correlation=1),
        mini.op("aten::copy_", 20, 8, [[8, 2]]),
        mini.call("cudaMemcpyAsync", 22, 2, correlation=2),
        mini.call("cudaStreamEndCapture", 50),
    ]
    mini.write(tmp_path / "capture" / "R_bs_8_rank0.json.gz", events)
    steps = [
        mini.span("step[DECODE bs=8]", 0, 50),
        mini.call("cudaGraphLaunch", 5, 2, correlation=1),
        mini.kernel("Memset (Device)", 20, 2, correlation=1, cat="gpu_memset"),
        mini.kernel("Memcpy DtoD (Device -> Device)", 23, 2, correlation=1, cat="gpu_memcpy"),
    ]
    mini.write(tmp_path / "x-TP-0.trace.json.gz", steps)
    result = joined(tmp_path)
    assert result.rows.select("op", "status").rows() == [("aten::zero_", "aligned"), ("aten::copy_", "aligned")]


def test_launches_outside_segments_do_not_count(tmp_path: Path) -> None:
    stray = [mini.call("hipLaunchKernel", 2000 + 5 * n, 2, kernel="k1", correlation=900 + n) for n in range(5)]
    mini.write(tmp_path / "capture" / "R_bs_8_rank0.json.gz", [*mini.capture(0, 4, dims=[[8, 64]], name="k{}"), *stray])
    mini.write(tmp_path / "x-TP-0.trace.json.gz", serve(["k0", "k1", "k2", "k3"]))
    assert statuses(joined(tmp_path)) == ["aligned"] * 4


def no_launch(folder: Path) -> None:
    captured(folder, 8)
    eager = [mini.call("hipLaunchKernel", 5, 2, correlation=1), mini.kernel("k0", 9, 2, correlation=1)]
    mini.write(folder / "x-TP-0.trace.json.gz", [mini.span("step[DECODE bs=8]", 0, 50), *eager])


def no_segment(folder: Path) -> None:
    events = [mini.op("aten::mm", 0, 8, [[8, 64]]), mini.call("hipLaunchKernel", 2, 2, kernel="k0", correlation=1)]
    mini.write(folder / "capture" / "R_bs_8_rank0.json.gz", events)
    mini.write(folder / "x-TP-0.trace.json.gz", serve(["k0", "k1"]))


def unknown_dialect(folder: Path) -> None:
    for size in (8, 16):
        captured(folder, size)
    mini.write(folder / "x-TP-0.trace.json.gz", serve(["k0", "k1", "k2", "k3"], step="forward{batch: 8}"))


def other_model(folder: Path) -> None:
    captured(folder, 8, launches=8)
    mini.write(folder / "x-TP-0.trace.json.gz", serve([f"other_{n}" for n in range(7)] + ["k3"]))


def other_rank(folder: Path) -> None:
    captured(folder, 8, **mini.world(0, 2))
    mini.write(folder / "x-TP-1.trace.json.gz", serve(["k0", "k1", "k2", "k3"]), **mini.world(1, 2))


def other_size(folder: Path) -> None:
    captured(folder, 8)
    mini.write(folder / "x-TP-0.trace.json.gz", serve(["k0", "k1", "k2", "k3"], step="step[DECODE bs=100]"))


def no_kernels(folder: Path) -> None:
    captured(folder, 8)
    mini.write(folder / "x-TP-0.trace.json.gz", serve([]))


@pytest.mark.parametrize(
    ("build", "code", "kernels"),
    [
        (no_launch, "no-graph-launch", 0),
        (no_segment, "no-capture", 2),
        (unknown_dialect, "size-unknown", 4),
        (other_model, "graphs-differ", 8),
        (other_rank, "rank-missing", 4),
        (other_size, "not-captured", 4),
        (no_kernels, "kernels-missing", 0),
    ],
)
def test_what_cannot_be_joined_is_said_and_the_rest_is_shown(
    tmp_path: Path, build: Callable[[Path], None], code: str, kernels: int
) -> None:
    build(tmp_path)
    result = joined(tmp_path)
    assert code in codes(result)
    assert result.partial
    assert result.summary["kernels"] == kernels
    assert result.summary["attributed"] == 0
    assert result.rows["dims"].null_count() == result.rows.height
    assert result.summary["time_ns"] == kernels * 2000


def test_without_a_span_a_lone_capture_is_joined_and_the_doubt_said(tmp_path: Path) -> None:
    captured(tmp_path, 8)
    mini.write(tmp_path / "x-TP-0.trace.json.gz", serve(["k0", "k1", "k2", "k3"], step=None))
    result = joined(tmp_path)
    assert statuses(result) == ["aligned"] * 4
    assert "size-unknown" in codes(result)


def test_replays_asked_for_are_the_ones_joined(tmp_path: Path) -> None:
    captured(tmp_path / "run", 8)
    names = ["k0", "k1", "k2", "k3"]
    mini.write(tmp_path / "run" / "inside-TP-0.trace.json.gz", serve(names))
    outside = mini.write(tmp_path / "outside-TP-0.trace.json.gz", serve(names))
    assert set(joined(tmp_path / "run").rows["replay_file"]) == {"inside-TP-0.trace.json.gz"}
    assert set(joined(tmp_path / "run", outside).rows["replay_file"]) == {outside.as_posix()}
    inside = tmp_path / "run" / "inside-TP-0.trace.json.gz"
    assert set(joined(tmp_path / "run", inside).rows["replay_file"]) == {"inside-TP-0.trace.json.gz"}


def test_the_table_is_that_of_the_interface(tmp_path: Path) -> None:
    captured(tmp_path, 8)
    mini.write(tmp_path / "x-TP-0.trace.json.gz", serve(["k0", "k1", "k2", "k3"]))
    result = tables.join(open_run(tmp_path))
    assert result.columns == tuple(JOIN)
    assert result.rows[0]["dims"] == [[8, 64]] and result.rows[0]["grid"] == [8, 1, 1]
    assert result.streams is not None and result.streams[0]["file"] == "x-TP-0.trace.json.gz"


def command(capfd: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, dict[str, Any], str]:
    with pytest.raises(SystemExit) as stopped:
        main([str(argument) for argument in arguments])
    out, err = capfd.readouterr()
    return int(stopped.value.code or 0), json.loads(out or "{}"), err


def test_the_command_takes_replays_after_one_another(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    captured(tmp_path / "run", 8)
    names = ["k0", "k1", "k2", "k3"]
    first, second = (mini.write(tmp_path / f"{word}-TP-0.trace.json", serve(names)) for word in ("first", "second"))
    code, result, _ = command(capfd, "join", tmp_path / "run", "--replay", first, second, "--format", "json")
    assert code == 0
    assert [row["replay_file"] for row in result["rows"][::4]] == [first.as_posix(), second.as_posix()]
    assert result["summary"]["aligned"] == result["summary"]["kernels"] == 8


def test_the_command_exits_3_where_it_could_not_answer(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    unknown_dialect(tmp_path)
    code, result, _ = command(capfd, "join", tmp_path, "--format", "json")
    assert (code, result["partial"], len(result["rows"])) == (3, True, 4)
    assert command(capfd, "join", tmp_path, "--replay", tmp_path / "nothing.json")[0] == 3
    code, _, err = command(capfd, "join", tmp_path, tmp_path / "x-TP-0.trace.json.gz")
    assert code == 2 and "--replay" in err
