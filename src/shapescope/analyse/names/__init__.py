"""Kernel names made comparable: class, family and variant, by rules rather than by a list.

A *family* is what is left when tiles, template integers, hashes and counters are taken out; those are the
*variant*. The rules are the project's kernel name notes. A name that no rule knows stays itself, class
`other`. The raw name is always the identity: two names of one family are alike, not the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import polars as pl

from shapescope.analyse.names import inductor, operators, symbols, syntax, templates
from shapescope.analyse.names.classes import CLASSES
from shapescope.analyse.names.spelling import spell

__all__ = ["CLASSES", "KernelName", "kernel_name", "name_frame"]


@dataclass(frozen=True, slots=True)
class KernelName:
    """A name, read. `kernel_class` is one of `CLASSES`; `variant` is empty if nothing was removed."""

    raw: str
    family: str
    variant: str
    kernel_class: str


@lru_cache(maxsize=65_536)
def kernel_name(raw: str) -> KernelName:
    """The class, family and variant of a kernel as a trace names it, mangled or not. Raises on no name."""
    text = spell(raw)
    reading = inductor.read(text) or operators.read(text) or symbols.read(text) or templates.read(syntax.parse(text))
    if not reading.family:
        return KernelName(raw, raw, "", "other")
    return KernelName(raw, reading.family, "_".join(reading.variant), reading.kernel_class)


def name_frame(names: pl.Series | Iterable[str]) -> pl.DataFrame:
    """One row a distinct name, in the order of first appearance: `kernel`, `class`, `family`, `variant`."""
    distinct = pl.Series(names).cast(pl.String).drop_nulls().unique(maintain_order=True)
    read = [kernel_name(name) for name in distinct]
    return pl.DataFrame(
        {
            "kernel": distinct,
            "class": [name.kernel_class for name in read],
            "family": [name.family for name in read],
            "variant": [name.variant for name in read],
        },
        schema={"kernel": pl.String, "class": pl.String, "family": pl.String, "variant": pl.String},
    )
