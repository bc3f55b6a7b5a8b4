"""torch.compile for each shape: a fast backend without a device graph. It compiles in the warm-ups, never in a window."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from shapescope.device import Graph
from shapescope.graphs.backends.base import Backend
from shapescope.model import GraphKey

# torch counts every shape as a recompilation of one function, and falls back to eager beyond its default of 8.
_SHAPES_OF_ONE_STEP = 4096


class CompiledBackend(Backend):
    name = "compiled"

    def capture_one(
        self,
        key: GraphKey,
        forward: Callable[..., Any],
        capture_inputs: tuple[Any, ...] | None = None,
        post_warmup_hook: Callable[[], object] | None = None,
    ) -> Any:
        compiled = torch.compile(forward, dynamic=False)
        with torch.no_grad(), torch._dynamo.config.patch(recompile_limit=_SHAPES_OF_ONE_STEP):
            return super().capture_one(key, compiled, capture_inputs, post_warmup_hook)

    def _capture(self, forward: Callable[[], Any]) -> tuple[Graph, Any]:
        with self._segment(0):
            output = forward()
        return _CompiledStep(forward, output), output


class _CompiledStep:
    """The compiled step over static inputs; a replay writes into the output of the capture."""

    def __init__(self, forward: Callable[[], Any], output: Any) -> None:
        self._forward: Callable[[], Any] | None = forward
        self._outputs = [leaf for leaf in tree_leaves(output) if isinstance(leaf, torch.Tensor)]

    def replay(self) -> None:
        assert self._forward is not None, "the graph was reset"
        with torch.no_grad():
            results = [leaf for leaf in tree_leaves(self._forward()) if isinstance(leaf, torch.Tensor)]
            for output, result in zip(self._outputs, results, strict=True):
                output.copy_(result)

    def reset(self) -> None:
        self._forward = None
        self._outputs.clear()
