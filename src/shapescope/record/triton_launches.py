"""Triton's launches: its own hooks tell of each one, and the launching call of the tensors that it was given.

The hooks are a chain since Triton 3.5 and one function before; older still, they are attributes of `CompiledKernel`.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from typing import Any

from shapescope.record.call_spans import described, enter_span, exit_span
from shapescope.record.guard import Guard
from shapescope.record.patch import Function, Patch


class TritonLaunches:
    """A span around each launch, from `attach` to `detach`; nothing where Triton is not imported."""

    def __init__(self) -> None:
        self._here = threading.local()
        self._detach: list[Callable[[], object]] = []

    def attach(self) -> None:
        hooks = _hooks()
        if hooks is None:
            return
        for name, hook in (("launch_enter_hook", self._enter), ("launch_exit_hook", self._exit)):
            self._detach.append(_add(hooks, name, hook))
        kernels = getattr(sys.modules.get("triton.runtime.jit"), "JITFunction", None)
        if kernels is not None:
            patch = Patch(kernels, "run", self._launching)
            patch.apply()
            self._detach.append(patch.undo)

    def detach(self) -> None:
        while self._detach:
            self._detach.pop()()

    def _launching(self, run: Function) -> Function:
        """`kernel[grid](..)` comes here: what it is given is not told to the hooks."""

        @functools.wraps(run)
        def launching(kernel: Any, *args: Any, **kwargs: Any) -> Any:
            outer: Any = getattr(self._here, "given", ((), {}))
            self._here.given = args, kwargs
            try:
                return run(kernel, *args, **kwargs)
            finally:
                self._here.given = outer

        return launching

    def _enter(self, metadata: Any, *_: object) -> None:
        with Guard("describing a launch of Triton's"):
            args, kwargs = getattr(self._here, "given", ((), {}))
            name = getattr(metadata, "data", metadata)["name"]
            self._here.span = enter_span(described(name, args, kwargs))

    def _exit(self, *_: object) -> None:
        span = getattr(self._here, "span", None)
        if span is not None:
            self._here.span = None
            exit_span(span)


def _hooks() -> Any:
    """What carries the hooks in this version of Triton; None without it."""
    knobs = getattr(sys.modules.get("triton"), "knobs", None)
    runtime = getattr(knobs, "runtime", None)
    if hasattr(runtime, "launch_enter_hook"):
        return runtime
    kernels = getattr(sys.modules.get("triton.compiler"), "CompiledKernel", None)
    return kernels if hasattr(kernels, "launch_enter_hook") else None


def _add(owner: Any, name: str, hook: Callable[..., None]) -> Callable[[], object]:
    """Let a hook run beside whoever is there already; returns what takes it away."""
    there = getattr(owner, name)
    if hasattr(there, "add") and hasattr(there, "remove"):
        there.add(hook)
        return lambda: there.remove(hook)

    def both(*args: Any) -> None:
        if there is not None:
            there(*args)
        hook(*args)

    setattr(owner, name, both)
    return lambda: setattr(owner, name, there) if getattr(owner, name) is both else None
