"""A graph per segment, and eager calls between them (piecewise or breakable capture)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from shapescope.device import Device, Graph
from shapescope.graphs.backends.base import Backend
from shapescope.graphs.breaks import capture_in_progress


class SegmentedBackend(Backend):
    name = "segmented"

    def _capture(self, forward: Callable[[], Any]) -> tuple[Graph, Any]:
        capture = _Capture(self.device, self._pool, self._segment)
        token = capture_in_progress.set(capture)
        try:
            with capture:
                output = forward()
        finally:
            capture_in_progress.reset(token)
        return SegmentedGraph(capture.parts), output

    def finish(self) -> None:
        for graph in self.graphs.values():
            _ = getattr(graph, "launches", None)


class SegmentedGraph:
    """Segments and eager calls, replayed in the order of the capture."""

    def __init__(self, parts: list[Graph | _EagerCall]) -> None:
        self.parts = parts

    @property
    def segments(self) -> list[Graph]:
        return [part for part in self.parts if not isinstance(part, _EagerCall)]

    @property
    def launches(self) -> list[Any] | None:
        """Of all segments; None where the device's graphs do not tell."""
        found = [getattr(segment, "launches", None) for segment in self.segments]
        return None if None in found else [launch for launches in found for launch in launches or ()]

    def replay(self) -> None:
        for part in self.parts:
            part.replay()

    def reset(self) -> None:
        for segment in self.segments:
            segment.reset()
        self.parts.clear()


class _EagerCall:
    """One call at a break, made again at every replay; its result goes to where the next segment expects it."""

    def __init__(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], result: Any
    ) -> None:
        self._call = (function, args, kwargs)
        self._outputs = [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]

    def replay(self) -> None:
        function, args, kwargs = self._call
        with torch.no_grad():
            results = [leaf for leaf in tree_leaves(function(*args, **kwargs)) if isinstance(leaf, torch.Tensor)]
            for output, result in zip(self._outputs, results, strict=True):
                if output.data_ptr() != result.data_ptr():
                    output.copy_(result)


class _Capture:
    """Segments so far, and the one that is open. Invariant: exactly one is open but for the duration of an eager call."""

    def __init__(self, device: Device, pool: Any, segment: Callable[[int], AbstractContextManager[object]]) -> None:
        self.parts: list[Graph | _EagerCall] = []
        self._device = device
        self._pool = pool
        self._segment = segment
        self._open = ExitStack()
        self._count = 0

    def __enter__(self) -> None:
        graph = self._device.new_graph()
        self._open = ExitStack()
        self._open.enter_context(self._segment(self._count))
        self._open.enter_context(self._device.capturing(graph, self._pool))
        self.parts.append(graph)
        self._count += 1

    def __exit__(self, *error: Any) -> bool | None:
        return self._open.__exit__(*error)

    def eagerly(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self.__exit__(None, None, None)
        with torch.no_grad():
            result = function(*args, **kwargs)
        self.parts.append(_EagerCall(function, args, kwargs, result))
        self.__enter__()
        return result
