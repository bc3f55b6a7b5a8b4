"""Windows and segments around the graph captures of an adapter's own call, through the seam that all engines share."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext


def windows_at_graph_entry(window: Callable[[], AbstractContextManager[None]]) -> AbstractContextManager[None]:
    """While the body runs, each capture of this thread is inside a `window()` of its own, opened before it begins."""
    from shapescope.record.hooks import CaptureWindows, watching

    return watching(CaptureWindows(lambda _: window(), nullcontext))


def segments_marked(segment: Callable[[int], AbstractContextManager[object]]) -> AbstractContextManager[None]:
    """While the body runs, each stretch of stream capture is inside `segment(n)`, counted from 0."""
    from shapescope.record.hooks import CaptureWindows, watching

    numbers = itertools.count()
    return watching(CaptureWindows(lambda _: nullcontext(), lambda: segment(next(numbers))))
