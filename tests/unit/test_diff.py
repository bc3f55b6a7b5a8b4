"""Run against run: noise, renamed and replaced kernels, thin and damaged shapes, other environments, rules."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import mini
import numpy as np
import pytest
from test_analyses import codes, command

from shapescope.analyse import spread
from shapescope.analyse.diff import Rule
from shapescope.errors import UsageError
from shapescope.model import (
    Evidence,
    GraphKey,
    ManifestRow,
    Rank,
    RunManifest,
    Status,
    Timing,
    TraceIdentity,
    to_plain,
)
from shapescope.store.manifest import ManifestWriter, write_run
from shapescope.store.spans import Mark, span_name

ENVIRONMENT = {
    "device_name": "cpu",
    "threads": 1,
    "packages": {"torch": "2.13.0"},
    "variables": {"OMP_NUM_THREADS": "1"},
}
OPS = ("mm", "norm", "silu", "add", "rope", "softmax", "embedding", "copy_")
Times = Mapping[int, Sequence[Mapping[str, float]]]
"""By size, the replays: by op, its time in us."""


def run_of(
    folder: Path,
    times: Times,
    *,
    environment: Mapping[str, Any] = ENVIRONMENT,
    kernels: Mapping[str, str] | None = None,
) -> Path:
    """A recorded run whose replay windows hold each replay in a span of its own, as ours on a CPU do."""
    write_run(folder, RunManifest("r", "2026-01-01T00:00:00+00:00", "toy", None, (), environment=environment))
    for size, replays in times.items():
        key = GraphKey.of("DecodeRunner", size)
        identity = TraceIdentity(
            key, Rank(), Evidence.REPLAY, timing=Timing((1000, 1000, 1000), 1024, dummy_inputs=False)
        )
        events, at = [], 0.0
        for ops in replays:
            begin = at
            for name, length in ops.items():
                shown = (kernels or {}).get(name, f"aten::{name}")
                events.append(mini.op(shown, at, length, [[size, 64], [64, 64]]))
                at += length + 1
            events.append(mini.span(span_name(Mark.REPLAY, key), begin - 0.5, at - begin))
            at += 50
        mini.write(
            folder / "graph_capture_profile" / f"DecodeRunner_bs_{size}_rank0.replay.json",
            events,
            shapescope=to_plain(identity),
        )
    return folder


def steady(size: int, replays: int = 5, **slower: float) -> list[dict[str, float]]:
    return [{name: (10.0 + size) * slower.get(name, 1.0) for name in OPS} for _ in range(replays)]


def noisy(seed: int, size: int, replays: int = 20, **slower: float) -> list[dict[str, float]]:
    """Interference on every third op or so, up to threefold, and a machine that is a few percent off as a whole."""
    draw = random.Random(seed)
    machine = draw.uniform(0.95, 1.1)
    return [
        {
            name: 50.0
            * machine
            * slower.get(name, 1.0)
            * draw.uniform(1, 1.04)
            * (draw.uniform(1, 3) if draw.random() < 0.3 else 1)
            for name in OPS
        }
        for _ in range(replays)
    ]


def verdicts(result: dict[str, Any]) -> set[str]:
    return {row["verdict"] for row in result["rows"]}


def changed(result: dict[str, Any]) -> list[tuple[int, str, str]]:
    return [(row["size"], row["op"], row["verdict"]) for row in result["rows"] if row["verdict"] != "same"]


def test_a_run_against_itself_gives_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = run_of(tmp_path, {8: noisy(1, 8), 16: noisy(2, 16, replays=1)})
    code, result = command(capsys, "diff", run, run, "--fail-on", "time>1%", "--fail-on", "switch")
    assert code == 0 and verdicts(result) == {"same"} and result["warnings"] == []


def test_one_slower_op_is_named_and_fails_the_rule(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = run_of(tmp_path / "base", {8: steady(8), 16: steady(16)})
    head = run_of(tmp_path / "head", {8: steady(8), 16: steady(16, mm=1.6)})
    code, result = command(capsys, "diff", base, head, "--fail-on", "time>20%")
    assert code == 1
    assert changed(result) == [(16, "aten::mm", "slower")]
    row = result["rows"][0]
    assert (row["base_ns"], row["head_ns"], row["n_base"], row["n_head"]) == (26_000, 41_600, 5, 5)
    assert row["ratio"] == pytest.approx(1.6)
    (failed,) = (warning for warning in result["warnings"] if warning["code"] == "rule-failed")
    assert "16" in failed["message"] and "aten::mm" in failed["message"]
    assert command(capsys, "diff", base, head, "--fail-on", "time>70%")[0] == 0
    assert changed(command(capsys, "diff", head, base, "--fail-on", "time>20%")[1]) == [(16, "aten::mm", "faster")]


@pytest.mark.parametrize("seed", range(10))
def test_noise_is_no_change_and_hides_none(tmp_path: Path, capsys: pytest.CaptureFixture[str], seed: int) -> None:
    base = run_of(tmp_path / "base", {8: noisy(4 * seed, 8), 16: noisy(4 * seed + 1, 16)})
    again = run_of(tmp_path / "again", {8: noisy(4 * seed + 2, 8), 16: noisy(4 * seed + 3, 16)})
    slower = run_of(tmp_path / "slower", {8: noisy(4 * seed + 2, 8), 16: noisy(4 * seed + 3, 16, mm=1.6)})
    code, same = command(capsys, "diff", base, again, "--fail-on", "time>20%")
    assert (code, changed(same)) == (0, [])
    code, found = command(capsys, "diff", base, slower, "--fail-on", "time>20%")
    assert (code, changed(found)) == (1, [(16, "aten::mm", "slower")])


def test_on_a_cpu_a_change_within_what_its_runs_differ_by_is_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = run_of(tmp_path / "base", {16: steady(16)})
    code, found = command(
        capsys, "diff", base, run_of(tmp_path / "a", {16: steady(16, mm=1.25)}), "--fail-on", "time>5%"
    )
    assert (code, changed(found)) == (0, [])
    assert {row["op"]: row["reason"] for row in found["rows"]}["aten::mm"] == "within what these replays vary (±30%)"
    code, found = command(
        capsys, "diff", base, run_of(tmp_path / "b", {16: steady(16, mm=1.35)}), "--fail-on", "time>5%"
    )
    assert (code, changed(found)) == (1, [(16, "aten::mm", "slower")])


def test_an_op_of_many_dims_is_one_vote_on_what_all_have_in_common() -> None:
    def pair(ratio: float) -> spread.Pair:
        base, head = (spread.Times(np.full((5, 1), round(10_000 * of), dtype=np.int64)) for of in (1.0, ratio))
        return spread.Pair(base, head)

    products, others = [pair(1.6)] * 12, [[pair(1.1)] for _ in range(6)]
    shared = spread.common([products, *others], bound=math.log(1.35))
    assert shared.drift == pytest.approx(math.log(1.1))
    assert shared.noise == 0.0
    assert shared.exceeded_by(products[0], math.log(1.3))
    assert not any(shared.exceeded_by(pair, math.log(1.05)) for (pair,) in others)


def test_few_replays_are_unsure_with_the_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = run_of(tmp_path / "base", {8: steady(8), 16: steady(16)})
    head = run_of(tmp_path / "head", {8: steady(8), 16: steady(16, 1, mm=1.6)})
    code, result = command(capsys, "diff", base, head, "--fail-on", "time>20%")
    assert code == 3 and result["partial"]
    unsure = [row for row in result["rows"] if row["verdict"] == "unsure"]
    assert {row["size"] for row in unsure} == {16} and len(unsure) == len(OPS)
    assert all("1 replay," in row["reason"] for row in unsure)
    (slow,) = (row for row in unsure if row["op"] == "aten::mm")
    assert slow["ratio"] == pytest.approx(1.6)


def test_shapes_whose_replays_are_mostly_incomplete_are_unsure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = run_of(tmp_path / "base", {8: steady(8)})
    torn = {"mm": 18.0, "norm": 18.0}
    one = run_of(tmp_path / "one", {8: [*steady(8), torn]})
    assert changed(command(capsys, "diff", base, one)[1]) == []
    thin = run_of(tmp_path / "thin", {8: [*steady(8, 3, mm=1.6), torn, torn, torn, torn]})
    code, result = command(capsys, "diff", base, thin, "--fail-on", "time>5%")
    assert code == 3 and "unsure" in verdicts(result)
    assert "in the head 4 of 7 replays are incomplete" in {row["reason"] for row in result["rows"]}


def test_other_environments_are_named_and_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = run_of(tmp_path / "base", {8: steady(8)})
    other = {**ENVIRONMENT, "packages": {"torch": "2.14.0"}, "host": "elsewhere"}
    head = run_of(tmp_path / "head", {8: steady(8, mm=1.6)}, environment=other)
    code, result = command(capsys, "diff", base, head, "--fail-on", "time>20%")
    assert code == 4
    assert result["summary"]["environment"] == [{"field": "package:torch", "base": "2.13.0", "head": "2.14.0"}]
    assert "environment-changed" in codes(result)
    code, _ = command(capsys, "diff", base, head, "--fail-on", "time>20%", "--allow-env-change")
    assert code == 1
    thin = run_of(tmp_path / "thin", {8: steady(8, 1, mm=1.6)}, environment=other)
    assert command(capsys, "diff", base, thin)[0] == 4
    assert command(capsys, "diff", base, thin, "--allow-env-change")[0] == 3


def test_sizes_of_one_run_alone_are_one_row_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = run_of(tmp_path / "base", {8: steady(8), 16: steady(16)})
    head = run_of(tmp_path / "head", {8: steady(8), 32: steady(32)})
    code, result = command(capsys, "diff", base, head)
    assert code == 0 and "sizes-differ" in codes(result)
    assert sorted(changed(result)) == [(16, None, "removed"), (32, None, "added")]


def test_runs_without_a_common_size_are_said_to_be_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, result = command(
        capsys, "diff", run_of(tmp_path / "a", {8: steady(8)}), run_of(tmp_path / "b", {16: steady(16)})
    )
    assert code == 3 and "no-common-shape" in codes(result)


# Device replays: kernels have names, and a rename is no change.


def replays_of(
    folder: Path,
    names: Sequence[str],
    *,
    lengths: Mapping[str, float] | None = None,
    count: int = 4,
    step: str = "step[DECODE bs=8]",
) -> Path:
    """Steps at size 8 whose graph launches run these kernels, 10 us each unless said otherwise."""
    events: list[mini.Event] = []
    for number in range(count):
        at = 1000 * number
        events.append(mini.span(step, at, 50))
        events.append(mini.call("cudaGraphLaunch", at + 1, 2, correlation=number))
        for n, name in enumerate(names):
            length = (lengths or {}).get(name, 10)
            events.append(mini.kernel(name, at + 60 + 50 * n, length, correlation=number))
    mini.write(folder / "serving.json", events)
    return folder


GEMM = "nvjet_tst_128x64_64x8_2x1_v_bz_TNT"
OTHER_GEMM = "void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_16x16_128x2_tn_align8>(T)"


def test_a_renumbered_kernel_is_the_same_and_another_one_replaces_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = replays_of(tmp_path / "base", [GEMM, "triton_red_fused_add_rsqrt_3"])
    renamed = replays_of(tmp_path / "renamed", ["nvjet_tst_64x64_64x8_2x1_v_bz_TNT", "triton_red_fused_add_rsqrt_17"])
    code, result = command(capsys, "diff", base, renamed, "--fail-on", "switch", "--fail-on", "time>5%")
    assert (code, verdicts(result)) == (0, {"same"})
    other = replays_of(tmp_path / "other", [OTHER_GEMM, "triton_red_fused_add_rsqrt_3"], lengths={OTHER_GEMM: 16})
    code, result = command(capsys, "diff", base, other, "--fail-on", "switch")
    assert code == 1
    (row,) = (row for row in result["rows"] if row["verdict"] != "same")
    assert (row["verdict"], row["class"], row["family_base"]) == ("replaced", "gemm", "nvjet_tst")
    assert row["ratio"] == pytest.approx(1.6) and row["reason"].startswith("slower: ")
    assert command(capsys, "diff", base, other, "--fail-on", "time>20%")[0] == 1
    assert command(capsys, "diff", base, other, "--fail-on", "time>80%")[0] == 0


def test_engines_are_compared_by_class(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = replays_of(tmp_path / "base", [GEMM, GEMM, "rms_norm_kernel"])
    head = replays_of(tmp_path / "head", [OTHER_GEMM, "layer_norm_kernel"], lengths={OTHER_GEMM: 20})
    code, result = command(capsys, "diff", base, head, "--by", "class")
    assert code == 0
    rows = {row["op"]: (row["base_ns"], row["head_ns"], row["ratio"]) for row in result["rows"]}
    assert rows == {"gemm": (20_000, 20_000, 1.0), "norm": (10_000, 10_000, 1.0)}


def test_engines_that_name_their_runners_otherwise_meet_by_size(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, step in (("sglang", "step[DECODE bs=8]"), ("vllm", "execute_context_0(0)_generation_8(8)")):
        run = replays_of(tmp_path / name, [GEMM, "rms_norm_kernel"], step=step)
        file = "DecodeCudaGraphRunner_bs_8_rank0.json" if name == "sglang" else "capture_tokens_8_rank0.json"
        mini.write(run / file, mini.capture(10, 2, dims=[[8, 64]]))
    both = (tmp_path / "sglang", tmp_path / "vllm")
    code, result = command(capsys, "diff", *both, "--by", "class")
    assert code == 0 and verdicts(result) == {"same"}
    assert [warning["code"] for warning in result["warnings"]].count("runners-differ") == 1
    code, result = command(capsys, "diff", *both)
    assert code == 3 and "no-common-shape" in codes(result)


def test_kernels_known_from_captures_alone_are_compared_by_family(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, gemm in (("base", GEMM), ("head", OTHER_GEMM)):
        events = mini.capture(10, 2, dims=[[8, 64]], name=gemm.replace("{", "{{").replace("}", "}}"))
        mini.write(tmp_path / name / "bs_8_rank0.json", events)
    code, result = command(capsys, "diff", tmp_path / "base", tmp_path / "head", "--fail-on", "switch")
    assert code == 1
    assert changed(result) == [(8, "aten::mm", "replaced")]
    assert result["rows"][0]["base_ns"] is None
    assert command(capsys, "diff", tmp_path / "base", tmp_path / "base")[1]["rows"][0]["verdict"] == "same"


@pytest.mark.parametrize("text", ["time", "time>", "time>x%", "time>5", "time<5%", "time>-5%", "time>inf%", "switches"])
def test_unknown_rules_are_usage_errors(text: str) -> None:
    with pytest.raises(UsageError):
        Rule.parse(text)


def test_rules_are_read() -> None:
    assert [Rule.parse(text).slower_than for text in ("time>5%", " time > 2.5% ", "switch")] == [0.05, 0.025, None]


def with_samples(folder: Path, samples: tuple[int, ...], **slower: float) -> Path:
    """A recorded run at size 8 with these unprofiled replays (ns) in its manifest."""
    run_of(folder, {8: steady(8, **slower)})
    key = GraphKey.of("DecodeRunner", 8)
    timing = Timing(samples, 1024, dummy_inputs=False)
    row = ManifestRow(key, Rank(), Evidence.REPLAY, 0, Status.OK, timing=timing)
    ManifestWriter(folder, Rank(), "host", 1).append(row)
    return folder


def test_whole_replays_are_compared_by_their_unprofiled_times(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = with_samples(tmp_path / "base", (1000, 1010, 1020, 1030, 1040))
    slower = with_samples(tmp_path / "slower", (1600, 1610, 1620, 1630, 1640))
    code, result = command(capsys, "diff", base, slower, "--fail-on", "time>20%")
    (shape,) = result["summary"]["shapes"]
    assert code == 1 and changed(result) == []
    assert (shape["verdict"], shape["base_ns"], shape["head_ns"]) == ("slower", 1020, 1620)
    assert "the whole replay took 1.59 times as long" in result["warnings"][-1]["message"]
    loud = with_samples(tmp_path / "loud", (1000, 1600, 2000, 2600, 4000))
    code, result = command(capsys, "diff", base, loud, "--fail-on", "time>20%")
    (shape,) = result["summary"]["shapes"]
    assert (code, shape["verdict"]) == (0, "same") and "within what these replays vary" in shape["reason"]


def test_a_whole_replay_is_not_slower_where_the_machine_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = with_samples(tmp_path / "base", (1000, 1010, 1020, 1030, 1040))
    later = with_samples(tmp_path / "later", (1600, 1610, 1620, 1630, 1640), **dict.fromkeys(OPS, 1.3))
    code, result = command(capsys, "diff", base, later, "--fail-on", "time>20%")
    assert (code, changed(result), result["summary"]["shapes"][0]["verdict"]) == (0, [], "same")
    assert "drift" in codes(result)
