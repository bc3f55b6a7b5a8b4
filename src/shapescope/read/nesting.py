"""Which interval encloses which: the one question behind ops, modules, spans and segments.

Everything here works on one thread's intervals as arrays; `innermost` does it for whole frames, thread by thread.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

Ints = npt.NDArray[np.int64]
THREAD = ["pid", "tid"]


def in_order(starts: Ints, ends: Ints) -> Ints:
    """The order in which nested intervals open: by start, the longer first, then as given."""
    order: Ints = np.lexsort((np.arange(len(starts)), -ends, starts)).astype(np.int64)
    return order


def parents(ends: Ints) -> Ints:
    """For intervals in opening order: the nearest earlier one that ends no sooner, else -1.

    Invariant: all intervals strictly between `found[i]` and `i` end before `i` does, so a jump over them loses nothing.
    """
    found = np.arange(-1, len(ends) - 1, dtype=np.int64)
    active = np.flatnonzero(found >= 0)
    while active.size:
        active = active[ends[found[active]] < ends[active]]
        found[active] = found[found[active]]
        active = active[found[active] >= 0]
    return found


def innermost(outer: pl.DataFrame, inner: pl.DataFrame, *, by: list[str] | None = None) -> Ints:
    """For each row of `inner` the row number in `outer` of the innermost interval that encloses it, else -1.

    Both frames have `ts`, `dur` (ns) and the columns of `by` (default: process and thread), which must be equal.
    An interval that merely began earlier, or lies on another thread, encloses nothing.
    """
    by = THREAD if by is None else by
    result = np.full(inner.height, -1, dtype=np.int64)
    if not outer.height or not inner.height:
        return result
    wanted = _rows_by_group(inner, by)
    for group, rows in _rows_by_group(outer, by).items():
        if group in wanted:
            result[wanted[group]] = _innermost_of_one(outer, rows, inner, wanted[group])
    return result


def outermost(frame: pl.DataFrame) -> Ints:
    """Row numbers of the intervals that no other on their thread encloses, in frame order."""
    kept = [
        rows[order[parents(ends[order]) < 0]]
        for rows in _rows_by_group(frame, THREAD).values()
        for starts, ends in [_bounds(frame, rows)]
        for order in [in_order(starts, ends)]
    ]
    return np.sort(np.concatenate(kept)) if kept else np.empty(0, dtype=np.int64)


def parent_rows(frame: pl.DataFrame) -> Ints:
    """For each row the row number of the interval that directly encloses it on its thread, else -1."""
    result = np.full(frame.height, -1, dtype=np.int64)
    for rows in _rows_by_group(frame, THREAD).values():
        starts, ends = _bounds(frame, rows)
        order = in_order(starts, ends)
        found = parents(ends[order])
        result[rows[order]] = np.where(found >= 0, rows[order[found]], -1)
    return result


def _innermost_of_one(outer: pl.DataFrame, outer_rows: Ints, inner: pl.DataFrame, inner_rows: Ints) -> Ints:
    starts, ends = _bounds(outer, outer_rows)
    order = in_order(starts, ends)
    starts, ends = starts[order], ends[order]
    above = parents(ends)
    begin, end = _bounds(inner, inner_rows)
    found: Ints = np.searchsorted(starts, begin, side="right").astype(np.int64) - 1
    active = np.flatnonzero(found >= 0)
    while active.size:
        active = active[ends[found[active]] < end[active]]
        found[active] = above[found[active]]
        active = active[found[active] >= 0]
    return np.where(found >= 0, outer_rows[order[found]], -1)


def _bounds(frame: pl.DataFrame, rows: Ints) -> tuple[Ints, Ints]:
    starts = frame["ts"].to_numpy()[rows]
    return starts, starts + frame["dur"].to_numpy()[rows]


def _rows_by_group(frame: pl.DataFrame, by: list[str]) -> dict[tuple[object, ...], Ints]:
    if not frame.height:
        return {}
    # One group, as nearly always, is told much sooner than groups are made.
    if all(frame[name].n_unique() == 1 for name in by):
        return {tuple(frame[name][0] for name in by): np.arange(frame.height, dtype=np.int64)}
    numbered = frame.select(*by, row=pl.int_range(pl.len(), dtype=pl.Int64))
    groups = numbered.group_by(by, maintain_order=True).agg("row")
    return {tuple(key): np.asarray(rows, dtype=np.int64) for *key, rows in groups.iter_rows()}
