"""Case 19: memory and time per captured size, from the manifest to the JSON of the command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from test_analyses import codes, command

from shapescope.model import Evidence, GraphKey, ManifestRow, Memory, Rank, RunManifest, Status
from shapescope.store.manifest import ManifestWriter, write_run

MIB = 1 << 20
DOWN = ((512, 400, 412), (256, 0, 10), (128, 0, 10))
UP = ((128, 100, 110), (256, 200, 210), (512, 400, 412))


def recorded(
    folder: Path, captures: tuple[tuple[int, int, int], ...], *, disturbed: int | None = None, rank: Rank | None = None
) -> Path:
    """A run folder with one manifest row a capture: size, what the allocator reserved, what the device lost (MiB)."""
    rank = rank or Rank()
    write_run(folder, RunManifest("r", "2026-01-01T00:00:00+00:00", "toy", None, ()))
    writer = ManifestWriter(folder, rank, "host", 1)
    for order, (size, reserved, lost) in enumerate(captures):
        freed = 64 if size == disturbed else 0
        memory = Memory(order, reserved * MIB, (lost - freed) * MIB, disturbed=bool(freed))
        key = GraphKey.of("DecodeCudaGraphRunner", size)
        writer.append(ManifestRow(key, rank, Evidence.CAPTURE, 0, Status.MISSING))
        writer.append(
            ManifestRow(
                key, rank, Evidence.CAPTURE, order, Status.OK,
                warmup_ns=(30_000, 20_000), capture_ns=7_000, record_ns=900, export_ns=80_000, memory=memory,
            )
        )  # fmt: skip
    return folder


def column(result: dict[str, Any], name: str) -> list[Any]:
    return [row[name] for row in result["rows"]]


def test_case_19_from_the_largest_down(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, result = command(capsys, "memory", recorded(tmp_path, DOWN))
    assert code == 0
    assert (column(result, "size"), column(result, "order")) == ([512, 256, 128], [0, 1, 2])
    assert column(result, "allocator_bytes") == [400 * MIB, 0, 0]
    assert column(result, "other_bytes") == [12 * MIB, 10 * MIB, 10 * MIB]
    assert result["summary"]["device_bytes"] == 432 * MIB
    assert result["summary"]["meaning"] == "marginal in this order"
    assert "capture-order" not in codes(result)
    assert result["summary"]["largest_first_saves_bytes"] is None


def test_of_ranks_that_cost_the_same_the_lowest_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for rank in range(8):
        recorded(tmp_path, DOWN, rank=Rank(rank, tp=rank, tp_size=8, world_size=8))
    _, result = command(capsys, "memory", tmp_path)
    assert (result["summary"]["rank"], result["summary"]["device_bytes"]) == (0, 432 * MIB)


def test_case_19_from_the_smallest_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, result = command(capsys, "memory", recorded(tmp_path, UP))
    assert column(result, "other_bytes") == [10 * MIB, 10 * MIB, 12 * MIB]
    assert result["summary"]["device_bytes"] == 732 * MIB
    assert "capture-order" in codes(result)
    assert result["summary"]["largest_first_saves_bytes"] == (732 - 432) * MIB


def test_case_19_a_disturbed_sample_is_flagged_and_in_no_total(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, result = command(capsys, "memory", recorded(tmp_path, DOWN, disturbed=256))
    assert column(result, "disturbed") == [False, True, False]
    assert result["summary"]["device_bytes"] == 422 * MIB
    assert result["summary"]["disturbed"] == 1
    assert "disturbed-memory" in codes(result)


def test_case_19_phases_are_kept_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, result = command(capsys, "memory", recorded(tmp_path, DOWN))
    phases = ("warmup_ns", "capture_ns", "record_ns", "export_ns")
    assert [column(result, phase) for phase in phases] == [[50_000] * 3, [7_000] * 3, [900] * 3, [80_000] * 3]
    assert result["summary"]["capture_ns"] == 21_000


def test_memory_of_a_folder_that_nobody_recorded_is_unknown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "trace.json").write_text('{"traceEvents": []}')
    code, result = command(capsys, "memory", tmp_path)
    assert code == 3 and result["rows"] == []
    assert result["summary"]["device_bytes"] is None
    assert "no-data" in codes(result)


def test_the_order_of_capture_is_a_finding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, result = command(capsys, "findings", recorded(tmp_path, UP))
    (row,) = (row for row in result["rows"] if row["kind"] == "capture-order")
    assert (row["cost"], row["cost_bytes"], row["evidence"]) == ("memory", 300 * MIB, "order of capture: 128, 256, 512")
    assert "shapescope memory" in row["command"]
