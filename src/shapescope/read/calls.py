"""Launches of functions that no op announces: a recorder may have put them in a span that carries their tensors."""

from __future__ import annotations

import json

import numpy as np
import numpy.typing as npt
import polars as pl

from shapescope.read.frames import named, picked_rows
from shapescope.read.nesting import Ints, innermost
from shapescope.read.processes import Process
from shapescope.store.spans import CALL_SPAN, parse_call

_NAMED = ("op", "dims", "types", "strides", "concrete_inputs")


def with_call_spans(launches: pl.DataFrame, process: Process, ops: Ints) -> pl.DataFrame:
    """Where such a span lies closer around a launch than its op does, the function is the op; `dims_source` is `span`.

    `ops` are the rows of each launch's op in `process.ops`, -1 without one.
    """
    spans = _calls(process.spans)
    if not spans.height:
        return launches
    found = innermost(spans, launches)
    closer = pl.Series((found >= 0) & ((ops < 0) | _inside(spans, found, process.ops, ops)))
    around = picked_rows(spans, np.maximum(found, 0))
    return launches.with_columns(
        dims_source=pl.when(closer).then(pl.lit("span")).otherwise("dims_source"),
        # Numbered after the ops: kernels of one call share it.
        op_call=pl.when(closer).then(pl.Series(process.ops.height + found)).otherwise("op_call"),
        **{name: pl.when(closer).then(around[name]).otherwise(pl.col(name).cast(pl.String)) for name in _NAMED},
    )


def _calls(spans: pl.DataFrame) -> pl.DataFrame:
    """The spans of calls, with what they say in columns of an op's names."""
    calls = named(spans, lambda name: name.startswith(CALL_SPAN))
    if not calls.height:
        return calls
    calls = calls.drop(_NAMED, strict=False)
    said = [_said(text) for text in calls["name"]]
    return calls.hstack(pl.DataFrame(said, schema=dict.fromkeys(_NAMED, pl.String), orient="row")).drop_nulls("op")


def _inside(
    inner: pl.DataFrame, rows: Ints, outer: pl.DataFrame, outer_rows: Ints
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Whether the one of two intervals around the same launch begins later, or ends sooner."""
    if not outer.height:
        return np.zeros(len(rows), dtype=np.bool_)
    starts, others = (frame["ts"].to_numpy()[at] for frame, at in ((inner, rows), (outer, outer_rows)))
    lengths, theirs = (frame["dur"].to_numpy()[at] for frame, at in ((inner, rows), (outer, outer_rows)))
    later: npt.NDArray[np.bool_] = (starts > others) | ((starts == others) & (lengths < theirs))
    return later


def _said(text: str) -> tuple[str | None, ...]:
    call = parse_call(text)
    if call is None:
        return (None,) * len(_NAMED)
    shapes = (json.dumps(value, separators=(",", ":")) for value in (call.dims, call.types, call.strides))
    return call.function, *shapes, None
