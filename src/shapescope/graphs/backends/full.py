"""One device graph for the whole step. The same code serves CUDA and HIP."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shapescope.device import Graph
from shapescope.graphs.backends.base import Backend


class FullBackend(Backend):
    name = "full"

    def _capture(self, forward: Callable[[], Any]) -> tuple[Graph, Any]:
        graph = self.device.new_graph()
        with self._segment(0), self.device.capturing(graph, self._pool):
            output = forward()
        return graph, output
