"""Do something once a module has been imported, whoever imports it and whenever: a server decides that, not we.

A finder at the head of `sys.meta_path` lets the ordinary finders find the module and hooks on to its loader.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

Actions = list[Callable[[ModuleType], None]]


def after_import(name: str, action: Callable[[ModuleType], None]) -> None:
    """Call `action` with the module `name`: now if it is imported already, else right after its first import.

    What `action` raises reaches whoever imports the module: it should raise nothing.
    """
    module = sys.modules.get(name)
    if module is not None:
        action(module)
    else:
        _finder().waiting.setdefault(name, []).append(action)


def _finder() -> _Finder:
    for finder in sys.meta_path:
        if isinstance(finder, _Finder):
            return finder
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    return finder


class _Finder(MetaPathFinder):
    """Finds nothing by itself: it asks the finders behind it, for the awaited modules only."""

    def __init__(self) -> None:
        self.waiting: dict[str, Actions] = {}

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None, _target: ModuleType | None = None, /
    ) -> ModuleSpec | None:
        # Taking the actions out first keeps the search below from coming back here.
        actions = self.waiting.pop(fullname, None)
        if actions is None:
            return None
        spec = importlib.util.find_spec(fullname)
        if spec is None or spec.loader is None:
            self.waiting[fullname] = actions
            return None
        spec.loader = _Loader(spec.loader, actions, self.waiting)
        return spec


class _Loader(Loader):
    """The module's own loader, and our actions after it. The module sees its own loader, as if we had not been here."""

    def __init__(self, loader: Loader, actions: Actions, waiting: dict[str, Actions]) -> None:
        self.loader = loader
        self.actions = actions
        self.waiting = waiting

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self.loader
        module.__loader__ = self.loader
        try:
            self.loader.exec_module(module)
        except BaseException:
            # The import may be tried again.
            self.waiting[module.__name__] = self.actions
            raise
        for action in self.actions:
            action(module)
