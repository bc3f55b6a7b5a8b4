"""Stand-ins for what a machine without a GPU lacks, so that SGLang's real capture code runs on it.

`triton` and `torchvision` are imported by SGLang but never called on the paths driven here: empty modules do. Every
name in them is a class (capitalised) or a module that is also a decorator returning its function unchanged.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

ABSENT = frozenset({"IPython", "torchvision", "triton"})


class _Names(type):
    """A class whose every attribute exists: `tl.constexpr`, `triton.language.dtype`, enum members."""

    def __getattr__(cls, name: str) -> str:
        if name.startswith("__"):
            raise AttributeError(name)
        return f"{cls.__name__}.{name}"


class _Constant:
    """`tl.constexpr(8)`: modules compute with its value while they are imported."""

    def __init__(self, value: Any) -> None:
        self.value = value


class _StandIn(ModuleType):
    """An empty module: sub-modules and classes appear when asked for, calling it decorates without effect."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__: list[str] = []
        self.__spec__ = ModuleSpec(name, None, is_package=True)
        self.__version__ = "3.0.0"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        value = _stand_in(f"{self.__name__}.{name}", name)
        setattr(self, name, value)
        return value

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and callable(args[0]) and not kwargs:
            return args[0]

        def unchanged(function: Callable[..., Any]) -> Callable[..., Any]:
            return function

        return unchanged


def _stand_in(path: str, name: str) -> Any:
    if name == "constexpr":
        return _Constant
    if name[:1].isupper():
        return _Names(name, (), {"__init__": lambda self, *args, **kwargs: None})
    return sys.modules.get(path) or _StandIn(path)


class _Finder(MetaPathFinder, Loader):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] in ABSENT:
            return ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        parent, _, child = module.__name__.rpartition(".")
        if parent in sys.modules:
            setattr(sys.modules[parent], child, module)


def install() -> None:
    """Put the stand-ins in front of every other finder. Call before SGLang is imported."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
