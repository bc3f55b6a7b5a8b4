"""What a trace is, from its content alone: capture, replay, eager, cpu; and where its segments lie.

"Has a kernel event" says nothing: a capture trace holds a few stray kernels, and none of those that it captured.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import polars as pl

from shapescope.read.frames import constant, converted, in_time_order, named, picked_rows
from shapescope.read.nesting import THREAD
from shapescope.read.part import Role
from shapescope.read.processes import Process
from shapescope.store.spans import Mark, parse_span

_SEGMENT = {"pid": pl.String, "tid": pl.String, "ts": pl.Int64, "dur": pl.Int64, "closed": pl.Boolean}
_STREAM_CAPTURE = re.compile("Stream(?:Begin|End)Capture")
_NOT_A_KERNEL = re.compile("Graph|HostFunc")
_ASYNCHRONOUS = re.compile(r"(memcpy|memset)\w*Async", re.IGNORECASE)


class _Mark(NamedTuple):
    """A call that begins or ends a stream capture."""

    ts: int
    end: int
    begins: bool


def kernel_launches(calls: pl.DataFrame) -> pl.DataFrame:
    """The calls that put a kernel, a copy or a fill on a stream; with a column `work` that says which.

    While a stream is captured nothing runs, so there is no kernel to know a launch by: what carries a kernel's name
    is one, and else the call's own name tells.
    """
    work = converted(calls["name"], _work, pl.String)
    kernel = constant("work", "kernel", pl.String, calls.height)
    work = kernel.zip_with(calls["kernel"].is_not_null(), work)
    return picked_rows(calls.with_columns(work=work), np.flatnonzero(work.is_not_null().to_numpy()))


def _work(call: str) -> str | None:
    """What a call puts on a stream, by its name."""
    if "Launch" in call and not _NOT_A_KERNEL.search(call):
        return "kernel"
    copy = _ASYNCHRONOUS.search(call)
    return None if copy is None else "memset" if "memset" in call.lower() else "memcpy"


def segments(process: Process) -> pl.DataFrame:
    """The stretches between begin and end of a stream capture: `segment`, pid, tid, ts, dur, closed; in time order.

    On a CPU nothing begins a stream capture: there the recorder's own spans mark the segments, and a capture span that
    holds none is one itself.
    """
    found = _stream_captures(process.calls)
    if not found.height:
        found = _marked_segments(process.spans)
    return in_time_order(found).insert_column(0, pl.Series("segment", np.arange(found.height)))


def roles(process: Process, replayed: pl.DataFrame, *, is_capture: bool) -> tuple[Role, ...]:
    """What a process's events show, the most telling first; a trace of capture and serving shows both.

    A capture is one by its launches inside segments (a segment without any, as torch.compile makes one to keep its
    pool, is no capture worth the name) or by its recorder's word. `replayed` are the kernels under graph launches.
    """
    found = [Role.CAPTURE] if is_capture else []
    launched = process.graph_launches.height or marked(process.spans, Mark.REPLAY).height
    if replayed.height or (launched and not is_capture):
        found.append(Role.REPLAY)
    if not found:
        found.append(Role.EAGER if process.device.height else Role.CPU)
    return tuple(found)


def marked(spans: pl.DataFrame, mark: Mark) -> pl.DataFrame:
    """The recorder's own spans of one kind, in time order."""
    begin = f"shapescope.{mark} "
    return in_time_order(named(spans, lambda name: name.startswith(begin) and parse_span(name) is not None))


def _marked_segments(spans: pl.DataFrame) -> pl.DataFrame:
    inner = marked(spans, Mark.SEGMENT)
    outer = marked(spans, Mark.CAPTURE)
    holding = outer.select(*THREAD, "ts", end=pl.col("ts") + pl.col("dur")).with_row_index("capture")
    held = holding.join(inner.select(*THREAD, at="ts"), on=THREAD).filter(pl.col("at").is_between("ts", "end"))
    alone = outer.filter(~pl.Series(range(outer.height), dtype=pl.UInt32).is_in(held["capture"].implode()))
    return pl.concat([inner, alone]).select(*THREAD, "ts", "dur", closed=pl.lit(value=True))


def _stream_captures(calls: pl.DataFrame) -> pl.DataFrame:
    """Pair begins with ends on each thread; a begin whose end is lost closes at the next begin, or with the thread."""
    marks = in_time_order(named(calls, lambda name: _STREAM_CAPTURE.search(name) is not None))
    threads: dict[tuple[str | None, str | None], list[_Mark]] = {}
    for pid, tid, name, ts, dur in marks[[*THREAD, "name", "ts", "dur"]].iter_rows():
        threads.setdefault((pid, tid), []).append(_Mark(ts, ts + dur, "Begin" in name))
    rows = [
        (*thread, *row)
        for thread, of_thread in threads.items()
        for row in _paired(of_thread, partial(_last, calls, *thread))
    ]
    return pl.DataFrame(rows, schema=_SEGMENT, orient="row")


def _last(calls: pl.DataFrame, pid: str | None, tid: str | None) -> int:
    """When the last call of a thread returns."""
    mine = calls.filter(pl.col("pid").eq_missing(pl.lit(pid)) & pl.col("tid").eq_missing(pl.lit(tid)))
    return int((mine["ts"] + mine["dur"]).max())  # type: ignore[arg-type]


def _paired(marks: list[_Mark], last: Callable[[], int]) -> Iterator[tuple[int, int, bool]]:
    """Start, duration and whether the end is there, of each outermost stretch of one thread."""
    depths = list(accumulate(1 if mark.begins else -1 for mark in marks))
    # Where no begin or end is lost, captures of two streams may nest: the outer one counts.
    if depths[-1] != 0 or min(depths) < 0:
        depths = [int(mark.begins) for mark in marks]
    outer = [mark for mark, depth in zip(marks, depths, strict=True) if depth == mark.begins]
    for mark, following in zip(outer, [*outer[1:], None], strict=True):
        if mark.begins:
            until = last() if following is None else following.ts
            yield mark.end, max(0, until - mark.end), following is not None and not following.begins
