"""Which kernels served each op at each size: what kernel choice is compared by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from shapescope.analyse.patterns import dims_patterns
from shapescope.analyse.samples import LANE, captured_kernels, distinct, op_samples, replay_kernels
from shapescope.read.run import Run


@dataclass(frozen=True, slots=True)
class Choice:
    """What served an op at one size: its families, their tiles, and the median time of a replay."""

    size: int
    family: str
    tile: str
    kernel_class: str | None
    time_ns: int | None
    source: str | None
    dims: str | None


def choices(run: Run, kernels: pl.DataFrame | None = None) -> pl.DataFrame:
    """One row a lane, size and op: the families that served it, and the median time over complete replays.

    A shape whose replays say which op a kernel is of speaks through them; else its capture does, without times. Where
    nothing knows any op, all kernels of a class count as one. `kernels` are `join(run).kernels`, where at hand.
    """
    kernels, captured = replay_kernels(run, kernels), captured_kernels(run)
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


def by_op(members: pl.DataFrame) -> dict[tuple[str, str | None], list[Choice]]:
    """Each op and dims pattern of a lane with its choices by size; calls of one pattern at one size count together."""
    calls = [(row["op"], row["size"], row["dims"] or "") for row in members.iter_rows(named=True)]
    patterns = dims_patterns(calls)
    found: dict[tuple[str, str | None], dict[int, list[Choice]]] = {}
    for call, row in zip(calls, members.iter_rows(named=True), strict=True):
        choice = Choice(
            row["size"], row["family"], row["tile"], row["class"], row["time_ns"], row["source"], row["dims"]
        )
        found.setdefault((call[0], patterns[call] or None), {}).setdefault(row["size"], []).append(choice)
    merged = {op: [_merged(by_size[size]) for size in sorted(by_size)] for op, by_size in found.items()}
    return _completed(merged)


def _completed(found: dict[tuple[str, str | None], list[Choice]]) -> dict[tuple[str, str | None], list[Choice]]:
    """Patterns of one op that no size shares are one op whose dims are spelled otherwise at some sizes.

    At size 1 a dimension may be squeezed away, for example. Only where a single other pattern fits: no guess between two.
    """
    whole: dict[tuple[str, str | None], list[Choice]] = {}
    for (op, pattern), served in sorted(found.items(), key=lambda item: -len(item[1])):
        sizes = {choice.size for choice in served}
        fitting = [
            key for key, kept in whole.items() if key[0] == op and sizes.isdisjoint(choice.size for choice in kept)
        ]
        key = fitting[0] if len(fitting) == 1 else (op, pattern)
        whole[key] = sorted([*whole.get(key, ()), *served], key=lambda choice: choice.size)
    return whole


def _merged(served: Sequence[Choice]) -> Choice:
    first = served[0]
    if len(served) == 1:
        return first
    times = [choice.time_ns for choice in served if choice.time_ns is not None]
    return Choice(
        first.size,
        " + ".join(sorted({choice.family for choice in served})),
        " + ".join(sorted({choice.tile for choice in served})),
        first.kernel_class,
        sum(times) if len(times) == len(served) else None,
        first.source,
        first.dims,
    )
