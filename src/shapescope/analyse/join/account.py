"""What the join adds up to: how much was attributed, how complete the replays are, and what must be said beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from shapescope.analyse.join.matching import Matched
from shapescope.analyse.join.rows import STATUSES
from shapescope.model import Unit
from shapescope.read.assembly import rank_name
from shapescope.read.part import Role
from shapescope.read.problem import Code, Problem
from shapescope.read.resolve import executions as with_executions
from shapescope.read.resolve import serving_windows
from shapescope.read.run import STREAMS, Run

_TRUSTED = ("exact", "aligned")


@dataclass(frozen=True, slots=True)
class Scope:
    """The part of a run that is joined: its replays, or those that were asked for.

    `replayed` are kernels by execution, graph launch and time, `launches` one row a graph launch with `execution`,
    `position` in it and `kernels`; `executions` those of the run, `steps` the spans of all these files.
    """

    parts: pl.DataFrame
    replayed: pl.DataFrame
    launches: pl.DataFrame
    executions: pl.DataFrame
    steps: pl.DataFrame

    @classmethod
    def of(cls, run: Run) -> Scope:
        parts = run.assembly.parts.filter(
            pl.col("role").is_in([Role.REPLAY, Role.EAGER]) | pl.col("evidence").is_null()
        )
        if run.asked:
            parts = parts.filter(pl.col("file").is_in(run.asked))
        mine = pl.col("part").is_in(parts["part"].implode())
        _, replays = with_executions(run.assembly)
        launches = replays.filter(mine).select(
            "part", "file", "launch", "execution", "step", "around", position="segment"
        )
        counts = run.replayed.group_by("part", "launch").agg(kernels=pl.len().cast(pl.Int64))
        launches = (
            launches.join(counts, on=["part", "launch"], how="left", maintain_order="left")
            .with_columns(pl.col("kernels").fill_null(0))
            .sort("execution", "position", maintain_order=True)
        )
        placed = launches.select("part", "launch", "position")
        kernels = run.replayed.filter(mine).join(placed, on=["part", "launch"], how="left", maintain_order="left")
        return cls(
            parts=parts,
            replayed=kernels.sort("execution", "position", "seq_launch", maintain_order=True),
            launches=launches,
            executions=run.executions.filter(mine).sort("execution"),
            steps=run.assembly.steps.filter(mine),
        )


@dataclass(frozen=True, slots=True)
class Account:
    """The totals, and the graph launches that lack kernels (`part`, `launch`)."""

    summary: Mapping[str, Any]
    lacking: pl.DataFrame


def account(scope: Scope, rows: pl.DataFrame, found: Matched) -> Account:
    """Count rows and times, complete launches, eager steps, and padded slots."""
    replayed = rows.filter(pl.col("seq_replay").is_not_null())
    trusted = replayed.filter(pl.col("status").is_in(_TRUSTED))
    by_status = dict(rows["status"].value_counts().iter_rows())
    launches = _expected(scope, found)
    complete = launches.filter(pl.col("kernels") >= pl.col("expected"))
    known = launches.filter(pl.col("expected") > 0)
    recorded = pl.min_horizontal("kernels", "expected").sum()
    sized = scope.executions.filter(pl.col("size").is_not_null() & pl.col("real_size").is_not_null())
    replays = sized.filter(pl.col("resolved_by").is_in(["stated", "fits", "recorded"]))
    slots, real = int(replays["size"].sum()), int(replays["real_size"].sum())
    summary = {
        "kernels": replayed.height,
        "attributed": trusted.height,
        "time_ns": replayed["time_ns"].sum(),
        "attributed_time_ns": trusted["time_ns"].sum(),
        **{status: by_status.get(status, 0) for status in STATUSES},
        "launches": launches.height,
        "complete_launches": complete.height,
        "completeness": known.select(recorded).item() / known["expected"].sum() if known.height else None,
        "eager_steps": eager_steps(scope).height,
        "padded_slots": slots - real if replays.height else None,
        "slots": slots if replays.height else None,
        "padding": (slots - real) / slots if slots else None,
    }
    return Account(summary, launches.filter((pl.col("kernels") < pl.col("expected")) | (pl.col("kernels") == 0)))


def _expected(scope: Scope, found: Matched) -> pl.DataFrame:
    """Graph launches with the kernels that each should show: those captured, or as many as the fullest of its kind."""
    places = [(execution, place, count) for (execution, place), count in found.expected.items()]
    told = pl.DataFrame(
        places, schema={"execution": pl.Int64, "position": pl.Int64, "captured": pl.Int64}, orient="row"
    )
    shape = ("run", "rank", "runner", "phase", "size", "unit", "variant")
    launches = scope.launches.join(told, on=["execution", "position"], how="left", maintain_order="left")
    launches = launches.join(scope.executions.select("execution", *shape, "kind"), on="execution", how="left")
    kinds = [*shape, "kind", "position"]
    fullest = pl.col("kernels").max().over(kinds)
    return launches.with_columns(expected=pl.max_horizontal("captured", fullest)).sort("execution", "position")


def eager_steps(scope: Scope) -> pl.DataFrame:
    """The steps in which no graph was launched."""
    return scope.steps.join(scope.launches.select("part", "step").drop_nulls(), on=["part", "step"], how="anti")


def incomplete_streams(run: Run, scope: Scope, counted: Account) -> pl.DataFrame:
    """The streams of the replays; idle is unknown where kernels are missing, which are not a pause."""
    streams = run.assembly.streams.filter(pl.col("part").is_in(scope.parts["part"].implode()))
    lacking = pl.col("part").is_in(counted.lacking["part"].unique().implode())
    return streams.with_columns(idle=pl.when(~lacking).then("idle")).select(STREAMS)


def warnings(run: Run, scope: Scope, found: Matched) -> tuple[list[Problem], bool]:
    """What must be said, and whether any of it means that the question was answered in part only."""
    grave = [
        *_nothing_to_join(run, scope),
        *_ranks(run, scope),
        *_sizes(scope),
        *_strangers(scope, found),
        *_uncaptured(run, scope, found),
        *_kernelless(scope),
    ]
    return [*grave, *_eager(run, scope), *_lacking(scope, found)], bool(grave)


def _nothing_to_join(run: Run, scope: Scope) -> Iterator[Problem]:
    if scope.launches.is_empty():
        yield Problem(Code.NO_GRAPH_LAUNCH, "no trace here launches a graph: there is nothing to join")
    if run.assembly.captured.is_empty():
        held = "no capture holds a segment" if run.assembly.windows.height else "there is no capture"
        yield Problem(Code.NO_CAPTURE, f"{held}: ops and shapes of replayed kernels are not known")


def _ranks(run: Run, scope: Scope) -> Iterator[Problem]:
    """Ranks that replay, and of which nothing was captured; the graphs of another rank do not stand in."""
    pools = serving_windows(run.assembly)
    replaying = scope.executions.select("run", "rank").unique(maintain_order=True)
    lacking = [rank for place in replaying.iter_rows() for rank in place[1:] if not pools.get(place)]
    if lacking and run.assembly.captured.height:
        listed = ", ".join(str(rank_name(rank)) for rank in lacking)
        yield Problem(Code.RANK_MISSING, f"replays of rank {listed} have no capture of their rank here")


def _sizes(scope: Scope) -> Iterator[Problem]:
    unknown = scope.launches.join(scope.executions.filter(pl.col("size").is_null()), on="execution", how="semi")
    spans = unknown["around"].drop_nulls().unique(maintain_order=True).to_list()
    if spans:
        shown = ", ".join(repr(span) for span in spans[:3])
        yield Problem(Code.SIZE_UNKNOWN, f"{unknown.height} graph launches in spans of an unknown dialect: {shown}")


def _strangers(scope: Scope, found: Matched) -> Iterator[Problem]:
    if found.strange:
        yield Problem(
            Code.GRAPHS_DIFFER,
            f"{len(found.strange)} of {scope.executions.height} replays have too little in common with what was captured:"
            " another model, engine or configuration",
        )


def _uncaptured(run: Run, scope: Scope, found: Matched) -> Iterator[Problem]:
    """Replays of shapes that were not captured, of ranks that were."""
    pools = serving_windows(run.assembly)
    places = scope.executions.filter(pl.col("execution").is_in(list(found.uncaptured)))
    lacking = places.filter(
        pl.Series([bool(pools.get(place)) for place in places.select("run", "rank").iter_rows()], dtype=pl.Boolean)
    )
    if lacking.height:
        shapes = lacking.select("phase", "size").unique(maintain_order=True).head(3).rows()
        listed = ", ".join(f"{phase or 'unknown phase'} {size}" for phase, size in shapes)
        yield Problem(Code.NOT_CAPTURED, f"{lacking.height} replays are of shapes that nothing here captured: {listed}")


def _kernelless(scope: Scope) -> Iterator[Problem]:
    for file, kernels in scope.launches.group_by("file", maintain_order=True).agg(pl.col("kernels").sum()).iter_rows():
        if not kernels:
            yield Problem(Code.NO_DEVICE_ACTIVITY, "graphs were launched, and no kernel of them is in the trace", file)


def _eager(run: Run, scope: Scope) -> Iterator[Problem]:
    largest = run.assembly.windows.group_by("phase", "unit").agg(largest=pl.col("size").max())
    real = pl.when(pl.col("unit_captured") == Unit.TOKENS).then("tokens").otherwise("requests")
    above = (
        eager_steps(scope)
        .join(largest.rename({"unit": "unit_captured"}), left_on="mode", right_on="phase")
        .filter(real > pl.col("largest"))
    )
    for size, count in above.group_by("largest").len().sort("largest").iter_rows():
        yield Problem(Code.ABOVE_LARGEST_SIZE, f"{count} steps ran eagerly, above the largest captured size {size}")
    bare = scope.launches.filter(pl.col("step").is_null() & pl.col("around").is_null())
    sizeless = bare.join(scope.executions.filter(pl.col("size").is_null()), on="execution", how="semi")
    if sizeless.height:
        yield Problem(Code.SIZE_UNKNOWN, f"no span states the size of {sizeless.height} graph launches")


def _lacking(scope: Scope, found: Matched) -> Iterator[Problem]:
    launches = _expected(scope, found)
    lacking = launches.filter(pl.col("kernels").is_between(1, pl.col("expected") - 1))
    for file, count, kernels in (
        lacking.group_by("file", maintain_order=True)
        .agg(pl.len(), (pl.col("expected") - pl.col("kernels")).sum()).iter_rows()
    ):  # fmt: skip
        yield Problem(
            Code.IDLE_UNRELIABLE,
            f"{count} graph launches lack {kernels} kernels that the collector dropped: gaps there are no idle time",
            file,
        )
