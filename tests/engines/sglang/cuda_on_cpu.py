"""CUDA on a machine without a GPU: the real `torch.cuda.CUDAGraph` and `torch.cuda.graph` over a tape.

Only the C++ base below torch's Python classes is replaced, and the calls around it that need a driver. What a capture
records is a `shapescope.tape.TapeGraph`, so a replay really recomputes the captured ops into the same memory.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
import torch.cuda.graphs

from shapescope.tape import TapeGraph


@dataclass
class Log:
    """What happened on the stand-in: begins and ends of captures, warm or not, and the memory history's state."""

    captures: int = 0
    segments: int = 0
    live: list[Any] = field(default_factory=list)
    memory_history: bool = False


log = Log()


class Stream:
    """Order is the host's own: nothing runs behind its back."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.device = torch.device("cpu")
        self.stream_id = id(self)

    def wait_stream(self, other: object) -> None: ...

    def wait_event(self, event: object) -> None: ...

    def synchronize(self) -> None: ...


class Event:
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    def record(self, stream: object = None) -> None: ...

    def synchronize(self) -> None: ...


class _OnStream:
    def __init__(self, stream: object) -> None:
        self.stream = stream

    def __enter__(self) -> _OnStream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


_CURRENT = Stream()


def _begin(graph: Any, pool: Any = None, capture_error_mode: str = "global") -> None:
    if log.live:
        raise RuntimeError("a capture is live on this stream already")
    graph._tape = TapeGraph()
    graph._pool = pool or (0, 1)
    graph._recording = graph._tape.capturing()
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
    base: Any = torch.cuda.graphs.CUDAGraph.__mro__[1]
    assert base.__name__ == "_CUDAGraph", base
    base.__new__ = staticmethod(lambda kind, *args, **kwargs: object.__new__(kind))
    base.__init__ = lambda graph, *args, **kwargs: None
    base.capture_begin, base.capture_end = _begin, _end
    base.instantiate = lambda graph: None
    base.replay = lambda graph: graph._tape.replay()
    base.reset = lambda graph: graph._tape.reset()
    base.pool = lambda graph: graph._pool

    pools = iter(range(1, 1 << 30))
    cuda: Any = torch.cuda
    cuda.Stream, cuda.Event, cuda.stream = Stream, Event, _OnStream
    cuda.current_stream = lambda *args: _CURRENT
    cuda.synchronize = cuda.empty_cache = lambda *args: None
    cuda.current_device = lambda: 0
    cuda.is_current_stream_capturing = lambda: bool(log.live)
    cuda.graph_pool_handle = torch.cuda.graphs.graph_pool_handle = lambda: (0, next(pools))
    cuda.memory._dump_snapshot = _dump_snapshot
    cuda.memory._record_memory_history = _record_memory_history
    torch.accelerator.synchronize = torch.accelerator.empty_cache = lambda *args, **kwargs: None
    torch.get_device_module = lambda device=None: torch.cuda  # type: ignore[assignment]
    # torch.cuda.graph.__enter__ empties the pinned host cache of a CUDA build.
    if not hasattr(torch._C, "_host_emptyCache"):
        torch._C._host_emptyCache = lambda: None  # type: ignore[attr-defined]

