"""Times of one op in two runs, compared as well as their spread allows.

Interference only ever adds time, and rarely to the same kernel in every replay: so that the sum, over an op's kernels,
of each one's lowest time among all replays is far steadier than any replay's total. Where both runs are quiet, medians
and lowest times agree, and medians are what people expect; the lowest are taken where either run is not.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median

import numpy as np
import numpy.typing as npt

# A run is quiet for an op when the medians of its kernels exceed the lowest times by no more than this, and when drawing
# the replays again moves them by no more than that (log).
_QUIET, _SETTLED = 1.05, 0.01
# A factor common to all ops can be told from an op's own only among so many ops, each one vote whatever its dims: products
# are half of the rows of a shape and most of its time, and would be the common factor themselves.
_COMMON_OF = 6
# How many times the replays are drawn again, to see how far their median might have been elsewhere; always the same draws.
_DRAWS, _HALVES, _SEED = 50, 20, 0
# A difference counts from so many standard errors on.
_ERRORS = 3.0
# Noise is so many times what half of the ops differ by ..
_DEVIATIONS = 3.0
# .. by those of their dims that are this share of the replay: short ones vary more, and their own errors say so.
_COUNTED_SHARE = 0.005
# Spread of a normal distribution over its median absolute deviation.
_NORMAL = 1.4826


@dataclass(frozen=True, eq=False)
class Times:
    """One op in one run: `replays` x `kernels`, ns, every replay with the same kernels."""

    ns: npt.NDArray[np.int64]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Times) and np.array_equal(self.ns, other.ns)

    __hash__ = None  # type: ignore[assignment]

    @property
    def count(self) -> int:
        return int(self.ns.shape[0])

    @cached_property
    def typical(self) -> float:
        return float(np.median(self.ns, axis=0).sum())

    @cached_property
    def lowest(self) -> float:
        return float(self.ns.min(axis=0).sum())

    @property
    def quiet(self) -> bool:
        return self.typical <= _QUIET * self.lowest and self.median_error <= _SETTLED

    @cached_property
    def median_error(self) -> float:
        """The standard error of the sum of medians (log), by drawing the replays again (bootstrap)."""
        if self.count < 2:
            return 0.0
        drawn = np.random.default_rng(_SEED).integers(self.count, size=(_DRAWS, self.count))
        return float(np.log(np.maximum(np.median(self.ns[drawn], axis=1).sum(axis=1), 1)).std())

    @cached_property
    def lowest_error(self) -> float:
        """How far the lowest times of half of the replays are from those of all (log), over random halves."""
        if self.count < 4:
            return 0.0
        draw = np.random.default_rng(_SEED)
        halves = np.array([draw.permutation(self.count)[: self.count // 2] for _ in range(_HALVES)])
        excess = self.ns[halves].min(axis=1).sum(axis=1) / max(self.lowest, 1.0)
        return float(np.log(np.maximum(excess, 1.0)).mean())


@dataclass(frozen=True, slots=True)
class Pair:
    """One op in both runs, judged by the same statistic."""

    base: Times
    head: Times

    @property
    def quiet(self) -> bool:
        return self.base.quiet and self.head.quiet

    @property
    def base_ns(self) -> float:
        return self.base.typical if self.quiet else self.base.lowest

    @property
    def head_ns(self) -> float:
        return self.head.typical if self.quiet else self.head.lowest

    @property
    def shift(self) -> float:
        """The logarithm of head over base."""
        return _shift([self])

    @property
    def median_shift(self) -> float:
        """The same of the medians, quiet or not."""
        return _median_shift([self])

    @property
    def noise(self) -> float:
        """A shift of less than this (log) may be chance."""
        sides = (self.base, self.head)
        if self.quiet:
            return _ERRORS * math.hypot(*(times.median_error for times in sides))
        # A lowest time far below the typical one may be a lucky one; the luck of several kernels evens out.
        luck = _spread(self) / math.sqrt(min(times.ns.shape[1] for times in sides))
        return max(_ERRORS * math.hypot(*(times.lowest_error for times in sides)), luck)


@dataclass(frozen=True, slots=True)
class Common:
    """What all ops of one shape share: `drift`, the factor of the whole machine (log), and the noise around it (log).

    `median_drift` is the factor by medians.
    """

    drift: float = 0.0
    noise: float = 0.0
    median_drift: float = 0.0

    def change(self, pair: Pair) -> float:
        """A pair's own change (log)."""
        return pair.shift - self.drift

    def exceeded_by(self, pair: Pair, least: float) -> bool:
        """Whether a change of `least` (log) or more is more than noise.

        Of a noisy op the medians must agree as to half of it: a lowest time may be a lucky one, or lack such a one.
        """
        change, tolerance = self.change(pair), self.tolerance(pair, least)
        agreed = pair.quiet or (pair.median_shift - self.median_drift) * math.copysign(1, change) > tolerance / 2
        return abs(change) > tolerance and agreed

    def tolerance(self, pair: Pair, least: float) -> float:
        """How much of a change may be chance (log), and at least `least`."""
        return max(least, self.noise, pair.noise)


def common(ops: Sequence[Sequence[Pair]], bound: float) -> Common:
    """What the ops of one shape (each with the pairs of all its dims) have in common, by their median; nothing where they
    are few.

    A common factor is the machine's, and no op's, only as far as the runs' own spread (or `bound`, log) explains it.
    """
    pairs = [pair for of_op in ops for pair in of_op]
    least = _COUNTED_SHARE * sum(pair.base_ns for pair in pairs)
    counted = [long for of_op in ops if (long := [pair for pair in of_op if pair.base_ns >= least])]
    if len(counted) < _COMMON_OF:
        return Common()
    allowed = max(bound, *(_spread(pair) for pair in _longest(pairs)))
    shifts, median_shifts = [_shift(of_op) for of_op in counted], [_median_shift(of_op) for of_op in counted]
    drift, median_drift = (
        shared if abs(shared) <= allowed else 0.0 for shared in (median(shifts), median(median_shifts))
    )
    noise = _DEVIATIONS * _NORMAL * median(abs(shift - drift) for shift in shifts)
    return Common(drift, noise, median_drift)


def _shift(pairs: Sequence[Pair]) -> float:
    return _log_ratio(sum(pair.head_ns for pair in pairs), sum(pair.base_ns for pair in pairs))


def _median_shift(pairs: Sequence[Pair]) -> float:
    return _log_ratio(sum(pair.head.typical for pair in pairs), sum(pair.base.typical for pair in pairs))


def _log_ratio(head: float, base: float) -> float:
    return math.log(head / base) if base and head else 0.0


def _spread(pair: Pair) -> float:
    """How much the typical replay exceeds the best one (log)."""
    return max(math.log(times.typical / times.lowest) if times.lowest else 0.0 for times in (pair.base, pair.head))


def _longest(pairs: Iterable[Pair]) -> list[Pair]:
    """The ops that make up the replay: its longest few."""
    return sorted(pairs, key=lambda pair: -pair.base_ns)[:3]
