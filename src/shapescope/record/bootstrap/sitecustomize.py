"""Python runs this at the start of every process below `shapescope record`: captures are watched once torch is imported.

It then gives way to the `sitecustomize` that Python would have run without us.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from importlib.machinery import PathFinder


def _watch() -> None:
    try:
        from shapescope.engines.after_import import after_import
    except ImportError:  # another interpreter than ours, which has no shapescope
        return
    after_import("torch", lambda _: _watch_torch())


def _watch_torch() -> None:
    from shapescope.engines.any import watch

    watch()


def _give_way() -> None:
    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - every process pays for what is imported here
    sys.path[:] = [entry for entry in sys.path if entry != here]
    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


_watch()
_give_way()
