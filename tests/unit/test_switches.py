"""Case 16: kernel choice across batch sizes, from folders of captures and replays to the JSON of the command."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mini
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_analyses import codes, command

from shapescope.analyse.patterns import dims_patterns
from shapescope.model import Evidence, GraphKey, Rank, Timing, TraceIdentity, to_plain
from shapescope.store.spans import Mark, span_name

G1 = "Cijk_Ailk_Bljk_BBS_BH_MT64x64x32_MI16x16x1_SN_1LDSB0"
G1_TILE = "Cijk_Ailk_Bljk_BBS_BH_MT128x64x32_MI16x16x1_SN_1LDSB0"
G2 = "void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_16x16_128x2_tn_align8>(T)"
Launch = tuple[str, Any, str, float]
"""An op, its dims, the kernel that it launches, and how long that takes (us)."""


def case_16(size: int) -> list[Launch]:
    launches: list[Launch] = []
    if size >= 64:
        times = {64: 20, 72: 21, 80: 22, 88: 23, 96: 52, 104: 25}
        launches.append(("aten::mm", [[size, 4096], [4096, 4096]], G2 if size == 96 else G1, times[size]))
    version = 1 if size <= 32 else 2
    launches.append(
        ("vllm::attention", [[size, 32, 128], [size, 8, 128]], f"paged_attention_v{version}_kernel", 10 + size * 0.3)
    )
    number = f"triton_red_fused_add_rms_norm_{size // 8 % 7}"
    launches.append(("CompiledFunction", [[size, 4096]], number, 5))
    if size != 72:
        launches.append(("aten::silu", [[size, 4096]], "vectorized_silu_kernel", 3))
    return launches


def folder_of(folder: Path, launches: dict[int, list[Launch]], *, replays: int = 3) -> Path:
    """ROCm-like captures of each size, and a serving trace in which each is replayed a few times."""
    serving: list[mini.Event] = []
    for size, given_launches in launches.items():
        capture = [mini.call("hipStreamBeginCapture", 0)]
        for n, (op, dims, kernel, _) in enumerate(given_launches):
            at = 10 * (n + 1)
            capture.append(mini.op(op, at, 8, dims))
            capture.append(
                mini.call("hipLaunchKernel", at + 2, 2, kernel=kernel, grid=[8, 1, 1], block=[256, 1, 1], correlation=n)
            )
        capture.append(mini.call("hipStreamEndCapture", 10 * len(given_launches) + 10))
        mini.write(folder / f"DecodeCudaGraphRunner_bs_{size}_rank0.json.gz", capture)
    for number, size in enumerate([size for _ in range(replays) for size in launches]):
        at, start = 2000 * number, 2000 * number + 60.0
        serving += [
            mini.span(f"step[DECODE bs={size}]", at, 50),
            mini.call("hipGraphLaunch", at + 1, 2, correlation=number),
        ]
        for _, _, kernel, length in launches[size]:
            serving.append(mini.kernel(kernel, start, length, correlation=number))
            start += length + 1
    if replays:
        mini.write(folder / "serving.json.gz", serving)
    return folder


def gemms(times: dict[int, tuple[str, float]]) -> dict[int, list[Launch]]:
    """One product at each size: its kernel and time."""
    return {size: [("aten::mm", [[size, 64], [64, 64]], kernel, time)] for size, (kernel, time) in times.items()}


def kinds(result: dict[str, Any]) -> list[tuple[str, str, int | None, int]]:
    return [(row["kind"], row["op"], row["size_from"], row["size_to"]) for row in result["rows"]]


def test_case_16_one_cliff_one_step_and_nothing_for_the_norm(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, result = command(capsys, "switches", folder_of(tmp_path, {n: case_16(n) for n in range(8, 112, 8)}))
    assert code == 0
    assert sorted(kinds(result)) == [
        ("absent", "aten::silu", 64, 72),
        ("cliff", "aten::mm", 88, 96),
        ("step", "vllm::attention", 32, 40),
    ]
    cliff, step = result["rows"][0], next(row for row in result["rows"] if row["kind"] == "step")
    assert cliff["time_ratio"] == pytest.approx(52 / 24)
    assert (cliff["dims_pattern"], cliff["class"]) == ("[[N,4096],[4096,4096]]", "gemm")
    assert (cliff["family_from"], cliff["family_to"]) == ("Cijk_Ailk_Bljk_BBS", "cutlass_gemm_bf16")
    assert (cliff["cost_ns"], cliff["source"]) == (28_000, "trace")
    assert (step["family_from"], step["family_to"]) == ("paged_attention_v1", "paged_attention_v2")
    assert step["time_ratio"] == pytest.approx(1.0)


def test_a_single_size_that_is_no_slower_is_an_island_and_so_is_a_stretch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    faster = gemms({8: (G1, 20), 16: (G1, 20), 24: (G2, 15), 32: (G1, 20)})
    _, result = command(capsys, "switches", folder_of(tmp_path / "one", faster))
    assert kinds(result) == [("island", "aten::mm", 16, 24)]
    assert result["rows"][0]["time_ratio"] == pytest.approx(0.75)
    stretch = gemms({8: (G1, 20), 16: (G2, 40), 24: (G2, 44), 32: (G1, 22)})
    _, result = command(capsys, "switches", folder_of(tmp_path / "two", stretch))
    assert kinds(result) == [("island", "aten::mm", 8, 16)]
    assert result["rows"][0]["time_ratio"] == pytest.approx(2.0)


def test_a_generic_kernel_is_a_fallback(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    times = gemms({8: (G1, 20), 16: (G1, 20), 24: ("gemm_fallback_kernel", 90), 32: ("gemm_fallback_kernel", 95)})
    _, result = command(capsys, "switches", folder_of(tmp_path, times))
    assert kinds(result) == [("fallback", "aten::mm", 16, 24)]


def test_tiles_are_shown_only_where_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = folder_of(tmp_path, gemms({8: (G1, 20), 16: (G1_TILE, 21), 24: (G1_TILE, 22)}))
    assert command(capsys, "switches", run)[1]["rows"] == []
    assert kinds(command(capsys, "switches", run, "--tiles")[1]) == [("tile", "aten::mm", 8, 16)]


def test_captures_alone_show_changes_without_a_ratio(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = folder_of(tmp_path, {n: case_16(n) for n in range(64, 112, 8)}, replays=0)
    code, result = command(capsys, "switches", run)
    assert code == 0 and "no-times" in codes(result)
    assert kinds(result) == [("island", "aten::mm", 88, 96), ("absent", "aten::silu", 64, 72)]
    assert (result["rows"][0]["time_ratio"], result["rows"][0]["source"]) == (None, None)


def test_one_size_is_said_to_be_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, result = command(capsys, "switches", folder_of(tmp_path, {64: case_16(64)}))
    assert (code, codes(result), result["rows"]) == (3, ["one-size"], [])
    assert result["summary"]["ops"] == 4


def measured_run(folder: Path, op: str, kernels: tuple[str, str], *, dummy: bool) -> Path:
    """The recorder's own replays of one op on a device: the second kernel, and slow, at 24; the first elsewhere."""
    launches: dict[int, list[Launch]] = {
        size: [(op, [[size, 64]], kernels[size == 24], 52 if size == 24 else 20)] for size in (8, 16, 24, 32)
    }
    folder_of(folder, launches, replays=0)
    for size, ((_, _, kernel, length),) in launches.items():
        key = GraphKey.of("DecodeCudaGraphRunner", size)
        identity = TraceIdentity(key, Rank(), Evidence.REPLAY, timing=Timing((9, 9, 9), 1, dummy_inputs=dummy))
        events = [
            event
            for n in range(3)
            for event in (
                mini.span(span_name(Mark.REPLAY, key), 200 * n, 100),
                *mini.replay(200 * n + 1, [kernel], correlation=n, dur=length),
            )
        ]
        name = f"DecodeCudaGraphRunner_bs_{size}_rank0.replay.json"
        mini.write(folder / name, events, shapescope=to_plain(identity))
    return folder


ATTENTION = ("paged_attention_v1_kernel", "paged_attention_v2_kernel")


@pytest.mark.parametrize(
    ("op", "kernels", "dummy", "kind", "ratio"),
    [
        ("vllm::attention", ATTENTION, True, "island", None),
        ("vllm::attention", ATTENTION, False, "cliff", 2.6),
        ("aten::mm", (G1, G2), True, "cliff", 2.6),
    ],
)
def test_dummy_replays_call_no_cliff_of_attention(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    op: str,
    kernels: tuple[str, str],
    dummy: bool,
    kind: str,
    ratio: float | None,
) -> None:
    _, result = command(capsys, "switches", measured_run(tmp_path, op, kernels, dummy=dummy))
    (row,) = result["rows"]
    assert (row["kind"], row["size_to"], row["time_ratio"]) == (kind, 24, ratio)
    assert row["source"] == ("replay-dummy" if dummy else "replay")
    assert ("dummy-inputs" in codes(result)) is (ratio is None)


sizes = st.lists(st.integers(1, 4096), min_size=2, max_size=8, unique=True)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(sizes, st.integers(1, 64), st.integers(1, 16384))
def test_dims_that_grow_with_the_size_are_one_pattern(given: Sequence[int], multiple: int, constant: int) -> None:
    calls = [("mm", size, f"[[{multiple * size},{constant}],[]]") for size in given]
    patterns = set(dims_patterns(calls).values())
    word = "N" if multiple == 1 else f"{multiple}N"
    assert patterns == {f"[[{word},{constant}],[]]"}


def test_a_number_that_is_neither_is_left_open() -> None:
    calls = [("pad", 8, "[[17]]"), ("pad", 16, "[[40]]")]
    assert set(dims_patterns(calls).values()) == {"[[*]]"}
    assert dims_patterns([("mm", 8, "[[8,64]]")]) == {("mm", 8, "[[8,64]]"): "[[N,64]]"}
