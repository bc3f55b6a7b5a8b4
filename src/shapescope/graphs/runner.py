"""A graph runner: one graph per captured size, replayed for the smallest size that fits."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

from shapescope.device import Device, open_device
from shapescope.errors import UsageError
from shapescope.graphs.backends import create
from shapescope.graphs.observer import CaptureObserver
from shapescope.graphs.sizes import checked_sizes
from shapescope.model import GraphKey, Phase, Shape, Unit


@dataclass(frozen=True, slots=True)
class StepResult:
    """The output of one step, cut to the real size, and how it ran: on which captured size, or eagerly (None)."""

    output: Any
    size: int
    captured_size: int | None

    @property
    def padded(self) -> int:
        """Slots that ran without a request in them."""
        return 0 if self.captured_size is None else self.captured_size - self.size


class GraphRunner:
    """Owns the graphs of one phase: a step function over static buffers, captured at each size.

    Every buffer's first dimension counts slots and is at least the largest size. A step sees the buffers cut to one size,
    by name. What a batch does not fill keeps `padding[name]`, 0 if not given, so that a padded slot never disturbs another.
    """

    def __init__(
        self,
        step: Callable[..., Any],
        buffers: Mapping[str, torch.Tensor],
        sizes: Sequence[int],
        *,
        name: str = "DecodeRunner",
        phase: Phase = Phase.DECODE,
        unit: Unit = Unit.REQUESTS,
        variants: tuple[str, ...] = (),
        backend: str = "auto",
        device: Device | None = None,
        observer: CaptureObserver | None = None,
        barrier: Callable[[], object] | None = None,
        padding: Mapping[str, torch.Tensor] | None = None,
    ) -> None:
        self.sizes = checked_sizes(sizes)
        self.name = name
        self._step = step
        self._buffers = dict(buffers)
        self._padding = dict(padding or {})
        self._keys = {size: GraphKey(name, Shape(size, unit, variants), phase) for size in self.sizes}
        self.backend = create(backend, device or open_device(), observer=observer, barrier=barrier)
        for label, buffer in self._buffers.items():
            if buffer.shape[0] < self.sizes[-1]:
                raise UsageError(
                    f"buffer {label!r} holds {buffer.shape[0]} slots, but size {self.sizes[-1]} is asked for"
                )

    @property
    def keys(self) -> tuple[GraphKey, ...]:
        """In the order of capture: the largest first, so that smaller graphs find their memory in the pool."""
        return tuple(self._keys[size] for size in reversed(self.sizes))

    def capture(self, post_warmup_hook: Callable[[], object] | None = None) -> None:
        """Capture every size, from the largest to the smallest."""
        with self.backend.observing(self.name, self.keys):
            for key in self.keys:
                self.backend.capture_one(key, self._forward(key.shape.size), None, post_warmup_hook)
        self.backend.finish()

    def __call__(self, **batch: torch.Tensor) -> StepResult:
        """Run one batch. Each input has as many slots as the batch has requests (or tokens)."""
        size = _common_size(batch)
        index = bisect_left(self.sizes, size)
        if index == len(self.sizes):
            return StepResult(self._step(**batch), size, None)
        captured = self.sizes[index]
        self._fill(batch, size, captured)
        output = self.backend.replay(self._keys[captured])
        return StepResult(_cut(output, size), size, captured)

    def replay(self, size: int) -> Any:
        """Launch the graph of one captured size on what stands in the buffers."""
        return self.backend.replay(self._keys[size])

    def close(self) -> None:
        self.backend.close()

    def _forward(self, size: int) -> Callable[[], Any]:
        inputs = {label: buffer[:size] for label, buffer in self._buffers.items()}
        return lambda: self._step(**inputs)

    def _fill(self, batch: Mapping[str, torch.Tensor], size: int, captured: int) -> None:
        for label, buffer in self._buffers.items():
            buffer[:size].copy_(batch[label])
            if captured > size:
                rest = self._padding.get(label)
                buffer[size:captured] = 0 if rest is None else rest[size:captured]


def _common_size(batch: Mapping[str, torch.Tensor]) -> int:
    sizes = {tensor.shape[0] for tensor in batch.values()}
    if len(sizes) != 1:
        raise UsageError(f"the inputs of a batch have different sizes: {sorted(sizes)}")
    size: int = sizes.pop()
    if size == 0:
        raise UsageError("a batch of size 0 has nothing to run")
    return size


def _cut(output: Any, size: int) -> Any:
    return tree_map_only(torch.Tensor, lambda tensor: tensor[:size], output)
