"""Launches with what they were asked: the op, its dims and types, the module, the grid in blocks.

One frame layout, `LAUNCH`, serves captured launches, replayed kernels and eager kernels; what a source lacks is null.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import polars as pl

from shapescope.read.calls import with_call_spans
from shapescope.read.classify import kernel_launches
from shapescope.read.columns import LISTS
from shapescope.read.frames import (
    LAUNCH,
    constant,
    converted,
    empty,
    in_time_order,
    index,
    named,
    picked,
    picked_rows,
    shaped,
    truth,
)
from shapescope.read.nesting import innermost, parent_rows
from shapescope.read.processes import Process, streams
from shapescope.read.tape import captured_ops

MODULE = "nn.Module: "
# Copies and fills have no kernel; their work is named in the spelling that device events begin with.
_NAMELESS = {"memcpy": "Memcpy", "memset": "Memset"}
_DESCRIPTION = ("name", "dims", "types", "strides", "concrete_inputs")
# A launch whose grid counts work-items where all others count blocks.
_WORK_ITEM_GRID = "hipExtModuleLaunchKernel"


def captured_launches(
    process: Process, segments: pl.DataFrame, *, on_cpu: bool = False, stacks: bool = False
) -> pl.DataFrame:
    """The launches inside the segments, in time order, as `LAUNCH` rows.

    Those of a CPU capture are its ops (`captured_ops`; `on_cpu`: the trace is of a machine without devices). Launches
    outside any segment (stray fills, eager work between pieces) ran at once and are no part of a graph.
    """
    if not segments.height:
        return empty(LAUNCH)
    calls = kernel_launches(process.calls)
    on_device = calls.height > 0
    if on_device:
        events = calls
    else:
        inside_ops = picked_rows(process.ops, np.flatnonzero(innermost(segments, process.ops) >= 0))
        events = captured_ops(inside_ops, on_cpu=on_cpu).with_columns(work=pl.lit("op"))
    within = innermost(segments, events)
    held = np.flatnonzero(within >= 0)
    inside = in_time_order(picked_rows(events, held).hstack([picked(segments["segment"], within[held])]))
    if on_device:
        kernel = inside["kernel"]
        launches = inside.with_columns(
            api=inside["name"],
            stream=streams(inside["stream"]),
            kernel=kernel.zip_with(kernel.is_not_null(), converted(inside["work"], _NAMELESS.get, pl.String)),
        )
        described = with_ops(launches, process)
    else:
        described = inside.with_columns(
            kernel="name",
            op="name",
            op_call=pl.int_range(pl.len(), dtype=pl.Int64),
            api=pl.lit(None, pl.String),
            stream=pl.lit(None, pl.Int64),
            dims_source=pl.lit("op"),
        )
    return launch_rows(with_modules(described, process, stacks=stacks))


def eager_kernels(process: Process, *, stacks: bool = False) -> pl.DataFrame:
    """Kernels that ordinary launches put on the device, as `LAUNCH` rows with the op around their launch; by start.

    A kernel whose launch is not in the trace keeps its name and time, and no op.
    """
    kernels = with_calls(process.device, process.calls)
    eager = kernels.filter(~pl.col("api").str.contains("GraphLaunch").fill_null(value=False))
    asked = eager.with_columns(
        kernel_ts="ts", kernel_dur="dur", kernel_tid="tid", ts="call_ts", dur="call_dur", pid="call_pid", tid="call_tid"
    ).with_columns(external_id=pl.coalesce("call_external_id", "external_id"))
    linked = asked.filter(pl.col("api").is_not_null())
    described = pl.concat(
        [with_modules(with_ops(linked, process), process, stacks=stacks), asked.filter(pl.col("api").is_null())],
        how="diagonal",
    )
    return launch_rows(
        described.with_columns(kernel="name", ts="kernel_ts", dur="kernel_dur", tid="call_tid").sort(
            "ts", nulls_last=True, maintain_order=True
        )
    )


def with_calls(device: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Each device event with the call that launched it: `api` and `call_*`, null where the trace lacks the call.

    Calls are known by category and correlation id, not by name. Should an id recur within one process, the latest call
    before the kernel's start is the one.
    """
    launching = calls.filter(pl.col("correlation").is_not_null()).select(
        "correlation",
        api="name",
        call_ts="ts",
        call_dur="dur",
        call_pid="pid",
        call_tid="tid",
        call_external_id="external_id",
    )
    unique = launching.filter(pl.col("correlation").is_unique())
    again = launching.filter(~pl.col("correlation").is_unique()).sort("call_ts", maintain_order=True)
    kernels = device.with_row_index("device_row")
    plain = kernels.join(unique, on="correlation", how="left", maintain_order="left")
    if not again.height:
        return plain
    recurring = kernels.filter(pl.col("correlation").is_in(again["correlation"].unique().implode()))
    recurring = recurring.sort("ts", maintain_order=True)
    matched = recurring.join_asof(
        again,
        left_on="ts",
        right_on="call_ts",
        by="correlation",
        strategy="backward",
        coalesce=False,
        check_sortedness=False,
    )
    rest = plain.filter(~pl.col("device_row").is_in(matched["device_row"].implode()))
    return pl.concat([rest, matched.select(rest.columns)]).sort("device_row")


def with_ops(launches: pl.DataFrame, process: Process) -> pl.DataFrame:
    """Add `op`, its dims and types, and `dims_source`: the innermost op on the same thread whose interval encloses.

    `op_call` numbers the calls: kernels that one call launched share it.

    `dims_source` is `op` where the External id names the same op, `op-by-time` where no id can confirm it,
    `op-by-time-not-id` where the id names another, `span` where a recorder's span stands for an op; null, like all the
    rest, where nothing encloses the launch.
    """
    found = innermost(process.ops, launches)
    op, *described, external_id = picked_rows(process.ops[[*_DESCRIPTION, "external_id"]], found).get_columns()
    source = np.full(launches.height, "op", dtype=object)
    others = ~truth(launches["external_id"] == external_id)
    if others.any():
        known = truth(launches["external_id"].is_in(process.ops["external_id"].implode()))
        source[others] = np.where(known, "op-by-time-not-id", "op-by-time")[others]
    source[found < 0] = None
    op_call = index(found).cast(pl.Int64).alias("op_call")
    dims_source = pl.Series("dims_source", source.tolist(), dtype=pl.String)
    return with_call_spans(launches.with_columns(op.alias("op"), op_call, *described, dims_source), process, found)


def with_modules(launches: pl.DataFrame, process: Process, *, stacks: bool = False) -> pl.DataFrame:
    """Add `module`, the innermost `nn.Module` frame around the launch, and `stack` (outermost first) where asked."""
    frames = process.frames
    modules = named(frames, lambda name: name.startswith(MODULE))
    names = converted(modules["name"], lambda name: name.removeprefix(MODULE), pl.String)
    launches = launches.with_columns(module=picked(names, innermost(modules, launches)))
    return launches.with_columns(_stacks(frames, innermost(frames, launches))) if stacks else launches


def _stacks(frames: pl.DataFrame, innermost_rows: npt.NDArray[np.int64]) -> pl.Series:
    """The frames around each launch, outermost first."""
    above = parent_rows(frames).tolist()
    names = frames["name"].to_list()
    stacks: dict[int, list[str]] = {-1: []}
    for row in np.unique(innermost_rows).tolist():
        chain, at = [], row
        while at >= 0:
            chain.append(names[at])
            at = above[at]
        stacks.setdefault(row, chain[::-1])
    return pl.Series("stack", [stacks[row] for row in innermost_rows.tolist()], dtype=pl.List(pl.String))


def launch_rows(events: pl.DataFrame) -> pl.DataFrame:
    """Bring events into the `LAUNCH` layout: compact JSON, grids in blocks."""
    columns = {name: _compact(events, name) for name in LISTS}
    if "api" in events.columns:
        columns["grid"] = _in_blocks(columns["grid"], columns["block"], events["api"])
    if "graph_node_id" in events.columns:
        columns["node_id"] = events["graph_node_id"]
    return shaped(events.with_columns(**columns), LAUNCH)


@lru_cache(maxsize=4096)
def compact_json(text: str | None) -> str | None:
    """One spelling for one value: `[[32,4096],[]]`. What is not JSON stays as it is."""
    if text is None:
        return None
    try:
        return json.dumps(json.loads(text), separators=(",", ":"), ensure_ascii=False)
    except ValueError:
        return text


def _compact(events: pl.DataFrame, name: str) -> pl.Series:
    """A column of JSON; null where the events lack it."""
    if name not in events.columns or events[name].null_count() == events.height:
        return constant(name, None, pl.String, events.height)
    return converted(events[name], compact_json, pl.String)


def _in_blocks(grids: pl.Series, blocks: pl.Series, calls: pl.Series) -> pl.Series:
    """The grids, those that count work-items divided by their blocks."""
    rows = np.flatnonzero(truth(calls == _WORK_ITEM_GRID))
    if not rows.size:
        return grids
    return grids.scatter(rows, [_blocks(grid, block) for grid, block in zip(grids[rows], blocks[rows], strict=True)])


@lru_cache(maxsize=4096)
def _blocks(grid: str | None, block: str | None) -> str | None:
    items, threads = _three(grid), _three(block)
    if items is None:
        return grid
    if threads is None or not all(threads):
        return None
    return json.dumps([-(-count // size) for count, size in zip(items, threads, strict=True)], separators=(",", ":"))


def _three(text: str | None) -> list[int] | None:
    numbers = [int(number) for number in re.findall(r"\d+", text or "")]
    return numbers if len(numbers) == 3 else None
