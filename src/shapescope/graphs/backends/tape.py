"""One tape for the whole step: the CPU's counterpart of a full device graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shapescope.device import Graph
from shapescope.graphs.backends.base import Backend
from shapescope.tape import TapeGraph


class TapeBackend(Backend):
    name = "tape"

    def _capture(self, forward: Callable[[], Any]) -> tuple[Graph, Any]:
        graph = TapeGraph()
        with self._segment(0), graph.capturing():
            output = forward()
        return graph, output

    def finish(self) -> None:
        for graph in self.graphs.values():
            assert isinstance(graph, TapeGraph)
            _ = graph.launches
