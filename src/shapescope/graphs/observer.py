"""What capturing tells whoever watches. Capturing knows no profiler: this protocol is all that it knows of one."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from shapescope.device import Graph
from shapescope.model import GraphKey


class CaptureObserver(Protocol):
    """Each step is a context around the engine's own work: entered before it, left after it or with its exception.

    An observer never raises into the engine.
    """

    def runner(self, name: str, keys: Sequence[GraphKey]) -> AbstractContextManager[object]:
        """Around all captures of one runner."""

    def warmup(self, key: GraphKey, index: int, count: int) -> AbstractContextManager[object]:
        """Around the eager warm-up `index` of `count`, between the barrier and the post-warmup hook."""

    def capture(self, key: GraphKey) -> AbstractContextManager[object]:
        """Around the whole capture of one key, after the last warm-up's hook."""

    def segment(self, index: int) -> AbstractContextManager[object]:
        """Around one stretch between the begin and the end of a stream capture, within `capture`."""

    def captured(self, key: GraphKey, graph: Graph) -> None:
        """The graph, as soon as it is captured: within `capture`, after its last segment."""
