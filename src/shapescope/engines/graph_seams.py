"""The seams of torch's graph capture, bracketed for as long as an adapter needs them and then put back.

`torch.cuda.graph` is what most engines enter; beneath it, and alone in breakable captures, are `CUDAGraph.capture_begin`
and `capture_end`. What opens before them opens while nothing is being captured yet.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any


def windows_at_graph_entry(window: Callable[[], AbstractContextManager[None]]) -> AbstractContextManager[None]:
    """While the body runs, each `torch.cuda.graph` is inside a `window()` of its own."""
    import torch

    return _bracketed(torch.cuda.graph, "__enter__", "__exit__", window)


def segments_marked(segment: Callable[[int], AbstractContextManager[object]]) -> AbstractContextManager[None]:
    """While the body runs, each stretch of stream capture is inside `segment(n)`, counted from 0."""
    import torch

    numbers = itertools.count()
    return _bracketed(torch.cuda.CUDAGraph, "capture_begin", "capture_end", lambda: segment(next(numbers)))


@contextmanager
def _bracketed(
    owner: type, first: str, last: str, context: Callable[[], AbstractContextManager[object]]
) -> Iterator[None]:
    """Enter `context()` before `first` and leave it after `last` of the same object, with whatever went wrong there."""
    begin, end = getattr(owner, first), getattr(owner, last)
    opened: dict[int, ExitStack] = {}

    def beginning(capture: Any, *args: Any, **kwargs: Any) -> Any:
        with ExitStack() as stack:
            stack.enter_context(context())
            result = begin(capture, *args, **kwargs)
            opened[id(capture)] = stack.pop_all()
        return result

    def ending(capture: Any, *args: Any) -> Any:
        with opened.pop(id(capture), ExitStack()) as stack:
            result = end(capture, *args)
            if last == "__exit__":
                stack.pop_all().__exit__(*args)
        return result

    setattr(owner, first, beginning)
    setattr(owner, last, ending)
    try:
        yield
    finally:
        setattr(owner, first, begin)
        setattr(owner, last, end)
