"""When a core is calm. A CPU that others use too is slow for a tenth of a second to a few seconds at a time.

Seen on a virtual machine of two cores: a fixed piece of work takes 120 us or 200 us and little between, for that long.
Twenty replays in a row may fall all into the one or all into the other.
"""

from __future__ import annotations

import time
from functools import cache

# The work: about a tenth of a millisecond, and no op that a profiler would record.
_STEPS = 8_000
_REST_SECONDS = 0.002
# So much longer than at best is calm.
_CALM = 1.15
# Looks that find the core as it is at best, before anything is known of it: half a second of them, once in a process.
_FIRST_LOOKS = 200


class CalmCore:
    """Waits for moments in which this core works as fast as it has at best, at most `patience_seconds` in all."""

    def __init__(self, patience_seconds: float) -> None:
        self._patience = patience_seconds
        self._best = _at_first()

    def wait(self) -> None:
        """Return in a calm moment, or when the patience is at its end; then after one pause."""
        begin = time.perf_counter()
        while not self._calm() and time.perf_counter() - begin < self._patience:
            pass
        self._patience -= time.perf_counter() - begin

    def _calm(self) -> bool:
        took = _look()
        self._best = min(self._best, took)
        return took <= _CALM * self._best


@cache
def _at_first() -> int:
    return min(_look() for _ in range(_FIRST_LOOKS))


def _look() -> int:
    """How long the work takes (ns) after a pause: a thread that has rested is scheduled at once and for a whole slice. At
    load 10 the slowest of ten replays fell from 8 times the fastest to 1.1 times by that alone.
    """
    time.sleep(_REST_SECONDS)
    begin = time.perf_counter_ns()
    sum(range(_STEPS))
    return time.perf_counter_ns() - begin
