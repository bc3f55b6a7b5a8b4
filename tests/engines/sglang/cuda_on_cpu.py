"""CUDA on a machine without a GPU: the real `torch.cuda.CUDAGraph` and `torch.cuda.graph` over a tape; XPU likewise.

Only the C++ base below torch's Python classes is replaced, and the calls around it that need a driver. What a capture
records is a `shapescope.tape.TapeGraph`, so a replay really recomputes the captured ops into the same memory.
"""

from __future__ import annotations

import pickle
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
import torch.cuda.graphs

from shapescope.tape import TapeGraph


@dataclass
class Log:
    """What happened on the stand-in: the captures that began, the one that is live, whether allocations are recorded."""

    segments: int = 0
    live: list[Any] = field(default_factory=list)
    memory_history: bool = False


log = Log()
# As it is before anybody watches tapes: on this device a tape is what a graph is made of, and no graph itself.
_note = TapeGraph.capturing


class Stream:
    """Order is the host's own: nothing runs behind its back."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.device = torch.device("cpu")
        self.stream_id = id(self)

    def wait_stream(self, other: object) -> None: ...

    def wait_event(self, event: object) -> None: ...

    def synchronize(self) -> None: ...

    def __enter__(self) -> Stream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Event:
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.time_ns = 0

    def record(self, stream: object = None) -> None:
        self.time_ns = time.perf_counter_ns()

    def synchronize(self) -> None: ...

    def elapsed_time(self, end: Event) -> float:
        return (end.time_ns - self.time_ns) / 1e6


_CURRENT = Stream()


def _begin(graph: Any, pool: Any = None, capture_error_mode: str = "global") -> None:
    if log.live:
        raise RuntimeError("a capture is live on this stream already")
    graph._tape = TapeGraph()
    graph._pool = pool or (0, 1)
    graph._recording = _note(graph._tape)
    graph._recording.__enter__()
    log.live.append(graph)
    log.segments += 1


def _end(graph: Any) -> None:
    assert log.live == [graph], "the capture that ends is not the one that is live"
    log.live.clear()
    graph._recording.__exit__(None, None, None)


def _dump_snapshot(filename: str = "dump_snapshot.pickle") -> None:
    Path(filename).write_bytes(pickle.dumps({"segments": [], "device_traces": []}))


def _record_memory_history(enabled: str | None = "all", *args: Any, **kwargs: Any) -> None:
    log.memory_history = enabled is not None


def install() -> None:
    """Patch torch for the rest of this process: `torch.get_device_module` gives `torch.cuda` for every device."""
    _stand_below(torch.cuda.graphs.CUDAGraph, "_CUDAGraph")
    _stand_below(torch.xpu.XPUGraph, "_XPUGraph")
    for module in (torch.cuda, torch.xpu):
        _stand_around(module)
    cuda: Any = torch.cuda
    cuda.get_device_name = lambda *args: "a tape"
    cuda.mem_get_info = lambda *args: (10 << 30, 20 << 30)
    cuda.memory_reserved = lambda *args: 0
    cuda.memory_snapshot = lambda *args, **kwargs: []
    cuda.memory._dump_snapshot = _dump_snapshot
    cuda.memory._record_memory_history = _record_memory_history
    torch.accelerator.synchronize = torch.accelerator.empty_cache = lambda *args, **kwargs: None
    torch.get_device_module = lambda device=None: torch.cuda  # type: ignore[assignment]
    # torch.cuda.graph.__enter__ empties the pinned host cache of a CUDA build.
    if not hasattr(torch._C, "_host_emptyCache"):
        torch._C._host_emptyCache = lambda: None  # type: ignore[attr-defined]


def _stand_below(graphs: Any, name: str) -> None:
    base: Any = graphs.__mro__[1]
    assert base.__name__ == name, base
    base.__new__ = staticmethod(lambda kind, *args, **kwargs: object.__new__(kind))
    base.__init__ = lambda graph, *args, **kwargs: None
    base.capture_begin, base.capture_end = _begin, _end
    base.instantiate = lambda graph: None
    base.replay = lambda graph: graph._tape.replay()
    base.reset = lambda graph: graph._tape.reset()
    base.pool = lambda graph: graph._pool


def _stand_around(module: Any) -> None:
    pools = iter(range(1, 1 << 30))
    module.Stream, module.Event = Stream, Event
    module.stream = lambda stream=None: stream or _CURRENT
    module.current_stream = lambda *args: _CURRENT
    module.current_device = lambda: 0
    module.synchronize = module.empty_cache = lambda *args: None
    module.is_current_stream_capturing = lambda: bool(log.live)
    module.graph_pool_handle = lambda: (0, next(pools))
