"""What each captured size cost: memory by where it was taken, and time by phase.

Figures are marginal in the order of capture. The first graph of a pool pays for memory that later ones reuse, so that a
size's own cost is known only together with its order: captured from the largest down, the pool is paid once; from the
smallest up, every larger size pays anew. What the device lost beyond what the allocator reserved is the driver's own
cost of a graph (`other_bytes`). A sample during which another process freed memory is disturbed and in no total.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import polars as pl

from shapescope.model import Evidence, ManifestRow, Status
from shapescope.read.run import Run

SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "runner": pl.String,
    "size": pl.Int64,
    "variant": pl.String,
    "rank": pl.Int64,
    "order": pl.Int64,
    "allocator_bytes": pl.Int64,
    "device_bytes": pl.Int64,
    "other_bytes": pl.Int64,
    "warmup_ns": pl.Int64,
    "capture_ns": pl.Int64,
    "record_ns": pl.Int64,
    "export_ns": pl.Int64,
    "disturbed": pl.Boolean,
}
_SUMMED = ("allocator_bytes", "device_bytes", "other_bytes", "warmup_ns", "capture_ns", "record_ns", "export_ns")
_OF_DEVICE = ("device_bytes", "other_bytes")
MARGINAL = "marginal in this order"


@dataclass(frozen=True, slots=True)
class OrderCost:
    """What capturing one rank's shapes of one runner from small to large cost beyond capturing the largest first."""

    runner: str
    rank: int
    bytes: int


@dataclass(frozen=True, slots=True)
class MemoryResult:
    """Rows as in `SCHEMA`, in order of capture. Totals are of one rank, the costliest one."""

    rows: pl.DataFrame
    orders: tuple[OrderCost, ...]
    partial: bool
    warnings: tuple[tuple[str, str], ...]

    @property
    def summary(self) -> dict[str, Any]:
        """The totals as plain values; null where nothing was measured."""
        per_rank = self.rows.with_columns(
            pl.when(~pl.col("disturbed").fill_null(value=False)).then(pl.col(name)).alias(name) for name in _OF_DEVICE
        ).group_by("rank", maintain_order=True).agg(
            *(pl.when(pl.col(name).count() > 0).then(pl.col(name).sum()).alias(name) for name in _SUMMED),
            pl.len().alias("shapes"),
            disturbed=pl.col("disturbed").sum(),
        )  # fmt: skip
        ranked = per_rank.sort(
            pl.coalesce("device_bytes", "allocator_bytes", "capture_ns"),
            descending=True, nulls_last=True, maintain_order=True,
        )  # fmt: skip
        totals: dict[str, Any] = dict.fromkeys(["rank", *_SUMMED, "shapes", "disturbed"])
        totals |= ranked.row(0, named=True) if ranked.height else {}
        saved = max((order.bytes for order in self.orders), default=None)
        return {**totals, "meaning": MARGINAL, "largest_first_saves_bytes": saved}


def memory(run: Run) -> MemoryResult:
    """What the manifests tell of each capture; nothing is known of runs that no recorder wrote."""
    latest: dict[tuple[object, ...], ManifestRow] = {}
    for number, row in run.recorded:
        if row.key is not None and row.evidence is Evidence.CAPTURE and row.status is not Status.MISSING:
            latest[number, row.rank.rank, row.key] = row
    told = sorted(latest.values(), key=lambda row: (row.rank.rank, row.key.runner if row.key else "", _order(row)))
    table = pl.DataFrame([_row(row) for row in told], schema=SCHEMA)
    orders = tuple(_order_costs(table))
    return MemoryResult(table, orders, not told, tuple(_warnings(table, orders)))


def _order(row: ManifestRow) -> int:
    return row.memory.order if row.memory else row.sequence


def _row(row: ManifestRow) -> dict[str, Any]:
    assert row.key is not None
    memory = row.memory
    return {
        "runner": row.key.runner or None,
        "size": row.key.shape.size,
        "variant": row.key.shape.variant,
        "rank": row.rank.rank,
        "order": _order(row),
        "allocator_bytes": memory.allocator_bytes if memory else None,
        "device_bytes": memory.device_bytes if memory else None,
        "other_bytes": memory.other_bytes if memory else None,
        "warmup_ns": sum(row.warmup_ns) if row.warmup_ns else None,
        "capture_ns": row.capture_ns,
        "record_ns": row.record_ns,
        "export_ns": row.export_ns,
        "disturbed": memory.disturbed if memory else None,
    }


def _order_costs(table: pl.DataFrame) -> Iterator[OrderCost]:
    """Where larger sizes came after smaller ones and reserved memory anew: what the pool of the largest would have held.

    With the largest first the allocator reserves what the costliest single capture reserved; the driver's own cost of
    each graph stays.
    """
    for (runner, rank), members in table.group_by("runner", "rank", maintain_order=True):
        known = members.filter(pl.col("allocator_bytes").is_not_null())
        ascending = any(
            below["size"] < above["size"] and above["allocator_bytes"] > 0
            for below, above in pairwise(known.sort("order").iter_rows(named=True))
        )
        reserved: Sequence[int] = known["allocator_bytes"].to_list()
        surplus = sum(reserved) - max(reserved, default=0)
        if ascending and surplus > 0:
            yield OrderCost(runner or "", rank, surplus)


def _warnings(table: pl.DataFrame, orders: Sequence[OrderCost]) -> Iterator[tuple[str, str]]:
    """(code, message), each once."""
    if table.is_empty():
        yield (
            "no-data",
            "No manifest tells of a capture here: memory and time per size are known of recorded runs only.",
        )
        return
    if not table["allocator_bytes"].count() and not table["device_bytes"].count():
        yield "no-memory", "This device has no figures of memory: only times are known."
    if disturbed := int(table["disturbed"].sum()):
        yield (
            "disturbed-memory",
            f"Another process freed memory during {disturbed} captures: their device figures are in no total.",
        )
    for order in orders:
        yield (
            "capture-order",
            f"{order.runner or 'A runner'} captured smaller sizes before larger ones on rank {order.rank}: the largest first"
            f" would have reserved {order.bytes / (1 << 20):.0f} MiB less.",
        )
