"""Watching stream captures from outside: what every engine calls in the end is `torch.cuda.CUDAGraph.capture_begin`.

`torch.cuda.graph` calls it, and so do those who never enter that context, as breakable graphs do. The patch is on the class
and lives only as long as the body of `watching`, so a replay never meets it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import torch


class CaptureWatcher(Protocol):
    """Told of the stream captures of one thread. It must not raise: it is called inside the engine's capture."""

    def begins(self) -> None:
        """Before a capture begins: the last moment at which a profiler may be started."""

    def began(self) -> None:
        """The capture is live."""

    def ends(self) -> None:
        """Before it ends."""

    def ended(self, graph: Any) -> None:
        """The graph is whole."""


@contextmanager
def watching(watcher: CaptureWatcher) -> Iterator[None]:
    """Tell `watcher` of every capture that this thread begins or ends in the body."""
    graphs: Any = torch.cuda.CUDAGraph
    begin, end = graphs.capture_begin, graphs.capture_end
    thread = threading.get_ident()

    def watched_begin(graph: Any, *args: Any, **kwargs: Any) -> Any:
        if threading.get_ident() != thread:
            return begin(graph, *args, **kwargs)
        watcher.begins()
        result = begin(graph, *args, **kwargs)
        watcher.began()
        return result

    def watched_end(graph: Any, *args: Any, **kwargs: Any) -> Any:
        if threading.get_ident() != thread:
            return end(graph, *args, **kwargs)
        watcher.ends()
        result = end(graph, *args, **kwargs)
        watcher.ended(graph)
        return result

    graphs.capture_begin, graphs.capture_end = watched_begin, watched_end
    try:
        yield
    finally:
        graphs.capture_begin, graphs.capture_end = begin, end
