"""Points where a model runs eagerly between captured segments, such as attention whose metadata changes every step.

A model marks such a point with `run_eagerly(function, ...)`. Outside a segmented capture that is a plain call.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Protocol


class SegmentedCapture(Protocol):
    """A capture in progress that can step aside for one eager call."""

    def eagerly(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any: ...


capture_in_progress: ContextVar[SegmentedCapture | None] = ContextVar("capture_in_progress", default=None)


def run_eagerly(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call `function`; a segmented capture ends its segment before the call, and replays call it again between two."""
    capture = capture_in_progress.get()
    return function(*args, **kwargs) if capture is None else capture.eagerly(function, args, kwargs)
