"""One replayed sequence of kernels beside one captured sequence of launches: who is whose, and how sure that is.

A kernel is `aligned` only where every optimal alignment gives it the same op, dims, types and module: of those that count
a replaced kernel as one change, and of those that count it as two. Kernels that changed places are found by what is left
over on both sides. Kernels of several streams must also agree stream by stream.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from shapescope.analyse.join.alignment import UNNAMED, Codes
from shapescope.analyse.join.certainty import Certain, certain_by_streams, certainty
from shapescope.analyse.join.places import exchanged, stretches_between, without_detours
from shapescope.analyse.join.sequences import UNKNOWN, Coded, contradicts

# Sequences of one graph have at least so much in common: in order, or at least as a bag.
_IN_ORDER = 0.5
_IN_ANY_ORDER = 0.8


class Sure(IntEnum):
    """How sure a pairing is, the surest first; the names in small letters are the statuses of the interface."""

    EXACT = 0
    ALIGNED = 1
    AMBIGUOUS = 2
    CONFLICT = 3
    UNVERIFIED = 4
    MISSING = 5


@dataclass(frozen=True, slots=True)
class Pairing:
    """For each kernel of a replayed sequence, by position in the captured one: `sure`, `launch` (-1: none, or several).

    `source` is a launch that gives the kernel its op (-1: none that is trusted). `candidates` are the launches that it
    may be of. `unseen` are the launches that no kernel may be of. `distance` counts what differs in order, `alike` says
    whether the two can be of one graph at all.
    """

    sure: npt.NDArray[np.int8]
    launch: Codes
    source: Codes
    candidates: dict[int, tuple[int, ...]] = field(default_factory=dict)
    unseen: tuple[int, ...] = ()
    distance: int = 0
    alike: bool = True


def pair(replayed: Coded, captured: Coded) -> Pairing:
    """Find each replayed kernel's launch."""
    by_node = _by_node(replayed, captured)
    kernels, launches = _symbols(replayed, captured, by_node)
    if by_node.size and (by_node >= 0).all():
        return _with_nodes(_nothing(len(replayed)), by_node, replayed, captured)
    found = certainty(kernels, launches, captured.info)
    if found is None or not _alike(kernels, launches, found.common):
        return _strangers(found, replayed, captured)
    if len(np.unique(replayed.stream)) > 1:
        found = certain_by_streams(found, kernels, launches, replayed.stream, captured.info)
    pairing = _judged(found, kernels, launches, replayed, captured)
    return _with_nodes(pairing, by_node, replayed, captured) if (by_node >= 0).any() else pairing


def _by_node(replayed: Coded, captured: Coded) -> Codes:
    """Each kernel's launch by graph node id, -1 where an id is unknown on one side; ids that recur tell nothing."""
    ids, count = np.unique(captured.node[captured.node != UNKNOWN], return_counts=True)
    known = set(ids[count == 1].tolist())
    ours, seen = np.unique(replayed.node[replayed.node != UNKNOWN], return_counts=True)
    known -= set(ours[seen > 1].tolist())
    place = {node: at for at, node in enumerate(captured.node.tolist()) if node in known}
    return np.array([place.get(node, -1) for node in replayed.node.tolist()], np.int64)


def _symbols(replayed: Coded, captured: Coded, by_node: Codes) -> tuple[Codes, Codes]:
    """What must be equal in a pair. Grid and block count where every named kernel shows them on both sides."""
    kernels, launches = replayed.name.copy(), captured.name.copy()
    for mine, theirs in ((replayed.grid, captured.grid), (replayed.block, captured.block)):
        shown = [column[side.name >= 0] for side, column in ((replayed, mine), (captured, theirs))]
        if all(len(column) and (column != UNKNOWN).all() for column in shown):
            width = 2 + max(int(column.max()) for column in shown)
            kernels = np.where(kernels < 0, kernels, kernels * width + mine)
            launches = np.where(launches < 0, launches, launches * width + theirs)
    same = by_node >= 0
    beyond = 1 + max(kernels.max(initial=0), launches.max(initial=0))
    kernels[same] = beyond + by_node[same]
    launches[by_node[same]] = beyond + by_node[same]
    return kernels, launches


def _alike(kernels: Codes, launches: Codes, common: int) -> bool:
    """Whether the two may be of one graph; what has no name says neither yes nor no."""
    fewer = min(int((kernels != UNNAMED).sum()), int((launches != UNNAMED).sum()))
    if common >= _IN_ORDER * fewer:
        return True
    codes, ours = np.unique(kernels, return_counts=True)
    others, theirs = np.unique(launches, return_counts=True)
    _, at, of = np.intersect1d(codes, others, return_indices=True)
    return bool(np.minimum(ours[at], theirs[of]).sum() >= _IN_ANY_ORDER * fewer)


def _judged(found: Certain, kernels: Codes, launches: Codes, replayed: Coded, captured: Coded) -> Pairing:
    found = without_detours(found, kernels, launches, captured.info)
    sure = np.full(len(kernels), Sure.MISSING, np.int8)
    # What has no name on one side is paired by its place alone, and that vouches for nothing.
    named = found.certain & (kernels != UNNAMED) & (launches[found.first] != UNNAMED)
    source = np.where(named, found.first, -1)
    launch = _once(np.where(named & (found.first == found.last), found.first, -1), source)
    sure[source >= 0] = Sure.ALIGNED
    candidates = _candidates(found, np.flatnonzero(source < 0))
    sure[list(candidates)] = Sure.AMBIGUOUS
    _by_place(sure, candidates, kernels, launches, (replayed, captured))
    for row, place, only in exchanged(kernels, launches, launch, captured.info):
        if sure[row] != Sure.ALIGNED:
            sure[row], source[row], launch[row] = Sure.ALIGNED, place, place if only else -1
            candidates.pop(row, None)
    _in_place(launch, sure, candidates, replayed, captured)
    _unless_contradicted(sure, source, launch, candidates, (replayed, captured))
    seen = {place for places in candidates.values() for place in places} | set(found.right.tolist())
    seen |= set(source.tolist())
    unseen = tuple(place for place in range(len(captured)) if place not in seen)
    distance = len(kernels) + len(launches) - 2 * found.common
    return Pairing(sure, launch, source, candidates, unseen, distance)


def _once(launch: Codes, source: Codes) -> Codes:
    """No launch is of two kernels: where two claim one, neither has it."""
    places, count = np.unique(launch[launch >= 0], return_counts=True)
    twice = np.isin(launch, places[count > 1])
    source[twice] = -1
    return np.where(twice, -1, launch)


def _candidates(found: Certain, rows: Codes) -> dict[int, tuple[int, ...]]:
    """The launches of the pairs of these kernels."""
    wanted = np.isin(found.left, rows)
    listed: defaultdict[int, set[int]] = defaultdict(set)
    for row, place in zip(found.left[wanted].tolist(), found.right[wanted].tolist(), strict=True):
        listed[row].add(place)
    return {row: tuple(sorted(places)) for row, places in listed.items()}


def _by_place(
    sure: npt.NDArray[np.int8], candidates: dict[int, tuple[int, ...]], kernels: Codes, launches: Codes,
    sides: tuple[Coded, Coded],
) -> None:  # fmt: skip
    """Where a name is not known, only the place speaks for a pair; one pair that cannot be disproves the order of all."""
    replayed, captured = sides
    rows = [
        row
        for row, places in candidates.items()
        if kernels[row] == UNNAMED or any(launches[place] == UNNAMED for place in places)
    ]
    single = [(row, candidates[row][0]) for row in rows if len(candidates[row]) == 1]
    against = any(contradicts((replayed, row), (captured, place)) for row, place in single)
    sure[rows] = Sure.UNVERIFIED
    if against:
        sure[[row for row, _ in single]] = Sure.CONFLICT


def _in_place(
    launch: Codes, sure: npt.NDArray[np.int8], candidates: dict[int, tuple[int, ...]], replayed: Coded, captured: Coded
) -> None:
    """Kernels without candidates, in a stretch between certain pairs that is as long on both sides: by place alone."""
    taken = {place for places in candidates.values() for place in places}
    for gap, beside in stretches_between(launch, len(captured)):
        rows = [row for row in gap if sure[row] == Sure.MISSING]
        places = [place for place in beside if place not in taken]
        if len(gap) != len(beside) or len(rows) != len(places):
            continue
        for row, place in zip(rows, places, strict=True):
            against = contradicts((replayed, row), (captured, place))
            sure[row], candidates[row] = (Sure.CONFLICT if against else Sure.UNVERIFIED), (place,)


def _unless_contradicted(
    sure: npt.NDArray[np.int8], source: Codes, launch: Codes, candidates: dict[int, tuple[int, ...]],
    sides: tuple[Coded, Coded],
) -> None:  # fmt: skip
    """Equal names do not make a pair where grid or block say otherwise."""
    replayed, captured = sides
    rows = np.flatnonzero(source >= 0)
    against = np.zeros(len(rows), bool)
    for mine, theirs in ((replayed.grid, captured.grid), (replayed.block, captured.block)):
        ours, other = mine[rows], theirs[source[rows]]
        against |= (ours != UNKNOWN) & (other != UNKNOWN) & (ours != other)
    for row in rows[against].tolist():
        sure[row], candidates[row] = Sure.CONFLICT, (int(source[row]),)
        source[row] = launch[row] = -1


def _with_nodes(pairing: Pairing, by_node: Codes, replayed: Coded, captured: Coded) -> Pairing:
    """Pairs by node id go before all others, unless what is known of the two contradicts them."""
    contradicted = 0
    for row in np.flatnonzero(by_node >= 0).tolist():
        place = int(by_node[row])
        pairing.candidates.pop(row, None)
        if contradicts((replayed, row), (captured, place)):
            contradicted += 1
            pairing.sure[row], pairing.candidates[row] = Sure.CONFLICT, (place,)
            pairing.launch[row] = pairing.source[row] = -1
        else:
            pairing.sure[row], pairing.launch[row], pairing.source[row] = Sure.EXACT, place, place
    seen = {place for places in pairing.candidates.values() for place in places} | set(pairing.source.tolist())
    unseen = tuple(place for place in range(len(captured)) if place not in seen)
    return Pairing(
        pairing.sure, pairing.launch, pairing.source, pairing.candidates, unseen,
        distance=len(unseen) + 2 * contradicted + int((by_node < 0).sum()),
        alike=contradicted < _IN_ORDER * len(replayed),
    )  # fmt: skip


def _nothing(count: int) -> Pairing:
    return Pairing(np.full(count, Sure.MISSING, np.int8), np.full(count, -1), np.full(count, -1))


def _strangers(found: Certain | None, replayed: Coded, captured: Coded) -> Pairing:
    """Sequences that can hardly be of one graph: equal names are coincidence, and nothing is vouched for."""
    pairing = _nothing(len(replayed))
    candidates = {} if found is None else _candidates(found, np.arange(len(replayed)))
    for row in candidates:
        pairing.sure[row] = Sure.UNVERIFIED
    common = 0 if found is None else found.common
    distance = len(replayed) + len(captured) - 2 * common
    return Pairing(pairing.sure, pairing.launch, pairing.source, candidates, (), distance, alike=False)
