"""The columns of a decoded trace: which JSON field fills which, in which type, and the records that carry them.

One row an event, in file order. Missing is null. Times are integer nanoseconds, exact from the decimal text; text that
repeats (nearly all of it) is dictionary-encoded. The field names are those that Kineto writes
(https://github.com/pytorch/kineto/blob/main/libkineto/src/output_json.cpp).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import polars as pl

PythonFrames: TypeAlias = Literal["modules", "all", "none"]

PYTHON_CATEGORY = "python_function"
MODULE_PREFIX = "nn.Module: "

# Invariant: the order within each group is the order of the scanner's tables (scanner/columns.h).
TIMES = {"ts": "ts", "dur": "dur"}
EVENT_INTEGERS = {"id": "id"}
ARGS_INTEGERS = {
    "External id": "external_id",
    "correlation": "correlation",
    "device": "device",
    "context": "context",
    "Python id": "python_id",
    "Python parent id": "python_parent_id",
    "Python module id": "python_module_id",
    "graph id": "graph_id",
    "graph node id": "graph_node_id",
    "Sequence number": "sequence_number",
    "Record function id": "record_function_id",
    "shared memory": "shared_memory",
    "registers per thread": "registers",
}
EVENT_TEXTS = {"ph": "ph", "cat": "cat", "name": "name", "pid": "pid", "tid": "tid"}
ARGS_TEXTS = {
    "stream": "stream",
    "grid": "grid",
    "block": "block",
    "Input Dims": "dims",
    "Input type": "types",
    "Input Strides": "strides",
    "Concrete Inputs": "concrete_inputs",
    "kernel": "kernel",
    "kind": "kind",
    "bytes": "bytes",
    "Collective name": "collective",
    "name": "arg_name",
}
LISTS = ("grid", "block", "dims", "types", "strides", "concrete_inputs")
"""Text columns whose values are lists in the file: they keep the raw JSON text."""

INTEGERS = (*TIMES.values(), *EVENT_INTEGERS.values(), *ARGS_INTEGERS.values())
TEXTS = (*EVENT_TEXTS.values(), *ARGS_TEXTS.values())
SCHEMA = pl.Schema({name: pl.Int64() for name in INTEGERS} | {name: pl.Categorical() for name in TEXTS})

LARGEST_EVENT = 16 << 20
"""Bytes. What does not end within them is no event but damage: a bound on memory and on rescanning."""

_NULL_ROWS = 1 << 15
_NULLS: dict[pl.DataType, pl.Series] = {
    dtype: pl.Series("", [], dtype=dtype).extend_constant(None, _NULL_ROWS) for dtype in (pl.Int64(), pl.Categorical())
}


@dataclass(frozen=True, slots=True)
class Losses:
    """What damage cost; all zero and None means a clean file.

    `reason` starts with one word that callers can rely on: `truncated`, `corrupt` or `no-data`; a text for people follows.
    """

    events: int = 0
    """Events known to be lost; how many a truncated file would have had is not known."""
    bytes: int = 0
    """Decompressed bytes that were skipped to get past damage."""
    reason: str | None = None
    values: int = 0
    """Values that were lost or repaired within events that were kept: numbers that are none, text that was not UTF-8."""


@dataclass(frozen=True, slots=True)
class Trace:
    """One JSON document: a whole file, or one gzip member of several."""

    path: Path
    member: int
    """Which document of the file this is, from 0."""
    events: pl.DataFrame
    """One row an event, in file order; columns and types of `SCHEMA`."""
    metadata: dict[str, Any]
    """All top-level fields except `traceEvents`."""
    losses: Losses
    unwanted: int = 0
    """How many more events the file holds: the Python frames that were not asked for."""


class Decoded(NamedTuple):
    """What a reader made of one list of events."""

    events: pl.DataFrame
    lost_events: int
    lost_bytes: int
    lost_values: int
    unwanted: int
    """Events that were read but not kept, as `python` asked."""


def null_column(name: str, rows: int) -> pl.Series:
    """A column without any value: a slice of one shared series, since most columns of most chunks are empty."""
    dtype = SCHEMA[name]
    if rows <= _NULL_ROWS:
        return _NULLS[dtype].slice(0, rows).alias(name)
    return pl.Series(name, [], dtype=dtype).extend_constant(None, rows)


def join_chunks(chunks: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """Chunks of events as one frame, without copying."""
    frames = [chunk for chunk in chunks if chunk.height]
    return pl.concat(frames, rechunk=False) if frames else pl.DataFrame(schema=SCHEMA)
