"""One kernel's name, read by the first of the rules that knows it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from shapescope.analyse.names import inductor, operators, symbols, syntax, templates
from shapescope.analyse.names.spelling import spell


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
