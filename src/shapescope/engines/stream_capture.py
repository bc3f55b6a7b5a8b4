"""Recording an engine's capture of one key, which may be cut into several stream captures, as breakable graphs are."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from shapescope.model import GraphKey
from shapescope.record.hooks import watching
from shapescope.record.profiler import CaptureProfiler


class StreamCapture:
    """Around an engine's capture of one key. The window opens at its first stream capture, and closes on leaving.

    A first begin is after the last warm-up, however many there were, and the last moment at which a profiler may start.
    A `hooks.CaptureWatcher`; captures of other threads are not looked at.
    """

    def __init__(self, recorder: CaptureProfiler, key: GraphKey) -> None:
        self.key = key
        self.graphs: list[Any] = []
        self.warming_up = True
        self._recorder = recorder
        self._watching = ExitStack()
        self._window = ExitStack()
        self._segment = ExitStack()

    def __enter__(self) -> StreamCapture:
        self._watching.enter_context(watching(self))
        return self

    def __exit__(self, *error: Any) -> None:
        self.warming_up = False
        self._watching.close()
        self._segment.close()
        # One graph is the capture; where it is cut into many, no single one stands for it.
        if len(self.graphs) == 1:
            self._recorder.captured(self.key, self.graphs[0])
        self._window.__exit__(*error)

    def begins(self, _graph: Any) -> None:
        if self.warming_up:
            self.warming_up = False
            self._window.enter_context(self._recorder.capture(self.key))

    def segment_begins(self, _graph: Any) -> None:
        self._segment.enter_context(self._recorder.segment(len(self.graphs)))

    def closing(self, graph: Any) -> None:
        self._recorder.closing(graph)

    def segment_ended(self, _graph: Any) -> None:
        self._segment.close()

    def ended(self, graph: Any, error: BaseException | None) -> None:
        if error is None:
            self.graphs.append(graph)
