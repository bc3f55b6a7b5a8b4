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
# A factor common to all ops can be told from an op's own only among so many ops.
_COMMON_OF = 6
# How many times the replays are drawn again, to see how far their median might have been elsewhere; always the same draws.
_DRAWS, _HALVES, _SEED = 50, 20, 0
# A difference counts from so many standard errors on.
_ERRORS = 3.0
# A lowest time far below the typical one may be a lucky one: so much of the distance (log) counts as noise.
_LUCK = 0.5
# Noise is so many times what half of the ops differ by ..
_DEVIATIONS = 3.0
# .. of those ops that are this share of the replay: short ones vary more, and their own errors say so.
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
        return math.log(self.head_ns / self.base_ns) if self.base_ns and self.head_ns else 0.0

    @property
    def median_shift(self) -> float:
        """The same of the medians, quiet or not."""
        base, head = self.base.typical, self.head.typical
        return math.log(head / base) if base and head else 0.0

    @property
    def noise(self) -> float:
        """A shift of less than this (log) may be chance."""
        sides = (self.base, self.head)
        if self.quiet:
            return _ERRORS * math.hypot(*(times.median_error for times in sides))
        return max(_ERRORS * math.hypot(*(times.lowest_error for times in sides)), _LUCK * _spread(self))


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


def common(pairs: Sequence[Pair], bound: float) -> Common:
    """What the ops of one shape have in common, by their median; nothing where they are few.

    A common factor is the machine's, and no op's, only as far as the runs' own spread (or `bound`, log) explains it.
    """
    if len(pairs) < _COMMON_OF:
        return Common()
    total = sum(pair.base_ns for pair in pairs)
    long = [pair for pair in pairs if pair.base_ns >= _COUNTED_SHARE * total]
    counted = long if len(long) >= _COMMON_OF else pairs
    allowed = max(bound, *(_spread(pair) for pair in _longest(pairs)))
    drift, median_drift = (
        shared if abs(shared) <= allowed else 0.0
        for shared in (median(pair.shift for pair in counted), median(pair.median_shift for pair in counted))
    )
    noise = _DEVIATIONS * _NORMAL * median(abs(pair.shift - drift) for pair in counted)
    return Common(drift, noise, median_drift)


def _spread(pair: Pair) -> float:
    """How much the typical replay exceeds the best one (log)."""
    return max(math.log(times.typical / times.lowest) if times.lowest else 0.0 for times in (pair.base, pair.head))


def _longest(pairs: Iterable[Pair]) -> list[Pair]:
    """The ops that make up the replay: its longest few."""
    return sorted(pairs, key=lambda pair: -pair.base_ns)[:3]
