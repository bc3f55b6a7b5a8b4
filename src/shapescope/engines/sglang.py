"""SGLang, unpatched: its captures are recorded through its plugin group `sglang.srt.plugins`.

Every runner asks `resolve_decode_backend` or `resolve_prefill_backend` for its backend: full and breakable, decode and
prefill, EAGLE and out-of-tree ones alike. After-hooks on the two wrap `capture_one` on the backend that is returned; the
abstract class is no place for it, since every backend overrides the method. The window opens at the moment the backend
begins its stream capture, so the number of warm-ups before it is nobody's contract. Seams read off SGLang 0.5.23.
"""

from __future__ import annotations

import inspect
import logging
import os
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from shapescope.engines.sglang_keys import RunnerIdentity, encoder_key, identity_of, rank_of
from shapescope.errors import ShapescopeError
from shapescope.model import Evidence, Phase
from shapescope.settings import COMBINED, FOLDER, PER_SHAPE, Mode, RecordingSettings, recording_settings

if TYPE_CHECKING:
    from shapescope.record.profiler import CaptureProfiler

log = logging.getLogger("shapescope")

_RESOLVERS = tuple(
    f"sglang.srt.model_executor.runner_backend.utils.resolve_{phase}_backend" for phase in ("decode", "prefill")
)
# Vision encoders capture by themselves, one graph for each layout of images that a request brings.
_ENCODERS = (
    "sglang.srt.multimodal.vit_cuda_graph_runner.ViTCudaGraphRunner._create_graph",
    "sglang.srt.multimodal.internvl_vit_cuda_graph_runner.InternViTCudaGraphRunner._capture_graph",
    "sglang.srt.multimodal.kimi_k3_vit_cuda_graph_runner.KimiK3ViTCudaGraphRunner._capture",
)
# SGLang's own switches, honoured where ours is not set.
_OWN_SWITCHES = {
    PER_SHAPE: "SGLANG_GRAPH_BATCH_CAPTURE",
    COMBINED: "SGLANG_ENABLE_CUDA_GRAPH_CAPTURE_TRACE",
    FOLDER: "SGLANG_TORCH_PROFILER_DIR",
}
_SHORT = {"y": "yes", "n": "no"}
# SGLang does not keep its graphs' sources, so their nodes can be read from torch 2.14 on only; names and times come from
# the eager warm-up.
_EVIDENCE = frozenset({Evidence.CAPTURE, Evidence.WARMUP, Evidence.NODES})


def register() -> None:
    """The entry point, which SGLang calls once in each of its processes, before any capture. Writes no file.

    With recording off nothing is hooked. The run id goes into the environment here, in the first process, so that the
    scheduler processes inherit it.
    """
    try:
        settings = settings_of(os.environ)
    except ShapescopeError as error:
        log.warning("shapescope: recording stays off: %s %s", error, error.hint)
        return
    if settings.mode is Mode.OFF:
        return
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    from shapescope.record.session import agree_on_run_id

    agree_on_run_id(os.environ)
    recording = SglangRecording(settings)
    for resolver in _RESOLVERS:
        HookRegistry.register(resolver, recording.resolved, HookType.AFTER)
    for encoder in _ENCODERS:
        HookRegistry.register(encoder, recording.encoder_captures, HookType.AROUND)


def settings_of(environment: Mapping[str, str]) -> RecordingSettings:
    """Our switches, and SGLang's own where ours are not set. Raises UsageError."""
    inherited = {
        ours: _SHORT.get(environment[theirs].lower(), environment[theirs])
        for ours, theirs in _OWN_SWITCHES.items()
        if theirs in environment
    }
    settings = recording_settings({**inherited, **environment})
    if settings.evidence is None:
        measured = frozenset({Evidence.REPLAY}) if settings.measure else frozenset()
        settings = replace(settings, evidence=_EVIDENCE | measured)
    return settings


class SglangRecording:
    """What one process of SGLang records: opened at its first backend, when its rank is known."""

    def __init__(self, settings: RecordingSettings) -> None:
        self._settings = settings
        self._recorder: CaptureProfiler | None = None
        self._opened = False
        self._rounds: Counter[tuple[RunnerIdentity, Phase]] = Counter()

    def resolved(self, backend: Any, *args: Any, **kwargs: Any) -> None:
        """After a resolver: watch what its backend captures. Returns None, which leaves the backend as it is."""
        from shapescope.record.guard import Guard

        with Guard("attaching to SGLang's graphs"):
            recorder = self._open()
            if recorder is not None:
                runner = args[0] if args else kwargs["cuda_graph_runner"]
                self._watch(recorder, backend, runner)

    def encoder_captures(self, capture: Callable[..., Any], runner: Any, *args: Any, **kwargs: Any) -> Any:
        """Around an encoder's capture of one graph, whose key is its first argument."""
        from shapescope.engines.sglang_captures import StreamCapture, alone
        from shapescope.record.guard import Guard

        watch: Any = nullcontext()
        with Guard("watching an encoder's capture"):
            recorder = self._open()
            if recorder is not None:
                _, graph_key, *_ = inspect.signature(capture).bind(runner, *args, **kwargs).arguments.values()
                key = encoder_key(runner, graph_key)
                watch = ExitStack()
                watch.enter_context(alone(recorder, key.runner))
                watch.enter_context(StreamCapture(recorder, key))
        with watch:
            return capture(runner, *args, **kwargs)

    def _open(self) -> CaptureProfiler | None:
        if self._opened:
            return self._recorder
        self._opened = True
        from sglang.srt.runtime_context import get_exec, get_parallel, get_server_args

        if get_exec().graph.enable_profile_cuda_graph:
            log.warning("SGLang's own profiler is on (--enable-profile-cuda-graph): shapescope stands back")
            return None
        from shapescope.record.start import from_environment

        self._recorder = from_environment(
            "sglang", rank=rank_of(get_parallel()), model=get_server_args().model_path, settings=self._settings
        )
        return self._recorder

    def _watch(self, recorder: CaptureProfiler, backend: Any, runner: Any) -> None:
        from sglang.srt.runtime_context import get_parallel, get_spec

        from shapescope.engines.sglang_captures import RunnerCaptures

        spec = get_spec()
        identity = identity_of(
            runner, configured_steps=spec.speculative_num_steps, adaptive=bool(spec.speculative_adaptive)
        )
        captures = RunnerCaptures(recorder, runner, identity, self._rounds, get_parallel().tp_group.barrier)
        captures.attach(backend)
