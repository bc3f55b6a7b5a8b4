"""All optimal alignments of two sequences at once: which partners each element has in any of them.

One optimal alignment is a guess wherever another one says something else. So nothing here returns an alignment: it
returns every pair that some optimal alignment makes, and every element that some optimal alignment leaves alone.

An alignment keeps the order of both sequences and pairs equal elements; what is unknown may equal anything but a copy or
fill. Its cost is one for each element left alone; with `replacing`, two unequal elements that stand in for each other cost
one together instead of two. A cell (i, j) lies on an
optimal path exactly if its distance from the start and its distance to the end add up to the whole distance (the
argument of Hirschberg, CACM 18:6, 1975). Distances come from furthest reaching points (Myers, Algorithmica 1, 1986:
time grows with length times distance), or, for short sequences that differ much, from the whole table.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Codes: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]

# Codes of names are 0 and above. Of the others, one stands for a name that is not known, and the rest equal only themselves.
UNNAMED = -1

# Up to this distance points are followed first, up to this many cells the whole table is made, and up to the farthest
# distance points are followed in sequences too long for a table. What differs more does not belong together.
_NEAR = 32
_CELLS = 1 << 21
_FARTHEST = 320


@dataclass(frozen=True, slots=True)
class Optimal:
    """Every optimal alignment: pairs (`left[n]`, `right[n]`) sorted by `left` then `right`, and what is left alone.

    `loose[i]`: some optimal alignment leaves element i of the left sequence without an equal partner.
    """

    left: Codes
    right: Codes
    loose: Mask
    distance: int


def optimal(left: Codes, right: Codes, *, replacing: bool) -> Optimal | None:
    """All optimal alignments of two sequences of codes; None where they are long and differ too much to tell."""
    if np.array_equal(left, right) and not (left == UNNAMED).any():
        rows = np.arange(len(left))
        return Optimal(rows, rows, np.zeros(len(left), bool), 0)
    if not len(left) or not len(right):
        none = np.zeros(0, np.int64)
        return Optimal(none, none, np.ones(len(left), bool), max(len(left), len(right)))
    if (reach := _reach(left, right, replacing, _NEAR)) is not None:
        return _along_diagonals(left, right, replacing, reach)
    if len(left) * len(right) <= _CELLS:
        return _from_table(left, right, replacing)
    if (reach := _reach(left, right, replacing, _FARTHEST)) is not None:
        return _along_diagonals(left, right, replacing, reach)
    return None


def equal(left: Codes, right: Codes) -> Mask:
    """Where two codes may be of one thing."""
    unknown = ((left == UNNAMED) & (right >= UNNAMED)) | ((right == UNNAMED) & (left >= UNNAMED))
    same: Mask = (left == right) | unknown
    return same


def _from_table(left: Codes, right: Codes, replacing: bool) -> Optimal:
    start = _table(left, right, replacing)
    end = _table(left[::-1], right[::-1], replacing)[::-1, ::-1]
    distance = int(start[-1, -1])
    same = equal(left[:, None], right)
    through = start[:-1, :-1] + end[1:, 1:]
    alone = (start[:-1] + end[1:] + 1 == distance).any(axis=1)
    if replacing:
        alone |= ((through + 1 == distance) & ~same).any(axis=1)
    rows, columns = np.nonzero(same & (through == distance))
    return Optimal(rows, columns, alone, distance)


def _table(left: Codes, right: Codes, replacing: bool) -> npt.NDArray[np.int32]:
    """The distance of every prefix of the one from every prefix of the other."""
    table = np.empty((len(left) + 1, len(right) + 1), np.int32)
    columns = np.arange(len(right) + 1, dtype=np.int32)
    table[0] = columns
    unequal = 1 if replacing else 2
    for row, code in enumerate(left[:, None]):
        best = table[row] + 1
        np.minimum(best[1:], table[row, :-1] + np.where(equal(right, code), 0, unequal), out=best[1:])
        # A step to the right costs one: take the running minimum with that slope.
        table[row + 1] = np.minimum.accumulate(best - columns) + columns
    return table


def _reach(left: Codes, right: Codes, replacing: bool, limit: int) -> npt.NDArray[np.int64] | None:
    """How far along each diagonal each distance reaches: `[distance, diagonal + limit + 1]`, -1 for nowhere.

    The diagonal is the column less the row. None where the whole distance is over the limit.
    """
    rows, columns = len(left), len(right)
    breaks: dict[int, list[int]] = {}
    reach = np.full((limit + 1, 2 * limit + 3), -1, np.int64)
    before = [-1] * (2 * limit + 3)
    for distance in range(limit + 1):
        now = before.copy()
        for diagonal in range(-min(distance, rows), min(distance, columns) + 1):
            at = diagonal + limit + 1
            row = max(before[at - 1], before[at + 1] + 1 if before[at + 1] >= 0 else -1)
            if replacing and before[at] >= 0:
                row = max(row, before[at] + 1)
            row = 0 if distance == 0 else max(row, before[at])
            last = min(rows, columns - diagonal)
            row = min(row, last)
            if row < max(0, -diagonal):
                continue
            now[at] = _slide(left, right, row, diagonal, breaks)
        reach[distance] = before = now
        if abs(columns - rows) <= distance and now[columns - rows + limit + 1] == rows:
            return reach[: distance + 1]
    return None


def _slide(left: Codes, right: Codes, row: int, diagonal: int, breaks: dict[int, list[int]]) -> int:
    """The first row at or after this one from which the diagonal does not go on for free."""
    first = max(0, -diagonal)
    if diagonal not in breaks:
        length = min(len(left), len(right) - diagonal) - first
        unequal = ~equal(left[first : first + length], right[first + diagonal : first + diagonal + length])
        breaks[diagonal] = [*(np.flatnonzero(unequal) + first).tolist(), first + length]
    stops = breaks[diagonal]
    return stops[bisect_left(stops, row)]


def _along_diagonals(left: Codes, right: Codes, replacing: bool, reach: npt.NDArray[np.int64]) -> Optimal:
    """Optimal cells diagonal by diagonal; along one, the distance from the start never falls (nor that to the end rises)."""
    rows, columns, distance = len(left), len(right), len(reach) - 1
    limit = (reach.shape[1] - 3) // 2
    backward = _reach(left[::-1], right[::-1], replacing, limit)
    assert backward is not None
    shift = columns - rows
    alone = np.zeros(rows, bool)
    found: list[tuple[Codes, Codes]] = []
    beyond = distance + 1
    down_end = np.full(rows + 1, beyond)
    for diagonal in range(-limit - 1, limit + 2):
        if abs(diagonal) + abs(shift - diagonal) > distance + 1 or not -rows <= diagonal <= columns:
            down_end = np.full(rows + 1, beyond)
            continue
        start = _distances(reach[:, diagonal + limit + 1], rows, columns, diagonal)
        # The reversed sequences know this diagonal as `shift - diagonal`, and this row as the one as far from the end.
        mirrored = shift - diagonal
        inside = abs(mirrored) <= limit + 1
        end = np.full(rows + 1, beyond)
        if inside:
            end = _distances(backward[:, mirrored + limit + 1], rows, columns, mirrored)[::-1]
        alone |= start[:-1] + 1 + down_end[1:] == distance
        first, last = max(0, -diagonal), min(rows, columns - diagonal)
        through = start[first:last] + end[first + 1 : last + 1]
        same = equal(left[first:last], right[first + diagonal : last + diagonal])
        if replacing:
            alone[first:last] |= (through + 1 == distance) & ~same
        matched = np.flatnonzero(same & (through == distance)) + first
        found.append((matched, matched + diagonal))
        down_end = end
    lefts = np.concatenate([pair[0] for pair in found])
    rights = np.concatenate([pair[1] for pair in found])
    order = np.lexsort((rights, lefts))
    return Optimal(lefts[order], rights[order], alone, distance)


def _distances(reach: npt.NDArray[np.int64], rows: int, columns: int, diagonal: int) -> Codes:
    """The distance of each row's cell on one diagonal; beyond all of them where the cell is too far, or outside."""
    found = np.searchsorted(reach, np.arange(rows + 1), side="left")
    found[: max(0, -diagonal)] = len(reach)
    found[max(0, min(rows, columns - diagonal) + 1) :] = len(reach)
    return found
