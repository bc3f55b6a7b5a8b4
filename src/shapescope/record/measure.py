"""Timed replays: after all captures, each graph is replayed unprofiled for its time, and profiled for its breakdown."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from shapescope.device import Device
from shapescope.model import Evidence, GraphKey, Timing
from shapescope.record.profiler import CaptureProfiler

WARM_REPLAYS = 3
DEFAULT_REPLAYS = 20
# As many as tell a kernel's time from its noise when two runs are compared, and no more: each is as long a trace again.
PROFILED_REPLAYS = 20
# On a CPU a replay shares its core with whoever else runs there. A thread that has rested is scheduled at once and for a
# whole slice: measured at load 10, the slowest of ten replays fell from 8 times the fastest to 1.1 times. What it finds
# cold it finds warm in the replay after: so it rests before every other one.
REST_SECONDS = 0.002


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
    for key, replay in replays.items():
        if barrier is not None:
            barrier()
        for _ in range(WARM_REPLAYS):
            replay()
        profiler.device.synchronize()
        samples = tuple(_timed(profiler.device, replay, number) for number in range(count))
        with profiler.window(key, Evidence.REPLAY, timing=Timing(samples, context_len, dummy_inputs)):
            for number in range(min(count, PROFILED_REPLAYS)):
                _rest(profiler.device, number)
                with profiler.replay(key):
                    replay()
                    profiler.device.synchronize()
    profiler.drain()


def _timed(device: Device, replay: Callable[[], object], number: int) -> int:
    _rest(device, number)
    return device.time_ns(replay)


def _rest(device: Device, number: int) -> None:
    if device.kind == "cpu" and number % 2 == 0:
        time.sleep(REST_SECONDS)
