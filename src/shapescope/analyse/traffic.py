"""What `coverage` compares: the sizes that one runner captured, and the steps of real traffic that it could serve."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from shapescope.model import Phase, Unit
from shapescope.read.resolve import SERVED_BY
from shapescope.read.run import Run
from shapescope.read.spans import Step, parse_step

_STEPS: dict[str, pl.DataType | type[pl.DataType]] = {
    "real_size": pl.Int64,
    "unit": pl.String,
    "eager": pl.Boolean,
    "size": pl.Int64,
}
# Whose graphs carry most of serving, in order.
_PHASES = (Phase.DECODE, Phase.MIXED, Phase.VERIFY, Phase.PREFILL)


@dataclass(frozen=True, slots=True)
class Captured:
    """One runner's captured sizes: `sizes` has `size`, `unit`, `memory_bytes`, `capture_ns`; None: nothing captured."""

    runner: str | None
    phase: Phase | None
    sizes: pl.DataFrame
    requested: tuple[int, ...]

    @property
    def unit(self) -> Unit | None:
        units = self.sizes["unit"].drop_nulls().unique().to_list()
        return Unit(units[0]) if len(units) == 1 else None

    def serves(self, mode: Phase) -> bool:
        return self.phase is None or self.phase in SERVED_BY.get(mode, (mode,))


def captured_sizes(run: Run) -> Captured:
    """The sizes of the runner that serves decoding, else of the one nearest to that; of the lowest rank."""
    rows = run.shape_rows.filter(pl.col("segments").is_not_null() & pl.col("size").is_not_null())
    runners = rows.group_by("runner", "phase", maintain_order=True).agg(pl.col("size").n_unique())
    if runners.is_empty():
        return Captured(None, None, pl.DataFrame(schema={"size": pl.Int64, "unit": pl.String}), ())
    runner, phase, _ = min(runners.iter_rows(), key=lambda row: (_rank_of(row[1]), -row[2]))
    mine = rows.filter(pl.col("runner").eq_missing(runner) & pl.col("phase").eq_missing(phase))
    sizes = mine.group_by("size", "unit", maintain_order=True).agg(
        pl.col("memory_bytes").max(), pl.col("capture_ns").max()
    )
    requested = {key.shape.size for manifest in run.manifests for key in manifest.requested if key.runner == runner}
    return Captured(runner, Phase(phase) if phase else None, sizes, tuple(sorted(requested)))


def _rank_of(phase: str | None) -> int:
    known = Phase(phase) if phase else None
    return _PHASES.index(known) if known in _PHASES else len(_PHASES)


def traffic_steps(traffic: Sequence[Run], captured: Captured) -> tuple[pl.DataFrame, int]:
    """The steps that the captured runner could serve, as `coverage` takes them; and how many others there are.

    A step without a graph launch ran eagerly, if its trace shows launches at all. Graph launches under no step are
    steps of unknown size; the recorder's own replays are no traffic.
    """
    found: list[dict[str, Any]] = []
    others = 0
    for run in traffic:
        for row in _rows(run, captured):
            if row is None:
                others += 1
            else:
                found.append(row)
    return pl.DataFrame(found, schema=_STEPS), others


def _rows(run: Run, captured: Captured) -> Iterator[dict[str, Any] | None]:
    """One row a step of each replica, or None for one that such a runner does not serve."""
    unit = captured.unit
    launched = run.assembly.replays.filter(pl.col("step").is_not_null()).group_by("part", "step").len()
    active = set(run.assembly.replays["part"]) | set(run.assembly.eager["part"])
    steps = _one_rank(run.assembly.steps).join(launched, on=["part", "step"], how="left", maintain_order="left")
    for part, text, launches in steps.select("part", "text", "len").iter_rows():
        step = parse_step(text)
        if step is None or not captured.serves(step.mode):
            yield None
            continue
        size, counted = _size(step, unit)
        eager = step.eager or launches is None if part in active else True if step.eager else None
        stated = step.padded_size if step.unit is unit else None
        yield {"real_size": size, "unit": str(counted), "eager": eager, "size": None if eager else stated}
    served = _one_rank(run.executions).filter(pl.col("resolved_by").ne_missing("recorded"))
    nameless = served.filter(pl.col("step").is_null())
    for _ in range(nameless.height):
        yield {"real_size": None, "unit": str(unit) if unit else None, "eager": False, "size": None}


def _size(step: Step, unit: Unit | None) -> tuple[int | None, Unit]:
    """The batch in the unit that the captures count; where the span lacks that, in the other, which never compares."""
    wanted = unit or step.unit
    other = Unit.TOKENS if wanted is Unit.REQUESTS else Unit.REQUESTS
    size = step.size_in(wanted)
    if size is None and step.size_in(other) is not None:
        return step.size_in(other), other
    return size, wanted


def _one_rank(rows: pl.DataFrame) -> pl.DataFrame:
    """Every rank of a replica runs the same steps: those of the lowest known rank of each run, else of the first file."""
    first = pl.when(pl.col("rank") >= 0).then(pl.col("rank")).otherwise(1_000_000 - pl.col("rank"))
    return rows.filter((first == first.min().over("run")) | pl.col("rank").is_null())
