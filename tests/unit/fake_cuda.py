"""A stand-in for the C base of `torch.cuda.CUDAGraph` on a CPU build, backed by our tape.

The Python classes `torch.cuda.CUDAGraph` and `torch.cuda.graph` stay torch's own: only what they call in C, the streams
and the memory calls are replaced. Not concurrent captures on one device, as on a real one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from typing import Any

import torch

from shapescope import tape


class Stream:
    """A stream on which everything has always finished."""

    def __init__(self, *args: object, **kwargs: object) -> None: ...

    def wait_stream(self, other: object) -> None: ...

    def synchronize(self) -> None: ...


class State:
    """What the device does, and what it shall refuse."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.live: Any = None
        self.refuse_begin: BaseException | None = None
        self.refuse_end: BaseException | None = None


def install(setattr: Callable[[Any, str, Any], object] = setattr) -> State:
    """Put the stand-in under torch; `monkeypatch.setattr` takes it away again."""
    state, pools = State(), itertools.count(1)
    base = torch.cuda.CUDAGraph.__mro__[1]

    def capture_begin(graph: Any, pool: Any = None, capture_error_mode: str = "global") -> None:
        if state.refuse_begin is not None:
            raise state.refuse_begin
        if state.live is not None:
            raise RuntimeError("a capture is under way already")
        state.log.append("begin")
        state.live = graph
        graph.tape, graph.stand_in_pool, graph.notes = tape.TapeGraph(), pool or (0, next(pools)), ExitStack()
        graph.notes.enter_context(torch.no_grad())
        graph.notes.enter_context(tape._Notes(graph.tape._calls))

    def capture_end(graph: Any) -> None:
        state.live = None
        graph.notes.close()
        state.log.append("end")
        if state.refuse_end is not None:
            raise state.refuse_end

    def replay(graph: Any) -> None:
        state.log.append("replay")
        graph.tape.replay()

    def nothing(*args: object, **kwargs: object) -> None: ...

    def pool_handle() -> tuple[int, int]:
        return 0, next(pools)

    replaced = {
        "__new__": staticmethod(lambda cls, *args, **kwargs: object.__new__(cls)),
        "__init__": nothing,
        "capture_begin": capture_begin,
        "capture_end": capture_end,
        "replay": replay,
        "reset": lambda graph: graph.tape.reset(),
        "pool": lambda graph: graph.stand_in_pool,
        "launches": property(lambda graph: graph.tape.launches),
    }
    for name, value in replaced.items():
        _set(setattr, base, name, value)
    for owner, name, value in (
        (torch._C, "_host_emptyCache", nothing),
        (torch.cuda, "Stream", Stream),
        (torch.cuda, "stream", lambda stream=None: nullcontext()),
        (torch.cuda, "current_stream", lambda *args: Stream()),
        (torch.cuda, "synchronize", nothing),
        (torch.cuda, "empty_cache", nothing),
        (torch.cuda.graphs, "graph_pool_handle", pool_handle),
        (torch.cuda, "graph_pool_handle", pool_handle),
    ):
        _set(setattr, owner, name, value)
    return state


def _set(setattr: Callable[..., object], owner: Any, name: str, value: Any) -> None:
    if getattr(setattr, "__self__", None) is None:
        setattr(owner, name, value)
    else:
        setattr(owner, name, value, raising=False)  # monkeypatch: what a CPU build lacks may be added
