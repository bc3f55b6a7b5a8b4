"""Which interval encloses which, against the plain definition."""

from __future__ import annotations

import numpy as np
import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from shapescope.read.nesting import in_order, innermost, outermost, parent_rows, parents

INTERVALS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 20), st.sampled_from("ab")), max_size=30)


def frame(rows: list[tuple[int, int, str]]) -> pl.DataFrame:
    schema = {"ts": pl.Int64, "dur": pl.Int64, "tid": pl.String}
    return pl.DataFrame(rows, schema=schema, orient="row").with_columns(pid=pl.lit("1"))


def opening_order(rows: list[tuple[int, int, str]]) -> dict[int, int]:
    order = sorted(range(len(rows)), key=lambda i: (rows[i][0], -rows[i][1], i))
    return {row: at for at, row in enumerate(order)}


@settings(deadline=None)
@given(INTERVALS, INTERVALS)
def test_innermost_is_the_last_opened_that_encloses(
    outer: list[tuple[int, int, str]], inner: list[tuple[int, int, str]]
) -> None:
    order = opening_order(outer)
    for found, (begin, dur, tid) in zip(innermost(frame(outer), frame(inner)), inner, strict=True):
        around = [
            i
            for i, (ts, length, thread) in enumerate(outer)
            if thread == tid and ts <= begin and ts + length >= begin + dur
        ]
        assert found == max(around, key=lambda i: order[i], default=-1)


@settings(deadline=None)
@given(INTERVALS)
def test_a_parent_is_the_nearest_earlier_that_ends_no_sooner(rows: list[tuple[int, int, str]]) -> None:
    order = opening_order(rows)
    found = parent_rows(frame(rows))
    for i, (begin, dur, tid) in enumerate(rows):
        before = [
            j
            for j, (ts, length, thread) in enumerate(rows)
            if thread == tid and order[j] < order[i] and ts + length >= begin + dur
        ]
        assert found[i] == max(before, key=lambda j: order[j], default=-1)
    assert outermost(frame(rows)).tolist() == [i for i in range(len(rows)) if found[i] < 0]


def test_deep_and_wide_nests_are_fast() -> None:
    count = 200_000
    deep = np.arange(count, 0, -1, dtype=np.int64)
    assert parents(deep).tolist() == list(range(-1, count - 1))
    wide = np.arange(count, dtype=np.int64)
    assert (parents(wide) == -1).all()
    assert in_order(wide, wide + 1).tolist() == list(range(count))
