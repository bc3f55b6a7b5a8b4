"""How a value reads for a person: the same words on the console, in Markdown and on the page (frontend/src/values.ts)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

DASH = "–"
_SHARES = frozenset({"share", "attainment", "attainment_upper", "padding", "completeness", "confidence", "idle"})


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit of display, and how many of the stored unit it holds."""

    name: str
    size: float

    def number(self, value: float) -> str:
        scaled = value / self.size
        return f"{scaled:,.0f}" if self.size == 1 or abs(scaled) >= 1000 else f"{scaled:.2f}"


_TIMES = (Unit("s", 1e9), Unit("ms", 1e6), Unit("us", 1e3), Unit("ns", 1))
_SIZES = (Unit("GiB", 1 << 30), Unit("MiB", 1 << 20), Unit("KiB", 1 << 10), Unit("B", 1))


def _units(column: str) -> tuple[Unit, ...] | None:
    if column.endswith("_ns"):
        return _TIMES
    return _SIZES if column.endswith("bytes") or column == "bytes_on_disk" else None


def column_unit(column: str, values: Sequence[Any]) -> Unit | None:
    """The unit in which a whole column reads well: that of its median; None for what is no time or size."""
    units = _units(column)
    numbers = [abs(value) for value in values if isinstance(value, (int, float))]
    return None if units is None or not numbers else _fitting(units, median(numbers))


def _fitting(units: tuple[Unit, ...], value: float) -> Unit:
    return next((unit for unit in units if abs(value) >= unit.size), units[-1])


def readable(column: str, value: Any) -> str:
    """A cell's text by its column's name: `*_ns` as time, `*bytes` as size, shares as percent; missing as a dash."""
    if value is None or value == "":
        return DASH
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if (units := _units(column)) is not None:
            unit = _fitting(units, value)
            return f"{unit.number(value)} {unit.name}"
        if column in _SHARES or column.endswith("_share"):
            return f"{value:.1%}"
    return printable(_words(value)) or DASH


def _words(value: Any) -> str:
    if value is None:
        return DASH
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_words(one)}" for name, one in value.items())
    if isinstance(value, (list, tuple)):
        return " ".join(map(_words, value))
    return str(value)


def printable(text: str) -> str:
    """Control characters (terminal escapes among them) and direction marks as visible escapes."""
    return "".join(c if c.isprintable() or c == " " else c.encode("unicode_escape").decode() for c in text)
