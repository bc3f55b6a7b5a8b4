"""Kernel choice across sizes: where an op runs other kernels at one size than at the next, and what that costs.

For each op and dims pattern the sizes of a lane stand in a row, each with the kernel families that served it. Sizes in
a row with the same families are a stretch; a stretch between two others of one same family is an island, or a cliff
where it is a single size slower than its neighbours; any other change is a step, or a fallback where the new kernel is
a generic one. Families, not names, are compared: a compiled kernel that is renumbered in every file stays itself.

The time ratio is the time at the size over the midpoint of its neighbours: below and above the stretch for an island,
the sizes next to it for a step. Times on dummy inputs say nothing about attention or experts: there the ratio is null,
and no cliff is called.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from statistics import fmean
from typing import Any

import polars as pl

from shapescope.analyse.choices import Choice, by_op, choices
from shapescope.analyse.samples import INPUT_DEPENDENT, LANE
from shapescope.read.run import Run

SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "runner": pl.String,
    "variant": pl.String,
    "op": pl.String,
    "class": pl.String,
    "dims_pattern": pl.String,
    "size_from": pl.Int64,
    "size_to": pl.Int64,
    "family_from": pl.String,
    "family_to": pl.String,
    "kind": pl.String,
    "time_ratio": pl.Float64,
    "time_ns": pl.Int64,
    "cost_ns": pl.Int64,
    "source": pl.String,
    "evidence": pl.String,
}
# A single size counts as slower than its neighbours from here on: less is within what replays vary.
_SLOWER = 1.05
# Words of kernels that take what no specialised kernel does.
_GENERIC = re.compile(
    r"(?i)fall_?back|naive|(?:^|_)ref(?:erence)?(?:_|$)|generic|unoptimi[sz]ed|slow_?path|simple_kernel"
)
# Classes of work that has kernels of its own; one of plain loops in their place is a fallback.
_SPECIALISED = frozenset({"gemm", "grouped_gemm", "attention", "conv", "moe_routing"})
_PLAIN = frozenset({"elementwise", "reduction", "copy"})


@dataclass(frozen=True, slots=True)
class SwitchesResult:
    """Rows as in `SCHEMA`, the costliest first; `ops` counts compared ops, `sizes` the sizes of all lanes."""

    rows: pl.DataFrame
    sizes: tuple[int, ...]
    ops: int
    partial: bool
    warnings: tuple[tuple[str, str], ...]

    @property
    def summary(self) -> dict[str, Any]:
        """The totals as plain values."""
        kinds = dict(self.rows.group_by("kind", maintain_order=True).len().iter_rows())
        return {"sizes": list(self.sizes), "ops": self.ops, "kinds": kinds}


def switches(run: Run, kernels: pl.DataFrame | None = None, *, tiles: bool = False) -> SwitchesResult:
    """Where kernel choice changes from one size to the next.

    `kernels` are `join(run).kernels`, where they are at hand. `tiles` shows changes of tile alone.
    """
    table = choices(run, kernels)
    rows: list[dict[str, Any]] = []
    ops = 0
    for lane, members in table.group_by(LANE, maintain_order=True):
        sizes = sorted(members["size"].unique().to_list())
        for (op, pattern), served in by_op(members).items():
            ops += 1
            about = dict(zip(LANE, lane, strict=True)) | {"op": op, "dims_pattern": pattern}
            rows += [about | row for row in (*_changes(served, tiles), *_absences(served, sizes))]
    rows.sort(key=lambda row: -(row.get("cost_ns") or 0))
    found = pl.DataFrame([{name: row.get(name) for name in SCHEMA} for row in rows], schema=SCHEMA)
    sizes = sorted(table["size"].unique().to_list())
    warnings = tuple(_warnings(table, sizes))
    return SwitchesResult(found, tuple(sizes), ops, len(sizes) < 2, warnings)


def _warnings(table: pl.DataFrame, sizes: Sequence[int]) -> Iterator[tuple[str, str]]:
    """(code, message), each once."""
    if not sizes:
        yield "no-data", "No size of this run shows which kernels serve it."
    elif len(sizes) == 1:
        yield "one-size", f"Only size {sizes[0]} is here: there is no other to compare its kernels with."
    dependent = table.filter(pl.col("class").is_in(list(INPUT_DEPENDENT)) & (pl.col("source") == "replay-dummy"))
    if dependent.height:
        yield (
            "dummy-inputs",
            "Replays on dummy inputs: no cliff is called for attention or experts, whose times depend on what they read.",
        )
    untimed = table.filter(pl.col("time_ns").is_null())
    if untimed.height:
        yield "no-times", f"{untimed.height} ops at a size have kernels and no time: their changes have no ratio."


def _changes(choices: Sequence[Choice], tiles: bool) -> Iterator[dict[str, Any]]:
    stretches = [list(group) for _, group in groupby(choices, key=lambda choice: choice.family)]
    at = 1
    while at < len(stretches):
        island = at + 1 < len(stretches) and stretches[at - 1][0].family == stretches[at + 1][0].family
        if island:
            yield _island(stretches[at - 1], stretches[at], stretches[at + 1])
        else:
            yield _step(stretches[at - 1], stretches[at], stretches[at + 1 :])
        # What follows an island is what stood before it: its end is no second change.
        at += 2 if island else 1
    if tiles:
        for stretch in stretches:
            yield from _tiles(stretch)


def _island(before: Sequence[Choice], island: Sequence[Choice], after: Sequence[Choice]) -> dict[str, Any]:
    below, above = before[-1], after[0]
    row = _row(below, island[0], _ratio(island, [below, above]))
    times = [choice.time_ns for choice in (below, above) if choice.time_ns is not None]
    slower = row["time_ratio"] is not None and row["time_ratio"] >= _SLOWER and row["time_ns"] > max(times)
    row["kind"] = "cliff" if len(island) == 1 and slower else "island"
    sizes = ", ".join(str(choice.size) for choice in island)
    row["evidence"] = f"{island[0].family} at {sizes} between {_said(below)} and {_said(above)}: {_times(island)}"
    return row


def _step(before: Sequence[Choice], here: Sequence[Choice], later: Sequence[Sequence[Choice]]) -> dict[str, Any]:
    below, first = before[-1], here[0]
    following = here[1] if len(here) > 1 else later[0][0] if later else None
    neighbours = [below, following] if following else [below]
    row = _row(below, first, _ratio([first], neighbours))
    row["kind"] = "fallback" if _is_fallback(below, first) else "step"
    sides = "the size below alone" if following is None else f"{below.size} and {following.size}"
    row["evidence"] = f"{_said(below)} -> {_said(first)}; ratio against {sides}"
    return row


def _tiles(stretch: Sequence[Choice]) -> Iterator[dict[str, Any]]:
    """Changes of tile within one family."""
    for below, above in pairwise(stretch):
        if below.tile != above.tile:
            row = _row(below, above, None)
            row.update(kind="tile", evidence=f"tile {below.tile or 'unnamed'} -> {above.tile or 'unnamed'}")
            yield row


def _row(below: Choice, here: Choice, ratio: float | None) -> dict[str, Any]:
    cost = None if ratio is None or here.time_ns is None or ratio <= 1 else round(here.time_ns - here.time_ns / ratio)
    return {
        "class": here.kernel_class,
        "size_from": below.size,
        "size_to": here.size,
        "family_from": below.family,
        "family_to": here.family,
        "time_ratio": ratio,
        "time_ns": here.time_ns,
        "cost_ns": cost,
        "source": here.source,
    }


def _ratio(here: Sequence[Choice], neighbours: Sequence[Choice]) -> float | None:
    """Mean time here over the mean of the neighbours' times; null where one is unknown or depends on the inputs."""
    all_of = (*here, *neighbours)
    if any(choice.time_ns is None or not _trusted(choice) for choice in all_of):
        return None
    times, expected = ([choice.time_ns or 0 for choice in group] for group in (here, neighbours))
    return fmean(times) / fmean(expected) if fmean(expected) else None


def _trusted(choice: Choice) -> bool:
    return not (choice.source == "replay-dummy" and choice.kernel_class in INPUT_DEPENDENT)


def _is_fallback(below: Choice, here: Choice) -> bool:
    by_name = _GENERIC.search(here.family) is not None and _GENERIC.search(below.family) is None
    return by_name or (below.kernel_class in _SPECIALISED and here.kernel_class in _PLAIN)


def _absences(choices: Sequence[Choice], sizes: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Stretches of sizes at which the op does not run: between sizes where it does, or where most sizes have it."""
    present: Mapping[int, Choice] = {choice.size: choice for choice in choices}
    first, last = choices[0].size, choices[-1].size
    usual = len(present) * 2 > len(sizes)
    for here, group in groupby(sizes, key=lambda size: size in present):
        missing = list(group)
        if here or not (usual or first < missing[0] < last):
            continue
        below = max((size for size in present if size < missing[0]), default=None)
        about = present[below if below is not None else first]
        yield {
            "class": about.kernel_class,
            "kind": "absent",
            "size_from": below,
            "size_to": missing[0],
            "family_from": about.family if below is not None else None,
            "source": about.source,
            "evidence": f"no such op at {_listed(missing)}; it runs at {_listed(present)}",
        }


def _listed(sizes: Iterable[int]) -> str:
    return ", ".join(str(size) for size in sorted(sizes))


def _said(choice: Choice) -> str:
    return f"{choice.family} at {choice.size}" + ("" if choice.time_ns is None else f" ({choice.time_ns / 1e3:.1f} us)")


def _times(choices: Sequence[Choice]) -> str:
    return ", ".join("no time" if choice.time_ns is None else f"{choice.time_ns / 1e3:.1f} us" for choice in choices)
