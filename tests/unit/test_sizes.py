"""One policy for sizes: named, up to a maximum, from traffic."""

from __future__ import annotations

from bisect import bisect_left
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shapescope.errors import UsageError
from shapescope.graphs.sizes import checked_sizes, sizes_for_traffic, sizes_up_to


def test_sizes_up_to_a_maximum_are_dense_then_sparse() -> None:
    assert sizes_up_to(40) == [1, 2, 4, 8, 16, 24, 32, 40]
    assert sizes_up_to(5) == [1, 2, 4, 5]
    assert sizes_up_to(520)[-4:] == [480, 496, 512, 520]
    assert sizes_up_to(1) == [1]


@given(st.integers(1, 3000))
def test_no_batch_above_8_pads_by_half(maximum: int) -> None:
    sizes = sizes_up_to(maximum)
    assert sizes == checked_sizes(sizes) and sizes[-1] == maximum
    for batch in range(9, maximum + 1):
        assert sizes[bisect_left(sizes, batch)] < batch * 2


@given(st.dictionaries(st.integers(1, 40), st.integers(1, 50), min_size=1, max_size=6), st.integers(1, 7))
def test_traffic_gets_the_sizes_that_waste_least(steps: dict[int, int], count: int) -> None:
    def waste(sizes: list[int]) -> int:
        return sum((sizes[bisect_left(sizes, size)] - size) * seen for size, seen in steps.items())

    found = sizes_for_traffic(steps, count)
    assert len(found) <= count and found[-1] == max(steps)
    largest = max(steps)
    others = [size for size in steps if size != largest]
    every = [sorted([*some, largest]) for k in range(min(count, len(steps))) for some in combinations(others, k)]
    assert waste(found) == min(map(waste, every))


def test_what_makes_no_sense_is_refused() -> None:
    for call in (lambda: sizes_up_to(0), lambda: sizes_for_traffic({}, 3), lambda: sizes_for_traffic({1: 1}, 0)):
        with pytest.raises(UsageError):
            call()
