"""The one seam to the device: all that differs between CUDA, HIP and a CPU.

`AcceleratorDevice` is written against a module shaped like `torch.cuda`, which serves CUDA and HIP alike. Tests hand it
`tape_module.TapeModule`, so that every line written for device graphs runs without a device.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from shapescope.errors import UsageError
from shapescope.tape import TapeGraph


class Graph(Protocol):
    """A captured graph."""

    def replay(self) -> None: ...

    def reset(self) -> None: ...


@dataclass(frozen=True, slots=True)
class MemorySample:
    """Bytes at one moment; None where the device has no such figure."""

    allocator_reserved: int | None = None
    device_free: int | None = None


class Device(Protocol):
    """What capturing, recording and measuring need of a device."""

    kind: str
    torch_device: torch.device

    @property
    def name(self) -> str:
        """The product's name, as traces and comparisons show it."""

    def synchronize(self) -> None: ...

    def new_graph(self) -> Graph: ...

    def new_pool(self) -> Any:
        """A memory pool that the graphs of one runner share."""

    def capturing(self, graph: Any, pool: Any) -> AbstractContextManager[None]:
        """Capture what runs in the body, on the capture stream."""

    def time_ns(self, run: Callable[[], object]) -> int:
        """How long one call takes on the device."""

    def memory(self) -> MemorySample: ...

    def memory_history(self) -> MemoryHistoryApi | None:
        """The allocator's own record of what it did; None where there is none."""


class MemoryHistoryApi(Protocol):
    """torch's allocator history."""

    def start(self) -> None: ...

    def dump(self, path: str) -> None: ...

    def segments(self) -> list[dict[str, Any]]: ...

    def stop(self) -> None: ...


class AcceleratorDevice:
    """CUDA or HIP, through a module shaped like `torch.cuda`."""

    def __init__(
        self, module: Any = torch.cuda, torch_device: torch.device | None = None, *, keep_graphs: bool = False
    ) -> None:
        self.kind = "hip" if torch.version.hip else "cuda"
        self._keep_graphs = keep_graphs  # a graph must be kept for its nodes to be read
        self.torch_device = torch_device or torch.device("cuda", module.current_device())
        self._module = module
        self._stream: Any = None

    @property
    def name(self) -> str:
        name: str = self._module.get_device_name()
        return name

    def synchronize(self) -> None:
        self._module.synchronize()

    def new_graph(self) -> Graph:
        graph: Graph = self._module.CUDAGraph(keep_graph=True) if self._keep_graphs else self._module.CUDAGraph()
        return graph

    def new_pool(self) -> Any:
        return self._module.graph_pool_handle()

    def capturing(self, graph: Any, pool: Any) -> AbstractContextManager[None]:
        if self._stream is None:
            self._stream = self._module.Stream()
        context: AbstractContextManager[None] = self._module.graph(graph, pool=pool, stream=self._stream)
        return context

    def time_ns(self, run: Callable[[], object]) -> int:
        """Between two events of the current stream: the host's own time is not in it."""
        begin, end = (self._module.Event(enable_timing=True) for _ in range(2))
        begin.record()
        run()
        end.record()
        end.synchronize()
        milliseconds: float = begin.elapsed_time(end)
        return round(milliseconds * 1e6)

    def memory(self) -> MemorySample:
        free, _ = self._module.mem_get_info()
        return MemorySample(self._module.memory_reserved(), free)

    def memory_history(self) -> MemoryHistoryApi:
        return _AllocatorHistory(self._module)


class _AllocatorHistory:
    def __init__(self, module: Any) -> None:
        self._module = module

    def start(self) -> None:
        self._module.memory._record_memory_history(max_entries=100_000)

    def dump(self, path: str) -> None:
        self._module.memory._dump_snapshot(path)

    def segments(self) -> list[dict[str, Any]]:
        segments: list[dict[str, Any]] = self._module.memory_snapshot()
        return segments

    def stop(self) -> None:
        self._module.memory._record_memory_history(enabled=None)


class CpuDevice:
    """No device: graphs are tapes, and host time is device time."""

    kind = "cpu"
    torch_device = torch.device("cpu")

    @property
    def name(self) -> str:
        return platform.processor() or platform.machine()

    def synchronize(self) -> None:
        """Nothing runs behind the host's back."""

    def new_graph(self) -> TapeGraph:
        return TapeGraph()

    def new_pool(self) -> Any:
        return None

    def capturing(self, graph: TapeGraph, pool: Any) -> AbstractContextManager[None]:  # noqa: ARG002 - a device's signature
        return graph.capturing()

    def time_ns(self, run: Callable[[], object]) -> int:
        begin = time.perf_counter_ns()
        run()
        return time.perf_counter_ns() - begin

    def memory(self) -> MemorySample:
        return MemorySample()

    def memory_history(self) -> None:
        return None


def open_device(name: str = "auto", *, keep_graphs: bool = False) -> Device:
    """The device of a name: `auto`, `cpu`, `cuda` or `cuda:<n>` (HIP answers to `cuda` too). Raises UsageError."""
    if name == "cpu" or (name == "auto" and not torch.cuda.is_available()):
        return CpuDevice()
    if not torch.cuda.is_available():
        raise UsageError(f"device {name!r} is not here: torch sees no GPU", "Pass --device cpu, or leave it out.")
    try:
        asked = torch.device("cuda" if name == "auto" else name)
    except RuntimeError as error:
        raise UsageError(f"unknown device {name!r}", "Pass auto, cpu, cuda or cuda:<n>.") from error
    if asked.type != "cuda":
        raise UsageError(f"device {name!r} is not supported", "Pass auto, cpu, cuda or cuda:<n>.")
    torch.cuda.set_device(asked)
    return AcceleratorDevice(keep_graphs=keep_graphs)
