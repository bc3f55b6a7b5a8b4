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

from shapescope.analyse.patterns import dims_patterns
from shapescope.analyse.samples import INPUT_DEPENDENT, LANE, distinct, named, op_samples, replay_kernels
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


@dataclass(frozen=True, slots=True)
class _Choice:
    """What served an op at one size: its families, their tiles, and the median time of a replay."""

    size: int
    family: str
    tile: str
    kernel_class: str | None
    time_ns: int | None
    source: str | None
    dims: str | None


def switches(run: Run, kernels: pl.DataFrame | None = None, *, tiles: bool = False) -> SwitchesResult:
    """Where kernel choice changes from one size to the next.

    `kernels` are `join(run).kernels`, where they are at hand. `tiles` shows changes of tile alone.
    """
    choices = _choices(run, replay_kernels(run, kernels))
    rows: list[dict[str, Any]] = []
    ops = 0
    for lane, members in choices.group_by(LANE, maintain_order=True):
        sizes = sorted(members["size"].unique().to_list())
        for (op, pattern), found in _by_op(members).items():
            ops += 1
            about = dict(zip(LANE, lane, strict=True)) | {"op": op, "dims_pattern": pattern}
            rows += [about | row for row in (*_changes(found, tiles), *_absences(found, sizes))]
    rows.sort(key=lambda row: -(row.get("cost_ns") or 0))
    table = pl.DataFrame([{name: row.get(name) for name in SCHEMA} for row in rows], schema=SCHEMA)
    sizes = sorted(choices["size"].unique().to_list())
    warnings = tuple(_warnings(choices, sizes))
    return SwitchesResult(table, tuple(sizes), ops, len(sizes) < 2, warnings)


def _warnings(choices: pl.DataFrame, sizes: Sequence[int]) -> Iterator[tuple[str, str]]:
    """(code, message), each once."""
    if not sizes:
        yield "no-data", "No size of this run shows which kernels serve it."
    elif len(sizes) == 1:
        yield "one-size", f"Only size {sizes[0]} is here: there is no other to compare its kernels with."
    dependent = choices.filter(pl.col("class").is_in(list(INPUT_DEPENDENT)) & (pl.col("source") == "replay-dummy"))
    if dependent.height:
        yield (
            "dummy-inputs",
            "Replays on dummy inputs: no cliff is called for attention or experts, whose times depend on what they read.",
        )
    untimed = choices.filter(pl.col("time_ns").is_null())
    if untimed.height:
        yield "no-times", f"{untimed.height} ops at a size have kernels and no time: their changes have no ratio."


def _choices(run: Run, kernels: pl.DataFrame) -> pl.DataFrame:
    """One row a lane, size and op: the families that served it, and the median time over complete replays.

    A shape whose replays say which op a kernel is of speaks through them; else its capture does, without times. Where
    nothing knows any op, all kernels of a class count as one.
    """
    captured = _captured(run)
    if not kernels["op"].count() and not captured["op"].count():
        kernels, captured = (frame.with_columns(op="class") for frame in (kernels, captured))
    shape = [*LANE, "size"]
    samples = op_samples(kernels.filter(pl.col("complete") & pl.col("op").is_not_null() & pl.col("size").is_not_null()))
    medians = samples.group_by([*shape, "op", "dims"], maintain_order=True).agg(
        pl.first("class", "family", "tile", "source"), time_ns=pl.col("time_ns").median().round().cast(pl.Int64)
    )
    rest = (
        captured.filter(pl.col("op").is_not_null())
        .group_by([*shape, "op", "dims"], maintain_order=True)
        .agg(
            pl.col("class").first(),
            family=distinct("family"),
            tile=distinct("tile"),
            source=pl.lit(None, pl.String),
            time_ns=pl.lit(None, pl.Int64),
        )
    )
    unseen = [name for name in shape if name != "context_len"]
    return pl.concat([medians, rest.join(medians, on=unseen, how="anti", nulls_equal=True)])


def _captured(run: Run) -> pl.DataFrame:
    """Captured launches whose kernels are named, of the lowest rank that has the shape."""
    rows = run.kernel_rows.filter(
        pl.col("source").is_in(["capture", "nodes"]) & pl.col("kernel").is_not_null() & pl.col("size").is_not_null()
    )
    rows = rows.filter(pl.col("rank") == pl.col("rank").min().over("run", "runner", "phase", "variant", "size"))
    return named(rows).with_columns(context_len=pl.lit(None, pl.Int64))


def _by_op(members: pl.DataFrame) -> dict[tuple[str, str | None], list[_Choice]]:
    """Each op and dims pattern of a lane with its choices by size; calls of one pattern at one size count together."""
    calls = [(row["op"], row["size"], row["dims"] or "") for row in members.iter_rows(named=True)]
    patterns = dims_patterns(calls)
    found: dict[tuple[str, str | None], dict[int, list[_Choice]]] = {}
    for call, row in zip(calls, members.iter_rows(named=True), strict=True):
        choice = _Choice(
            row["size"], row["family"], row["tile"], row["class"], row["time_ns"], row["source"], row["dims"]
        )
        found.setdefault((call[0], patterns[call] or None), {}).setdefault(row["size"], []).append(choice)
    merged = {op: [_merged(by_size[size]) for size in sorted(by_size)] for op, by_size in found.items()}
    return _completed(merged)


def _completed(found: dict[tuple[str, str | None], list[_Choice]]) -> dict[tuple[str, str | None], list[_Choice]]:
    """Patterns of one op that no size shares are one op whose dims are spelled otherwise at some sizes.

    At size 1 a dimension may be squeezed away, for example. Only where a single other pattern fits: no guess between two.
    """
    whole: dict[tuple[str, str | None], list[_Choice]] = {}
    for (op, pattern), choices in sorted(found.items(), key=lambda item: -len(item[1])):
        sizes = {choice.size for choice in choices}
        fitting = [
            key for key, kept in whole.items() if key[0] == op and sizes.isdisjoint(choice.size for choice in kept)
        ]
        key = fitting[0] if len(fitting) == 1 else (op, pattern)
        whole[key] = sorted([*whole.get(key, ()), *choices], key=lambda choice: choice.size)
    return whole


def _merged(choices: Sequence[_Choice]) -> _Choice:
    first = choices[0]
    if len(choices) == 1:
        return first
    times = [choice.time_ns for choice in choices if choice.time_ns is not None]
    return _Choice(
        first.size,
        " + ".join(sorted({choice.family for choice in choices})),
        " + ".join(sorted({choice.tile for choice in choices})),
        first.kernel_class,
        sum(times) if len(times) == len(choices) else None,
        first.source,
        first.dims,
    )


def _changes(choices: Sequence[_Choice], tiles: bool) -> Iterator[dict[str, Any]]:
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


def _island(before: Sequence[_Choice], island: Sequence[_Choice], after: Sequence[_Choice]) -> dict[str, Any]:
    below, above = before[-1], after[0]
    row = _row(below, island[0], _ratio(island, [below, above]))
    times = [choice.time_ns for choice in (below, above) if choice.time_ns is not None]
    slower = row["time_ratio"] is not None and row["time_ratio"] >= _SLOWER and row["time_ns"] > max(times)
    row["kind"] = "cliff" if len(island) == 1 and slower else "island"
    sizes = ", ".join(str(choice.size) for choice in island)
    row["evidence"] = f"{island[0].family} at {sizes} between {_said(below)} and {_said(above)}: {_times(island)}"
    return row


def _step(before: Sequence[_Choice], here: Sequence[_Choice], later: Sequence[Sequence[_Choice]]) -> dict[str, Any]:
    below, first = before[-1], here[0]
    following = here[1] if len(here) > 1 else later[0][0] if later else None
    neighbours = [below, following] if following else [below]
    row = _row(below, first, _ratio([first], neighbours))
    row["kind"] = "fallback" if _is_fallback(below, first) else "step"
    sides = "the size below alone" if following is None else f"{below.size} and {following.size}"
    row["evidence"] = f"{_said(below)} -> {_said(first)}; ratio against {sides}"
    return row


def _tiles(stretch: Sequence[_Choice]) -> Iterator[dict[str, Any]]:
    """Changes of tile within one family."""
    for below, above in pairwise(stretch):
        if below.tile != above.tile:
            row = _row(below, above, None)
            row.update(kind="tile", evidence=f"tile {below.tile or 'unnamed'} -> {above.tile or 'unnamed'}")
            yield row


def _row(below: _Choice, here: _Choice, ratio: float | None) -> dict[str, Any]:
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


def _ratio(here: Sequence[_Choice], neighbours: Sequence[_Choice]) -> float | None:
    """Mean time here over the mean of the neighbours' times; null where one is unknown or depends on the inputs."""
    all_of = (*here, *neighbours)
    if any(choice.time_ns is None or not _trusted(choice) for choice in all_of):
        return None
    times, expected = ([choice.time_ns or 0 for choice in group] for group in (here, neighbours))
    return fmean(times) / fmean(expected) if fmean(expected) else None


def _trusted(choice: _Choice) -> bool:
    return not (choice.source == "replay-dummy" and choice.kernel_class in INPUT_DEPENDENT)


def _is_fallback(below: _Choice, here: _Choice) -> bool:
    by_name = _GENERIC.search(here.family) is not None and _GENERIC.search(below.family) is None
    return by_name or (below.kernel_class in _SPECIALISED and here.kernel_class in _PLAIN)


def _absences(choices: Sequence[_Choice], sizes: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Stretches of sizes at which the op does not run: between sizes where it does, or where most sizes have it."""
    present: Mapping[int, _Choice] = {choice.size: choice for choice in choices}
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


def _said(choice: _Choice) -> str:
    return f"{choice.family} at {choice.size}" + ("" if choice.time_ns is None else f" ({choice.time_ns / 1e3:.1f} us)")


def _times(choices: Sequence[_Choice]) -> str:
    return ", ".join("no time" if choice.time_ns is None else f"{choice.time_ns / 1e3:.1f} us" for choice in choices)
