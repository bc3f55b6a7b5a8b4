"""Replayed kernels with the shape that they ran, and each execution of a shape: how complete it is, and how long.

A collector may drop kernels of a graph without a word. What an execution lacks is never read as idle time: incomplete
executions are counted, and stay out of every average.
"""

from __future__ import annotations

import polars as pl

from shapescope.read.assembly import SHAPE, Assembly
from shapescope.read.resolve import executions
from shapescope.read.times import summed


def replayed_kernels(assembly: Assembly) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Kernels under graph launches, and executions.

    Kernels: the `KERNEL` columns, `file`, `part`, `launch`, `execution`, the shape's, `real_size`, `seq` counted within
    the execution, `seq_launch` within the graph launch, and `complete`. Executions: `EXECUTION` columns, `kernels`,
    `expected`, `complete`, `sum_ns`, `busy_ns`, `span_ns`, `gap_ns`.
    """
    found, launches = executions(assembly)
    placed = launches.select("part", "launch", "execution", position="segment")
    kernels = (
        assembly.kernels.drop("run", "rank")
        .join(placed, on=["part", "launch"], how="left", maintain_order="left")
        .join(found.drop("part"), on="execution", how="left", maintain_order="left")
        .sort("execution", "position", "seq", maintain_order=True)
    )
    kernels = kernels.with_columns(
        seq=pl.int_range(pl.len(), dtype=pl.Int64).over("execution"), seq_launch="seq", segment="position"
    ).drop("position")
    kernels = _alike(kernels)
    measured = _measured(found, kernels, _expected(assembly, kernels))
    return kernels.join(
        measured.select("execution", "complete"), on="execution", how="left", maintain_order="left"
    ), measured


def _alike(kernels: pl.DataFrame) -> pl.DataFrame:
    """Where nothing tells a launch's size, launches that run the same names are one kind: each kind is a segment."""
    sizeless = pl.col("size").is_null()
    names = (
        kernels.filter(sizeless).group_by("execution", maintain_order=True).agg(names=pl.col("kernel").str.join("\n"))
    )
    kinds = names.with_columns(kind=pl.col("names").hash()).with_columns(
        kind=(pl.col("execution").min().over("kind")).rank("dense").cast(pl.Int64) - 1
    )
    return kernels.join(
        kinds.select("execution", "kind"), on="execution", how="left", maintain_order="left"
    ).with_columns(segment=pl.coalesce("kind", "segment"))


def _expected(assembly: Assembly, kernels: pl.DataFrame) -> pl.DataFrame:
    """How many kernels an execution of each shape and kind should show.

    What was captured, else the fullest execution. A tape's replay may issue an op more than it captured (a copy into
    place), so there the fullest counts too.
    """
    groups = [*SHAPE, "kind"]
    fullest = kernels.group_by(*groups, "execution").agg(seen=pl.len(), on_tape=(pl.col("work") == "op").all())
    fullest = fullest.group_by(groups).agg(pl.col("seen").max(), pl.col("on_tape").all())
    counts = assembly.captured.group_by("window").agg(captured=pl.len())
    captured = assembly.windows.join(counts, on="window", maintain_order="left")
    captured = captured.group_by(list(SHAPE)).agg(pl.col("captured").last())
    joined = fullest.join(captured, on=list(SHAPE), how="left", nulls_equal=True)
    wanted = pl.when("on_tape").then("seen").otherwise(pl.coalesce("captured", "seen"))
    return joined.select(*groups, expected=wanted.cast(pl.Int64))


def _measured(found: pl.DataFrame, kernels: pl.DataFrame, expected: pl.DataFrame) -> pl.DataFrame:
    times = summed(kernels, ["execution"]).drop("idle")
    kinds = kernels.group_by("execution").agg(pl.col("kind").first())
    return (
        found.join(times, on="execution", how="left", maintain_order="left")
        .join(kinds, on="execution", how="left", maintain_order="left")
        .join(expected, on=[*SHAPE, "kind"], how="left", nulls_equal=True, maintain_order="left")
        .with_columns(pl.col("kernels").fill_null(0))
        .with_columns(complete=(pl.col("kernels") >= pl.col("expected")).fill_null(value=False))
    )
