"""Recording a stream capture from outside: what every engine calls in the end is `CUDAGraph.capture_begin`.

`torch.cuda.graph` calls it, and so do those who never enter that context, as breakable graphs do. The patch is on the
graph classes and lives only as long as one `StreamCapture`, so a replay never meets it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch

from shapescope.model import GraphKey
from shapescope.record.profiler import CaptureProfiler


class StreamCapture:
    """Around an engine's capture of one key. The window opens at its first stream capture, and closes on leaving.

    A first begin is after the last warm-up, however many there were, and the last moment at which a profiler may start.
    Captures of other threads are not looked at.
    """

    def __init__(self, recorder: CaptureProfiler, key: GraphKey) -> None:
        self.key = key
        self.graphs: list[Any] = []
        self.warming_up = True
        self._recorder = recorder
        self._thread = threading.get_ident()
        self._patches = ExitStack()
        self._window = ExitStack()
        self._segment = ExitStack()

    def __enter__(self) -> StreamCapture:
        for graphs in _graph_classes():
            self._patch(graphs, "capture_begin", self._begin)
            self._patch(graphs, "capture_end", self._end)
        return self

    def __exit__(self, *error: Any) -> None:
        self.warming_up = False
        self._patches.close()
        self._segment.close()
        # One graph is the capture; where it is cut into many, no single one stands for it.
        if len(self.graphs) == 1:
            self._recorder.captured(self.key, self.graphs[0])
        self._window.__exit__(*error)

    def _patch(self, graphs: Any, name: str, around: Callable[..., Any]) -> None:
        original = getattr(graphs, name)

        def watched(graph: Any, *args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() != self._thread:
                return original(graph, *args, **kwargs)
            return around(original, graph, *args, **kwargs)

        setattr(graphs, name, watched)
        self._patches.callback(setattr, graphs, name, original)

    def _begin(self, begin: Callable[..., Any], graph: Any, *args: Any, **kwargs: Any) -> Any:
        if self.warming_up:
            self.warming_up = False
            self._window.enter_context(self._recorder.capture(self.key))
        self._segment.enter_context(self._recorder.segment(len(self.graphs)))
        return begin(graph, *args, **kwargs)

    def _end(self, end: Callable[..., Any], graph: Any, *args: Any, **kwargs: Any) -> Any:
        result = end(graph, *args, **kwargs)
        self._segment.close()
        self.graphs.append(graph)
        return result


def _graph_classes() -> list[Any]:
    """torch's graph classes: CUDA and HIP share one; the NPU's comes with its own package."""
    npu = getattr(torch, "npu", None)
    found = (torch.cuda.CUDAGraph, getattr(torch.xpu, "XPUGraph", None), getattr(npu, "NPUGraph", None))
    return [graphs for graphs in found if graphs is not None]
