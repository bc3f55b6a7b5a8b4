"""Which device a trace ran on and what that device can do at best: peaks per number type, memory bandwidth.

The table is `devices.toml`; every number there names its source. A device is found by its name; where the
name is empty, by memory size, compute capability and processor count, and only if these leave one device.
Everything else is unknown, and then only absolute figures are shown.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any

from shapescope.errors import UsageError

GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Device:
    """One device model. Peaks in FLOP/s by number type (`bf16`, `fp8`, ..), dense; bandwidth in bytes/s; None
    = unpublished.
    """

    name: str
    vendor: str
    peak: Mapping[str, float]
    bandwidth: float | None
    peak_source: str
    bandwidth_source: str | None
    names: tuple[str, ...]
    gib: tuple[float, float]
    capability: str
    processors: int | None

    def allows(self, properties: Mapping[str, Any]) -> bool:
        """Do memory, capability and processor count of a trace, as far as stated, fit this model?"""
        memory, major, processors = (properties.get(field) for field in ("totalGlobalMem", "computeMajor", "numSms"))
        if memory and not self.gib[0] <= memory / GIB <= self.gib[1]:
            return False
        if major and f"{major}.{properties.get('computeMinor', 0)}" != self.capability:
            return False
        return not (processors and self.processors and processors != self.processors)


@lru_cache(maxsize=1)
def devices() -> tuple[Device, ...]:
    """The device table, in the order of `devices.toml`."""
    table = tomllib.loads((files(__package__) / "devices.toml").read_text(encoding="utf-8"))
    return tuple(_device(entry) for entry in table["device"])


def _device(entry: Mapping[str, Any]) -> Device:
    bandwidth = entry.get("bandwidth")
    return Device(
        name=entry["name"],
        vendor=entry["vendor"],
        peak={kind: tera * 1e12 for kind, tera in entry["peak"].items()},
        bandwidth=None if bandwidth is None else bandwidth * 1e9,
        peak_source=entry["peak_source"],
        bandwidth_source=entry.get("bandwidth_source"),
        names=tuple(entry["names"]),
        gib=(entry["gib"][0], entry["gib"][1]),
        capability=entry["capability"],
        processors=entry.get("processors"),
    )


def find_device(properties: Mapping[str, Any]) -> Device | None:
    """The device that one entry of a trace's `deviceProperties` describes, or None where that is not certain.

    A partition of a device (MIG, CPX) keeps the name but not the memory or the processors, and is unknown.
    """
    name = str(properties.get("name") or "").strip()
    fitting = [device for device in devices() if device.allows(properties)]
    if name:
        named = [d for d in fitting if any(re.fullmatch(pattern, name) for pattern in d.names)]
        return named[0] if len(named) == 1 else None
    if not properties.get("totalGlobalMem") or not properties.get("computeMajor"):
        return None
    vendor = {64: "AMD", 32: "NVIDIA"}.get(properties.get("warpSize", 0))
    unnamed = [device for device in fitting if vendor in (None, device.vendor)]
    return unnamed[0] if len(unnamed) == 1 else None


def trace_device(entries: Sequence[Mapping[str, Any]]) -> Device | None:
    """The device of a whole trace, from its `deviceProperties` list: all entries must be the same model."""
    found = {device.name if (device := find_device(entry)) else None for entry in entries}
    return find_device(entries[0]) if len(found) == 1 else None


def device_named(name: str) -> Device:
    """The device of a `--device NAME`, spelled as in the table (any case). Raises UsageError with the known
    names.
    """
    for device in devices():
        if device.name.casefold() == name.casefold():
            return device
    raise UsageError(f"unknown device {name!r}", "Known: " + ", ".join(device.name for device in devices()))
