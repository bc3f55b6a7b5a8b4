"""What two runs ran on, compared: differences that change kernels or their times are named, the rest is left alone."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from shapescope.read.run import Run

# Where something lies, listens or is kept says nothing about kernels.
_PLACE = re.compile(
    r"(?:_DIR|_PATH|_HOME|_ROOT|_FILE|_PORT|_HOST|_HOST_IP|_ADDR|_VISIBLE_DEVICES|_LOG\w*|_LOGGING\w*|_LEVEL)$"
)
# What a run's own account holds that decides over kernels and times. Host, git commit and command may differ: a comparison
# of two commits is what most comparisons are.
_FIELDS = ("device", "device_name", "driver", "cuda", "hip", "threads")
# What the profiler writes into any trace.
_TRACE_FIELDS = ("cuda_runtime_version", "cuda_driver_version", "hip_runtime_version", "hip_driver_version")


@dataclass(frozen=True, slots=True)
class Difference:
    """One field in which two environments differ; None where one does not say."""

    field: str
    base: str | None
    head: str | None


def environment(run: Run) -> dict[str, set[str]]:
    """All values of each field that decides over kernels, over the run's manifests and traces."""
    found: dict[str, set[str]] = {}
    for manifest in run.manifests:
        for name, value in _recorded(manifest.environment):
            found.setdefault(name, set()).add(value)
    for part in run.parts:
        for name, value in _traced(part.metadata):
            found.setdefault(name, set()).add(value)
    return found


def differences(base: Run, head: Run) -> list[Difference]:
    """The fields that both runs state, and otherwise; and packages or variables that only one of two recorded runs has."""
    one, other = environment(base), environment(head)
    recorded = bool(base.manifests and head.manifests)
    return [
        Difference(name, _text(one.get(name)), _text(other.get(name)))
        for name in sorted({*one, *other})
        if one.get(name) != other.get(name) and ((name in one and name in other) or (recorded and ":" in name))
    ]


def _recorded(environment: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name in _FIELDS:
        if name in environment:
            yield name, str(environment[name])
    for name, version in _mapping(environment.get("packages")).items():
        if name != "shapescope":
            yield f"package:{name}", str(version)
    for name, value in _mapping(environment.get("variables")).items():
        if not _PLACE.search(name):
            yield f"variable:{name}", str(value)


def _traced(metadata: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    devices = metadata.get("deviceProperties")
    for entry in devices if isinstance(devices, list) else ():
        if isinstance(entry, dict) and (name := str(entry.get("name") or "").strip()):
            yield "device name", name
    for name in _TRACE_FIELDS:
        if name in metadata:
            yield name, str(metadata[name])


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(values: set[str] | None) -> str | None:
    return None if values is None else ", ".join(sorted(values))
