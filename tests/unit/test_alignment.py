"""All optimal alignments, against every alignment there is."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shapescope.analyse.join import alignment
from shapescope.analyse.join.alignment import Codes, Optimal, optimal

SEQUENCES = st.lists(st.integers(-1, 3), max_size=5)


def codes(values: list[int]) -> Codes:
    return np.array(values, np.int64)


def same(one: int, other: int) -> bool:
    return one == other or -1 in (one, other)


def all_alignments(left: list[int], right: list[int], replacing: bool) -> list[tuple[int, frozenset[tuple[int, int]]]]:
    """Every way to pair two sequences in order: its cost, and its pairs."""
    if not left or not right:
        return [(len(left) + len(right), frozenset())]
    row, column = len(left) - 1, len(right) - 1
    found = [(cost + 1, pairs) for cost, pairs in all_alignments(left[:-1], right, replacing)]
    found += [(cost + 1, pairs) for cost, pairs in all_alignments(left, right[:-1], replacing)]
    equal = same(left[-1], right[-1])
    if equal or replacing:
        found += [
            (cost + (not equal), pairs | {(row, column)} if equal else pairs)
            for cost, pairs in all_alignments(left[:-1], right[:-1], replacing)
        ]
    return list(set(found))


def by_hand(left: list[int], right: list[int], replacing: bool) -> tuple[int, set[tuple[int, int]], list[bool]]:
    every = all_alignments(left, right, replacing)
    least = min(cost for cost, _ in every)
    best = [pairs for cost, pairs in every if cost == least]
    loose = [any(all(at != row for row, _ in pairs) for pairs in best) for at in range(len(left))]
    return least, {pair for pairs in best for pair in pairs}, loose


def told(found: Optimal) -> tuple[int, set[tuple[int, int]], list[bool]]:
    pairs = set(zip(found.left.tolist(), found.right.tolist(), strict=True))
    return found.distance, pairs, found.loose.tolist()


@settings(max_examples=300, deadline=None)
@given(SEQUENCES, SEQUENCES, st.booleans())
def test_every_pair_of_every_optimal_alignment_is_found(left: list[int], right: list[int], replacing: bool) -> None:
    found = optimal(codes(left), codes(right), replacing=replacing)
    assert found is not None
    assert told(found) == by_hand(left, right, replacing)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.integers(-1, 3), min_size=1), st.lists(st.integers(-1, 3), min_size=1), st.booleans())
def test_table_and_furthest_points_agree(left: list[int], right: list[int], replacing: bool) -> None:
    one, other = codes(left), codes(right)
    reach = alignment._reach(one, other, replacing, len(left) + len(right))
    assert reach is not None
    assert told(alignment._along_diagonals(one, other, replacing, reach)) == told(
        alignment._from_table(one, other, replacing)
    )


@pytest.mark.parametrize("replacing", [False, True])
def test_a_long_sequence_with_one_element_gone_takes_no_table(replacing: bool) -> None:
    period = np.tile(np.arange(544, dtype=np.int64) % 15, 64)
    found = optimal(np.delete(period, 20_000), period, replacing=replacing)
    assert found is not None
    assert (found.distance, len(found.left), found.loose.any()) == (1, len(period) - 1, False)


def test_long_sequences_that_differ_too_much_are_not_told() -> None:
    first, second = np.arange(4000, dtype=np.int64), np.arange(4000, 8000, dtype=np.int64)
    assert optimal(first, second, replacing=False) is None


def test_copies_equal_only_copies() -> None:
    for left, right in product((-3, -2), (-1, 0)):
        found = optimal(codes([left]), codes([right]), replacing=False)
        assert found is not None and found.distance == 2
