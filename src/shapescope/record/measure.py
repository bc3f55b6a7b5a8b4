"""Timed replays: after all captures, each graph is replayed unprofiled for its time, and profiled for its breakdown."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from shapescope.device import Device
from shapescope.model import Evidence, GraphKey, Timing
from shapescope.record.calm import CalmCore
from shapescope.record.profiler import CaptureProfiler

WARM_REPLAYS = 3
DEFAULT_REPLAYS = 20
# As many as tell a kernel's time from its noise when two runs are compared, and no more: each is as long a trace again.
PROFILED_REPLAYS = 20
# On a CPU a replay shares its core with whoever else runs there, and waits for a calm moment: so long in all, for each shape.
PATIENCE_SECONDS = 2.0


def measure_replays(
    profiler: CaptureProfiler,
    replays: Mapping[GraphKey, Callable[[], object]],
    *,
    context_len: int | None = None,
    dummy_inputs: bool = True,
    barrier: Callable[[], object] | None = None,
) -> None:
    """Measure every graph, in step over the ranks, and record `replay` evidence. Errors of a replay are the caller's.

    `context_len` is the length that the inputs stand for; times on dummy inputs are no serving times of attention or MoE.
    """
    if Evidence.REPLAY not in profiler.evidence:
        return
    count = DEFAULT_REPLAYS if profiler.settings.measure is None else profiler.settings.measure
    core = _core(profiler, PATIENCE_SECONDS * len(replays))
    for key, replay in replays.items():
        if barrier is not None:
            barrier()
        for _ in range(WARM_REPLAYS):
            replay()
        profiler.device.synchronize()
        samples = tuple(_timed(profiler.device, replay, core, number) for number in range(count))
        with profiler.window(key, Evidence.REPLAY, timing=Timing(samples, context_len, dummy_inputs)):
            for number in range(min(count, PROFILED_REPLAYS)):
                _settle(core, number)
                with profiler.replay(key):
                    replay()
                    profiler.device.synchronize()
    profiler.drain()


def _core(profiler: CaptureProfiler, patience_seconds: float) -> CalmCore | None:
    """None on a device, which has nobody else's work to do. Ranks that replay in step only rest: one would wait in a
    collective for another that waits for its core.
    """
    if profiler.device.kind != "cpu":
        return None
    return CalmCore(patience_seconds if profiler.session.rank.world_size == 1 else 0.0)


def _timed(device: Device, replay: Callable[[], object], core: CalmCore | None, number: int) -> int:
    _settle(core, number)
    return device.time_ns(replay)


def _settle(core: CalmCore | None, number: int) -> None:
    """Before every other replay: what one finds cold, the one after it finds warm."""
    if core is not None and number % 2 == 0:
        core.wait()
