"""One run's shapes as what two runs are compared by: the ops of each, their kernel families, their times replay by replay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from shapescope.analyse.samples import captured_kernels, replay_kernels
from shapescope.analyse.spread import Times
from shapescope.read.run import Run

KEY = ("runner", "phase", "size", "variant", "unit", "context_len")
Key = tuple[Any, ...]
"""The values of `KEY`."""
OpName = tuple[str | None, str | None]
"""An op and its dims; a family or a class and None where runs are compared by these."""


@dataclass(frozen=True, slots=True)
class Op:
    """One op of one shape in one run; `times` is None where only its capture is known."""

    kernel_class: str | None
    family: str
    times: Times | None = None


@dataclass(frozen=True, slots=True)
class ShapeOps:
    """One shape in one run. `whole` are its unprofiled replays: median, p10, p90 (ns) and how many; null if none.

    `doubt` says why times are not judged at all; `on_tape`: replayed on a CPU.
    """

    ops: Mapping[OpName, Op]
    replays: int
    doubt: str | None
    on_tape: bool
    whole: Mapping[str, Any] | None = None


def shape_ops(run: Run, *, by: str = "op") -> dict[Key, ShapeOps]:
    """The shapes of a run by `KEY`; those of several ranks count together. A shape that nothing replayed shows its capture."""
    timed = pl.col("size").is_not_null() & pl.col("time_ns").is_not_null()
    replayed = _keyed(replay_kernels(run).filter(timed), by)
    wholes = _wholes(run)
    damaged = {number for number, part in enumerate(run.parts) if part.status in ("partial", "corrupt")}
    found: dict[Key, ShapeOps] = {}
    for key, members in replayed.group_by(KEY, maintain_order=True):
        complete = members.filter("complete")
        seen, replays = members["execution"].n_unique(), complete["execution"].n_unique()
        doubt = "a trace of it is damaged" if not damaged.isdisjoint(members["part"].unique()) else None
        # Complete replays among incomplete ones are as good as any; where most are not, something else is wrong.
        if 2 * replays < seen:
            doubt = doubt or f"{seen - replays} of {seen} replays are incomplete"
        on_tape = bool((members["work"] == "op").all())
        found[key] = ShapeOps(_ops(complete), replays, doubt, on_tape, wholes.pop(key, None))
    known = {key[:-1] for key in found}
    for key, members in _keyed(captured_kernels(run), by).group_by(KEY, maintain_order=True):
        if key[:-1] not in known:
            whole = next((wholes[other] for other in wholes if other[:-1] == key[:-1]), None)
            found[key] = ShapeOps(_ops(members), 0, None, on_tape=False, whole=whole)
    return found


def _keyed(kernels: pl.DataFrame, by: str) -> pl.DataFrame:
    """Add `name` and `name_dims`. A kernel without an op goes by its class: so what ran in place of what is seen."""
    if by != "op":
        return kernels.with_columns(name=pl.col(by), name_dims=pl.lit(None, pl.String))
    name = pl.coalesce("op", pl.format("({})", "class"))
    return kernels.with_columns(name=name, name_dims=pl.when(pl.col("op").is_not_null()).then("dims"))


def _ops(kernels: pl.DataFrame) -> dict[OpName, Op]:
    found: dict[OpName, Op] = {}
    for (name, dims), members in kernels.group_by("name", "name_dims", maintain_order=True):
        longest = members.sort("time_ns", descending=True, nulls_last=True, maintain_order=True).row(0, named=True)
        families = " + ".join(sorted(members["family"].drop_nulls().unique().to_list()))
        times = _times(members) if longest["time_ns"] is not None else None
        found[name, dims] = Op(longest["class"], families, times)
    return found


def _times(members: pl.DataFrame) -> Times:
    """Replays that show the op another number of times than is usual are left out."""
    replays = members.group_by("execution", maintain_order=True).agg("time_ns")["time_ns"].to_list()
    lengths = [len(times) for times in replays]
    usual = max(set(lengths), key=lambda length: (lengths.count(length), length))
    return Times(np.array([times for times in replays if len(times) == usual], dtype=np.int64))


def _wholes(run: Run) -> dict[Key, dict[str, Any]]:
    """Times of whole replays, unprofiled, over all ranks: the median of medians, the least p10, the largest p90."""
    rows = run.shape_rows.filter(pl.col("time_source").is_in(["replay", "replay-dummy"]) & pl.col("size").is_not_null())
    table = rows.group_by(KEY, maintain_order=True).agg(
        time_ns=pl.col("time_ns").median().round().cast(pl.Int64),
        low_ns=pl.col("time_p10_ns").min(),
        high_ns=pl.col("time_p90_ns").max(),
        replays=pl.col("replays").min(),
    )
    return {tuple(row[name] for name in KEY): row for row in table.iter_rows(named=True)}
