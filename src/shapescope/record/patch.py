"""A function of somebody else's, replaced for a while and put back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Function = Callable[..., Any]


@dataclass(slots=True)
class Patch:
    """`owner.name` as `wrap(real)`. The owner is a class or a module."""

    owner: Any
    name: str
    wrap: Callable[[Function], Function]
    real: Function | None = None
    ours: Function | None = None

    def apply(self) -> None:
        self.real = getattr(self.owner, self.name)
        self.ours = self.wrap(self.real)
        setattr(self.owner, self.name, self.ours)

    def undo(self) -> None:
        """Put the real function back, unless somebody has patched over ours since: theirs goes on calling through ours."""
        if getattr(self.owner, self.name, None) is self.ours:
            setattr(self.owner, self.name, self.real)
