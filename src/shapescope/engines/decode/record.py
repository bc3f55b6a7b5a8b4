"""Record our own engine: capture one decode graph per batch size, then replay each at the context lengths asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from shapescope.device import Device
from shapescope.engines.decode.engine import DecodeEngine
from shapescope.model import Evidence, Rank
from shapescope.record.measure import measure_replays
from shapescope.record.profiler import CaptureProfiler
from shapescope.record.start import start
from shapescope.settings import RecordingSettings

DUMMY_CONTEXT = 1
_SHORTEST_CACHE = 256


def record_decode(
    model: Any,
    sizes: Sequence[int],
    settings: RecordingSettings,
    *,
    device: Device,
    contexts: Sequence[int] = (DUMMY_CONTEXT,),
    backend: str = "auto",
    model_name: str | None = None,
    rank: Rank | None = None,
    barrier: Callable[[], object] | None = None,
) -> Path:
    """Capture and measure every size; returns the run's folder. Context length 1 stands for dummy inputs.

    Raises UsageError for sizes, contexts or a backend that make no sense, before anything is written; OutputError.
    """
    engine = DecodeEngine(
        model, sizes, device=device, backend=backend, barrier=barrier, max_length=max(_SHORTEST_CACHE, *contexts)
    )
    for context in contexts:
        engine.set_context(context)
    profiler = start(
        settings, engine="shapescope", device=device, rank=rank, model=model_name, requested=engine.runner.keys
    )  # fmt: skip
    engine.runner.backend.observe(profiler)
    engine.capture()
    for context in contexts if Evidence.REPLAY in profiler.evidence else ():
        _measure(engine, profiler, context, barrier)
    engine.runner.close()
    return profiler.session.folder


def _measure(
    engine: DecodeEngine, profiler: CaptureProfiler, context: int, barrier: Callable[[], object] | None
) -> None:
    engine.set_context(context)
    replays = {key: partial(engine.runner.backend.replay, key) for key in engine.runner.keys}
    measure_replays(profiler, replays, context_len=context, dummy_inputs=context == DUMMY_CONTEXT, barrier=barrier)
