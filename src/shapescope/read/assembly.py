"""The parts of all files put together: frames over the whole run, each row with its file, its rank and its shape.

A shape is known by `SHAPE`. Ranks that nothing names are numbered -1, -2, .. (shown as `unknown-1`, ..) and never merged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from shapescope.read.frames import CAPTURED, KERNEL, LAUNCH, REPLAY, STEP, STREAM, Schema, empty
from shapescope.read.identity import Label
from shapescope.read.part import Part, Role

SHAPE: Schema = {
    "run": pl.Int64,
    "rank": pl.Int64,
    "runner": pl.String,
    "phase": pl.String,
    "size": pl.Int64,
    "unit": pl.String,
    "variant": pl.String,
    "sequence": pl.Int64,
}
"""What tells shapes apart; `sequence` numbers those without a size and is null for all others."""

WHERE: Schema = {"part": pl.Int64, "file": pl.String, "run": pl.Int64, "rank": pl.Int64}
PART: Schema = {
    **WHERE,
    **{name: kind for name, kind in SHAPE.items() if name not in WHERE},
    "evidence": pl.String,
    "role": pl.String,
}
WINDOW: Schema = {"window": pl.Int64, "part": pl.Int64, "file": pl.String, **SHAPE, "key_source": pl.String}


@dataclass(frozen=True, slots=True)
class Assembly:
    """The frames of what was opened. `window` numbers the captures of all files; `launch` is within a part.

    `parts` (`PART`; `part_labels` by part), `windows` (`WINDOW`; `labels` by window), `captured` (`CAPTURED` and
    window), `replays`, `kernels`, `eager`, `steps` and
    `streams` (each with `WHERE`).
    """

    parts: pl.DataFrame
    part_labels: tuple[Label | None, ...]
    windows: pl.DataFrame
    labels: tuple[Label, ...]
    captured: pl.DataFrame
    replays: pl.DataFrame
    kernels: pl.DataFrame
    eager: pl.DataFrame
    steps: pl.DataFrame
    streams: pl.DataFrame


def rank_name(rank: int) -> int | str:
    """How a rank is shown: its number, or `unknown-<n>` where nothing names it."""
    return rank if rank >= 0 else f"unknown-{-rank}"


def assemble(parts: Sequence[tuple[int, str, Part]]) -> Assembly:
    """Put parts together; each comes with the number of its run and the name of its file."""
    ranks = _ranks(parts)
    each = [part for _, _, part in parts]
    described = pl.DataFrame(
        [
            (number, file, run, rank, *label_columns(part.label or Label()), None, part.evidence, part.roles[0])
            for number, ((run, file, part), rank) in enumerate(zip(parts, ranks, strict=True))
        ],
        schema=PART,
        orient="row",
    )
    where = described.select(list(WHERE))
    windows, first = _windows(parts, ranks)
    captured = _joined([part.captured for part in each], CAPTURED)
    first_window = pl.Series(np.array(first, dtype=np.int64)[captured["part"].to_numpy()])
    return Assembly(
        parts=described,
        part_labels=tuple(part.label for part in each),
        windows=windows,
        labels=tuple(window.label for part in each for window in part.windows),
        captured=captured.with_columns(pl.col("window") + first_window),
        replays=_placed(_joined([part.replays for part in each], REPLAY), where),
        kernels=_placed(_joined([part.kernels for part in each], KERNEL), where),
        eager=_placed(_joined([part.eager for part in each], LAUNCH), where),
        steps=_placed(_joined([part.steps for part in each], STEP), where),
        streams=_placed(_joined([part.streams for part in each], STREAM), where),
    )


def label_columns(label: Label) -> tuple[str | None, str | None, int | None, str | None, str]:
    """A label as the columns runner, phase, size, unit, variant."""
    return (
        label.runner,
        None if label.phase is None else str(label.phase),
        label.size,
        None if label.unit is None else str(label.unit),
        ",".join(label.variants),
    )


def _ranks(parts: Sequence[tuple[int, str, Part]]) -> list[int | None]:
    """Each part's rank. Places that nothing names are numbered downwards from -1 in order of files, run by run."""
    unknown: dict[tuple[int, object], int] = {}
    count: dict[int, int] = {}
    ranks: list[int | None] = []
    for number, (run, _, part) in enumerate(parts):
        if part.rank.rank is not None or part.roles == (Role.NOT_A_TRACE,):
            ranks.append(part.rank.rank)
            continue
        place = (run, part.rank.apart or number)
        if place not in unknown:
            count[run] = count.get(run, 0) + 1
            unknown[place] = -count[run]
        ranks.append(unknown[place])
    return ranks


def _windows(parts: Sequence[tuple[int, str, Part]], ranks: list[int | None]) -> tuple[pl.DataFrame, list[int]]:
    """All captures with their labels, and the number of each part's first. What has no size gets a number in its run."""
    rows: list[tuple[object, ...]] = []
    first: list[int] = []
    nameless: dict[int, int] = {}
    for number, ((run, file, part), rank) in enumerate(zip(parts, ranks, strict=True)):
        first.append(len(rows))
        for window in part.windows:
            sequence = None
            if window.label.size is None:
                sequence = nameless.get(run, 0)
                nameless[run] = sequence + 1
            rows.append((len(rows), number, file, run, rank, *label_columns(window.label), sequence, window.key_source))
    return pl.DataFrame(rows, schema=WINDOW, orient="row"), first


def _joined(tables: list[pl.DataFrame], schema: Schema) -> pl.DataFrame:
    """The rows of one table of all parts, with the number of their `part`."""
    part = np.repeat(np.arange(len(tables)), [table.height for table in tables])
    rows = pl.concat([table for table in tables if table.height] or [empty(schema)])
    return rows.hstack([pl.Series("part", part, dtype=pl.Int64)])


def _placed(rows: pl.DataFrame, where: pl.DataFrame) -> pl.DataFrame:
    return rows.join(where, on="part", how="left", maintain_order="left")
