"""Frames of a fixed layout: what all tables here are made of, the layouts of what one file holds, steps that need no query."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

Schema: TypeAlias = dict[str, pl.DataType | type[pl.DataType]]
"""The columns of a table in order, with their types."""

Rows: TypeAlias = npt.NDArray[np.int64] | Sequence[int]
"""Numbers of rows, from 0."""

LAUNCH: Schema = {
    "segment": pl.Int64,
    "kernel": pl.String,
    "work": pl.String,
    "api": pl.String,
    "op": pl.String,
    "op_call": pl.Int64,
    "dims": pl.String,
    "types": pl.String,
    "strides": pl.String,
    "concrete_inputs": pl.String,
    "module": pl.String,
    "stack": pl.List(pl.String),
    "grid": pl.String,
    "block": pl.String,
    "stream": pl.Int64,
    "dims_source": pl.String,
    "tid": pl.String,
    "ts": pl.Int64,
    "dur": pl.Int64,
    "time_ns": pl.Int64,
    "flag": pl.String,
    "device": pl.Int64,
    "node_id": pl.Int64,
}
CAPTURED: Schema = {"window": pl.Int64, "seq": pl.Int64, **LAUNCH}
STEP: Schema = {
    "step": pl.Int64,
    "text": pl.String,
    "mode": pl.String,
    "unit": pl.String,
    "requests": pl.Int64,
    "tokens": pl.Int64,
    "padded_size": pl.Int64,
    "eager": pl.Boolean,
    "pid": pl.String,
    "tid": pl.String,
    "ts": pl.Int64,
    "dur": pl.Int64,
}
REPLAY: Schema = {
    "launch": pl.Int64,
    "step": pl.Int64,
    "span": pl.String,
    "around": pl.String,
    "group": pl.Int64,
    "segment": pl.Int64,
    "pid": pl.String,
    "tid": pl.String,
    "ts": pl.Int64,
    "dur": pl.Int64,
}
KERNEL: Schema = {"launch": pl.Int64, "seq": pl.Int64, **LAUNCH}
STREAM: Schema = {
    "device": pl.Int64, "stream": pl.Int64, "kernels": pl.Int64, "sum_ns": pl.Int64, "busy_ns": pl.Int64,
    "span_ns": pl.Int64, "gap_ns": pl.Int64, "idle": pl.Float64,
}  # fmt: skip


def empty(schema: Schema) -> pl.DataFrame:
    """A frame without rows, always the same one: nearly every table of nearly every file is empty."""
    return _empty(tuple(schema.items()))


@cache
def _empty(columns: tuple[tuple[str, pl.DataType | type[pl.DataType]], ...]) -> pl.DataFrame:
    return pl.DataFrame(schema=dict(columns))


def named(events: pl.DataFrame, wanted: Callable[[str], bool]) -> pl.DataFrame:
    """The events of a wanted `name`, each distinct name asked once."""
    names = events["name"].to_list()
    kept = {name for name in set(names) if wanted(name)}
    return picked_rows(events, [row for row, name in enumerate(names) if name in kept] if kept else [])


def index(rows: Rows) -> pl.Series:
    """Row numbers as polars takes them without looking at each: null where one is -1."""
    return pl.Series(rows, dtype=pl.Int64).cast(pl.get_index_type(), strict=False)


def truth(mask: pl.Series) -> npt.NDArray[np.bool_]:
    """A mask as an array; what is not known is not so."""
    return (mask.fill_null(value=False) if mask.null_count() else mask).to_numpy()


def picked_rows(frame: pl.DataFrame, rows: Rows) -> pl.DataFrame:
    """The rows of these numbers, of nulls where a number is -1."""
    return frame[index(rows)] if len(rows) else frame.clear()


def picked(column: pl.Series, rows: Rows) -> pl.Series:
    """The values at these rows, null where a row is -1."""
    return column[index(rows)]


def in_time_order(events: pl.DataFrame) -> pl.DataFrame:
    """By `ts`, those of one time as given; most already are."""
    return events if events["ts"].is_sorted() else events.sort("ts", maintain_order=True)


def shaped(frame: pl.DataFrame, schema: Schema) -> pl.DataFrame:
    """Bring a frame into a layout: its columns in order and of the right types, null where the frame lacks one."""
    columns = {column.name: column for column in frame.get_columns()}
    return pl.DataFrame(
        [
            columns[name].cast(kind) if name in columns else constant(name, None, kind, frame.height)
            for name, kind in schema.items()
        ]
    )


def constant(name: str, value: object, kind: pl.DataType | type[pl.DataType], rows: int) -> pl.Series:
    """A column of one value."""
    return pl.Series(name, [value], dtype=kind).new_from_index(0, rows)


def converted(column: pl.Series, convert: Callable[[Any], Any], kind: pl.DataType | type[pl.DataType]) -> pl.Series:
    """Each value converted, each distinct one once; null where `convert` gives None."""
    values = column.to_list()
    known = {value: convert(value) for value in set(values)}
    return pl.Series(column.name, [known[value] for value in values], dtype=kind)
