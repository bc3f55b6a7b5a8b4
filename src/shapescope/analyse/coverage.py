"""Captured sizes against real traffic: which steps ran eagerly, how much of the replayed work was padding,
and which sizes would have helped most.

Padding is a share of executed slots over steps, never a mean over sizes. Requests are never compared with
tokens.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "kind": pl.String,
    "unit": pl.String,
    "real_size": pl.Int64,
    "size": pl.Int64,
    "replayed_size": pl.Int64,
    "steps": pl.Int64,
    "eager_steps": pl.Int64,
    "padded_slots": pl.Int64,
    "slots": pl.Int64,
    "padding": pl.Float64,
    "order": pl.Int64,
}


@dataclass(frozen=True, slots=True)
class Addition:
    """One more size to capture, and what it would save of the traffic seen, given the additions before it.

    `memory_bytes` and `capture_ns` are those measured for the captured size `cost_of`, its nearest neighbour
    above (the largest, where there is none above); None where nothing was measured.
    """

    size: int
    steps: int
    saved_eager_steps: int
    saved_slots: int
    memory_bytes: int | None
    capture_ns: int | None
    cost_of: int | None


@dataclass(frozen=True, slots=True)
class CoverageResult:
    """Rows: kind `step`, one for each (real size, replayed size), then kind `add`, best first. `partial`: not
    all that was asked could be told. `warnings` are (code, message).
    """

    rows: pl.DataFrame
    unit: str | None
    steps: int
    eager_steps: int | None
    slots: int | None
    padded_slots: int | None
    additions: tuple[Addition, ...]
    partial: bool
    warnings: tuple[tuple[str, str], ...]

    @property
    def summary(self) -> dict[str, Any]:
        """The totals as plain values."""
        known = self.eager_steps is not None and self.steps
        padded = self.padded_slots is not None and self.slots
        return {
            "unit": self.unit,
            "steps": self.steps,
            "eager_steps": self.eager_steps,
            "eager_share": (self.eager_steps or 0) / self.steps if known else None,
            "padded_slots": self.padded_slots,
            "slots": self.slots,
            "padding_share": (self.padded_slots or 0) / (self.slots or 1) if padded else None,
            "additions": [
                {
                    "size": add.size,
                    "saved_slots": add.saved_slots,
                    "saved_eager_steps": add.saved_eager_steps,
                    "memory_bytes": add.memory_bytes,
                    "capture_ns": add.capture_ns,
                }
                for add in self.additions
            ],
        }


@dataclass(frozen=True, slots=True)
class _Traffic:
    """Steps of known size, counted: eager ones by real size, replayed ones by (real size, replayed size)."""

    eager: Mapping[int, int]
    replayed: Mapping[tuple[int, int], int]


def coverage(
    captured: pl.DataFrame, steps: pl.DataFrame, *, requested: Sequence[int] = (), additions: int = 3
) -> CoverageResult:
    """How the captured sizes of one runner fit the traffic.

    `captured` has one row a captured size: `size`, `unit`, and where measured `memory_bytes`, `capture_ns`.
    `steps` has one row a step of one replica (not one a tensor-parallel rank): `real_size` (null: unknown),
    `unit`, `eager` (no graph was launched; null: unknown) and `size`, the captured size that was replayed
    where the trace states it, else the smallest that fits is taken. `requested` are the sizes that were asked
    for, captured or not.
    """
    sizes = sorted(set(captured["size"].drop_nulls().to_list()))
    units = captured["unit"].drop_nulls().unique().to_list()
    unit = units[0] if len(units) == 1 else None
    comparable = steps.filter(pl.col("unit") == unit) if unit else steps.clear()
    known = comparable.filter(pl.col("real_size").is_not_null() & pl.col("eager").is_not_null())
    traffic = _traffic(known, sizes)
    eager_known = steps.filter(pl.col("eager").is_not_null())
    added = tuple(_additions(captured, sizes, traffic, additions))
    warnings = tuple(_warnings(captured, steps, comparable, known, [*sizes, *requested]))
    executed = None if known.is_empty() else sum(size * count for (_, size), count in traffic.replayed.items())
    padded = None if known.is_empty() else sum((s - real) * n for (real, s), n in traffic.replayed.items())
    return CoverageResult(
        rows=pl.DataFrame([*_step_rows(traffic, unit), *_add_rows(added, unit)], schema=SCHEMA),
        unit=unit,
        steps=steps.height,
        eager_steps=None if eager_known.is_empty() else int(eager_known["eager"].sum()),
        slots=executed,
        padded_slots=padded,
        additions=added,
        partial=known.height < steps.height or steps.is_empty() or not sizes,
        warnings=warnings,
    )


def _traffic(steps: pl.DataFrame, sizes: Sequence[int]) -> _Traffic:
    eager: Counter[int] = Counter()
    replayed: Counter[tuple[int, int]] = Counter()
    stated = steps["size"].to_list() if "size" in steps.columns else [None] * steps.height
    for real, is_eager, size in zip(steps["real_size"].to_list(), steps["eager"].to_list(), stated, strict=True):
        fitting = size if size is not None else _fit(sizes, real)
        if is_eager or fitting is None:
            eager[real] += 1
        else:
            replayed[real, fitting] += 1
    return _Traffic(eager, replayed)


def _fit(sizes: Sequence[int], real: int) -> int | None:
    """The smallest captured size that holds a batch; None above the largest."""
    at = bisect_left(sizes, real)
    return sizes[at] if at < len(sizes) else None


def _additions(captured: pl.DataFrame, sizes: list[int], traffic: _Traffic, count: int) -> Iterator[Addition]:
    """The best sizes to add, one after the other: most eager steps saved, then most slots, then the smallest.

    A size above the largest captured one takes over the eager steps that it can hold. Steps that ran eagerly
    although a captured size could hold them (another reason kept them off the graph) are not promised to any
    size.
    """
    have = list(sizes)
    for _ in range(count):
        gains = {size: _gain(size, have, traffic) for size in _candidates(traffic) if size not in have}
        best = max(gains, key=lambda size: (gains[size][:2], -size), default=None)
        if best is None or not any(gains[best]):
            return
        eager, slots, steps = gains[best]
        yield Addition(best, steps, eager, slots, *_measured(captured, sizes, best))
        have = sorted([*have, best])


def _candidates(traffic: _Traffic) -> set[int]:
    return {*traffic.eager, *(real for real, _ in traffic.replayed)}


def _gain(size: int, have: Sequence[int], traffic: _Traffic) -> tuple[int, int, int]:
    """(eager steps saved, slots saved, steps that would replay this size)."""
    largest = max(have, default=0)
    eager = sum(count for real, count in traffic.eager.items() if largest < real <= size)
    slots = steps = 0
    for (real, replayed), count in traffic.replayed.items():
        now = min(replayed, _fit(have, real) or replayed)
        if real <= size < now:
            slots += (now - size) * count
            steps += count
    return eager, slots, steps + eager


def _measured(captured: pl.DataFrame, sizes: Sequence[int], size: int) -> tuple[int | None, int | None, int | None]:
    """What the nearest captured size cost: memory, capture time, and which size that is."""
    neighbour = _fit(sizes, size) or max(sizes, default=None)
    row = captured.filter(pl.col("size") == neighbour)
    memory, time = (
        row[name].drop_nulls().max() if name in row.columns else None for name in ("memory_bytes", "capture_ns")
    )
    if memory is None and time is None:
        return None, None, None
    return memory, time, neighbour  # type: ignore[return-value]


def _step_rows(traffic: _Traffic, unit: str | None) -> Iterator[dict[str, Any]]:
    for real, count in sorted(traffic.eager.items()):
        yield {"kind": "step", "unit": unit, "real_size": real, "steps": count, "eager_steps": count}
    for (real, size), count in sorted(traffic.replayed.items()):
        yield {
            "kind": "step",
            "unit": unit,
            "real_size": real,
            "size": size,
            "replayed_size": size,
            "steps": count,
            "eager_steps": 0,
            "padded_slots": (size - real) * count,
            "slots": size * count,
            "padding": (size - real) / size,
        }


def _add_rows(added: Sequence[Addition], unit: str | None) -> Iterator[dict[str, Any]]:
    for order, add in enumerate(added, start=1):
        yield {
            "kind": "add",
            "unit": unit,
            "size": add.size,
            "steps": add.steps,
            "eager_steps": add.saved_eager_steps,
            "padded_slots": add.saved_slots,
            "order": order,
        }


def _warnings(
    captured: pl.DataFrame,
    steps: pl.DataFrame,
    comparable: pl.DataFrame,
    known: pl.DataFrame,
    asked: Sequence[int],
) -> Iterator[tuple[str, str]]:
    """(code, message) for all that stands between the question and its answer."""
    largest = max(captured["size"].drop_nulls().to_list(), default=None)
    if captured.is_empty():
        yield "no-data", "No captured sizes: there is nothing to compare the traffic with."
    if steps.is_empty():
        yield "no-data", "No steps in this traffic."
    if comparable.height < steps.height:
        others = sorted({str(unit) for unit in steps["unit"].to_list()} - set(captured["unit"].to_list()))
        ours = ", ".join(sorted(set(captured["unit"].drop_nulls().to_list()))) or "unknown units"
        rest = steps.height - comparable.height
        yield (
            "unit-mismatch",
            f"{rest} steps count {', '.join(others)}, the captured sizes {ours}: not compared.",
        )
    if known.height < comparable.height:
        rest = comparable.height - known.height
        yield (
            "real-size-unknown",
            f"The real size of {rest} steps is not known: their padding cannot be told.",
        )
    if largest is None:
        return
    eager = known.filter(pl.col("eager") & (pl.col("real_size") > largest))["real_size"].to_list()
    over = [size for size in (*asked, *eager) if size > largest]
    if over:
        yield (
            "above-largest-size",
            f"Sizes up to {max(over)} are wanted, the largest captured one is {largest}.",
        )
