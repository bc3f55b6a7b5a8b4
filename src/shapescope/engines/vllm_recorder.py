"""What one vLLM process records. Every step of ours is guarded: nothing that fails here reaches vLLM."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from shapescope.engines.vllm_keys import rank_of
from shapescope.model import Evidence, GraphKey
from shapescope.record.guard import Guard
from shapescope.settings import RecordingSettings, recording_settings

if TYPE_CHECKING:
    from shapescope.record.profiler import CaptureProfiler

# vLLM does not keep its graphs' sources, so their nodes can be read from torch 2.14 on only; names and times come from the
# eager warm-up.
_EVIDENCE = frozenset({Evidence.CAPTURE, Evidence.WARMUP, Evidence.NODES})

# A key from the number of the generation of graphs that it belongs to.
Name = Callable[[int], GraphKey]


class ProcessRecorder:
    """The recorder of this process, opened at its first capture.

    A forked worker inherits vLLM's patched methods and this object, but must not write its parent's files: under another
    process id everything begins anew.
    """

    def __init__(self) -> None:
        self.paused = False
        self._process = 0
        self._generation = 0
        self._recorder: CaptureProfiler | None = None

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Record nothing of what the body captures, nor let the recorder of any program do so."""
        from shapescope.record.hooks import ignoring

        before, self.paused = self.paused, True
        try:
            with ignoring():
                yield
        finally:
            self.paused = before

    def next_generation(self, config: Any) -> None:
        """vLLM may capture anew, as elastic expert parallelism does: the graphs of each round keep names of their own."""
        with Guard("opening the recorder"):
            self._open(config)
            self._generation += 1

    def runner(
        self, config: Any, announced: Callable[[int], tuple[str, Sequence[GraphKey]]]
    ) -> AbstractContextManager[None]:
        """Around all captures of one runner, announced by name so that a start-up that dies leaves the missing ones."""
        with Guard("announcing captures"):
            recorder = None if self.paused else self._open(config)
            if recorder is not None:
                return recorder.runner(*announced(self._generation))
        return nullcontext()

    def window(self, config: Any, name: Name, *, whole: bool = False) -> AbstractContextManager[None]:
        """A window for the key that `name` gives; without a key where that fails, which is then logged.

        The stream captures of the body are its segments. Of a shape that is `whole`, one graph, the kernels are listed too.
        """
        recorder, key = self._named(config, name)
        return nullcontext() if recorder is None else _window(recorder, key, whole)

    def graphs(
        self, config: Any, window: Callable[[], AbstractContextManager[object]]
    ) -> AbstractContextManager[object]:
        """Each capture of the body is put inside a `window()` of its own, opened before it begins."""
        with Guard("opening the recorder"):
            if self._open(config) is not None:
                from shapescope.record.hooks import CaptureWindows, watching

                return watching(CaptureWindows(lambda _graph: window(), nullcontext))
        return nullcontext()

    def warmup(self, config: Any, name: Name, index: int, count: int) -> AbstractContextManager[None]:
        """Around the eager warm-up `index` of `count` of a key."""
        recorder, key = self._named(config, name)
        return nullcontext() if recorder is None or key is None else recorder.warmup(key, index, count)

    def _named(self, config: Any, name: Name) -> tuple[CaptureProfiler | None, GraphKey | None]:
        recorder, key = None, None
        if not self.paused:
            with Guard("opening the recorder"):
                recorder = self._open(config)
            with Guard("naming a capture"):
                key = name(self._generation)
        return recorder, key

    def _open(self, config: Any) -> CaptureProfiler | None:
        """`config` is vLLM's own, which knows the model and the data parallel rank; None where an owner has none."""
        if self._process != os.getpid():
            from shapescope.record.start import from_environment

            self._process, self._generation, self._recorder = os.getpid(), 0, None
            model = getattr(getattr(config, "model_config", None), "model", None)
            self._recorder = from_environment("vllm", rank=rank_of(config), model=model, settings=_settings())
        return self._recorder


def _settings() -> RecordingSettings:
    """Raises UsageError."""
    settings = recording_settings()
    return settings if settings.evidence is not None else replace(settings, evidence=_EVIDENCE)


@contextmanager
def _window(recorder: CaptureProfiler, key: GraphKey | None, whole: bool) -> Iterator[None]:
    from shapescope.record.hooks import CaptureWindows, watching

    numbers = itertools.count()
    segments = CaptureWindows(
        lambda _graph: nullcontext(),
        lambda: recorder.segment(next(numbers)),
        recorder.closing if whole else None,
    )
    with recorder.window(key), watching(segments):
        yield
