"""Record our own engine: capture one graph per batch size, then replay each at the context lengths asked for."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from shapescope.device import open_device
from shapescope.engines.decode.engine import DecodeEngine
from shapescope.engines.decode.parallel import World
from shapescope.model import Evidence
from shapescope.record.measure import measure_replays
from shapescope.record.profiler import CaptureProfiler
from shapescope.record.start import start
from shapescope.settings import Detail, Mode, RecordingSettings

DUMMY_CONTEXT = 1
SHORTEST_CACHE = 256


def record_model(
    model: Any,
    sizes: Sequence[int],
    *,
    folder: str | os.PathLike[str] | None = None,
    contexts: Sequence[int] = (DUMMY_CONTEXT,),
    detail: Detail = Detail.FULL,
    backend: str = "auto",
    name: str | None = None,
) -> Path:
    """Record the decode step of any causal LM of transformers that a static cache fits, at each batch size.

    The model stays where it is and as it is. Returns the run's folder. Raises UsageError, OutputError.
    """
    device = open_device("cpu" if model.device.type == "cpu" else str(model.device), keep_graphs=True)
    length = max(SHORTEST_CACHE, *contexts)
    engine = DecodeEngine(model, sizes, device=device, backend=backend, max_length=length)
    settings = RecordingSettings(Mode.PER_SHAPE, None if folder is None else str(folder), detail)
    try:
        return record_engines([engine], settings, contexts=contexts, model=name or type(model).__name__)
    finally:
        engine.runner.close()


def record_engines(
    engines: Sequence[DecodeEngine],
    settings: RecordingSettings,
    *,
    contexts: Sequence[int] = (DUMMY_CONTEXT,),
    model: str | None = None,
    world: World | None = None,
) -> Path:
    """Capture and measure every size of every engine, one engine after the other; returns the run's folder.

    Context length 1 stands for dummy inputs. Raises UsageError for contexts that do not fit, before anything is written;
    OutputError.
    """
    world = world or World()
    for engine in engines:
        for context in contexts:
            engine.set_context(context)
    requested = [key for engine in engines for key in engine.runner.keys]
    profiler = start(
        settings, engine="shapescope", device=engines[0].device, rank=world.rank, model=model, requested=requested
    )  # fmt: skip
    for engine in engines:
        engine.runner.backend.observe(profiler)
        engine.capture()
    for engine in engines if Evidence.REPLAY in profiler.evidence else ():
        for context in contexts:
            _measure(engine, profiler, context, world)
    world.barrier()
    return profiler.session.folder


def _measure(engine: DecodeEngine, profiler: CaptureProfiler, context: int, world: World) -> None:
    engine.set_context(context)
    replays = {key: partial(engine.runner.backend.replay, key) for key in engine.runner.keys}
    measure_replays(
        profiler, replays, context_len=context, dummy_inputs=context == DUMMY_CONTEXT, barrier=world.barrier
    )  # fmt: skip
