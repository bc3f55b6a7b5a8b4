"""A module shaped like `torch.cuda` whose graphs are tapes: what tests hand to `AcceleratorDevice` where there is no GPU."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from shapescope.tape import TapeGraph


class TapeModule:
    """A module shaped like `torch.cuda` whose graphs are tapes. It keeps the order of calls in `log`, for tests."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.Event = _HostEvent
        self.memory = _Memory(self.log)
        self._pools = 0

    def CUDAGraph(self) -> TapeGraph:
        self.log.append("graph")
        return TapeGraph()

    @contextmanager
    def graph(self, graph: TapeGraph, pool: Any = None, stream: Any = None) -> Iterator[None]:
        self.log.append(f"begin pool={pool} stream={stream}")
        with graph.capturing():
            yield
        self.log.append("end")

    def Stream(self) -> str:
        return "capture-stream"

    def stream(self, stream: Any) -> AbstractContextManager[None]:  # noqa: ARG002 - torch.cuda's signature
        return nullcontext()

    def graph_pool_handle(self) -> tuple[int, int]:
        self._pools += 1
        return (0, self._pools)

    def synchronize(self) -> None:
        self.log.append("synchronize")

    def get_device_name(self) -> str:
        return "tape"

    def current_device(self) -> int:
        return 0

    def mem_get_info(self) -> tuple[int, int]:
        return (0, 0)

    def memory_reserved(self) -> int:
        return 0

    def memory_snapshot(self) -> list[dict[str, Any]]:
        return [{"total_size": 2048, "allocated_size": 512, "blocks": [{}, {}]}]


class _Memory:
    """`torch.cuda.memory`: the history's switches."""

    def __init__(self, log: list[str]) -> None:
        self._log = log

    def _record_memory_history(self, enabled: str | None = "all", max_entries: int = 0) -> None:
        self._log.append(f"history {'off' if enabled is None else f'on {max_entries}'}")

    def _dump_snapshot(self, path: str) -> None:
        Path(path).write_bytes(b"snapshot")


class _HostEvent:
    def __init__(self, enable_timing: bool = False) -> None:
        self._enable_timing = enable_timing
        self._time_ns = 0

    def record(self) -> None:
        self._time_ns = time.perf_counter_ns()

    def synchronize(self) -> None:
        """Already over."""

    def elapsed_time(self, end: _HostEvent) -> float:
        return (end._time_ns - self._time_ns) / 1e6
