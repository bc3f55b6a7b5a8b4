"""Rank against rank: who enters collectives last, who waits, what the transfer itself takes, and whether
ranks run other kernels or the same kernels at other speeds.

A collective ends together on all ranks. Whoever enters last moves data at once, so that its duration is the
transfer; what the others take longer is waiting. Clocks of ranks are aligned by `baseTimeNanoseconds`; a rank
without it is compared with nobody.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median, median_low
from typing import Any

import polars as pl

SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "kind": pl.String,
    "size": pl.Int64,
    "step": pl.String,
    "op": pl.String,
    "class": pl.String,
    "dims": pl.String,
    "rank": pl.Int64,
    "ranks": pl.List(pl.Int64),
    "rank_slow": pl.Int64,
    "slow_ranks": pl.List(pl.Int64),
    "kernels": pl.Int64,
    "collectives": pl.Int64,
    "skew_ns": pl.Int64,
    "wait_ns": pl.Int64,
    "transfer_ns": pl.Int64,
    "families": pl.String,
}
# A leading collective is a start-up transient when it waits this many times longer than is usual, and this
# long at least: profilers of ranks do not open at the same moment.
_STARTUP_RATIO, _STARTUP_NS = 20, 1_000_000
# Ranks leave a collective together; clocks aligned by their bases agree to about this.
_COMMON_END_NS = 100_000
# A rank is late when it is last in most collectives, by more than clocks can tell.
_LATE_SHARE, _LATE_NS = 0.6, 5_000
# Same kernel, other speed.
_IMBALANCE_RATIO = 1.2


@dataclass(frozen=True, slots=True)
class RanksResult:
    """Rows as in `SCHEMA`: kind `rank` first (one a rank), then `start-up`, `late`, `kernel-divergence`,
    `load-imbalance`. `partial`: ranks could not all be compared. `warnings` are (code, message).
    """

    rows: pl.DataFrame
    partial: bool
    warnings: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class _Entry:
    """One rank's side of a collective, in absolute ns."""

    rank: int
    start: int
    end: int
    first: bool
    opened: int | None


@dataclass(frozen=True, slots=True)
class _Meeting:
    """One collective of all ranks."""

    size: int | None
    op: str
    dims: str | None
    entries: tuple[_Entry, ...]

    @property
    def last(self) -> _Entry:
        return max(self.entries, key=lambda entry: entry.start)

    @property
    def skew(self) -> int:
        return self.last.start - min(entry.start for entry in self.entries)

    @property
    def transfer(self) -> int:
        return self.last.end - self.last.start

    @property
    def wait(self) -> int:
        """Of the rank that waited longest."""
        return max(entry.end - entry.start for entry in self.entries) - self.transfer


def ranks(
    collectives: pl.DataFrame, kernels: pl.DataFrame | None = None, *, world_size: int | None = None
) -> RanksResult:
    """Compare the ranks of a run.

    `collectives`: one row a collective kernel: `rank`, `base_ns` (the file's `baseTimeNanoseconds`, null
    where absent), `start_ns` (relative to it), `dur_ns`, `op`, and where known `size`, `dims`, `group` (the
    process group), `opened_ns` (the file's first event, relative to the base). `kernels`: one row a (rank,
    size, op, dims, family) of the replays: also `class`, `time_ns` (a replay's), `calls`. `world_size` is
    what the traces state.
    """
    frame = collectives.with_columns(
        pl.lit(None).alias(name) for name in ("size", "dims", "group", "opened_ns") if name not in collectives.columns
    )
    seen = sorted({*frame["rank"].to_list(), *(kernels["rank"].to_list() if kernels is not None else ())})
    baseless = sorted(set(frame.filter(pl.col("base_ns").is_null())["rank"].to_list()))
    rows = list(_rank_rows(frame, kernels, seen))
    if not baseless:
        rows += _collective_rows(frame)
    if kernels is not None:
        rows += _kernel_rows(kernels)
    warnings = tuple(_warnings(seen, baseless, world_size))
    return RanksResult(pl.DataFrame(rows, schema=SCHEMA), bool(warnings), warnings)


def _warnings(seen: Sequence[int], baseless: Sequence[int], world_size: int | None) -> Iterator[tuple[str, str]]:
    if world_size is not None and (missing := sorted(set(range(world_size)) - set(seen))):
        yield "rank-missing", f"No trace of rank {', '.join(map(str, missing))} (world size {world_size})."
    if len(seen) < 2:
        yield "one-rank", "Fewer than two ranks: there is nothing to compare."
    if baseless:
        names = ", ".join(map(str, baseless))
        yield "no-clock-base", f"Rank {names} states no clock base: entering times of ranks are not compared."


def _rank_rows(
    collectives: pl.DataFrame, kernels: pl.DataFrame | None, seen: Sequence[int]
) -> Iterator[dict[str, Any]]:
    """What each rank's own file says, without any comparison: its collectives and their median time, its
    kernels.
    """
    for rank in seen:
        own = collectives.filter(pl.col("rank") == rank)["dur_ns"].to_list()
        row: dict[str, Any] = {"kind": "rank", "rank": rank, "ranks": list(seen), "collectives": len(own)}
        if kernels is not None:
            row["kernels"] = int(kernels.filter(pl.col("rank") == rank)["calls"].sum())
        yield row


def _collective_rows(frame: pl.DataFrame) -> Iterator[dict[str, Any]]:
    """Start-up transients by themselves, then a row for each op in which one rank is late."""
    kept: dict[tuple[int | None, str, str | None], list[_Meeting]] = defaultdict(list)
    for _, members in frame.group_by("group", "op", maintain_order=True):
        meetings = list(_meetings(members))
        startup = _startup(meetings)
        for meeting in meetings[:startup]:
            yield _meeting_row("start-up", [meeting], meeting.last.rank)
        for meeting in meetings[startup:]:
            kept[meeting.size, meeting.op, meeting.dims].append(meeting)
    for meetings in kept.values():
        slow, times = Counter(meeting.last.rank for meeting in meetings).most_common(1)[0]
        skew = median(meeting.skew for meeting in meetings)
        if times >= _LATE_SHARE * len(meetings) and skew > _LATE_NS:
            yield _meeting_row("late", meetings, slow)


def _meeting_row(kind: str, meetings: Sequence[_Meeting], slow: int) -> dict[str, Any]:
    first = meetings[0]
    return {
        "kind": kind,
        "size": first.size,
        "op": first.op,
        "class": "collective",
        "dims": first.dims,
        "rank": slow,
        "ranks": sorted(entry.rank for entry in first.entries),
        "rank_slow": slow,
        "slow_ranks": [slow],
        "collectives": len(meetings),
        "skew_ns": round(median(meeting.skew for meeting in meetings)),
        "wait_ns": round(median(meeting.wait for meeting in meetings)),
        "transfer_ns": round(median(meeting.transfer for meeting in meetings)),
    }


def _meetings(members: pl.DataFrame) -> Iterator[_Meeting]:
    """Collectives in which all ranks are inside at one moment, in time order; others have no partner."""
    queues: dict[int, list[tuple[_Entry, dict[str, Any]]]] = defaultdict(list)
    timed = members.with_columns(start=pl.col("base_ns") + pl.col("start_ns")).sort("start", maintain_order=True)
    for row in timed.iter_rows(named=True):
        opened = None if row["opened_ns"] is None else row["base_ns"] + row["opened_ns"]
        first = not queues[row["rank"]]
        entry = _Entry(row["rank"], row["start"], row["start"] + row["dur_ns"], first, opened)
        queues[row["rank"]].append((entry, row))
    at = dict.fromkeys(queues, 0)
    while len(queues) > 1 and all(at[rank] < len(queues[rank]) for rank in queues):
        heads = [queues[rank][at[rank]] for rank in queues]
        leaving = min(heads, key=lambda head: head[0].end)[0]
        if max(entry.start for entry, _ in heads) <= leaving.end + _COMMON_END_NS:
            row = heads[0][1]
            yield _Meeting(row["size"], row["op"], row["dims"], tuple(entry for entry, _ in heads))
            at = {rank: index + 1 for rank, index in at.items()}
        else:
            at[leaving.rank] += 1


def _startup(meetings: Sequence[_Meeting]) -> int:
    """How many leading collectives only waited for another rank's profiler to open.

    Such a one comes first in the late rank's file, waits far longer than the later ones, and ends on all
    ranks together; where the late file's first event is known, that comes after the wait had begun.
    """
    usual = median(meeting.wait for meeting in meetings[1:]) if len(meetings) > 1 else None
    if usual is None:
        return 0
    first = meetings[0]
    ends = [entry.end for entry in first.entries]
    opened = first.last.opened
    waited_for_profiler = opened is None or opened > min(entry.start for entry in first.entries)
    transient = (
        first.last.first
        and first.wait > max(_STARTUP_NS, _STARTUP_RATIO * usual)
        and max(ends) - min(ends) <= _COMMON_END_NS
        and waited_for_profiler
    )
    return 1 if transient else 0


def _kernel_rows(kernels: pl.DataFrame) -> Iterator[dict[str, Any]]:
    """Ops that some ranks run with another kernel family, and ops that all run with the same one at other
    speeds.
    """
    for (size, op, dims), members in kernels.group_by("size", "op", "dims", maintain_order=True):
        by_rank: dict[int, list[dict[str, Any]]] = defaultdict(list)
        for row in members.iter_rows(named=True):
            by_rank[row["rank"]].append(row)
        if len(by_rank) < 2 or op is None:
            continue
        families = {rank: ", ".join(sorted(row["family"] for row in rows)) for rank, rows in by_rank.items()}
        times = {rank: sum(row["time_ns"] for row in rows) for rank, rows in by_rank.items()}
        counts = Counter(families.values())
        # Of as many ranks on either side, the slower ones run the other kernel.
        usual_family = families[max(times, key=lambda rank: (counts[families[rank]], -times[rank]))]
        usual_time = median_low(times.values())
        diverging = sorted(rank for rank, family in families.items() if family != usual_family)
        slow = sorted(rank for rank, time in times.items() if time > _IMBALANCE_RATIO * usual_time)
        collective = members["class"][0] == "collective"
        if not diverging and (not slow or collective):
            continue
        slowest = max(times, key=lambda rank: times[rank])
        yield {
            "kind": "kernel-divergence" if diverging else "load-imbalance",
            "size": size,
            "op": op,
            "class": members["class"][0],
            "dims": dims,
            "rank": slowest,
            "ranks": sorted(by_rank),
            "rank_slow": slowest,
            "slow_ranks": diverging or slow,
            "skew_ns": round(max(times.values()) - min(times.values())),
            "families": "; ".join(f"{rank}: {families[rank]}" for rank in sorted(families)),
        }
