"""Memory and time per captured size: case 19, with scripted probes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from shapescope.device import CpuDevice, MemorySample
from shapescope.model import Evidence, GraphKey, ManifestRow, Memory, Rank
from shapescope.record.memory import memory_between, memory_totals
from shapescope.record.start import start
from shapescope.settings import Detail, Mode, RecordingSettings
from shapescope.store.manifest import read_manifests

MIB = 1 << 20


class Scripted(CpuDevice):
    """A device whose allocator and free memory change with each capture as a script says (reserved, free; MiB)."""

    def __init__(self, script: Sequence[tuple[int, int]]) -> None:
        reserved, free = 1000, 80_000
        samples = []
        for reserve, change in script:
            samples.append(MemorySample(reserved * MIB, free * MIB))
            reserved, free = reserved + reserve, free + change
            samples.append(MemorySample(reserved * MIB, free * MIB))
        self._samples: Iterator[MemorySample] = iter(samples)

    def memory(self) -> MemorySample:
        return next(self._samples)


def recorded(script: Sequence[tuple[int, int]], sizes: Sequence[int], folder: Path) -> list[ManifestRow]:
    settings = RecordingSettings(Mode.SUMMARY, str(folder), Detail.LIGHT, frozenset({Evidence.CAPTURE}))
    profiler = start(settings, engine="test", device=Scripted(script), rank=Rank())
    for size in sizes:
        key = GraphKey.of("R", size)
        for index in range(2):
            with profiler.warmup(key, index, 2):
                pass
        with profiler.capture(key):
            pass
    profiler.drain()
    return [row for _, row in read_manifests(profiler.session.folder) if isinstance(row, ManifestRow)]


DESCENDING = [(400, -412), (0, -10), (0, -10)]
ASCENDING = [(100, -110), (200, -210), (400, -412)]


@pytest.mark.parametrize(
    ("script", "sizes", "total"), [(DESCENDING, [512, 256, 128], 432), (ASCENDING, [128, 256, 512], 732)]
)
def test_case_19_what_a_size_costs_depends_on_the_order(
    script: list[tuple[int, int]], sizes: list[int], total: int, tmp_path: Path
) -> None:
    memories = [row.memory for row in recorded(script, sizes, tmp_path)]
    assert [memory.order for memory in memories if memory] == [0, 1, 2]
    others = sorted((memory.other_bytes or 0) // MIB for memory in memories if memory)
    assert others == [10, 10, 12]
    assert sum(memory.device_bytes or 0 for memory in memories if memory) == total * MIB
    assert not any(memory.disturbed for memory in memories if memory)


def test_case_19_a_sample_that_somebody_disturbed_is_flagged(tmp_path: Path) -> None:
    script = [(400, -412), (0, -10 + 64), (0, -10)]
    memories = [row.memory for row in recorded(script, [512, 256, 128], tmp_path)]
    assert [memory.disturbed for memory in memories if memory] == [False, True, False]


def test_case_19_phases_are_kept_apart(tmp_path: Path) -> None:
    row = recorded(DESCENDING, [512, 256, 128], tmp_path)[0]
    assert len(row.warmup_ns) == 2
    assert row.capture_ns is not None and row.record_ns is not None and row.export_ns is not None
    assert row.capture_ns < row.export_ns, "an empty capture took longer than writing it: export time is in it"


def test_a_device_without_figures_has_no_memory() -> None:
    assert memory_between(0, MemorySample(), MemorySample()) is None
    assert memory_between(0, MemorySample(None, 8), MemorySample(None, 2)) == Memory(0, None, 6)
    assert Memory(0, None, 6).other_bytes is None


def test_a_snapshot_in_plain_numbers() -> None:
    segments = [
        {"total_size": 10, "allocated_size": 4, "blocks": [{}]},
        {"total_size": 5, "allocated_size": 0, "blocks": []},
    ]
    totals = memory_totals(segments)
    assert (totals.segments, totals.blocks, totals.reserved_bytes, totals.allocated_bytes) == (2, 1, 15, 4)
