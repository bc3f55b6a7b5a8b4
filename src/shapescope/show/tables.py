"""Every table's rows, made once: what all renderers show. Columns are those of the interface."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import polars as pl

from shapescope.read.run import Run, rank_name
from shapescope.show.result import Result

# What a table shows without -v; JSON, CSV and Markdown hold every column.
SHAPES_SHOWN = (
    "runner", "size", "variant", "rank", "launches", "kernels", "time_ns", "time_p10_ns", "time_p90_ns",
    "time_per_token_ns", "context_len", "capture_ns", "memory_bytes", "status",
)  # fmt: skip
DEMO_SHOWN = (
    "runner", "rank", "size", "context_len", "launches", "kernels", "time_ns", "time_p10_ns", "time_p90_ns", "time_per_token_ns",
    "capture_ns", "status",
)  # fmt: skip
CHECK_SHOWN = ("file", "role", "key", "inferred_key", "rank", "events", "lost", "status")
_PLACE = ("runner", "size", "variant", "rank")
_GROUPED = ("calls", "time_ns", "share", "source")
KERNELS_SHOWN = {
    "launch": (*_PLACE, "seq", "kernel", "op", "dims", "module", "time_ns", "source"),
    "kernel": (*_PLACE, "kernel", "class", *_GROUPED),
    "family": (*_PLACE, "family", "class", *_GROUPED),
    "class": (*_PLACE, "class", *_GROUPED),
    "op": (*_PLACE, "op", *_GROUPED),
    "module": (*_PLACE, "module", *_GROUPED),
}

# Columns that hold JSON text in frames and plain lists in results.
_JSON = frozenset({"dims", "types", "grid", "block", "strides"})


def shapes(run: Run) -> Result:
    """One row a shape and rank."""
    streams = [{**row, "rank": _rank(row["rank"])} for row in run.streams().iter_rows(named=True)]
    return _result("shapes", run, run.shapes(), streams=streams)


def kernels(run: Run, *, by: str = "launch", sizes: Sequence[int] | None = None) -> Result:
    """What runs in each shape, by launch or grouped. Raises UsageError for an unknown grouping."""
    frame = run.kernels(by)
    return _result("kernels", run, frame.filter(pl.col("size").is_in(list(sizes))) if sizes else frame)


def check(run: Run) -> Result:
    """One row a file and key."""
    return _result("check", run, run.check())


def _result(command: str, run: Run, frame: pl.DataFrame, **more: Any) -> Result:
    return Result(
        command=command,
        run=str(run.path),
        columns=tuple(frame.columns),
        rows=[_plain(row) for row in frame.iter_rows(named=True)],
        warnings=run.warnings,
        partial=run.partial,
        **more,
    )


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {column: _value(column, value) for column, value in row.items()}


def _value(column: str, value: Any) -> Any:
    if column in _JSON and isinstance(value, str):
        try:
            return msgspec.json.decode(value)
        except msgspec.DecodeError:
            return value
    return _rank(value) if column == "rank" else value


def _rank(rank: int | None) -> int | str | None:
    """Ranks that nothing names are negative numbers in frames, `unknown-<n>` for people."""
    return rank_name(rank) if rank is not None and rank < 0 else rank
