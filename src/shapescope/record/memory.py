"""Memory around each capture: what the allocator reserved, what the device lost, and whether somebody else interfered.

Figures are marginal in the order of capture: the first graph of a pool pays for the memory that later ones reuse.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from shapescope.device import Device, MemorySample
from shapescope.model import Evidence, ManifestRow, Memory, MemoryTotals, Status
from shapescope.record.guard import Guard
from shapescope.record.session import Session
from shapescope.store.layout import memory_snapshot_name, publish


def memory_between(order: int, before: MemorySample, after: MemorySample) -> Memory | None:
    """The cost of one capture; None where the device has no figures.

    A sample is disturbed where the device gained memory, or lost less than the allocator reserved: another process freed
    some in between. (What another process took cannot be told from the driver's own cost of a graph.)
    """
    allocator = _difference(after.allocator_reserved, before.allocator_reserved)
    device = _difference(before.device_free, after.device_free)
    if allocator is None and device is None:
        return None
    disturbed = device is not None and device < max(allocator or 0, 0)
    return Memory(order, allocator, device, disturbed)


def _difference(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one - other


class MemoryHistory:
    """torch's allocator history over one runner's captures, dumped for torch's own viewer and summed in plain numbers.

    Invariant: a history that was switched on is switched off again, whatever happened in between.
    """

    def __init__(self, device: Device, session: Session, runner: str) -> None:
        self._history = device.memory_history()
        self._session = session
        self._runner = runner
        self._running = False

    def start(self) -> None:
        if self._history is not None:
            with Guard(f"the memory history of {self._runner}"):
                self._history.start()
                self._running = True

    def stop(self) -> None:
        if self._history is None or not self._running:
            return
        history, session, rank = self._history, self._session, self._session.rank
        row = ManifestRow(None, rank, Evidence.MEMORY, 0, Status.FAILED, runner=self._runner)
        try:
            with Guard(f"the memory snapshot of {self._runner}"):
                path, _ = publish(
                    session.folder,
                    lambda n: memory_snapshot_name(self._runner, rank, duplicate=n),
                    lambda path: history.dump(str(path)),
                )
                row = _snapshot_row(row, path, session.folder, memory_totals(history.segments()))
        finally:
            with Guard(f"switching the memory history of {self._runner} off"):
                history.stop()
                self._running = False
        with Guard("the manifest"):
            session.append(row)


def _snapshot_row(row: ManifestRow, path: Path, folder: Path, totals: MemoryTotals) -> ManifestRow:
    return ManifestRow(
        None, row.rank, row.evidence, 0, Status.OK, runner=row.runner, totals=totals,
        file=str(path.relative_to(folder)), bytes=path.stat().st_size,
    )  # fmt: skip


def memory_totals(segments: Sequence[Mapping[str, Any]]) -> MemoryTotals:
    """The sums of `torch.cuda.memory_snapshot()`: a list of segments, each with its blocks."""
    return MemoryTotals(
        segments=len(segments),
        blocks=sum(len(segment["blocks"]) for segment in segments),
        reserved_bytes=sum(segment["total_size"] for segment in segments),
        allocated_bytes=sum(segment["allocated_size"] for segment in segments),
    )
