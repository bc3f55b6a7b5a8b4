"""The kernels table: one row a launch, and the same grouped by what the reader asks for."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from shapescope.errors import UsageError
from shapescope.read.assembly import SHAPE, Assembly
from shapescope.read.frames import Schema, shaped
from shapescope.read.part import Role

Namer = Callable[[pl.Series], pl.DataFrame]
"""Distinct kernel names to a frame of `kernel`, `class`, `family` (and more), one row a name."""

KERNELS: Schema = {
    "runner": pl.String,
    "size": pl.Int64,
    "unit": pl.String,
    "variant": pl.String,
    "rank": pl.Int64,
    "segment": pl.Int64,
    "seq": pl.Int64,
    "kernel": pl.String,
    "family": pl.String,
    "class": pl.String,
    "op": pl.String,
    "dims": pl.String,
    "types": pl.String,
    "module": pl.String,
    "grid": pl.String,
    "block": pl.String,
    "stream": pl.Int64,
    "calls": pl.Int64,
    "time_ns": pl.Int64,
    "share": pl.Float64,
    "source": pl.String,
    "dims_source": pl.String,
    "flag": pl.String,
    "stack": pl.List(pl.String),
}
BY = ("launch", "kernel", "family", "class", "op", "module")
_LAUNCH_ORDER = ["run", "rank", "runner", "phase", "variant", "size", "sequence", "source", "segment", "seq"]


def kernels_by_launch(
    assembly: Assembly, replayed: pl.DataFrame, nodes: pl.DataFrame, namer: Namer | None
) -> pl.DataFrame:
    """Every launch of every shape, as `KERNELS` with the columns of `SHAPE` that it lacks.

    Source `capture` has no times; `nodes` stand in for captures whose launches carry no names; `replay` is per replay,
    the mean over the complete ones; `warmup` and `eager` are as they ran.
    """
    rows = pl.concat([_captured(assembly), nodes, _replayed(replayed), _eager(assembly)], how="diagonal")
    total = pl.col("time_ns").sum().over(*SHAPE, "source")
    share = pl.when(total > 0).then(pl.col("time_ns") / total)
    rows = rows.with_columns(share=share)
    if namer is not None:
        names = namer(rows["kernel"].drop_nulls().unique()).select("kernel", "class", "family")
        rows = rows.join(names, on="kernel", how="left", maintain_order="left")
    return shaped(rows, {**SHAPE, **KERNELS}).sort(_LAUNCH_ORDER, nulls_last=True, maintain_order=True)


def grouped(kernels: pl.DataFrame, by: str) -> pl.DataFrame:
    """The kernels table by kernel, family, class, op or module: per shape and source, the heaviest first.

    Calls, times and shares are summed; another column keeps its value where all rows of a group share it, else null.
    """
    if by not in BY:
        raise UsageError(f"kernels cannot be grouped by {by!r}", f"One of {', '.join(BY)}.")
    if by == "launch":
        return kernels
    keys = [*SHAPE, "source", by]
    summed = ("calls", "time_ns", "share")
    kept = [name for name in kernels.columns if name not in (*keys, *summed, "seq", "stack")]
    same = [pl.when(pl.col(name).n_unique() == 1).then(pl.col(name).first()).alias(name) for name in kept]
    # A sum over nothing known is unknown, not 0.
    sums = [pl.when(pl.col(name).count() > 0).then(pl.col(name).sum()).alias(name) for name in summed]
    groups = kernels.group_by(keys, maintain_order=True).agg(*same, *sums, seq=pl.lit(None, pl.Int64))
    groups = groups.with_columns(stack=pl.lit(None, pl.List(pl.String))).select(kernels.columns)
    weight = pl.coalesce("time_ns", "calls")
    return groups.with_columns(weight=weight).sort(
        ["run", "rank", "runner", "phase", "variant", "size", "sequence", "source", "weight"],
        descending=[False] * 8 + [True], nulls_last=True, maintain_order=True,
    ).drop("weight")  # fmt: skip


def _captured(assembly: Assembly) -> pl.DataFrame:
    rows = assembly.captured.drop("part").join(assembly.windows, on="window", how="left", maintain_order="left")
    return rows.drop("device").with_columns(
        source=pl.lit("capture"), calls=pl.lit(1, pl.Int64), time_ns=pl.lit(None, pl.Int64)
    )


def _replayed(replayed: pl.DataFrame) -> pl.DataFrame:
    """Per shape and place in the sequence, the mean over its complete executions."""
    rows = replayed.filter("complete")
    place = ["segment", "seq", "kernel", "stream"]
    first = ("op", "dims", "types", "module", "grid", "block", "dims_source", "flag", "work")
    return (
        rows.group_by(*SHAPE, *place, maintain_order=True)
        .agg(*(pl.col(name).first() for name in first), total=pl.col("time_ns").sum(), times=pl.col("time_ns").count())
        .with_columns(
            source=pl.lit("replay"),
            calls=pl.lit(1, pl.Int64),
            time_ns=pl.when(pl.col("times") > 0).then((pl.col("total") / pl.col("times")).round().cast(pl.Int64)),
        )
    )


def _eager(assembly: Assembly) -> pl.DataFrame:
    """Kernels of eager traces: of a warm-up that the recorder labelled, or of nothing known.

    Those beside a capture or a replay (stray fills, work between pieces) belong to no shape, and are left out.
    """
    shapes = assembly.parts.select("part", *(name for name in SHAPE if name not in ("run", "rank")), "evidence", "role")
    rows = assembly.eager.join(shapes, on="part", how="left", maintain_order="left").filter(
        pl.col("role") == Role.EAGER
    )
    warm = pl.col("evidence") == "warmup"
    return rows.with_columns(
        seq=pl.int_range(pl.len(), dtype=pl.Int64).over("part"),
        calls=pl.lit(1, pl.Int64),
        source=pl.when(warm).then(pl.lit("warmup")).otherwise(pl.lit("eager")),
    )
