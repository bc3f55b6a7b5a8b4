"""Shapes for kernels that no torch op announces: named functions are wrapped in a span that carries their tensors.

flashinfer, aiter, deep_gemm and hand-launched Triton kernels reach the driver without passing the dispatcher. Only while a
window is open are the functions replaced: in their modules, in the classes there, and wherever else they were imported by
name. Modules that nobody has imported are not imported for this.

Invariant: torch.compile never traces a wrapper into what it keeps. It guards on the identity of what it calls, so once it
begins to compile inside a window, everything is put back and stays so.
"""

from __future__ import annotations

import functools
import inspect
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import torch

from shapescope.record.call_spans import described, enter_span, exit_span
from shapescope.record.guard import Guard, log
from shapescope.record.patch import Function, Patch
from shapescope.record.triton_launches import TritonLaunches


class Discovery:
    """The functions of some modules, wrapped while any window is open. A name is a module with all below it, or a function."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = tuple(names)
        self._lock = threading.RLock()
        self._open = 0
        self._off = not names
        self._watching_compiler = False
        self._seen = 0
        self._patches: list[Patch] = []
        self._triton = TritonLaunches()

    def wrap(self) -> None:
        """Before a window opens."""
        if self._off:
            return
        with self._lock:
            self._open += 1
            if self._open == 1:
                with Guard("finding functions to wrap"):
                    self._watch_compiler()
                    self._find()
                    for patch in self._patches:
                        patch.apply()
                    self._triton.attach()

    def unwrap(self) -> None:
        """After it has closed."""
        with self._lock:
            if self._open == 0:
                return
            self._open -= 1
            if self._open == 0:
                self._put_back()

    def _put_back(self) -> None:
        for patch in reversed(self._patches):
            patch.undo()
        self._triton.detach()

    def _find(self) -> None:
        """Look again only where modules were imported since."""
        if self._seen != len(sys.modules):
            self._seen = len(sys.modules)
            self._patches = list(_patches(self._names))

    def _watch_compiler(self) -> None:
        dynamo = sys.modules.get("torch._dynamo.callback")
        if dynamo is not None and not self._watching_compiler:
            dynamo.callback_handler.register_start_callback(self._compiles)
            self._watching_compiler = True

    def _compiles(self, *_: object) -> None:
        with self._lock:
            if self._open and not self._off:
                self._off, self._open = True, 0
                self._put_back()
                log.warning("torch.compile is at work inside a window: functions are not wrapped any more")


def _patches(names: Iterable[str]) -> Iterator[Patch]:
    """Every place that holds one of the functions: modules all over the process, and the classes of the named modules."""
    wanted: dict[int, Callable[[Function], Function]] = {}
    for owner, name, function, title in _functions(names):
        if id(function) in wanted:
            continue
        wrap = functools.partial(_wrapped, title)
        wanted[id(function)] = wrap
        if isinstance(owner, type):
            yield Patch(owner, name, wrap)
    for module in [module for module in list(sys.modules.values()) if isinstance(module, ModuleType)]:
        for name, value in list(vars(module).items()):
            if id(value) in wanted:
                yield Patch(module, name, wanted[id(value)])


def _functions(names: Iterable[str]) -> Iterator[tuple[Any, str, Function, str]]:
    """Owner, attribute, function and full name of what the names mean, among what is imported by now."""
    for name in names:
        modules = [found for label, found in list(sys.modules.items()) if f"{label}.".startswith(f"{name}.")]
        for module in modules:
            yield from _of_module(module, name.partition(".")[0])
        parent, _, last = name.rpartition(".")
        function: Any = getattr(sys.modules.get(parent), last, None)
        if not modules and _is_plain(function):
            yield sys.modules[parent], last, function, name


def _of_module(module: ModuleType, package: str) -> Iterator[tuple[Any, str, Function, str]]:
    """The public functions of a module and of its classes; what it only imports from elsewhere is not meant."""
    for name, value in list(vars(module).items()):
        home = getattr(value, "__module__", None) or module.__name__
        if name.startswith("_") or f"{home}.".partition(".")[0] != package:
            continue
        if _is_plain(value):
            yield module, name, value, _title(value, module, name)
        elif isinstance(value, type) and home == module.__name__:
            for method, function in list(vars(value).items()):
                if isinstance(function, FunctionType) and _is_plain(function) and _is_public(method):
                    yield value, method, function, f"{module.__name__}.{name}.{method}"


def _title(function: Any, module: ModuleType, name: str) -> str:
    """Where a function is at home, whoever else has imported it; one that a decorator has made has no such place."""
    home, qualified = getattr(function, "__module__", None), function.__qualname__
    return f"{home}.{qualified}" if home and "<" not in qualified else f"{module.__name__}.{name}"


def _is_public(method: str) -> bool:
    return method == "__call__" or not method.startswith("_")


def _is_plain(value: Any) -> bool:
    """A function whose work is over when it returns."""
    if not isinstance(value, (FunctionType, BuiltinFunctionType)) or hasattr(value, "shapescope_discovered"):
        return False
    lazy = (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)
    return not any(check(value) for check in lazy)


def _wrapped(title: str, function: Function) -> Function:
    @functools.wraps(function)
    def discovered(*args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            return function(*args, **kwargs)
        span = None
        with Guard(f"describing a call of {title}"):
            span = enter_span(described(title, args, kwargs))
        try:
            return function(*args, **kwargs)
        finally:
            if span is not None:
                exit_span(span)

    discovered.shapescope_discovered = True  # type: ignore[attr-defined]
    return discovered
