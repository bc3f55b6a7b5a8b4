"""The captures of one SGLang runner, and the course of one `capture_one`: warm-ups, stream capture, over.

Invariant: what is wrapped calls the engine's own function exactly once, with its own arguments, whatever fails of ours.
"""

from __future__ import annotations

import functools
import inspect
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from enum import Enum, auto
from typing import Any

from shapescope.engines.sglang_keys import RunnerIdentity, announced_keys, key_of, phase_of
from shapescope.engines.stream_capture import watching
from shapescope.model import Evidence, GraphKey, Phase
from shapescope.record.guard import Guard, log
from shapescope.record.measure import measure_replays
from shapescope.record.profiler import CaptureProfiler

# The first warm-up loads kernels and pays for one-time set-up: the second is the eager twin of the capture.
_SETTLED = 2


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
        self._in_round = False
        self._generation = 0
        self._measured: dict[GraphKey, Callable[[], object]] = {}

    def attach(self, backend: Any) -> None:
        """Wrap `capture_one` of this backend, and `capture` of its runner, which loops over it."""
        for owner, name, around in (
            (backend, "capture_one", self._capture_one),
            (self._runner, "capture", self._capture),
        ):
            original = getattr(owner, name)
            setattr(owner, name, functools.wraps(original)(functools.partial(around, original)))

    def _capture(self, capture: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        with self._round():
            return capture(*args, **kwargs)

    @contextmanager
    def _round(self) -> Iterator[None]:
        """Around all captures of a runner, or around a single one where its own loop is not used.

        A runner like one that has captured before captures anew, as after a weight update: the number of such rounds is
        the generation of their graphs.
        """
        if self._in_round:
            yield
            return
        alike = (self._identity, phase_of(self._runner))
        self._generation = self._rounds[alike]
        self._rounds[alike] += 1
        keys: list[GraphKey] = []
        with Guard(f"announcing {self._identity.name}"):
            keys = announced_keys(self._runner, self._identity, self._generation)
        self._in_round = True
        try:
            with self._recorder.runner(self._identity.label, keys):
                yield
        finally:
            self._in_round = False
        self._measure()

    def _capture_one(self, capture_one: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        with self._round():
            capture: _Capture | None = None
            with Guard(f"watching a capture of {self._identity.name}"):
                call = inspect.signature(capture_one).bind(*args, **kwargs)
                capture = self._begun(call.arguments["shape_key"], call.arguments["forward_fn"])
                call.arguments["forward_fn"] = capture.forward
            if capture is None:
                return capture_one(*args, **kwargs)
            with capture, watching(capture):
                result = capture_one(*call.args, **call.kwargs)
            self._remember(capture)
            return result

    def _begun(self, shape: Any, forward: Callable[..., Any]) -> _Capture:
        return _Capture(self._recorder, key_of(self._runner, self._identity, shape, forward, self._generation), forward)

    def _remember(self, capture: _Capture) -> None:
        if not capture.graphs:
            log.warning("%s was not recorded: no torch.cuda graph was captured", capture.key)
        elif len(capture.graphs) == 1 and Evidence.REPLAY in self._recorder.evidence:
            self._measured[capture.key] = capture.graphs[0].replay

    def _measure(self) -> None:
        """Timed replays of the graphs that are one piece, on what the capture left in the buffers; all ranks in step."""
        replays, self._measured = self._measured, {}
        if replays:
            with Guard(f"measuring {self._identity.name}"):
                measure_replays(self._recorder, replays, barrier=self._barrier)


class _Stage(Enum):
    WARMING_UP = auto()
    CAPTURING = auto()
    OVER = auto()


class _Capture:
    """One `capture_one`. Its window opens where the backend begins its first stream capture and closes on leaving.

    `--debug-cuda-graph` keeps `forward` for replays: from the first stream capture on it only calls the engine's own.
    """

    def __init__(self, recorder: CaptureProfiler, key: GraphKey, forward: Callable[..., Any]) -> None:
        self.key = key
        self.graphs: list[Any] = []
        self._recorder = recorder
        self._forward = forward
        self._stage = _Stage.WARMING_UP
        self._warmups = 0
        self._window = ExitStack()
        self._segment = ExitStack()
        self._segments = 0

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The engine's `forward_fn`; its warm-ups are timed, and the settled one may be recorded."""
        if self._stage is not _Stage.WARMING_UP:
            return self._forward(*args, **kwargs)
        index, self._warmups = self._warmups, self._warmups + 1
        with self._recorder.warmup(self.key, index, _SETTLED):
            return self._forward(*args, **kwargs)

    def __enter__(self) -> _Capture:
        return self

    def __exit__(self, *error: Any) -> None:
        self._stage = _Stage.OVER
        self._segment.close()
        # One graph is the capture; where it has many, no single one stands for it.
        if len(self.graphs) == 1:
            self._recorder.captured(self.key, self.graphs[0])
        self._window.__exit__(*error)

    def begins(self) -> None:
        if self._stage is _Stage.WARMING_UP:
            self._stage = _Stage.CAPTURING
            self._window.enter_context(self._recorder.capture(self.key))

    def began(self) -> None:
        self._segment.enter_context(self._recorder.segment(self._segments))
        self._segments += 1

    def ends(self) -> None:
        self._segment.close()

    def ended(self, graph: Any) -> None:
        self.graphs.append(graph)
