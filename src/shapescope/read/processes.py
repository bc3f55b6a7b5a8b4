"""A trace taken apart: its events by what they are, one process at a time.

A file normally holds one process. Tools that merge ranks write several into one file, and then process ids, devices and
correlation ids of one rank mean nothing for another: so all further reading is done one process at a time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import polars as pl

from shapescope.read.columns import LISTS, Trace
from shapescope.read.frames import converted, in_time_order, named, picked_rows, truth
from shapescope.read.nesting import Ints

CALLS = ("cuda_runtime", "cuda_driver", "Runtime", "Driver", "hip_runtime", "xpu_runtime")
OPS = ("cpu_op", "Operator")
SPANS = ("user_annotation",)
FRAMES = ("python_function",)
# Work on a device. A `gpu_user_annotation` is only the shadow of a span, and never among them.
DEVICE = {
    "kernel": "kernel",
    "Kernel": "kernel",
    "gpu_memcpy": "memcpy",
    "Memcpy": "memcpy",
    "gpu_memset": "memset",
    "Memset": "memset",
}
_KINDS = (CALLS, OPS, SPANS, FRAMES, tuple(DEVICE))
_CATEGORY = pl.Enum([category for categories in _KINDS for category in categories])
# The number of its kind for the number of a category; the last one is of no kind.
_KIND = np.array([kind for kind, categories in enumerate(_KINDS) for _ in categories] + [-1], dtype=np.int8)
# What further reading asks of an event, beside the lists: those stay encoded, as few of their rows are looked at.
_TEXT = ("cat", "name", "pid", "tid", "stream", "kernel")
_NUMBERS = ("ts", "dur", "external_id", "correlation", "device", "graph_node_id")
_WHOLE = {10: re.compile("[+-]?0*[0-9]{1,19}"), 16: re.compile("[+-]?0*[0-9a-fA-F]{1,16}")}
_RANK = re.compile(r"\brank[\s_:=#-]*(\d+)", re.IGNORECASE)
# Above this many pairs of a process and a device the correlation ids of each pair are no longer compared.
_COMPARED_PAIRS = 4096


@dataclass(frozen=True, slots=True)
class Process:
    """One process of a trace. Each frame has the decoder's columns in file order; times are ns.

    `device` has, besides, `work` (`kernel`, `memcpy`, `memset`), its name is its `kernel`, and its `stream` is a number.
    Rows of the host side all have a name and a time. `graph_launches` are the calls that launch a captured graph, in time
    order. `label_rank` is the rank that the trace's own labels give to this process, `merged` says that the file holds
    other processes too.
    """

    pid: str | None
    calls: pl.DataFrame
    ops: pl.DataFrame
    spans: pl.DataFrame
    frames: pl.DataFrame
    device: pl.DataFrame
    graph_launches: pl.DataFrame
    label_rank: int | None = None
    merged: bool = False

    @property
    def events(self) -> int:
        return sum(frame.height for frame in (self.calls, self.ops, self.spans, self.frames, self.device))

    @property
    def opened_ns(self) -> int | None:
        """The earliest stamp: when its profiler opened, as far as the trace tells."""
        stamps = pl.concat([frame["ts"] for frame in (self.calls, self.ops, self.spans, self.frames, self.device)])
        earliest = stamps.cast(pl.Int64).min()
        return earliest if isinstance(earliest, int) else None


def processes(trace: Trace) -> list[Process]:
    """The processes of one trace, in order of appearance; always at least one."""
    *host, on_device = _rows_by_kind(trace.events)
    events = trace.events[[*_NUMBERS, *_TEXT, *LISTS]]
    calls, ops, spans, frames = (_host(picked_rows(events, rows)) for rows in host)
    device = _device(picked_rows(events, on_device))
    graphs = in_time_order(named(calls, lambda name: "GraphLaunch" in name))
    pids = pl.concat([calls["pid"], ops["pid"]]).unique(maintain_order=True).drop_nulls().to_list()
    if len(pids) < 2:
        return [Process(pids[0] if pids else None, calls, ops, spans, frames, device, graphs)]
    owners = _owners(calls, device, pids)
    labels = _label_ranks(trace.events)
    return [
        Process(
            pid,
            calls=calls.filter(mine),
            ops=ops.filter(mine),
            spans=spans.filter(mine),
            frames=frames.filter(mine),
            device=device.filter(owners == pid),
            graph_launches=graphs.filter(mine),
            label_rank=labels.get(pid),
            merged=True,
        )
        for pid in pids
        for mine in [pl.col("pid") == pid]
    ]


def _rows_by_kind(events: pl.DataFrame) -> list[Ints]:
    """The rows of each of `_KINDS`. On the host side an event without a name or a time is none."""
    category = events["cat"].cast(_CATEGORY, strict=False).to_physical()
    kinds = _KIND[category.fill_null(len(_KIND) - 1).to_numpy()]
    kinds[~truth(events["ph"] == "X")] = -1
    for column in ("ts", "name"):
        if events[column].null_count():
            kinds[(kinds < len(_KINDS) - 1) & events[column].is_null().to_numpy()] = -1
    return [np.flatnonzero(kinds == kind) for kind in range(len(_KINDS))]


def _host(events: pl.DataFrame) -> pl.DataFrame:
    events = _decoded(events)
    shortest = events["dur"].min()
    if events["dur"].null_count() or (isinstance(shortest, int) and shortest < 0):
        return events.with_columns(pl.col("dur").fill_null(0).clip(lower_bound=0))
    return events


def _device(events: pl.DataFrame) -> pl.DataFrame:
    events = _decoded(events)
    stream, thread = streams(events["stream"]), converted(events["tid"], _whole_number, pl.Int64)
    return events.with_columns(
        kernel=events["name"],
        work=converted(events["cat"], DEVICE.get, pl.String),
        stream=stream.zip_with(stream.is_not_null(), thread),
    )


def _decoded(events: pl.DataFrame) -> pl.DataFrame:
    """With the text that is looked into as text."""
    return pl.DataFrame([column.cast(pl.String) if column.name in _TEXT else column for column in events.get_columns()])


def streams(column: pl.Series) -> pl.Series:
    """The numbers of streams, which are hexadecimal text in some ROCm traces."""
    return converted(column, _stream, pl.Int64)


def _stream(text: str | None) -> int | None:
    text = (text or "").strip()
    return _whole_number(text[2:], 16) if text.startswith("0x") else _whole_number(text)


def _whole_number(text: str | None, base: int = 10) -> int | None:
    """The number of 64 bits that a text is, else None."""
    if text is None or not _WHOLE[base].fullmatch(text):
        return None
    number = int(text, base)
    return number if -(1 << 63) <= number < 1 << 63 else None


def _label_ranks(events: pl.DataFrame) -> dict[str | None, int]:
    """Ranks that `process_name` and `process_labels` give, by process id."""
    labels = events.filter((pl.col("ph") == "M") & pl.col("name").is_in(["process_name", "process_labels"]))
    found = {pid: _RANK.search(text or "") for pid, text in labels.select("pid", "arg_name").iter_rows()}
    return {pid: int(match[1]) for pid, match in found.items() if match}


def _owners(calls: pl.DataFrame, device: pl.DataFrame, pids: list[str]) -> pl.Series:
    """For each device event the process that launched it: the one whose calls know its side's correlation ids best.

    A side is a device within a process id of the device's own. Where several processes know all ids equally well, as
    in merged files whose ids all count from one, sides and processes are paired in order.
    """
    sides = device.group_by("pid", "device", maintain_order=True).agg(asked=pl.col("correlation").drop_nulls().unique())
    asked = [set(ids) for ids in sides["asked"]]
    owners = pl.Series("owner", _pair(sides["pid"].to_list(), asked, calls, pids), dtype=pl.String)
    placed = sides.select("pid", "device", owners)
    on = ["pid", "device"]
    return device.select(on).join(placed, on=on, how="left", nulls_equal=True, maintain_order="left")["owner"]


def _pair(sides: list[str], asked: list[set[int]], calls: pl.DataFrame, pids: list[str]) -> list[str]:
    """For each side, known by the process id that its events bear and by their correlation ids, its process."""
    if len(sides) * len(pids) > _COMPARED_PAIRS:
        known = np.ones((len(sides), len(pids)))
    else:
        ids = {pid: set(rows) for pid, rows in calls.group_by("pid").agg("correlation").iter_rows()}
        known = np.array([[len(wanted & ids.get(pid, set())) for pid in pids] for wanted in asked])
    position = {pid: at for at, pid in enumerate(pids)}
    owners: list[str] = []
    unused = dict.fromkeys(pids)
    for number, side in enumerate(sides):
        scores, best = known[number], known[number].max()
        owner = side
        if side not in position:
            owner = next((pid for pid in unused if scores[position[pid]] == best), pids[int(scores.argmax())])
        unused.pop(owner, None)
        owners.append(owner)
    return owners
