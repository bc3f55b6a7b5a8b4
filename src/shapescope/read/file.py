"""One file read into its parts. A file that cannot be read is a part too: without tables, and with the reason."""

from __future__ import annotations

import gzip
import zlib
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from shapescope.errors import InputError
from shapescope.model import Evidence, GraphKey
from shapescope.read.chrome import decode
from shapescope.read.classify import roles, segments
from shapescope.read.columns import Losses, Trace
from shapescope.read.foreign import name_hint
from shapescope.read.frames import CAPTURED, LAUNCH, REPLAY, STREAM, empty, named, picked_rows, shaped
from shapescope.read.identity import Label, Window, identity_or_problem
from shapescope.read.nesting import innermost
from shapescope.read.part import Part, Role
from shapescope.read.problem import Code, Problem
from shapescope.read.processes import Process, processes
from shapescope.read.replays import replayed_kernels, replays, steps
from shapescope.read.tables import captured_launches, eager_kernels
from shapescope.read.times import summed, with_flags
from shapescope.read.windows import rank_found, windows

# Why collectors leave out the kernels of a graph, from public reports.
_WHY = (
    "device activity was off, the graphs were instantiated before the collector started, its buffers overflowed, "
    "or its version does not see into graphs"
)


def read_file(path: Path, name: str, *, stated: GraphKey | None = None, stacks: bool = False) -> list[Part]:
    """Read one file into its parts; `name` is how reports call it. A file that is no trace yields one part that says so."""
    try:
        traces = decode(path, python="all" if stacks else "modules")
    except (InputError, OSError) as error:
        return [_unreadable(path, name, error)]
    several = [Problem(Code.MULTIPLE_MEMBERS, f"{len(traces)} traces in one file", name)] if len(traces) > 1 else []
    each = [(trace, processes(trace)) for trace in traces]
    if any(len(split) > 1 for _, split in each):
        several.append(Problem(Code.MERGED_PROCESSES, "several processes in one file, read one by one", name))
    found = [
        _read_process(trace, process, name, stated=stated, stacks=stacks) for trace, split in each for process in split
    ]
    return [replace(part, problems=(*several, *part.problems)) if not at else part for at, part in enumerate(found)]


def _read_process(trace: Trace, process: Process, name: str, *, stated: GraphKey | None, stacks: bool) -> Part:
    device = with_flags(process.device, ["pid", "device", "stream"])
    process = replace(process, device=device)
    identity, damage = identity_or_problem(trace.metadata)
    hint = name_hint(trace.path)
    pieces = segments(process)
    on_cpu = not trace.metadata.get("deviceProperties")
    launches = captured_launches(process, pieces, on_cpu=on_cpu, stacks=stacks)
    evidence = identity.evidence if identity else None
    if evidence in (None, Evidence.CAPTURE):
        captured, found = _in_windows(launches, windows(process, pieces, identity, hint, stated))
    else:
        captured, found = empty(CAPTURED), []
    step_spans = steps(process)
    launched = replays(process, step_spans, pieces)
    kernels = replayed_kernels(process, launched)
    is_capture = captured.height > 0 or evidence is Evidence.CAPTURE
    kinds = roles(process, kernels, is_capture=is_capture) if trace.events.height else (Role.NOT_A_TRACE,)
    only_capture = kinds == (Role.CAPTURE,)
    problems = _problems(trace, name, damage) + _device_problems(process, name, launched, kernels)
    return Part(
        path=trace.path,
        roles=kinds,
        status=_status(trace),
        member=trace.member,
        events=trace.events.height + trace.unwanted,
        losses=trace.losses,
        evidence=evidence,
        label=Label.of(identity.key) if identity and identity.key else None,
        rank=rank_found(process, trace.metadata, identity, hint),
        hint=hint,
        profiler_step=_profiler_step(process, captured),
        windows=tuple(found),
        captured=captured,
        replays=launched[list(REPLAY)],
        kernels=kernels,
        # What a capture trace shows of the device is not what it captured.
        eager=empty(LAUNCH) if only_capture else eager_kernels(process, stacks=stacks),
        steps=step_spans,
        streams=empty(STREAM) if only_capture else _streams(device),
        problems=tuple(problems),
        metadata=trace.metadata,
        opened_ns=process.opened_ns,
    )


def _in_windows(launches: pl.DataFrame, found: list[Window]) -> tuple[pl.DataFrame, list[Window]]:
    """Number launches within their window, segments too; windows of a file that captured nothing fall away.

    Of windows within one another, as an engine's span around the recorder's own, the inner one holds the launch.
    """
    around = np.zeros(launches.height, dtype=np.int64)
    if len(found) > 1:
        bounds = pl.DataFrame(
            [(window.ts, window.dur) for window in found], schema={"ts": pl.Int64, "dur": pl.Int64}, orient="row"
        )
        around = innermost(bounds, launches, by=[])
    rows = np.flatnonzero(around >= 0)
    held = set(around[rows].tolist())
    kept = [number for number, window in enumerate(found) if number in held or window.key_source == "metadata"]
    window = pl.Series("window", np.searchsorted(kept, around[rows]), dtype=pl.Int64)
    numbered = (
        picked_rows(launches, rows)
        .hstack([window])
        .with_columns(
            seq=pl.int_range(pl.len(), dtype=pl.Int64).over("window"),
            segment=(pl.col("segment").rank("dense").over("window") - 1).cast(pl.Int64),
        )
    )
    return numbered[list(CAPTURED)], [found[number] for number in kept]


def _profiler_step(process: Process, captured: pl.DataFrame) -> int | None:
    steps = named(process.spans, lambda name: name.startswith("ProfilerStep#"))
    row = innermost(steps, captured.head(1), by=["tid"])
    return int(steps["name"][int(row[0])].partition("#")[2]) if row.size and row[0] >= 0 else None


def _streams(device: pl.DataFrame) -> pl.DataFrame:
    kernels = device.filter(pl.col("work") == "kernel")
    return shaped(summed(kernels, ["device", "stream"]), STREAM)


def _status(trace: Trace) -> str:
    if trace.losses.reason:
        return "partial" if trace.events.height else "empty" if _fault_word(trace.losses) == "no-data" else "corrupt"
    return "ok" if trace.events.height else "empty"


def _fault_word(losses: Losses) -> str:
    """The first word of a loss's reason: `truncated`, `corrupt` or `no-data`."""
    return (losses.reason or "").partition(":")[0]


def _problems(trace: Trace, name: str, damage: str | None) -> list[Problem]:
    """What is wrong with the file; `damage` are words about the recorder's own label in it."""
    problems = []
    if trace.losses.reason:
        word = _fault_word(trace.losses)
        problems.append(Problem(Code(word) if word in set(Code) else Code.CORRUPT, trace.losses.reason, name))
    elif not trace.events.height:
        problems.append(Problem(Code.NO_DATA, "no-data: a trace without events", name))
    if damage:
        problems.append(Problem(Code.CORRUPT, f"its own account of itself cannot be read: {damage}", name))
    return problems


def _device_problems(process: Process, name: str, launched: pl.DataFrame, kernels: pl.DataFrame) -> list[Problem]:
    flags = Counter(process.device["flag"].drop_nulls())
    problems = [
        Problem(Code(flag), f"{count} device events with {flag.replace('-', ' ')}", name)
        for flag, count in sorted(flags.items())
    ]
    launched_on_device = launched["correlation"].null_count() < launched.height
    if launched_on_device and not kernels.height:
        problems.append(
            Problem(
                Code.KERNELS_MISSING, f"graphs were launched, and the trace holds none of their kernels: {_WHY}", name
            )
        )
    return problems


def _unreadable(path: Path, name: str, error: Exception) -> Part:
    """A file without a trace in it: unreadable, empty, damaged beyond use, or something else altogether."""
    status, code = _fault(path)
    role = Role.NOT_A_TRACE
    return Part(path, (role,), status, hint=name_hint(path), problems=(Problem(code, _reason(path, error), name),))


def _reason(path: Path, error: Exception) -> str:
    """Without the path: the problem names the file, and what was read may be found again elsewhere."""
    return str(error).removeprefix(f"{path}: ")


def _fault(path: Path) -> tuple[str, Code]:
    try:
        with path.open("rb") as file:
            head = file.read(4096)
    except OSError:
        return "unreadable", Code.UNREADABLE
    if not head.strip():
        return "empty", Code.NO_DATA
    if head[:2] == b"\x1f\x8b":
        try:
            with gzip.open(path) as file:
                head = file.read(4096)
        except (OSError, EOFError, zlib.error):
            return "corrupt", Code.CORRUPT
        if not head.strip():
            return "empty", Code.NO_DATA
    return ("corrupt", Code.CORRUPT) if b'"traceEvents"' in head else ("not-a-trace", Code.NOT_A_TRACE)
