"""What a reader of one kind of name hands back."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reading:
    """A family, the tokens that were taken out of it, and its class."""

    family: str
    variant: tuple[str, ...] = ()
    kernel_class: str = "other"
