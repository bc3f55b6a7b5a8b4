"""Which captured shape each replay ran: the one its span states, else the smallest captured one that fits its batch.

A replay execution is the graph launches of one step, or of one of the recorder's replay spans, together (a piecewise step
launches one graph a segment), or one launch where no span tells them apart.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import polars as pl

from shapescope.model import Phase
from shapescope.read.assembly import SHAPE, Assembly, label_columns
from shapescope.read.frames import Schema
from shapescope.read.identity import Label
from shapescope.read.spans import Step, parse_step
from shapescope.store.spans import parse_span

# Whose graphs may serve a step of a mode, in order of preference.
SERVED_BY = {
    Phase.DECODE: (Phase.DECODE, Phase.MIXED),
    Phase.VERIFY: (Phase.VERIFY, Phase.DECODE, Phase.MIXED),
    Phase.PREFILL: (Phase.PREFILL, Phase.MIXED),
    Phase.MIXED: (Phase.MIXED, Phase.PREFILL),
}
EXECUTION: Schema = {
    "execution": pl.Int64,
    "part": pl.Int64,
    "step": pl.Int64,
    "real_size": pl.Int64,
    "resolved_by": pl.String,
    **SHAPE,
}


@dataclass(frozen=True, slots=True)
class Captured:
    """A captured shape as a replay can meet it."""

    label: Label
    segments: int


def executions(assembly: Assembly) -> tuple[pl.DataFrame, pl.DataFrame]:
    """One `EXECUTION` row each, and the replays with their `execution` number.

    `resolved_by` is `recorded` (the recorder's own label), `stated` (padded size in the step), `fits`, or
    `above-largest-size`; where it is null, the size is the step's own, and null without any.
    """
    replays = assembly.replays.with_columns(
        execution=pl.struct("part", pl.col("launch").min().over("part", "group")).rank("dense")
    ).with_columns(execution=pl.col("execution").cast(pl.Int64) - 1)
    captured = _captured(assembly) if replays.height else {}
    serving = serving_windows(assembly)
    texts = {(part, step): text for part, step, text in assembly.steps.select("part", "step", "text").iter_rows()}
    groups = (
        replays.group_by("execution")
        .agg(pl.first("part", "run", "rank", "step", "span"), launches=pl.len())
        .sort("execution")
    )
    rows = []
    own = assembly.part_labels
    for execution, part, run, rank, step, span, launches in groups.iter_rows():
        text = texts.get((part, step))
        said = parse_step(text) if text else None
        fit = [captured[window] for window in serving.get((run, rank), ()) if window in captured]
        label, real, how = _resolved(said, _recorded(span) or own[part], fit, launches)
        rows.append((execution, part, step, real, how, run, rank, *label_columns(label), None))
    return pl.DataFrame(rows, schema=EXECUTION, orient="row"), replays


def serving_windows(assembly: Assembly) -> dict[tuple[int, int], tuple[int, ...]]:
    """The captures (numbers of windows) that the replays of each run and rank can be of: those of the same rank.

    For a replay that nothing places in a world, the captures that nothing places either; where a run replays in one place
    only, and only one side has a known place, all its captures if they are of one. Never two captures of one key.
    """
    places = assembly.replays.select("run", "rank").unique(maintain_order=True).rows()
    found: dict[tuple[int, int], tuple[int, ...]] = {}
    for run, rank in places:
        windows = assembly.windows.filter(pl.col("run") == run)
        own = windows.filter(pl.col("rank") == rank)
        if own.is_empty():
            lone = sum(other == run for other, _ in places) == 1
            own = _placeless(windows, rank, lone)
        found[run, rank] = tuple(own["window"])
    return found


def _placeless(windows: pl.DataFrame, rank: int, lone: bool) -> pl.DataFrame:
    """A run's captures that may be of the rank of a replay, though no rank says so."""
    known = windows.filter(pl.col("rank") >= 0)
    others = windows.filter(pl.col("rank") < 0)
    if rank < 0 and known.is_empty():
        found = others
    elif lone and rank < 0 and others.is_empty() and known["rank"].n_unique() == 1:
        found = known
    elif lone and known.is_empty():
        found = others
    else:
        return windows.clear()
    keys = [name for name in SHAPE if name != "rank"]
    return windows.clear() if found.select(keys).is_duplicated().any() else found


def _captured(assembly: Assembly) -> dict[int, Captured]:
    """The captured shapes with a size, by window."""
    held = assembly.captured.group_by("window").agg(segments=pl.col("segment").n_unique())
    rows = assembly.windows.join(held, on="window", how="left", maintain_order="left")
    return {
        window: Captured(assembly.labels[window], segments)
        for window, segments in rows.select("window", pl.col("segments").fill_null(0)).iter_rows()
        if assembly.labels[window].size is not None
    }


def _recorded(span: str | None) -> Label | None:
    """The label of the recorder's own replay span."""
    found = parse_span(span) if span else None
    return Label.of(found[1]) if found is not None and found[1] is not None else None


def _resolved(
    said: Step | None, recorded: Label | None, captured: list[Captured], launches: int
) -> tuple[Label, int | None, str | None]:
    if recorded is not None:
        return recorded, said.size_in(recorded.unit) if said and recorded.unit else None, "recorded"
    if said is None:
        return Label(), None, None
    fitting = list(_fitting(said, captured))
    if fitting:
        best = min(fitting, key=lambda one: (one.segments != launches, _preference(said, one), one.label.size or 0))
        unit = best.label.unit or said.unit
        return best.label, said.size_in(unit), "stated" if said.padded_size is not None else "fits"
    serving = [one for one in captured if one.label.phase in SERVED_BY.get(said.mode, (said.mode,))]
    size = said.padded_size if said.padded_size is not None else said.real_size
    label = Label(phase=said.mode, size=size, unit=said.unit if size is not None else None)
    how = "stated" if said.padded_size is not None else "above-largest-size" if serving and said.real_size else None
    return label, said.real_size, how


def _fitting(said: Step, captured: Iterable[Captured]) -> Iterable[Captured]:
    for one in captured:
        label = one.label
        if label.phase not in SERVED_BY.get(said.mode, (said.mode,)) or label.unit is None or label.size is None:
            continue
        if said.padded_size is not None and label.unit is said.unit:
            if label.size == said.padded_size:
                yield one
        elif (real := said.size_in(label.unit)) is not None and real <= label.size:
            yield one


def _preference(said: Step, one: Captured) -> int:
    served = SERVED_BY.get(said.mode, (said.mode,))
    return served.index(one.label.phase) if one.label.phase in served else len(served)
