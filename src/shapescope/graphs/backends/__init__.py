"""How a runner captures and replays: one backend a file."""

from __future__ import annotations

from typing import Any

from shapescope.device import Device
from shapescope.errors import UsageError
from shapescope.graphs.backends.base import Backend
from shapescope.graphs.backends.compiled import CompiledBackend
from shapescope.graphs.backends.full import FullBackend
from shapescope.graphs.backends.segmented import SegmentedBackend
from shapescope.graphs.backends.tape import TapeBackend

BACKENDS: dict[str, type[Backend]] = {
    kind.name: kind for kind in (FullBackend, TapeBackend, SegmentedBackend, CompiledBackend)
}


def create(name: str, device: Device, **options: Any) -> Backend:
    """The backend of a name; `auto` is what the device is made for. Raises UsageError."""
    if name == "auto":
        name = TapeBackend.name if device.kind == "cpu" else FullBackend.name
    if name not in BACKENDS:
        raise UsageError(f"unknown backend {name!r}", f"Known backends: auto, {', '.join(BACKENDS)}.")
    return BACKENDS[name](device, **options)
