"""The short list: most costly first, each with its evidence and the command that shows more."""

from __future__ import annotations

from pathlib import Path

import mini
import pytest
from test_analyses import captures, case_13, case_18, command, serving
from test_switches import case_16, folder_of

from shapescope.analyse.findings import LONGEST


def test_a_cliff_is_found_with_its_cost_and_its_evidence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = folder_of(tmp_path, {size: case_16(size) for size in range(8, 112, 8)})
    code, result = command(capsys, "findings", run)
    (row,) = (row for row in result["rows"] if row["kind"] == "cliff")
    assert code == 0
    assert (row["size"], row["op"], row["cost"], row["cost_ns"], row["severity"]) == (
        96,
        "aten::mm",
        "time",
        28_000,
        "high",
    )
    assert "cutlass_gemm_bf16 at 96" in row["evidence"] and "52.0 us" in row["evidence"]
    assert row["command"] == f"shapescope switches {run}"


def test_a_late_rank_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, result = command(capsys, "findings", case_13(tmp_path))
    (row,) = result["rows"]
    assert (row["kind"], row["ranks"], row["cost_ns"]) == ("late", [1], 112_000)
    assert row["evidence"].startswith("median of 19 collectives: 112.0 us")


def test_eager_steps_are_found_where_the_run_holds_its_traffic(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    serving(captures(tmp_path) / "serving.json", case_18())
    _, result = command(capsys, "findings", tmp_path)
    (row,) = (row for row in result["rows"] if row["kind"] == "eager")
    assert row["what"].startswith("25.0% of the steps") and "42, 9, 5" in row["evidence"]


def test_damage_comes_before_all_costs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = folder_of(tmp_path, {size: case_16(size) for size in range(8, 112, 8)})
    whole = mini.write(tmp_path / "more.json", mini.replay(0, ["gemm"] * 50, correlation=1)).read_text()
    (tmp_path / "more.json").write_text(whole[: len(whole) // 2])
    code, result = command(capsys, "findings", run)
    assert code == 3
    assert (result["rows"][0]["kind"], result["rows"][0]["cost"]) == ("truncated", "trust")
    assert "more.json" in result["rows"][0]["evidence"]


def test_no_list_is_longer_than_anybody_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = "void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_16x16_128x2_tn_align8>(T)"
    launches = {
        size: [
            (
                "aten::mm",
                [[size, 64], [64, width]],
                other if size == 16 else "Cijk_Ailk_Bljk_BBS_MT64x64x32",
                width + 50 * (size == 16),
            )
            for width in range(101, 121)
        ]
        for size in (8, 16, 24)
    }
    _, result = command(capsys, "findings", folder_of(tmp_path, launches))
    assert len(result["rows"]) == LONGEST and result["summary"]["found"] == 20
    costs = [row["cost_ns"] for row in result["rows"]]
    assert costs == sorted(costs, reverse=True)
