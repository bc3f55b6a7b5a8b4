"""Replays as samples: what each op of a shape took in each execution, and which kernel families did it.

Kernels of one op call belong together, so that a product split over two kernels is one op with two families. A kernel
whose op is unknown stands for itself, by family.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from shapescope.analyse.join import join
from shapescope.analyse.names import name_frame
from shapescope.read.identity import identity_or_problem
from shapescope.read.part import Part
from shapescope.read.run import Run

LANE = ("run", "runner", "phase", "variant", "unit", "context_len")
"""Sizes are compared within a lane: one runner's graphs of one variant, replayed at one context length."""

OP = ("op", "dims", "alone")
"""What an op is, within a shape; `alone` is the family of a kernel without an op, else null."""

# Times of these classes depend on what the inputs hold, so that replays on dummy inputs do not tell them.
INPUT_DEPENDENT = frozenset({"attention", "grouped_gemm", "moe_routing"})


def replay_kernels(run: Run, kernels: pl.DataFrame | None = None) -> pl.DataFrame:
    """Replayed kernels with `class`, `family`, `tile` (the family's variant), `context_len`, `source`.

    `kernels` are `join(run).kernels`, where they are at hand: a device's kernels know their op through the join alone.
    `source` is `replay` or `replay-dummy` where the recorder replayed, else `trace`.
    """
    rows = join(run).kernels if kernels is None else kernels
    if "status" in rows.columns:
        rows = _without_doubt_of_own_ops(rows)
    timed = rows.join(_timings(run.parts), on="part", how="left", maintain_order="left")
    return named(timed)


def _without_doubt_of_own_ops(kernels: pl.DataFrame) -> pl.DataFrame:
    """A `status` is of the join. Of an op that the replay itself shows, as a CPU's does, there is no doubt: null there."""
    own = pl.col("op").is_not_null() & ~pl.col("status").is_in(["exact", "aligned"])
    return kernels.with_columns(status=pl.when(~own).then("status"))


def captured_kernels(run: Run) -> pl.DataFrame:
    """Captured launches of named kernels, of the lowest rank that has the shape; as `replay_kernels`, without times."""
    rows = run.kernel_rows.filter(
        pl.col("source").is_in(["capture", "nodes"]) & pl.col("kernel").is_not_null() & pl.col("size").is_not_null()
    )
    lowest = rows.filter(
        pl.col("rank") == pl.col("rank").min().over("run", "runner", "phase", "variant", "unit", "size")
    )
    return named(lowest).with_columns(context_len=pl.lit(None, pl.Int64), execution=pl.lit(None, pl.Int64))


def named(kernels: pl.DataFrame) -> pl.DataFrame:
    """Add `class`, `family` and `tile` to rows with `kernel`."""
    names = name_frame(kernels["kernel"]).rename({"variant": "tile"})
    return kernels.drop("class", "family", strict=False).join(names, on="kernel", how="left", maintain_order="left")


def _timings(parts: Sequence[Part]) -> pl.DataFrame:
    rows = []
    for number, part in enumerate(parts):
        identity, _ = identity_or_problem(part.metadata)
        timing = identity.timing if identity else None
        source = "trace" if timing is None else "replay-dummy" if timing.dummy_inputs else "replay"
        rows.append((number, timing.context_len if timing else None, source))
    return pl.DataFrame(rows, schema={"part": pl.Int64, "context_len": pl.Int64, "source": pl.String}, orient="row")


def op_samples(kernels: pl.DataFrame) -> pl.DataFrame:
    """One row an op and execution: `LANE`, `rank`, `size`, `execution`, `complete`, `source`, `OP`, `class` (of the
    longest kernel), `family` and `tile` (of all its kernels, joined by ` + `), `calls` (kernels), `time_ns` together.

    `kernels` are `replay_kernels`. Kernels without a valid time are left out.
    """
    timed = kernels.filter(pl.col("time_ns").is_not_null()).with_columns(
        alone=pl.when(pl.col("op").is_null()).then("family")
    )
    where = [*LANE, "rank", "size", "execution", "complete", "source", *OP]
    return timed.group_by(where, maintain_order=True).agg(
        pl.col("class").sort_by("time_ns").last(),
        family=distinct("family"),
        tile=distinct("tile"),
        calls=pl.len().cast(pl.Int64),
        time_ns=pl.col("time_ns").sum(),
    )


def distinct(column: str) -> pl.Expr:
    """The distinct texts of a group in order of name, as one text."""
    return pl.col(column).drop_nulls().unique().sort().str.join(" + ")
