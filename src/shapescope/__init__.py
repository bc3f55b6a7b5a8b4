"""Which kernels serve production at every batch size: record, read and judge the graph capture of LLM servers."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Imported when first asked for: most processes that load this package need little of it.
_PUBLIC = {
    "CaptureProfiler": "shapescope.record.profiler",
    "GraphKey": "shapescope.model",
    "GraphRunner": "shapescope.graphs.runner",
    "open_run": "shapescope.read.run",
    "record_model": "shapescope.engines.decode.record",
    "runner": "shapescope.labels",
    "shape": "shapescope.labels",
    "watch": "shapescope.engines.any",
}

if TYPE_CHECKING:
    from shapescope.engines.any import watch
    from shapescope.engines.decode.record import record_model
    from shapescope.graphs.runner import GraphRunner
    from shapescope.labels import runner, shape
    from shapescope.model import GraphKey
    from shapescope.read.run import open_run
    from shapescope.record.profiler import CaptureProfiler

__all__ = [
    "CaptureProfiler", "GraphKey", "GraphRunner", "__version__", "open_run", "record_model", "runner", "shape", "watch",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})
