"""What a raw trace adds up to, counted over its bytes: launches for the manifest, the heaviest operations for a table.

The recording half has no decoder: it must stay light inside somebody's server.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

# Kineto writes every event in one order, so that one search for its fixed beginning finds each quickly.
_EVENT = re.compile(
    rb'"cat": "(cpu_op|kernel|gpu_memcpy|gpu_memset|cuda_runtime|cuda_driver)",\s*"name": "((?:[^"\\]|\\.)*)",'
    rb'\s*"pid": [^,]*,\s*"tid": ([^,]*),\s*"ts": ([0-9.]+),\s*"dur": ([0-9.]+)'
)
# Any launch of a kernel (cudaLaunchKernelExC, cuLaunchCooperativeKernel, hipExtModuleLaunchKernel ..), but not of a graph.
_LAUNCH = re.compile(rb"(?:cuda|hip|cu)(?!Graph)\w*Launch\w*")


@dataclass(slots=True)
class Tally:
    """Counts and microseconds by name. CPU times are of outermost ops, so that no time counts twice."""

    launches: int = 0
    cpu_calls: Counter[str] = field(default_factory=Counter)
    cpu_us: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    device_calls: Counter[str] = field(default_factory=Counter)
    device_us: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))

    def add(self, other: Tally) -> None:
        self.launches += other.launches
        self.cpu_calls += other.cpu_calls
        self.device_calls += other.device_calls
        for mine, theirs in ((self.cpu_us, other.cpu_us), (self.device_us, other.device_us)):
            for name, microseconds in theirs.items():
                mine[name] += microseconds


def tally(raw: bytes) -> Tally:
    """Launches are the device's kernel launches; where there are none, the outermost ops, which are a CPU's kernels."""
    result = Tally()
    ops = []
    for category, name, thread, start, duration in _EVENT.findall(raw):
        if category == b"cpu_op":
            ops.append((thread, float(start), -float(duration), name))
        elif category.startswith(b"cuda"):
            result.launches += _LAUNCH.fullmatch(name) is not None
        else:
            result.device_calls[_text(name)] += 1
            result.device_us[_text(name)] += float(duration)
    outermost = _outermost(ops)
    for name, duration_us in outermost:
        result.cpu_calls[_text(name)] += 1
        result.cpu_us[_text(name)] += duration_us
    result.launches = result.launches or len(outermost)
    return result


def _outermost(ops: list[tuple[bytes, float, float, bytes]]) -> list[tuple[bytes, float]]:
    found: list[tuple[bytes, float]] = []
    thread, end = b"", 0.0
    for tid, start, negative_duration, name in sorted(ops):
        if tid != thread or start >= end:
            thread, end = tid, start - negative_duration
            found.append((name, -negative_duration))
    return found


def _text(name: bytes) -> str:
    return name.decode("utf-8", "replace")


def render(total: Tally, top: int = 20) -> str:
    """Two plain-text tables: by device time, by CPU time."""
    return "\n".join(
        [
            *_table("Heaviest operations by device time", total.device_us, total.device_calls, top),
            "",
            *_table("Heaviest operations by CPU time", total.cpu_us, total.cpu_calls, top),
        ]
    )


def _table(title: str, times: Mapping[str, float], calls: Mapping[str, int], top: int) -> list[str]:
    if not times:
        return [title, "  none recorded"]
    whole = sum(times.values())
    heaviest = sorted(times, key=lambda name: -times[name])[:top]
    lines = [f"  {times[n] / 1e3:>12.3f}  {times[n] / whole:>6.1%}  {calls[n]:>8}  {n[:100]}" for n in heaviest]
    return [title, f"  {'ms':>12}  {'share':>6}  {'calls':>8}  operation", *lines]
