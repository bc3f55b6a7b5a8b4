"""How a value reads for a person: the same words on the console, in Markdown and on the page."""

from __future__ import annotations

from typing import Any

DASH = "–"
_TIME_UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "us"))
_BYTE_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def readable(column: str, value: Any) -> str:
    """A cell's text by its column's name: `*_ns` as time, `*_bytes` as size, shares as percent; missing as a dash."""
    if value is None or value == "":
        return DASH
    if column.endswith("_ns"):
        return _scaled(value, _TIME_UNITS, "ns")
    if column.endswith("bytes") or column == "bytes_on_disk":
        return _scaled(value, _BYTE_UNITS, "B")
    if column in _SHARES or column.endswith("_share"):
        return f"{value:.1%}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    if isinstance(value, (list, tuple)):
        return " ".join(map(str, value)) or DASH
    return printable(str(value))


_SHARES = frozenset({"share", "attainment", "attainment_upper", "padding", "completeness", "confidence"})


def printable(text: str) -> str:
    """Control characters (terminal escapes among them) and direction marks as visible escapes."""
    return "".join(c if c.isprintable() or c == " " else c.encode("unicode_escape").decode() for c in text)


def _scaled(value: float, units: tuple[tuple[float, str], ...], smallest: str) -> str:
    for size, name in units:
        if abs(value) >= size:
            return f"{value / size:.2f} {name}"
    return f"{value:g} {smallest}"
