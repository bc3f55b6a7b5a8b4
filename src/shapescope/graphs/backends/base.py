"""The contract of every backend: two warm-ups, one capture, and a graph and output kept by key."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar

from shapescope.device import Device, Graph
from shapescope.graphs.observer import CaptureObserver
from shapescope.model import GraphKey

WARMUPS = 2


class Backend(ABC):
    """Captures forward functions into graphs that share one memory pool, and replays them by key."""

    name: ClassVar[str]

    def __init__(
        self,
        device: Device,
        *,
        observer: CaptureObserver | None = None,
        barrier: Callable[[], object] | None = None,
    ) -> None:
        self.device = device
        self.graphs: dict[GraphKey, Graph] = {}
        self.outputs: dict[GraphKey, Any] = {}
        self._observer = observer
        self._barrier = barrier
        self._pool = device.new_pool()

    def observe(self, observer: CaptureObserver) -> None:
        """Tell this observer of the captures to come."""
        self._observer = observer

    def capture_one(
        self,
        key: GraphKey,
        forward: Callable[..., Any],
        capture_inputs: tuple[Any, ...] | None = None,
        post_warmup_hook: Callable[[], object] | None = None,
    ) -> Any:
        """Warm up twice, capture once. Returns the static output, which every replay of `key` overwrites.

        Before each warm-up the device and the ranks are brought level; after it the hook runs. Recapturing a key replaces
        its graph. Raises whatever `forward` raises, and CaptureError where the step cannot be captured.
        """
        inputs = capture_inputs or ()
        for index in range(WARMUPS):
            self.device.synchronize()
            if self._barrier is not None:
                self._barrier()
            with self._warmup(key, index):
                forward(*inputs)
            if post_warmup_hook is not None:
                post_warmup_hook()
        with self._capturing(key):
            graph, output = self._capture(lambda: forward(*inputs))
            if self._observer is not None:
                self._observer.captured(key, graph)
        self._keep(key, graph, output)
        return output

    def finish(self) -> None:  # noqa: B027 - most backends have nothing left to do
        """After all captures, where nobody records any more: build what the first replay would have to build."""

    def observing(self, runner: str, keys: Sequence[GraphKey]) -> AbstractContextManager[object]:
        """Around all captures of one runner."""
        return nullcontext() if self._observer is None else self._observer.runner(runner, keys)

    def replay(self, key: GraphKey) -> Any:
        """Launch the graph of a key; returns its static output."""
        self.graphs[key].replay()
        return self.outputs[key]

    def close(self) -> None:
        """Let go of every graph and of the memory that they hold."""
        for graph in self.graphs.values():
            graph.reset()
        self.graphs.clear()
        self.outputs.clear()

    @abstractmethod
    def _capture(self, forward: Callable[[], Any]) -> tuple[Graph, Any]:
        """Capture one call, each segment inside `self._segment(index)`; returns the graph and its output."""

    def _keep(self, key: GraphKey, graph: Graph, output: Any) -> None:
        self.graphs[key] = graph
        self.outputs[key] = output

    def _warmup(self, key: GraphKey, index: int) -> AbstractContextManager[object]:
        return nullcontext() if self._observer is None else self._observer.warmup(key, index, WARMUPS)

    def _capturing(self, key: GraphKey) -> AbstractContextManager[object]:
        return nullcontext() if self._observer is None else self._observer.capture(key)

    def _segment(self, index: int) -> AbstractContextManager[object]:
        return nullcontext() if self._observer is None else self._observer.segment(index)
