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

# A run is quiet for an op when the medians of its kernels exceed the lowest times by no more than this.
_QUIET = 1.10
# A factor common to all ops can be told from an op's own only among so many ops.
_COMMON_OF = 6
# Noise is so many times what half of the ops differ by.
_DEVIATIONS = 5.0
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
        return self.typical <= _QUIET * self.lowest

    @cached_property
    def wobble(self) -> float:
        """How far the lowest times of one half of the replays are from those of the other (log)."""
        if self.count < 4:
            return 0.0
        halves = [float(self.ns[start::2].min(axis=0).sum()) for start in (0, 1)]
        return abs(math.log(halves[0] / halves[1])) if all(halves) else 0.0


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
    def wobble(self) -> float:
        return max(self.base.wobble, self.head.wobble)


@dataclass(frozen=True, slots=True)
class Common:
    """What all ops of one shape share: `drift`, the factor of the whole machine (log), and the noise around it (log)."""

    drift: float = 0.0
    noise: float = 0.0


def common(pairs: Sequence[Pair], bound: float) -> Common:
    """What the ops of one shape have in common, by their median; nothing where they are few.

    A common factor is the machine's, and no op's, only as far as the runs' own spread (or `bound`, log) explains it.
    """
    if len(pairs) < _COMMON_OF:
        return Common()
    shifts = [pair.shift for pair in pairs]
    drift = median(shifts)
    allowed = max(bound, *(_spread(pair) for pair in _longest(pairs)))
    drift = drift if abs(drift) <= allowed else 0.0
    return Common(drift, _DEVIATIONS * _NORMAL * median(abs(shift - drift) for shift in shifts))


def _spread(pair: Pair) -> float:
    """How much the typical replay exceeds the best one (log)."""
    return max(math.log(times.typical / times.lowest) if times.lowest else 0.0 for times in (pair.base, pair.head))


def _longest(pairs: Iterable[Pair]) -> list[Pair]:
    """The ops that make up the replay: its longest few."""
    return sorted(pairs, key=lambda pair: -pair.base_ns)[:3]
