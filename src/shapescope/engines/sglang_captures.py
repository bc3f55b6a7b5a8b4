"""The captures of one SGLang runner, and the course of one `capture_one`: warm-ups, stream capture, over.

Invariant: what is wrapped calls the engine's own function exactly once, with its own arguments, whatever fails of ours.
"""

from __future__ import annotations

import functools
import inspect
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any

from shapescope.engines.sglang_keys import RunnerIdentity, announced_keys, key_of, phase_of
from shapescope.model import Evidence, GraphKey, Phase
from shapescope.record.guard import Guard, log
from shapescope.record.hooks import watching
from shapescope.record.measure import measure_replays
from shapescope.record.profiler import CaptureProfiler
from shapescope.settings import Mode

# The first warm-up loads kernels and pays for one-time set-up: the second is the eager twin of the capture.
_SETTLED = 2


def alone(recorder: CaptureProfiler, name: str) -> AbstractContextManager[object]:
    """Around one capture outside any runner's loop: a combined trace then holds just that one."""
    return recorder.runner(name) if recorder.settings.mode is Mode.COMBINED else nullcontext()


class RunnerCaptures:
    """Records all that one runner captures through its backend."""

    def __init__(
        self,
        recorder: CaptureProfiler,
        runner: Any,
        identity: RunnerIdentity,
        rounds: Counter[tuple[RunnerIdentity, Phase]],
        barrier: Callable[[], object],
    ) -> None:
        self._recorder = recorder
        self._runner = runner
        self._identity = identity
        self._rounds = rounds
        self._barrier = barrier
        self._looping = False
        self._segments = False
        self._generation: int | None = None
        self._measured: dict[GraphKey, Callable[[], object]] = {}

    def attach(self, backend: Any) -> None:
        """Wrap `capture_one` of this backend, and `capture` of its runner, which loops over it."""
        self._segments = "Breakable" in type(backend).__name__
        for owner, name, around in (
            (backend, "capture_one", self._capture_one),
            (self._runner, "capture", self._capture),
        ):
            original = getattr(owner, name)
            setattr(owner, name, functools.wraps(original)(functools.partial(around, original)))

    def _capture(self, capture: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """The runner's own loop over its shapes."""
        self._begin_round()
        keys: list[GraphKey] = []
        with Guard(f"announcing {self._identity.name}"):
            keys = announced_keys(self._runner, self._identity, self._generation)
        self._looping = True
        try:
            with self._recorder.runner(self._identity.label, keys):
                result = capture(*args, **kwargs)
        finally:
            self._looping = False
        self._measure()
        return result

    def _begin_round(self) -> None:
        """A runner like one that has captured before captures anew, as after a weight update: a generation of graphs."""
        alike = (self._identity, phase_of(self._runner))
        self._generation = self._rounds[alike]
        self._rounds[alike] += 1

    def _capture_one(self, capture_one: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        capture: _BackendCapture | None = None
        with Guard(f"watching a capture of {self._identity.name}"):
            call = inspect.signature(capture_one).bind(*args, **kwargs)
            capture = self._begun(call.arguments["shape_key"], call.arguments["forward_fn"])
            call.arguments["forward_fn"] = capture.forward
        if capture is None:
            return capture_one(*args, **kwargs)
        with nullcontext() if self._looping else alone(self._recorder, self._identity.label), capture:
            result = capture_one(*call.args, **call.kwargs)
        self._remember(capture)
        return result

    def _begun(self, shape: Any, forward: Callable[..., Any]) -> _BackendCapture:
        if self._generation is None:  # captured without the runner's own loop, as single-graph multi-layer EAGLE is
            self._begin_round()
        key = key_of(self._runner, self._identity, shape, forward, self._generation)
        return _BackendCapture(self._recorder, key, forward, segments=self._segments)

    def _remember(self, capture: _BackendCapture) -> None:
        if not capture.graphs:
            log.warning("%s was not recorded: it captured no graph of torch's", capture.key)
        elif len(capture.graphs) == 1 and Evidence.REPLAY in self._recorder.evidence:
            self._measured[capture.key] = capture.graphs[0].replay

    def _measure(self) -> None:
        """Timed replays of the graphs that are one piece, on what the capture left in the buffers; all ranks in step."""
        replays, self._measured = self._measured, {}
        if replays:
            with Guard(f"measuring {self._identity.name}"):
                measure_replays(self._recorder, replays, barrier=self._barrier)


class StreamCapture:
    """Around SGLang's capture of one key: the window opens where its stream capture begins, and closes on leaving.

    That is after the last warm-up, however many there were, and the last moment at which a profiler may be started. Where
    a capture is cut into `segments`, no graph of them stands for the whole.
    """

    def __init__(self, recorder: CaptureProfiler, key: GraphKey, *, segments: bool = False) -> None:
        self.key = key
        self.graphs: list[Any] = []
        self.warming_up = True
        self._recorder = recorder
        self._segments = segments
        self._watch = ExitStack()
        self._window = ExitStack()
        self._segment = ExitStack()

    def __enter__(self) -> StreamCapture:
        self._watch.enter_context(watching(self))
        return self

    def __exit__(self, *error: Any) -> None:
        self.warming_up = False
        self._watch.close()
        self._segment.close()
        if len(self.graphs) == 1 and not self._segments:
            self._recorder.captured(self.key, self.graphs[0])
        self._window.__exit__(*error)

    # As a watcher of stream captures.

    def begins(self, graph: Any) -> None:  # noqa: ARG002 - the protocol's signature
        if self.warming_up:
            self.warming_up = False
            self._window.enter_context(self._recorder.capture(self.key))

    def segment_begins(self, graph: Any) -> None:  # noqa: ARG002 - the protocol's signature
        self._segment.enter_context(self._recorder.segment(len(self.graphs)))

    def closing(self, graph: Any) -> None:
        if not self._segments:
            self._recorder.closing(graph)

    def segment_ended(self, graph: Any) -> None:  # noqa: ARG002 - the protocol's signature
        self._segment.close()

    def ended(self, graph: Any, error: BaseException | None) -> None:
        if error is None:
            self.graphs.append(graph)


class _BackendCapture(StreamCapture):
    """One `capture_one`: its warm-ups, then its stream capture.

    `--debug-cuda-graph` keeps `forward` for replays: once the stream capture has begun it only calls the engine's.
    """

    def __init__(
        self, recorder: CaptureProfiler, key: GraphKey, forward: Callable[..., Any], *, segments: bool
    ) -> None:
        super().__init__(recorder, key, segments=segments)
        self._forward = forward
        self._warmups = 0

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The engine's `forward_fn`; its warm-ups are timed, and the settled one may be recorded."""
        if not self.warming_up:
            return self._forward(*args, **kwargs)
        index, self._warmups = self._warmups, self._warmups + 1
        with self._recorder.warmup(self.key, index, _SETTLED):
            return self._forward(*args, **kwargs)
