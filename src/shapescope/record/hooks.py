"""The seams that all engines share: graph captures, watched from outside and put back afterwards.

Most engines enter `torch.cuda.graph` (on an XPU, its like); beneath it, and alone in breakable graphs and in TensorRT-LLM, are
`CUDAGraph.capture_begin` and `capture_end`. All are patched on the classes, and only while somebody watches; a replay
never meets a patch. On a CPU the same is done to `TapeGraph.capturing`. From torch 2.14 on a hook of torch's own tells of
a graph whose handle is still live, so that its nodes can be read even where the engine does not keep it.

Invariant: the engine's own function is called exactly once, with its own arguments, whatever fails of ours.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch

from shapescope.record.guard import Guard
from shapescope.record.patch import Function, Patch


class CaptureWatcher(Protocol):
    """Told of captures, each on the thread where it happens. What it raises is logged and swallowed."""

    def begins(self, graph: Any) -> None:
        """Before anything of a capture has happened: the last moment at which a profiler may be started."""

    def segment_begins(self, graph: Any) -> None:
        """Right before its stream capture begins."""

    def closing(self, graph: Any) -> None:
        """Only from torch 2.14 on: captured to the end, and the graph's handle is live, kept or not."""

    def segment_ended(self, graph: Any) -> None:
        """Right after its stream capture has ended."""

    def ended(self, graph: Any, error: BaseException | None) -> None:
        """The graph is whole, or the capture has failed of `error`."""


class CaptureWindows:
    """A watcher that puts each capture inside `window(graph)`, and its stream capture inside `segment()`."""

    def __init__(
        self,
        window: Callable[[Any], AbstractContextManager[object]],
        segment: Callable[[], AbstractContextManager[object]],
        closing: Callable[[Any], object] | None = None,
    ) -> None:
        self._window = window
        self._segment = segment
        self._closing = closing
        self._windows: dict[int, ExitStack] = {}
        self._segments: dict[int, ExitStack] = {}

    def begins(self, graph: Any) -> None:
        with ExitStack() as stack:
            stack.enter_context(self._window(graph))
            self._windows[id(graph)] = stack.pop_all()

    def segment_begins(self, graph: Any) -> None:
        with ExitStack() as stack:
            stack.enter_context(self._segment())
            self._segments[id(graph)] = stack.pop_all()

    def closing(self, graph: Any) -> None:
        if self._closing is not None:
            self._closing(graph)

    def segment_ended(self, graph: Any) -> None:
        self._segments.pop(id(graph), ExitStack()).close()

    def ended(self, graph: Any, error: BaseException | None) -> None:
        raised = (type(error), error, error.__traceback__) if error else (None, None, None)
        try:
            self._segments.pop(id(graph), ExitStack()).__exit__(*raised)
        finally:
            self._windows.pop(id(graph), ExitStack()).__exit__(*raised)


# Who watches.


@dataclass(slots=True)
class _Scope:
    """What one thread has said: whom to tell of its captures, and whether those of its own business are nobody's."""

    watchers: list[CaptureWatcher] = field(default_factory=list)
    ignored: int = 0


class _Here(threading.local):
    def __init__(self) -> None:
        self.scope = _Scope()


_here = _Here()
_everywhere: list[CaptureWatcher] = []


@contextmanager
def watching(watcher: CaptureWatcher) -> Iterator[None]:
    """Tell `watcher` of every capture that this thread begins in the body; of several, the outermost first."""
    scope = _here.scope
    _patches.attach()
    scope.watchers.append(watcher)
    try:
        yield
    finally:
        scope.watchers.remove(watcher)
        _patches.detach()


def watch_everywhere(watcher: CaptureWatcher) -> Callable[[], None]:
    """Tell `watcher` of the captures of all threads that nobody watches more closely; returns what ends that."""
    _patches.attach()
    _everywhere.append(watcher)

    def stop() -> None:
        _everywhere.remove(watcher)
        _patches.detach()

    return stop


@contextmanager
def ignoring() -> Iterator[None]:
    """Captures of this thread in the body are part of something else, or thrown away: watchers of all threads miss them."""
    scope = _here.scope
    scope.ignored += 1
    try:
        yield
    finally:
        scope.ignored -= 1


def _watchers() -> list[CaptureWatcher]:
    scope = _here.scope
    if scope.watchers:
        return list(scope.watchers)
    return [] if scope.ignored else _everywhere[-1:]


# The course of one capture.


@dataclass(slots=True)
class _Capture:
    """`bare` captures began without `torch.cuda.graph`, and so are over with `capture_end`."""

    watchers: list[CaptureWatcher]
    bare: bool
    live: bool = False


# By id: holding the graph itself would keep alive what its owner has dropped after a failure.
_captures: dict[int, _Capture] = {}


def _begins(graph: Any, *, bare: bool) -> bool:
    """Whether the capture begins here, and not deeper inside its own beginning."""
    known = _captures.get(id(graph))
    if known is not None and not known.live:
        return False
    if known is not None:
        _ended(graph, RuntimeError("the capture never ended"))
    watchers = _watchers()
    _captures[id(graph)] = _Capture(watchers, bare)
    try:
        for watcher in watchers:
            with Guard("watching a capture that begins"):
                watcher.begins(graph)
    except BaseException:  # an interrupt: the engine's own function is not called, so nothing will end
        del _captures[id(graph)]
        raise
    return True


def _segment_begins(graph: Any) -> None:
    capture = _captures.get(id(graph))
    if capture is not None:
        capture.live = True
        for watcher in _segment_watchers(capture):
            with Guard("watching a stream capture that begins"):
                watcher.segment_begins(graph)


def _segment_ended(graph: Any) -> None:
    capture = _captures.get(id(graph))
    if capture is not None:
        for watcher in reversed(_segment_watchers(capture)):
            with Guard("watching a stream capture that has ended"):
                watcher.segment_ended(graph)


def _segment_watchers(capture: _Capture) -> list[CaptureWatcher]:
    """Those of the thread by now: a window that has just been opened may bring one of its own."""
    return list(_here.scope.watchers) or capture.watchers


def _closing(graph: Any) -> None:
    capture = _captures.get(id(graph))
    if capture is not None:
        for watcher in _segment_watchers(capture):
            with Guard("reading a captured graph"):
                watcher.closing(graph)


def _ended(graph: Any, error: BaseException | None) -> None:
    capture = _captures.pop(id(graph), None)
    if capture is not None:
        for watcher in reversed(capture.watchers):
            with Guard("watching a capture that has ended"):
                watcher.ended(graph, error)


# The patches.


def _enter(real: Function) -> Function:
    @functools.wraps(real)
    def __enter__(context: Any) -> Any:
        graph = _graph(context)
        outermost = _begins(graph, bare=False)
        try:
            return real(context)
        except BaseException as error:
            if outermost:
                _ended(graph, error)
            raise

    return __enter__


def _exit(real: Function) -> Function:
    @functools.wraps(real)
    def __exit__(context: Any, *raised: Any) -> Any:
        try:
            result = real(context, *raised)
        except BaseException as error:
            _ended(_graph(context), error)
            raise
        _ended(_graph(context), raised[1] if len(raised) > 1 else None)
        return result

    return __exit__


def _begin(real: Function) -> Function:
    @functools.wraps(real)
    def capture_begin(graph: Any, *args: Any, **kwargs: Any) -> Any:
        outermost = _begins(graph, bare=True)
        try:
            _segment_begins(graph)
            return real(graph, *args, **kwargs)
        except BaseException as error:
            if outermost:
                _ended(graph, error)
            raise

    return capture_begin


def _end(real: Function) -> Function:
    @functools.wraps(real)
    def capture_end(graph: Any, *args: Any, **kwargs: Any) -> Any:
        capture = _captures.get(id(graph))
        bare = capture is not None and capture.bare
        try:
            try:
                result = real(graph, *args, **kwargs)
            finally:
                _segment_ended(graph)
        except BaseException as error:
            if bare:
                _ended(graph, error)
            raise
        if bare:
            _ended(graph, None)
        return result

    return capture_end


def _capturing(real: Function) -> Function:
    @functools.wraps(real)
    @contextmanager
    def capturing(tape: Any) -> Iterator[None]:
        outermost = _begins(tape, bare=False)
        try:
            _segment_begins(tape)
            try:
                with real(tape):
                    yield
            finally:
                _segment_ended(tape)
        except BaseException as error:
            if outermost:
                _ended(tape, error)
            raise
        if outermost:
            _ended(tape, None)

    return capturing


def _graph(context: Any) -> Any:
    """What a `torch.cuda.graph` captures into, or a `torch.xpu.graph`, which calls it by its own name.

    Whoever has put another class there stands for his own graph.
    """
    return getattr(context, "cuda_graph", getattr(context, "xpu_graph", context))


def _seams() -> list[Patch]:
    seams = []
    for graphs, context in _device_classes():
        seams += [Patch(graphs, "capture_begin", _begin), Patch(graphs, "capture_end", _end)]
        if context is not None:
            seams += [Patch(context, "__enter__", _enter), Patch(context, "__exit__", _exit)]
    tapes = sys.modules.get("shapescope.tape")
    return seams if tapes is None else [*seams, Patch(tapes.TapeGraph, "capturing", _capturing)]


def _device_classes() -> list[tuple[type, type | None]]:
    """torch's graph classes, each once, with its context: CUDA and HIP share them; the NPU's come with a package of its own."""
    npu = getattr(torch, "npu", None)
    found = [
        (torch.cuda.CUDAGraph, torch.cuda.graph),
        (getattr(torch.xpu, "XPUGraph", None), getattr(torch.xpu, "graph", None)),
        (getattr(npu, "NPUGraph", None), None),
    ]
    return [(graphs, context) for graphs, context in found if graphs is not None]


class _Patches:
    """On while anybody watches."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watchers = 0
        self._applied: list[Patch] = []
        self._handle: Any = None

    def attach(self) -> None:
        with self._lock:
            self._watchers += 1
            if self._watchers == 1:
                for patch in _seams():
                    self._apply(patch)
                register = getattr(torch.cuda.graphs, "register_graph_capture_end_hook", None)
                self._handle = None if register is None else register(_closing)

    def detach(self) -> None:
        with self._lock:
            self._watchers -= 1
            if self._watchers == 0:
                while self._applied:
                    self._applied.pop().undo()
                if self._handle is not None:
                    self._handle.remove()

    def add_tapes(self, tapes: type) -> None:
        """Tapes whose module was imported while somebody watched already."""
        with self._lock:
            if self._watchers and all(patch.owner is not tapes for patch in self._applied):
                self._apply(Patch(tapes, "capturing", _capturing))

    def _apply(self, patch: Patch) -> None:
        patch.apply()
        self._applied.append(patch)


_patches = _Patches()
watch_tapes = _patches.add_tapes
