"""Captured launches as the join meets them: each with a name, grid, block and node id from whatever evidence has them.

On NVIDIA a capture's launches carry no kernel name. Then the graph's own nodes tell it (in order of id they are the
launches in order), or the traced warm-up, the eager twin that ran the same ops just before.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from shapescope.analyse.join.alignment import Codes
from shapescope.analyse.join.certainty import certainty
from shapescope.model import Evidence
from shapescope.read.assembly import SHAPE
from shapescope.read.run import Run

_NODE_KINDS = ("kernel", "memcpy", "memset")
_LENT = ("kernel", "grid", "block")


def captured_launches(run: Run) -> pl.DataFrame:
    """All captured launches by window, segment and time, with the columns of their window; `place` counts in a segment."""
    launches = (
        run.assembly.captured.drop("part")
        .join(run.assembly.windows, on="window", how="left", maintain_order="left")
        .sort("window", "segment", "seq", maintain_order=True)
    )
    windows = launches.partition_by("window", maintain_order=True)
    told = [_told(window, run) for window in windows]
    launches = pl.concat(told) if told else launches
    return launches.with_columns(place=pl.int_range(pl.len(), dtype=pl.Int64).over("window", "segment"))


def _told(window: pl.DataFrame, run: Run) -> pl.DataFrame:
    """One capture's launches with what nodes and warm-up add."""
    window = _with_nodes(window, _of_shape(run.nodes, window))
    if window["kernel"].null_count() == 0 or Evidence.WARMUP not in run.assembly.parts["evidence"]:
        return window
    warm = run.assembly.parts.filter(pl.col("evidence") == Evidence.WARMUP)
    parts = _of_shape(warm, window)["part"]
    return _with_warmup(window, run.assembly.eager.filter(pl.col("part").is_in(parts.implode())))


def _of_shape(rows: pl.DataFrame, window: pl.DataFrame) -> pl.DataFrame:
    """The rows of the shape that a window captured."""
    keys = list(SHAPE)
    return rows.join(window.select(keys).head(1), on=keys, how="semi", nulls_equal=True, maintain_order="left")


def _with_nodes(window: pl.DataFrame, nodes: pl.DataFrame) -> pl.DataFrame:
    """Names and ids from the graph's nodes: only where they are as many as the launches, and kind for kind the same."""
    nodes = nodes.filter(pl.col("work").str.to_lowercase().is_in(_NODE_KINDS)).sort("node_id")
    kinds = nodes["work"].str.to_lowercase().to_list()
    if window["segment"].n_unique() != 1 or kinds != window["work"].to_list():
        return window
    return window.with_columns(
        *(pl.coalesce(pl.col(name), nodes[name]).alias(name) for name in _LENT),
        node_id=pl.coalesce(pl.col("node_id"), nodes["node_id"]),
    )


def _with_warmup(window: pl.DataFrame, warmup: pl.DataFrame) -> pl.DataFrame:
    """Names from the eager twin: the kernel that every optimal alignment of the two gives a launch."""
    warmup = warmup.filter(pl.col("kernel").is_not_null())
    if warmup.is_empty():
        return window
    asked = ["work", "op", "dims", "types"]
    if window["module"].null_count() < window.height and warmup["module"].null_count() < warmup.height:
        asked.append("module")
    both = pl.concat([window.select(asked), warmup.select(asked)])
    codes = both.select(pl.struct(asked).rank("dense").cast(pl.Int64)).to_series().to_numpy()
    lent = warmup.select(pl.struct(_LENT).rank("dense").cast(pl.Int64)).to_series().to_numpy()
    found = certainty(codes[: window.height], codes[window.height :], lent)
    if found is None:
        return window
    source: Codes = np.where(found.certain, found.first, -1)
    picks = pl.Series(source).set(pl.Series(source < 0), None)
    return window.with_columns(pl.coalesce(pl.col(name), warmup[name].gather(picks)).alias(name) for name in _LENT)
