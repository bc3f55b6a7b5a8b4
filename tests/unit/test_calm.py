"""Waiting for a calm core, on a clock of our own: looks take what the list says, in us, and pauses nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, repeat

import pytest

from shapescope.record import calm


class Clock:
    def __init__(self, looks: Iterator[int]) -> None:
        self.looks = looks
        self.seen = 0
        self.now_ns = 0
        self.working = False

    def perf_counter(self) -> float:
        return self.now_ns / 1e9

    def perf_counter_ns(self) -> int:
        """Called before and after the work of a look."""
        if self.working:
            self.now_ns += 1_000 * next(self.looks)
            self.seen += 1
        self.working = not self.working
        return self.now_ns

    def sleep(self, seconds: float) -> None:
        self.now_ns += round(seconds * 1e9)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    """Half a second in which the core is at best as fast as 119 us; then as a test says."""
    clock = Clock(chain([200], repeat(119)))
    monkeypatch.setattr(calm, "time", clock)
    calm._at_first.cache_clear()
    yield clock
    calm._at_first.cache_clear()


def seen_in_a_wait(core: calm.CalmCore, clock: Clock) -> int:
    before = clock.seen
    core.wait()
    return clock.seen - before


def test_it_waits_until_the_core_is_as_fast_as_at_best(clock: Clock) -> None:
    core = calm.CalmCore(10.0)
    clock.looks = iter([201, 178, 140, 125])
    assert seen_in_a_wait(core, clock) == 4


def test_a_core_that_is_never_calm_costs_the_patience_once(clock: Clock) -> None:
    core = calm.CalmCore(1.0)
    begin, clock.looks = clock.now_ns, repeat(200)
    core.wait()
    assert 1.0 <= (clock.now_ns - begin) / 1e9 < 1.01
    assert seen_in_a_wait(core, clock) == 1


def test_what_is_best_may_be_found_late(clock: Clock) -> None:
    core = calm.CalmCore(10.0)
    clock.looks = iter([80, 119, 119, 90])
    assert seen_in_a_wait(core, clock) == 1
    assert seen_in_a_wait(core, clock) == 3


def test_the_first_looks_are_made_once_in_a_process(clock: Clock) -> None:
    calm.CalmCore(1.0)
    seen = clock.seen
    calm.CalmCore(1.0)
    assert clock.seen == seen > 100
