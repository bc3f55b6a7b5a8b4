"""Cases 13, 16, 18 and 19 as a user meets them: folders of traces in, the JSON of a command out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mini
import pytest

from shapescope.cli import main

BASE = 10**18


def command(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, dict[str, Any]]:
    """Run one command with `--format json`: its exit code and its result."""
    with pytest.raises(SystemExit) as left:
        main([*map(str, arguments), "--format", "json"])
    return int(left.value.code or 0), json.loads(capsys.readouterr().out)


def codes(result: dict[str, Any]) -> list[str]:
    return [warning["code"] for warning in result["warnings"]]


# Case 13: ranks.

ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def case_13(folder: Path, *, second_base: int | None = BASE + 2_500_000, long_at: int | None = None) -> Path:
    """20 all-reduces, us: rank 0 enters at 5000 + 1000k for 132, rank 1 112 later for 20; the first spins 15 s."""
    for rank, base in ((0, BASE), (1, second_base)):
        events = []
        for k in range(20):
            start, length = (5000 + 1000 * k, 132.0) if rank == 0 else (2612 + 1000 * k, 20.0)
            if k == long_at:
                length += 15_000_000
            if k == 0 and rank == 0:
                start, length = start - 15_000_000, length + 15_000_000.5
            events.append(mini.kernel(ALL_REDUCE, start, length, correlation=k))
        known = {} if base is None else {"baseTimeNanoseconds": base}
        mini.write(folder / f"rank{rank}.json", events, **mini.world(rank, 2), **known)
    return folder


def test_case_13_the_straggler_its_skew_and_the_transient(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, result = command(capsys, "ranks", case_13(tmp_path))
    assert code == 0 and not result["partial"]
    rows = {row["kind"]: row for row in result["rows"] if row["kind"] != "rank"}
    assert set(rows) == {"start-up", "late"}
    late = rows["late"]
    assert (late["rank"], late["slow_ranks"], late["collectives"]) == (1, [1], 19)
    assert (late["skew_ns"], late["wait_ns"], late["transfer_ns"]) == (112_000, 112_000, 20_000)
    assert (rows["start-up"]["rank"], rows["start-up"]["collectives"]) == (1, 1)
    assert [row["rank"] for row in result["rows"] if row["kind"] == "rank"] == [0, 1]


def test_case_13_a_long_collective_in_mid_run_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, result = command(capsys, "ranks", case_13(tmp_path, long_at=9))
    (late,) = (row for row in result["rows"] if row["kind"] == "late")
    assert (late["collectives"], late["skew_ns"]) == (19, 112_000)


def test_case_13_without_a_base_ranks_are_not_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, result = command(capsys, "ranks", case_13(tmp_path, second_base=None))
    assert code == 3 and result["partial"]
    assert codes(result) == ["no-clock-base"]
    assert [(row["kind"], row["rank"], row["collectives"]) for row in result["rows"]] == [
        ("rank", 0, 20),
        ("rank", 1, 20),
    ]


def test_a_missing_rank_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case_13(tmp_path)
    (tmp_path / "rank1.json").unlink()
    code, result = command(capsys, "ranks", tmp_path)
    assert code == 3
    assert codes(result) == ["rank-missing", "one-rank"]
    assert [row["collectives"] for row in result["rows"]] == [20]


# Case 18: coverage.

CAPTURED = (1, 2, 4, 8, 16, 24, 32, 40)


def captures(folder: Path, *, tokens: bool = False) -> Path:
    for size in CAPTURED:
        name = f"DecodeCudaGraphRunner_{'tokens' if tokens else 'bs'}_{size}_rank0.json.gz"
        mini.write(folder / name, mini.capture(10, 3, dims=[[size, 64], [64, 64]]))
    return folder


def serving(path: Path, steps: list[tuple[str | None, bool]]) -> Path:
    """Steps 100 us apart, each a graph launch with three kernels, or three ordinary launches."""
    events: list[mini.Event] = []
    for number, (text, eager) in enumerate(steps):
        at, correlation = 100 * number, 10 * number
        if text is not None:
            events.append(mini.span(text, at, 50))
        if eager:
            for n in range(3):
                events.append(mini.call("hipLaunchKernel", at + 3 * n + 1, 1, correlation=correlation + n))
                events.append(mini.kernel(f"gemm_{n}", at + 20 + 3 * n, 2, correlation=correlation + n))
        else:
            names = [f"gemm_{n}" for n in range(3)]
            events += mini.replay(at + 1, names, correlation=correlation, start=at + 20)
    return mini.write(path, events)


def case_18(spelling: str = "step[DECODE bs={}]") -> list[tuple[str | None, bool]]:
    traffic = [(42, 100, True), (5, 50, False), (9, 50, False), (32, 200, False)]
    return [(spelling.format(size), eager) for size, count, eager in traffic for _ in range(count)]


@pytest.mark.parametrize(
    "spelling", ["step[DECODE bs={}]", "execute_context_0(0)_generation_{0}({0})", "decode[bs={0} tok={0} d={0}]"]
)
def test_case_18_figures_and_order(tmp_path: Path, capsys: pytest.CaptureFixture[str], spelling: str) -> None:
    run = captures(tmp_path / "run")
    traffic = serving(tmp_path / "serving.json", case_18(spelling))
    code, result = command(capsys, "coverage", run, "--traffic", traffic)
    summary = result["summary"]
    assert code == 0
    assert (summary["steps"], summary["eager_steps"], summary["eager_share"]) == (400, 100, 0.25)
    assert (summary["padded_slots"], summary["slots"]) == (500, 7600)
    assert round(summary["padding_share"], 3) == 0.066
    assert [add["size"] for add in summary["additions"]] == [42, 9, 5]
    padding = {row["real_size"]: row["padding"] for row in result["rows"] if row["kind"] == "step"}
    assert padding == {42: None, 5: 0.375, 9: 0.4375, 32: 0.0}
    assert [row["size"] for row in result["rows"] if row["kind"] == "add"] == [42, 9, 5]
    assert codes(result) == ["above-largest-size"]


def test_case_18_speculative_decoding_counts_tokens(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = captures(tmp_path / "run", tokens=True)
    traffic = serving(tmp_path / "serving.json", [("execute_context_0(0)_generation_6(42)", True)] * 30)
    code, result = command(capsys, "coverage", run, "--traffic", traffic)
    assert (code, result["summary"]["unit"], result["summary"]["eager_share"]) == (0, "tokens", 1.0)
    assert [add["size"] for add in result["summary"]["additions"]] == [42]


def test_case_18_unknown_sizes_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    traffic = serving(tmp_path / "serving.json", [(None, False)] * 300)
    code, result = command(capsys, "coverage", captures(tmp_path / "run"), "--traffic", traffic)
    assert code == 3 and codes(result) == ["real-size-unknown"]
    assert result["summary"]["padding_share"] is None and result["summary"]["steps"] == 300


def test_coverage_without_traffic_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, result = command(capsys, "coverage", captures(tmp_path))
    assert code == 3 and codes(result) == ["no-data"]
