"""Replays: graph launches, the kernels under each, and the step of serving that asked for it.

A kernel belongs to a graph launch through its correlation id, and the launch to a step through its own time on the
CPU: kernels may well start after the step's span has closed.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from shapescope.read.classify import marked
from shapescope.read.frames import KERNEL, REPLAY, STEP, empty, in_time_order, named, picked, picked_rows, shaped
from shapescope.read.nesting import innermost, parent_rows
from shapescope.read.processes import Process
from shapescope.read.spans import Step, parse_step
from shapescope.read.tables import launch_rows, with_calls
from shapescope.read.tape import executed_ops
from shapescope.store.spans import COPY_BACK_SPAN, Mark


def steps(process: Process) -> pl.DataFrame:
    """The step spans in time order, as `STEP` rows. Of two spans around one step, the one that says more counts."""
    spans = in_time_order(named(process.spans, lambda name: parse_step(name) is not None))
    if not spans.height:
        return empty(STEP)
    said = [step for name in spans["name"] if (step := parse_step(name)) is not None]
    kept = np.flatnonzero(~_repeated(said, parent_rows(spans)))
    rows = [
        (number, step.text, step.mode, step.unit, step.requests, step.tokens, step.padded_size, step.eager)
        for number, step in enumerate(said[row] for row in kept)
    ]
    return pl.DataFrame(rows, schema=dict(list(STEP.items())[:8]), orient="row").hstack(
        picked_rows(spans[["pid", "tid", "ts", "dur"]], kept)
    )


def _repeated(said: list[Step], parents: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Of spans that directly enclose another with the same batch, the one that says less; the outer one if they tie."""
    dropped = np.zeros(len(said), dtype=np.bool_)
    for inner, outer in enumerate(parents.tolist()):
        if outer >= 0 and said[outer].requests == said[inner].requests and said[outer].mode is said[inner].mode:
            dropped[outer if said[outer].stated <= said[inner].stated else inner] = True
    return dropped


def replays(process: Process, steps: pl.DataFrame, segments: pl.DataFrame) -> pl.DataFrame:
    """One `REPLAY` row a graph launch, in time order; `segment` counts the launches of one step, or of one span.

    Launches of one step, or of one span, share a `group`. `span` is the recorder's own replay span around it, the
    innermost where a window's span holds one of each replay. On a CPU nothing launches a graph: there each is one.
    """
    spans = _innermost(marked(process.spans, Mark.REPLAY))
    launched = process.graph_launches[["pid", "tid", "ts", "dur", "correlation"]]
    launched = picked_rows(launched, np.flatnonzero(innermost(segments, launched) < 0))
    if not launched.height and not spans.height:
        return empty({**REPLAY, "correlation": pl.Int64})
    bare = spans
    if launched.height:
        holding = innermost(spans, launched)
        bare = picked_rows(spans, np.setdiff1d(np.arange(spans.height), holding))
    own = bare.select("pid", "tid", "ts", "dur", correlation=pl.lit(None, pl.Int64))
    found = pl.concat([launched, own]).sort("ts", maintain_order=True).with_row_index("launch")
    span = innermost(spans, found)
    step = _step_of(steps, found)
    alone = spans.height + np.arange(found.height)
    by_span = pl.Series(-1 - np.where(span >= 0, span, alone), dtype=pl.Int64)
    own = process.spans.filter(~pl.col("name").str.starts_with("ProfilerStep#"))
    return (
        found.with_columns(
            picked(spans["name"], span).alias("span"),
            picked(own["name"], innermost(own, found)).alias("around"),
            picked(steps["step"], step).alias("step"),
        )
        .with_columns(group=pl.coalesce("step", by_span))
        .with_columns(segment=pl.int_range(pl.len(), dtype=pl.Int64).over("group"))
        .pipe(shaped, {**REPLAY, "correlation": pl.Int64})
    )


def _innermost(spans: pl.DataFrame) -> pl.DataFrame:
    """Spans that hold no other."""
    holding = np.unique(parent_rows(spans))
    return picked_rows(spans, np.setdiff1d(np.arange(spans.height), holding))


def _step_of(steps: pl.DataFrame, launches: pl.DataFrame) -> npt.NDArray[np.int64]:
    """The step around each launch: on its own thread, else the innermost of the process."""
    own = innermost(steps, launches)
    return np.where(own >= 0, own, innermost(steps, launches, by=["pid"]))


def replayed_kernels(process: Process, replays: pl.DataFrame) -> pl.DataFrame:
    """The kernels under each replay as `KERNEL` rows, in order of start; `seq` counts within one graph launch."""
    if not replays.height:
        return empty(KERNEL)
    linked = with_calls(process.device, process.graph_launches).filter(pl.col("api").is_not_null())
    known = replays.select("launch", "segment", call_tid="tid", call_ts="ts")
    under = linked.join(known, on=["call_tid", "call_ts"], how="inner", maintain_order="left")
    under = under.with_columns(kernel="name", tid="call_tid")
    rows = pl.concat(
        [
            launch_rows(under).with_columns(under["launch"]),
            _replayed_ops(process, replays.filter(pl.col("correlation").is_null() & pl.col("span").is_not_null())),
        ],
        how="diagonal",
    ).sort("launch", "ts", maintain_order=True)
    return shaped(rows.with_columns(seq=pl.int_range(pl.len(), dtype=pl.Int64).over("launch")), KERNEL)


def _replayed_ops(process: Process, replays: pl.DataFrame) -> pl.DataFrame:
    """On a CPU the outermost ops inside a replay span are its kernels, but for what the tape adds on its own account."""
    added = innermost(process.spans.filter(pl.col("name") == COPY_BACK_SPAN), process.ops)
    around = innermost(replays, process.ops)
    inside = executed_ops(process.ops.filter(pl.Series((around >= 0) & (added < 0))))
    launch = innermost(replays, inside)
    described = inside.with_columns(
        picked(replays["segment"], launch).alias("segment"),
        kernel="name",
        op="name",
        work=pl.lit("op"),
        dims_source=pl.lit("op"),
    )
    rows = launch_rows(described.drop("stream", "device"))
    return rows.with_columns(picked(replays["launch"], launch).alias("launch"), time_ns="dur")
