"""Kernels that changed places: told by what is left over on both sides, and doubted where another tale is as good."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from shapescope.analyse.join.alignment import UNNAMED, Codes
from shapescope.analyse.join.certainty import Certain


def stretches_between(launch: Codes, count: int) -> Iterator[tuple[range, range]]:
    """The stretches between kernels whose one launch is certain, on both sides; `count` is that of the launches."""
    row = place = 0
    for at in [*np.flatnonzero(launch >= 0).tolist(), len(launch)]:
        until = int(launch[at]) if at < len(launch) else count
        if until < place:
            continue
        if at > row or until > place:
            yield range(row, at), range(place, until)
        row, place = at + 1, until + 1


def exchanged(kernels: Codes, launches: Codes, launch: Codes, info: Codes) -> Iterator[tuple[int, int, bool]]:
    """Kernels that changed places: (kernel, launch that gives its info, whether it is the only one).

    Where what is left over holds the same symbols on both sides, over the whole sequence or between two certain pairs,
    a kernel is of one of the left launches of its symbol; if these all give the same info, that is its. One alone did not
    change places with anything: it may as well be another kernel of that name.
    """
    rows = np.flatnonzero(launch < 0)
    places = np.setdiff1d(np.arange(len(launches)), launch)
    stretches = [(rows, places)]
    if not _same_bag(kernels[rows], launches[places]):
        stretches = [
            (np.array(gap), np.array(beside))
            for gap, beside in stretches_between(launch, len(launches))
            if gap and _same_bag(kernels[gap.start : gap.stop], launches[beside.start : beside.stop])
        ]
    for gap, beside in stretches:
        if len(gap) < 2:
            continue
        by_symbol = _by_symbol(launches, beside)
        for row in gap.tolist():
            own = by_symbol[int(kernels[row])]
            if len({int(info[place]) for place in own}) == 1:
                yield row, own[0], len(own) == 1


def without_detours(found: Certain, kernels: Codes, launches: Codes, info: Codes) -> Certain:
    """Doubt pairs that stand aside of those before and after them, where kernels changed places and none is missing.

    A kernel that moved over others, and two that changed places at the ends of a run, look alike: what lies between is
    certain only where every launch of a symbol there, or left over anywhere, gives the same info.
    """
    single = found.certain & (found.first == found.last)
    rows = np.flatnonzero(single)
    offsets = [0, *(found.first[rows] - rows).tolist(), len(launches) - len(kernels)]
    at = [-1, *rows.tolist(), len(kernels)]
    certain = found.certain.copy()
    lefts, rights = [found.left], [found.right]
    free = np.setdiff1d(np.arange(len(launches)), found.first[rows])
    left_over = set(kernels[~single].tolist()), set(launches[free].tolist())
    back = _next_equal(offsets)
    number = 0
    while number < len(offsets) - 1:
        after = back[number]
        if after is None or after == number + 1:
            number += 1
            continue
        gap = np.arange(at[number] + 1, at[after])
        beside = gap[0] + offsets[number] + np.arange(len(gap))
        number = after
        if not _moved(kernels[gap], launches[beside], left_over):
            continue
        by_symbol = _by_symbol(launches, np.union1d(beside, free))
        for row in gap.tolist():
            own = by_symbol[int(kernels[row])]
            if len({int(info[place]) for place in own}) > 1:
                certain[row] = False
                lefts.append(np.full(len(own), row))
                rights.append(np.array(own))
    return replace(found, left=np.concatenate(lefts), right=np.concatenate(rights), certain=certain)


def _moved(kernels: Codes, launches: Codes, left_over: tuple[set[int], set[int]]) -> bool:
    """Whether all that one side of a stretch has over the other is left over elsewhere on that other side."""
    ours, theirs = Counter(kernels.tolist()), Counter(launches.tolist())
    return (theirs - ours).keys() <= left_over[0] and (ours - theirs).keys() <= left_over[1]


def _next_equal(offsets: list[int]) -> list[int | None]:
    """For each position the next one with an equal offset."""
    found: list[int | None] = [None] * len(offsets)
    seen: dict[int, int] = {}
    for at in range(len(offsets) - 1, -1, -1):
        found[at] = seen.get(offsets[at])
        seen[offsets[at]] = at
    return found


def _by_symbol(launches: Codes, places: Codes) -> dict[int, list[int]]:
    by_symbol: defaultdict[int, list[int]] = defaultdict(list)
    for place in places.tolist():
        by_symbol[int(launches[place])].append(place)
    return by_symbol


def _same_bag(kernels: Codes, launches: Codes) -> bool:
    """Whether both hold the same symbols, each as often; what is not named could be any."""
    if len(kernels) != len(launches) or (kernels == UNNAMED).any() or (launches == UNNAMED).any():
        return False
    return np.array_equal(np.sort(kernels), np.sort(launches))
