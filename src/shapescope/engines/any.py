"""Any PyTorch program: its captures are recorded through the seam that all engines share, labelled where it says so.

A capture is of the shape that the program's own `with shapescope.shape(..)` names around it, and unlabelled without: never
a guess. Captures may come at any time and on any thread. An adapter that knows its engine watches more closely, and then
this one is not told.
"""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from shapescope.engines.after_import import after_import
from shapescope.errors import ShapescopeError
from shapescope.labels import current_shape, listen
from shapescope.model import GraphKey
from shapescope.record.guard import Guard, log
from shapescope.settings import Mode, RecordingSettings, recording_settings
from shapescope.store.layout import RUN_ID_VARIABLE

if TYPE_CHECKING:
    from shapescope.record.profiler import CaptureProfiler

ENGINE = "any"


def watch() -> Callable[[], None] | None:
    """Watch this process's captures if the environment asks for it; returns what ends that. Imports torch, raises nothing.

    Writes no file: the run folder appears with the first capture or the first announced runner. Children inherit the run
    id.
    """
    try:
        settings = recording_settings()
    except ShapescopeError as error:
        log.warning("shapescope: recording stays off: %s %s", error, error.hint)
        return None
    if settings.mode is Mode.OFF:
        return None
    with Guard("watching for captures"):
        if not os.environ.get(RUN_ID_VARIABLE):
            from shapescope.record.session import agree_on_run_id

            agree_on_run_id(os.environ)
        return AnyRecording(settings).attach()
    return None


class AnyRecording:
    """What one process records. A forked child inherits this object, and opens a recorder of its own."""

    def __init__(self, settings: RecordingSettings) -> None:
        self._settings = settings
        self._lock = threading.RLock()
        self._process = 0
        self._recorder: CaptureProfiler | None = None
        self._runners = 0
        self._outside = False
        self._measured: dict[GraphKey, weakref.ref[Any]] = {}

    def attach(self) -> Callable[[], None]:
        from shapescope.record import hooks

        windows = hooks.CaptureWindows(self._window, self._segment, self._closing)
        with ExitStack() as stack:
            stack.callback(hooks.watch_everywhere(windows))
            stack.callback(listen(self._announced))
            after_import("shapescope.tape", lambda module: hooks.watch_tapes(module.TapeGraph))
            atexit.register(self._summarise)
            stack.callback(atexit.unregister, self._summarise)
            return stack.pop_all().close

    def recorder(self) -> CaptureProfiler | None:
        """This process's recorder, opened when first asked for."""
        with self._lock:
            if self._process != os.getpid():
                from shapescope.record.start import from_environment

                self._process, self._recorder, self._outside = os.getpid(), None, False
                self._recorder = from_environment(ENGINE, settings=self._settings)
            return self._recorder

    @contextmanager
    def _window(self, graph: Any) -> Iterator[None]:
        recorder, key = self.recorder(), current_shape()
        if recorder is None:
            yield
            return
        with self._own_runner(recorder, key), recorder.window(key):
            yield
            recorder.captured(key, graph)
        if not self._runners:
            self._outside = True
        elif key is not None:
            self._measured[key] = weakref.ref(graph)

    def _own_runner(self, recorder: CaptureProfiler, key: GraphKey | None) -> AbstractContextManager[object]:
        """A combined trace is of a runner; a capture outside any announced one is a runner of its own."""
        combined = self._settings.mode is Mode.COMBINED and not self._runners
        return recorder.runner(key.runner if key else "unlabelled") if combined else ExitStack()

    def _segment(self) -> AbstractContextManager[object]:
        recorder = self.recorder()
        return ExitStack() if recorder is None else recorder.segment(0)

    def _closing(self, graph: Any) -> None:
        recorder = self.recorder()
        if recorder is not None:
            recorder.closing(graph)

    @contextmanager
    def _announced(self, name: str, keys: Sequence[GraphKey]) -> Iterator[None]:
        recorder: CaptureProfiler | None = None
        with Guard(f"announcing {name}"):
            recorder = self.recorder()
        if recorder is None:
            yield
            return
        self._runners += 1
        try:
            with recorder.runner(name, keys):
                yield
        finally:
            self._runners -= 1
        self._measure(recorder, name)

    def _measure(self, recorder: CaptureProfiler, name: str) -> None:
        """Timed replays of a runner's graphs, on what their buffers hold. Only where they were asked for, and on one rank:
        nothing here knows how ranks keep in step."""
        graphs, self._measured = self._measured, {}
        alive = {key: graph for key, found in graphs.items() if (graph := found()) is not None}
        if not alive or not self._settings.measure:
            return
        if recorder.session.rank.world_size > 1:
            log.warning("the graphs of %s are not timed: replays of several ranks must keep in step", name)
            return
        from shapescope.record.measure import measure_replays

        with Guard(f"measuring {name}"):
            measure_replays(recorder, {key: graph.replay for key, graph in alive.items()})

    def _summarise(self) -> None:
        """At the end of the process: the tables of what no announced runner has captured."""
        if self._outside and self._process == os.getpid() and self._recorder is not None:
            self._recorder.summarise(ENGINE)
