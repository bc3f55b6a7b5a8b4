"""What all optimal alignments of a replayed with a captured sequence have in common, and what several streams add.

Two costs are asked, because they err in different places: where one of two runs of a name is missing and another kernel
was replaced, only the first sees several answers; where a kernel changed places with one end of a run, only the second.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from shapescope.analyse.join.alignment import UNNAMED, Codes, Mask, optimal


@dataclass(frozen=True, slots=True)
class Certain:
    """What all optimal alignments say of each kernel: `first` and `last` of its launches (-1: none).

    `certain`: all alignments give it a launch, and all these launches the same info. `loose`: one leaves it alone. `left`,
    `right`: every pair that any alignment makes. `common`: the most pairs that one alignment can make.
    """

    left: Codes
    right: Codes
    first: Codes
    last: Codes
    certain: Mask
    loose: Mask
    common: int


def certainty(kernels: Codes, launches: Codes, info: Codes) -> Certain | None:
    """All optimal alignments of both costs; None where the sequences are long and differ too much."""
    apart = optimal(kernels, launches, replacing=False)
    if apart is None:
        return None
    common = (len(kernels) + len(launches) - apart.distance) // 2
    if not apart.distance:
        return _summed(apart.left, apart.right, apart.loose, info, common)
    together = optimal(kernels, launches, replacing=True)
    if together is None:
        return None
    if _replaced(kernels, launches):
        return _summed(together.left, together.right, together.loose, info, common)
    left = np.concatenate([apart.left, together.left])
    right = np.concatenate([apart.right, together.right])
    return _summed(left, right, apart.loose | together.loose, info, common)


def _replaced(kernels: Codes, launches: Codes) -> bool:
    """Whether kernels bear other names and nothing else happened: as many as launches, strange ones only in between.

    At either end strange kernels may have come before or after the graph's own, and some of these be missing.
    """
    strange = ~np.isin(kernels, launches)
    return len(kernels) == len(launches) and bool(strange.any()) and not (strange[0] or strange[-1])


def _summed(left: Codes, right: Codes, loose: Mask, info: Codes, common: int) -> Certain:
    """For each kernel the span of its launches."""
    count = len(loose)
    first, least = np.full(count, np.iinfo(np.int64).max), np.full(count, np.iinfo(np.int64).max)
    last, most = np.full(count, -1), np.full(count, -1)
    np.minimum.at(first, left, right)
    np.maximum.at(last, left, right)
    np.minimum.at(least, left, info[right])
    np.maximum.at(most, left, info[right])
    none = last < 0
    loose = loose | none
    return Certain(left, right, np.where(none, -1, first), last, ~loose & (least == most), loose, common)


def certain_by_streams(found: Certain, kernels: Codes, launches: Codes, streams: Codes, info: Codes) -> Certain:
    """Between streams the order of start is chance: what the merged order says must hold on each stream, too.

    On its stream a kernel can only be of a launch with the name of some kernel of that stream, or with none that is known. A
    symbol that several streams show is certain only where its own stream says so, and in no merged order is left alone:
    it may have come from another stream. Any other is certain where one of the two orders says so, and the other allows it.
    """
    shared = _on_several(kernels, streams)
    certain, first, last = found.certain.copy(), found.first.copy(), found.last.copy()
    lefts, rights = [found.left], [found.right]
    for stream in np.unique(streams):
        rows = np.flatnonzero(streams == stream)
        places = np.flatnonzero(np.isin(launches, kernels[rows]) | (launches == UNNAMED))
        own = certainty(kernels[rows], launches[places], info[places])
        if own is None:
            certain[rows] = False
            continue
        lefts.append(rows[own.left])
        rights.append(places[own.right])
        allowed = _pairs(rows[own.left], info[places[own.right]])
        merged = certain[rows]
        told = np.where(merged, info[first[rows]], -1)
        own_told = np.where(own.certain, info[places[own.first]] if len(places) else -1, -1)
        agreed = np.array(
            [(row, said) in allowed for row, said in zip(rows.tolist(), told.tolist(), strict=True)], bool
        )
        added = own.certain & ~merged & ~(shared[rows] & found.loose[rows])
        certain[rows] = np.where(own.certain, added | (told == own_told), merged & agreed & ~shared[rows])
        first[rows[added]], last[rows[added]] = places[own.first[added]], places[own.last[added]]
    return replace(
        found, left=np.concatenate(lefts), right=np.concatenate(rights), first=first, last=last, certain=certain
    )


def _on_several(kernels: Codes, streams: Codes) -> Mask:
    """The kernels whose symbol more than one stream shows."""
    seen = np.unique(np.stack([kernels, streams]), axis=1)[0]
    symbols, count = np.unique(seen, return_counts=True)
    return np.isin(kernels, symbols[count > 1])


def _pairs(left: Codes, right: Codes) -> set[tuple[int, int]]:
    return set(zip(left.tolist(), right.tolist(), strict=True))
