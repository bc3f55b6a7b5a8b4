"""Which captured graph each execution of a trace replayed, and each of its kernels' launch in it.

A step names its size, so mostly one capture is asked. Where several could be meant (variants of one size, or no size at
all), each is tried; the nearest ones count, and where these disagree about a kernel it stays ambiguous.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import polars as pl

from shapescope.analyse.join.alignment import Codes
from shapescope.analyse.join.pairing import Pairing, Sure, pair
from shapescope.analyse.join.sequences import Coded, coded
from shapescope.read.assembly import Assembly
from shapescope.read.resolve import serving_windows

# Captures this much farther than the nearest may still be the one, unless that differs in nothing.
_AS_NEAR = 2

Asked = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Matched:
    """For each replayed kernel: `sure`, the rows of its launch and of the `source` of its op among the captured launches
    (-1: none), the `window` and `segment` that its graph launch replays (-1: none, or several), and its candidates.

    `compared` tells of each stretch its execution, the launches it was compared with, and those that no kernel of it is of;
    `strange` numbers the executions that can hardly be of what was captured, `uncaptured` those whose shape nothing here
    captured; `expected` says how many kernels each graph
    launch (execution, its place there) should show, where a capture tells.
    """

    sure: npt.NDArray[np.int8]
    launch: Codes
    source: Codes
    window: Codes
    segment: Codes
    candidates: dict[int, tuple[int, ...]] = field(default_factory=dict)
    compared: list[tuple[int, range, tuple[int, ...]]] = field(default_factory=list)
    strange: set[int] = field(default_factory=set)
    uncaptured: set[int] = field(default_factory=set)
    expected: dict[tuple[int, int], int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Tried:
    """An execution paired with one capture: stretches of kernels, each with the launches that it was compared with."""

    window: int
    pieces: tuple[tuple[range, range, Pairing], ...]

    @property
    def distance(self) -> int:
        return sum(pairing.distance for _, _, pairing in self.pieces)

    @property
    def alike(self) -> bool:
        return any(pairing.alike for _, _, pairing in self.pieces)


class _Captures:
    """The captured launches, by window and segment; equal sequences of kernels are paired once."""

    def __init__(self, replayed: pl.DataFrame, captured: pl.DataFrame, assembly: Assembly) -> None:
        self.kernels, self.launches = coded(replayed, captured)
        self.bounds: dict[int, list[range]] = {}
        segments = captured.with_row_index("row").group_by("window", "segment", maintain_order=True)
        for window, first, count in segments.agg(pl.first("row"), pl.len()).select("window", "row", "len").iter_rows():
            self.bounds.setdefault(window, []).append(range(first, first + count))
        self.pools = serving_windows(assembly)
        keys = ("runner", "phase", "size", "unit", "variant")
        self.labels = {row[0]: row[1:] for row in assembly.windows.select("window", *keys).iter_rows()}
        self._known: dict[tuple[range, bytes], Pairing] = {}

    def asked(self, run: int, rank: int, label: Asked, recorded: bool) -> list[int]:
        """The windows that an execution may be of: those of its label, or where it has no size all of its rank."""
        pool = [window for window in self.pools.get((run, rank), ()) if window in self.bounds]
        if label[2] is None:
            return pool
        same = slice(0, 5) if recorded else slice(1, 4)
        return [window for window in pool if self.labels[window][same] == label[same]]

    def paired(self, kernels: range, launches: range) -> Pairing:
        rows = self.kernels.rows(kernels)
        key = (launches, b"".join(column.tobytes() for column in _compared(rows)))
        if key not in self._known:
            self._known[key] = pair(rows, self.launches.rows(launches))
        return self._known[key]

    def tried(self, window: int, pieces: Sequence[range]) -> _Tried:
        """Compare launch by launch with the segments, or all at once where they are not as many, or a multiple."""
        segments = self.bounds[window]
        if len(pieces) % len(segments) == 0:
            pairs = [(kernels, segments[at % len(segments)]) for at, kernels in enumerate(pieces)]
        else:
            pairs = [(range(pieces[0].start, pieces[-1].stop), range(segments[0].start, segments[-1].stop))]
        return _Tried(window, tuple((kernels, rows, self.paired(kernels, rows)) for kernels, rows in pairs))


def _compared(rows: Coded) -> Sequence[Codes]:
    return rows.name, rows.grid, rows.block, rows.stream, rows.node


def matched(
    replayed: pl.DataFrame, launches: pl.DataFrame, executions: pl.DataFrame, captured: pl.DataFrame, assembly: Assembly
) -> Matched:
    """Match kernels (sorted by execution, then graph launch, then time) with `evidence.captured_launches`.

    `launches` has one row a graph launch with its execution and its place (`segment`) there, and the number of its kernels.
    """
    captures = _Captures(replayed, captured, assembly)
    count = replayed.height
    found = Matched(np.full(count, Sure.MISSING, np.int8), _none(count), _none(count), _none(count), _none(count))
    pieces = _pieces(launches)
    columns = ("execution", "run", "rank", "resolved_by", "runner", "phase", "size", "unit", "variant")
    for execution, run, rank, how, *label in executions.select(columns).iter_rows():
        windows = captures.asked(run, rank, tuple(label), how == "recorded")
        fitting = [window for window in windows if len(captures.bounds[window]) == len(pieces[execution])]
        tried = [captures.tried(window, pieces[execution]) for window in fitting or windows]
        if tried:
            _settle(found, execution, _nearest(tried, sized=label[2] is not None), captures)
        else:
            found.uncaptured.add(execution)
    return found


def _none(count: int) -> Codes:
    return np.full(count, -1, np.int64)


def _pieces(launches: pl.DataFrame) -> dict[int, list[range]]:
    """The kernels of each graph launch, by execution."""
    pieces: dict[int, list[range]] = {}
    row = 0
    for execution, count in launches.select("execution", "kernels").iter_rows():
        pieces.setdefault(execution, []).append(range(row, row + count))
        row += count
    return pieces


def _nearest(tried: list[_Tried], *, sized: bool) -> list[_Tried]:
    """The captures that the execution may well be of. Without a size only one that differs in little stands out."""
    least = min(one.distance for one in tried)
    reach = least + _AS_NEAR if least else 0
    if not sized and least > _AS_NEAR:
        return tried
    return [one for one in tried if one.distance <= reach]


def _settle(found: Matched, execution: int, tried: list[_Tried], captures: _Captures) -> None:
    if not any(one.alike for one in tried):
        found.strange.add(execution)
    if len(tried) == 1:
        _take(found, execution, tried[0], captures)
        return
    told = [_by_row(one) for one in tried]
    info = captures.launches.info
    for row in told[0]:
        answers = [each[row] for each in told]
        sources = [source for _, source, _ in answers]
        trusted = all(source >= 0 for source in sources) and len({int(info[source]) for source in sources}) == 1
        if trusted:
            found.sure[row], found.source[row] = max(sure for sure, _, _ in answers), sources[0]
            continue
        candidates = sorted({place for _, source, others in answers for place in (*others, source) if place >= 0})
        if candidates:
            found.sure[row], found.candidates[row] = Sure.AMBIGUOUS, tuple(candidates)


def _by_row(tried: _Tried) -> dict[int, tuple[int, int, tuple[int, ...]]]:
    """What a capture says of each kernel: how sure, the source of its op, and its candidates, as rows of launches."""
    return {
        row: (
            int(pairing.sure[at]),
            int(pairing.source[at]) + launches.start if pairing.source[at] >= 0 else -1,
            tuple(place + launches.start for place in pairing.candidates.get(at, ())),
        )
        for kernels, launches, pairing in tried.pieces
        for at, row in enumerate(kernels)
    }


def _take(found: Matched, execution: int, tried: _Tried, captures: _Captures) -> None:
    segments = captures.bounds[tried.window]
    for place, (kernels, launches, pairing) in enumerate(tried.pieces):
        rows = slice(kernels.start, kernels.stop)
        found.sure[rows] = pairing.sure
        found.launch[rows] = np.where(pairing.launch >= 0, pairing.launch + launches.start, -1)
        found.source[rows] = np.where(pairing.source >= 0, pairing.source + launches.start, -1)
        found.window[rows] = tried.window
        if launches in segments:
            found.segment[rows] = segments.index(launches)
            found.expected[execution, place] = len(launches)
        for at, places in pairing.candidates.items():
            found.candidates[kernels.start + at] = tuple(one + launches.start for one in places)
        if pairing.alike:
            found.compared.append((execution, launches, tuple(one + launches.start for one in pairing.unseen)))
