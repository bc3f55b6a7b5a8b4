"""A software device under the real `torch.cuda.CUDAGraph` and `torch.cuda.graph` classes, for a CPU build of torch.

Only the C base of `CUDAGraph`, the streams and the memory calls are stand-ins. Between begin and end each ATen call is
noted with its real tensors; a replay issues the same calls and writes what they return into the captured outputs.
"""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


@dataclass
class Call:
    """One noted operation; `surroundings` re-creates what the operation reads beside its arguments."""

    operation: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    output: Any
    surroundings: Any

    def again(self) -> None:
        with self.surroundings():
            output = self.operation(*self.args, **self.kwargs)
        _wait(output)
        for captured, fresh in zip(tree_leaves(self.output), tree_leaves(output), strict=True):
            if isinstance(captured, torch.Tensor) and captured.numel() and captured.data_ptr() != fresh.data_ptr():
                captured.copy_(fresh)


def _wait(output: Any) -> None:
    """A collective returns before its result is there: while a capture runs, torch's own front end waits for it."""
    for leaf in tree_leaves(output):
        if isinstance(leaf, torch.ScriptObject) and hasattr(leaf, "wait"):
            leaf.wait()


@dataclass
class Tape:
    """What one graph holds."""

    calls: list[Call] = field(default_factory=list)


def _only_allocates(operation: Any) -> bool:
    """What it returns holds nothing yet, and may be resized by what fills it."""
    return "empty" in operation._schema.name.partition("::")[2].split("_")


class _TapeMode(TorchDispatchMode):
    """Notes calls on the running tape.

    An operation may end the running capture and begin the next one from inside (a breakable segment): the mode is
    then off the stack already and must stay so, and the operation itself belongs to no tape.
    """

    def __init__(self, surroundings: Callable[[], Any]) -> None:
        super().__init__()
        self.tape: Tape | None = None
        self.inside = False
        self.surroundings = surroundings

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        tape, self.inside = self.tape, True
        try:
            output = func(*args, **(kwargs or {}))
        finally:
            self.inside = False
        if tape is not None and tape is self.tape and not _only_allocates(func):
            tape.calls.append(Call(func, args, kwargs or {}, output, self.surroundings()))
        return output

    def begin(self) -> Tape:
        if self.tape is not None:
            raise RuntimeError("a capture is under way already")
        self.tape = Tape()
        if not self.inside:
            self.__enter__()
        return self.tape

    def end(self, tape: Tape) -> None:
        if self.tape is not tape:
            raise RuntimeError("the capture that ends is not the one under way")
        self.tape = None
        if not self.inside:
            self.__exit__(None, None, None)


class _Stream:
    """A stream on which everything has always finished."""

    device = torch.device("cpu")

    def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    def wait_stream(self, other: Any) -> None: ...

    def synchronize(self) -> None: ...


class _OnStream:
    def __init__(self, stream: Any = None) -> None: ...

    def __enter__(self) -> None: ...

    def __exit__(self, *args: object) -> None: ...


@dataclass
class Counts:
    """What the device was asked for."""

    captures: int = 0
    replays: int = 0


def install(surroundings: Callable[[], Any], *, die_at: int = 0) -> Counts:
    """Put the stand-in under torch. `surroundings` is called at every noted call and gives a context factory.

    The process is killed, with no time for a last word, in the midst of capture number `die_at`.
    """
    mode, counts, pools = _TapeMode(surroundings), Counts(), itertools.count(1)
    base = torch.cuda.CUDAGraph.__mro__[1]

    def capture_begin(graph: Any, pool: Any = None, capture_error_mode: str = "global") -> None:
        graph.stand_in_pool = pool or (0, next(pools))
        graph.tape = mode.begin()

    def capture_end(graph: Any) -> None:
        counts.captures += 1
        if counts.captures == die_at:
            os.kill(os.getpid(), signal.SIGKILL)
        mode.end(graph.tape)

    def replay(graph: Any) -> None:
        counts.replays += 1
        for call in graph.tape.calls:
            call.again()

    base.__new__ = staticmethod(lambda cls, *args, **kwargs: object.__new__(cls))  # type: ignore[method-assign]
    base.__init__ = lambda self, *args, **kwargs: None  # type: ignore[misc]
    base.capture_begin, base.capture_end, base.replay = capture_begin, capture_end, replay  # type: ignore[attr-defined]
    base.reset = base.instantiate = lambda self: None  # type: ignore[attr-defined]
    base.pool = lambda self: self.stand_in_pool  # type: ignore[attr-defined]

    def nothing(*args: Any, **kwargs: Any) -> None: ...

    def pool_handle() -> tuple[int, int]:
        return 0, next(pools)

    torch._C._host_emptyCache = nothing
    torch.cuda.graphs._cuda_isCurrentStreamCapturing = lambda: mode.tape is not None
    torch.cuda.graphs.graph_pool_handle = torch.cuda.graph_pool_handle = torch.cpu.graph_pool_handle = pool_handle
    torch.cuda.Stream, torch.cuda.stream, torch.cuda.current_stream = (
        _Stream,
        _OnStream,
        lambda *args: _Stream(),
    )
    torch.cuda.synchronize = torch.cuda.empty_cache = nothing
    torch.accelerator.synchronize = torch.accelerator.empty_cache = nothing
    torch.accelerator.get_memory_info = lambda *args: (10 << 30, 20 << 30)
    return counts
