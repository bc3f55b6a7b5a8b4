"""Time on the device: sums, union-busy time, spans and gaps; and stamps and durations that cannot be true.

All times are integer ns. Overlap is normal (a dependent launch begins before its predecessor ends); a kernel that
outlasts many whole successors on its own stream is not.
"""

from __future__ import annotations

import polars as pl

from shapescope.read.frames import constant

INVALID = "invalid-times"
IMPLAUSIBLE = "implausible-duration"

# A stamp this far from the median of its trace belongs to another clock, or to none.
_FARTHEST_NS = 24 * 3600 * 10**9
# A kernel is implausible once it contains this many whole successors on its stream ..
_CONTAINED = 8
# .. and lasts this many times longer than the start of the next one allows.
_TIMES_TOO_LONG = 20
# Collectives in a graph do run beside compute that the trace lists on the same stream.
_MAY_OVERLAP = r"(?i)nccl|rccl|all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|broadcast"


def with_flags(kernels: pl.DataFrame, by: list[str]) -> pl.DataFrame:
    """Add `flag` (null, `invalid-times` or `implausible-duration`) and `time_ns` to rows with `ts`, `dur`, `kernel`.

    `by` names the columns of one stream. `time_ns` is the duration; null for an invalid stamp, and for an implausible
    duration no more than the time until the next kernel starts.
    """
    sane = _sane(kernels["ts"], kernels["dur"])
    flag = constant("flag", None, pl.String, kernels.height)
    rows = kernels.with_columns(
        flag=flag.zip_with(sane, constant("flag", INVALID, pl.String, kernels.height)),
        time_ns=kernels["dur"].zip_with(sane, constant("dur", None, pl.Int64, kernels.height)),
    )
    if rows.height <= _CONTAINED:  # none can contain so many
        return rows
    rows = rows.with_row_index("order_given")
    overlong = _overlong(rows.filter(pl.col("flag").is_null()), by)
    cut = pl.when(pl.col("until_next").is_not_null()).then(pl.lit(IMPLAUSIBLE))
    return (
        rows.join(overlong, on="order_given", how="left", maintain_order="left")
        .with_columns(flag=pl.coalesce("flag", cut), time_ns=pl.coalesce("until_next", "time_ns"))
        .drop("order_given", "until_next")
    )


def _sane(ts: pl.Series, dur: pl.Series) -> pl.Series:
    """Whether stamp and duration can be true."""
    middle = ts.median()
    if not isinstance(middle, float):  # not one stamp
        return constant("sane", False, pl.Boolean, len(ts))
    near = (ts > middle - _FARTHEST_NS) & (ts < middle + _FARTHEST_NS)
    return (near & (dur >= 0) & ((ts != 0) | (dur != 0))).fill_null(value=False)


def _overlong(rows: pl.DataFrame, by: list[str]) -> pl.DataFrame:
    """The rows of an implausible duration by `order_given`, each with the time until the next kernel starts."""
    ordered = rows.sort(*by, "ts", "order_given").with_columns(end=pl.col("ts") + pl.col("dur"))
    last_contained = pl.col("ts").shift(-_CONTAINED).over(by)
    contained_end = pl.col("end").reverse().rolling_max(_CONTAINED).reverse().shift(-1).over(by)
    timed = ordered.with_columns(
        until_next=pl.col("ts").shift(-1).over(by) - pl.col("ts"),
        contains=(last_contained < pl.col("end")) & (contained_end <= pl.col("end")),
    )
    may_overlap = pl.col("kernel").str.contains(_MAY_OVERLAP).fill_null(value=False)
    too_long = pl.col("dur") >= _TIMES_TOO_LONG * pl.col("until_next")
    return timed.filter(pl.col("contains") & too_long & ~may_overlap).select("order_given", "until_next")


def summed(kernels: pl.DataFrame, by: list[str]) -> pl.DataFrame:
    """For each group: `kernels`, `sum_ns`, `busy_ns` (the union of all intervals), `span_ns`, `gap_ns`, `idle` (0..1).

    Rows need `ts` and `time_ns`; those without a time are counted and add nothing.
    """
    timed = kernels.filter(pl.col("time_ns").is_not_null()).sort(*by, "ts")
    timed = timed.with_columns(end=pl.col("ts") + pl.col("time_ns"))
    reached = pl.col("end").cum_max().shift(1).over(by)
    fresh = pl.col("end") - pl.max_horizontal("ts", reached)
    totals = (
        timed.with_columns(fresh=fresh.clip(lower_bound=0))
        .group_by(by, maintain_order=True)
        .agg(
            sum_ns=pl.col("time_ns").sum(),
            busy_ns=pl.col("fresh").sum(),
            span_ns=pl.col("end").max() - pl.col("ts").min(),
        )
        .with_columns(gap_ns=pl.col("span_ns") - pl.col("busy_ns"))
    )
    idle = pl.when(pl.col("span_ns") > 0).then(pl.col("gap_ns") / pl.col("span_ns"))
    counts = kernels.group_by(by, maintain_order=True).agg(kernels=pl.len().cast(pl.Int64))
    return counts.join(totals, on=by, how="left", nulls_equal=True, maintain_order="left").with_columns(idle=idle)
