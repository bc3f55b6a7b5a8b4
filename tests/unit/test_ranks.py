"""Case 13: ranks on different clock bases, and the profiler-start transient."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from shapescope.analyse.ranks import SCHEMA, RanksResult, ranks

BASE = 10**18
FRAME = {
    "rank": pl.Int64, "base_ns": pl.Int64, "start_ns": pl.Int64, "dur_ns": pl.Int64, "op": pl.String,
    "size": pl.Int64, "opened_ns": pl.Int64,
}  # fmt: skip


def case_13(second_base: int | None = BASE + 2_500_000, long_at: int | None = None) -> pl.DataFrame:
    """20 all-reduces, us: rank 0 enters at 5000 + 1000k for 132, rank 1 112 later; the first spins 15 s."""
    rows = []
    for k in range(20):
        first, second, length = (5000 + 1000 * k) * 1000, (2612 + 1000 * k) * 1000, 20_000
        if k == long_at:
            length += 15_000_000_000
        waited = 112_000 + length
        if k == 0:
            first, waited = first - 15_000_000_000, waited + 15_000_000_000 + 500
        for rank, base, start, duration in ((0, BASE, first, waited), (1, second_base, second, length)):
            opened = start - 1000 if k == 0 else None
            rows.append((rank, base, start, duration, "nccl:all_reduce", 8, opened))
    return pl.DataFrame(rows, schema=FRAME, orient="row")


def kinds(result: RanksResult) -> list[str]:
    return [kind for kind in result.rows["kind"].to_list() if kind != "rank"]


def row(result: RanksResult, kind: str) -> dict[str, Any]:
    (found,) = result.rows.filter(kind=kind).iter_rows(named=True)
    return found


def test_case_13_names_the_straggler_and_parts_wait_from_transfer() -> None:
    result = ranks(case_13(), world_size=2)
    assert kinds(result) == ["start-up", "late"]
    late = row(result, "late")
    assert (late["rank"], late["slow_ranks"], late["collectives"]) == (1, [1], 19)
    assert (late["skew_ns"], late["wait_ns"], late["transfer_ns"]) == (112_000, 112_000, 20_000)
    startup = row(result, "start-up")
    assert (startup["rank"], startup["collectives"]) == (1, 1)
    assert startup["wait_ns"] > 15_000_000_000
    assert not result.partial and result.warnings == ()
    assert result.rows.schema == pl.Schema(SCHEMA)


def test_case_13_a_long_collective_in_mid_run_is_kept() -> None:
    late = row(ranks(case_13(long_at=9)), "late")
    assert (late["collectives"], late["skew_ns"], late["transfer_ns"]) == (19, 112_000, 20_000)


def test_case_13_a_missing_base_refuses_the_comparison_and_keeps_each_rank() -> None:
    result = ranks(case_13(second_base=None))
    assert kinds(result) == []
    assert result.rows["rank"].to_list() == [0, 1]
    assert result.rows["collectives"].to_list() == [20, 20]
    assert result.partial
    assert [code for code, _ in result.warnings] == ["no-clock-base"]


def test_a_long_first_wait_is_no_transient_if_the_late_profiler_was_open_before() -> None:
    frame = case_13().with_columns(opened_ns=pl.lit(-16_000_000_000))
    result = ranks(frame)
    assert kinds(result) == ["late"]
    assert row(result, "late")["collectives"] == 20


@pytest.mark.parametrize("lost", [0, 7, 19])
def test_a_lost_collective_costs_no_more_than_itself(lost: int) -> None:
    frame = case_13().with_row_index().filter(~((pl.col("rank") == 1) & (pl.col("index") == 2 * lost + 1)))
    late = row(ranks(frame.drop("index")), "late")
    assert (late["rank"], late["skew_ns"]) == (1, 112_000)
    assert late["collectives"] == (19 if lost == 0 else 18)


def test_ranks_that_enter_together_are_not_late() -> None:
    rows = [
        (rank, BASE, 1_000_000 * k + rank * 900, 30_000, "all_gather", 8, None) for k in range(9) for rank in (0, 1)
    ]
    assert kinds(ranks(pl.DataFrame(rows, schema=FRAME, orient="row"))) == []


def test_missing_and_single_ranks_are_said() -> None:
    alone = ranks(case_13().filter(rank=0), world_size=3)
    assert [code for code, _ in alone.warnings] == ["rank-missing", "one-rank"]
    assert "1, 2" in alone.warnings[0][1]
    assert alone.partial and alone.rows["rank"].to_list() == [0]


def kernel(rank: int, family: str, time_ns: int, op: str = "aten::mm", **fields: Any) -> dict[str, Any]:
    row = {
        "rank": rank,
        "size": 8,
        "op": op,
        "dims": "[[8,64],[64,64]]",
        "class": "gemm",
        "family": family,
        "calls": 36,
    }
    return {**row, "time_ns": time_ns, **fields}


def test_divergence_and_imbalance_are_told_apart_without_any_clock() -> None:
    kernels = [
        *(kernel(rank, "splitk" if rank == 2 else "stream", 150 if rank == 2 else 100) for rank in range(4)),
        *(kernel(rank, "moe", 300 if rank == 3 else 100, "vllm::moe_forward") for rank in range(4)),
        *(kernel(rank, "norm", 100 + rank, "rms_norm") for rank in range(4)),
        *(
            kernel(rank, "ring", 900 if rank == 0 else 100, "all_reduce", **{"class": "collective"})
            for rank in range(4)
        ),
    ]
    empty = case_13().clear()
    result = ranks(empty, pl.DataFrame(kernels), world_size=4)
    assert sorted(kinds(result)) == ["kernel-divergence", "load-imbalance"]
    divergence, imbalance = row(result, "kernel-divergence"), row(result, "load-imbalance")
    assert (divergence["op"], divergence["slow_ranks"], divergence["skew_ns"]) == ("aten::mm", [2], 50)
    assert divergence["families"] == "0: stream; 1: stream; 2: splitk; 3: stream"
    assert (imbalance["op"], imbalance["slow_ranks"], imbalance["skew_ns"]) == ("vllm::moe_forward", [3], 200)
    assert result.rows.filter(kind="rank")["kernels"].to_list() == [144] * 4


def test_of_two_ranks_the_slower_one_runs_the_other_kernel() -> None:
    result = ranks(case_13().clear(), pl.DataFrame([kernel(0, "slow", 200), kernel(1, "fast", 100)]))
    assert row(result, "kernel-divergence")["slow_ranks"] == [0]
