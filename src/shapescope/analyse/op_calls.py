"""Replayed kernels as op calls: which kernels a call launched, how long they took, what they had to do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import Any

import polars as pl

from shapescope.analyse.cost import Cost, Kernel, op_cost, step_work

# One sequence of launches, in which kernels of one call are neighbours.
_SEQUENCE = ("replay_file", "rank", "launch", "segment", "stream")
# What kernels of one call have in common.
_COMMON = (*_SEQUENCE, "size", "op", "dims", "types", "module", "op_call")
# What a row may lack, and then counts as unknown.
_OPTIONAL = (
    *_COMMON,
    "class",
    "concrete_inputs",
    "grid",
    "real_size",
    "status",
    "source",
    "step",
    "context_len",
)
# Rows whose op is a guess are not priced: the join withholds their dims.
_TRUSTED = ("exact", "aligned", None)


@dataclass(frozen=True, slots=True)
class OpCall:
    """One call of an op in one replay: its main kernel's fields, its kernels' time together, and its cost."""

    fields: dict[str, Any]
    time_ns: int
    cost: Cost | None

    @property
    def priced(self) -> bool:
        return self.cost is not None and (self.cost.flops is not None or self.cost.bytes is not None)

    @property
    def key(self) -> tuple[Any, ...]:
        name = self.fields["op"] or self.fields["kernel"]
        return (*(self.fields[column] for column in ("size", "class", "dims", "types")), name, self.priced)

    @property
    def useful_share(self) -> float | None:
        """Real rows over executed ones, where the work grows with the size; None where that is not known."""
        size, real = self.fields["size"], self.fields["real_size"]
        if self.cost is None or size is None or real is None:
            return None
        if self.cost.real or size == real:
            return 1.0
        scales = self.cost.rows is not None and self.cost.rows % size == 0
        return real / size if scales else None


def op_calls(rows: pl.DataFrame) -> Iterator[OpCall]:
    """The calls of a frame with one row a kernel, in launch order; its columns are those of `roofline`."""
    missing = [pl.lit(None).alias(name) for name in _OPTIONAL if name not in rows.columns]
    timed = rows.filter(pl.col("time_ns").is_not_null()).with_columns(missing)
    ordered = timed.sort(_SEQUENCE, maintain_order=True)
    for _, run in groupby(ordered.iter_rows(named=True), key=_neighbours):
        kernels = list(run)
        told = kernels[0]["op_call"] is not None
        length = len(kernels) if told else _period([row["kernel"] for row in kernels])
        for start in range(0, len(kernels), length):
            yield _op_call(kernels[start : start + length])


def _neighbours(row: dict[str, Any]) -> list[Any]:
    """Equal for neighbouring kernels that may be of one call; kernels without a trusted op stand alone."""
    alone = row["op"] is None or row["dims"] is None or row["status"] not in _TRUSTED
    return [row[name] for name in _COMMON] + [row["kernel"] if alone else None]


def _period(names: list[str]) -> int:
    """The length of the shortest sequence whose repetition gives all names."""
    count = len(names)
    return next(n for n in range(1, count + 1) if count % n == 0 and names == names[:n] * (count // n))


def _op_call(kernels: list[dict[str, Any]]) -> OpCall:
    """A call from its kernels: the longest one gives the fields. Where dims are withheld, the op is too."""
    main = dict(max(kernels, key=lambda row: row["time_ns"]))
    cost = None
    if main["status"] not in _TRUSTED or main["dims"] is None:
        main.update(op=None, dims=None, types=None)
    elif main["op"] is not None:
        texts = tuple(main[name] for name in ("op", "dims", "types", "concrete_inputs", "class"))
        launches = tuple((row["kernel"], row["grid"]) for row in kernels)
        cost = _cost(texts, launches, main["step"], main["context_len"])
    return OpCall(main, sum(row["time_ns"] for row in kernels), cost)


@lru_cache(maxsize=4096)
def _cost(
    texts: tuple[str | None, ...],
    launches: tuple[tuple[str, str | None], ...],
    step: str | None,
    context_len: int | None,
) -> Cost | None:
    op, dims, types, concrete, kernel_class = texts
    return op_cost(
        op or "",
        json.loads(dims or "[]"),
        json.loads(types or "[]"),
        json.loads(concrete or "[]"),
        kernel_class,
        kernels=[Kernel(name, tuple(json.loads(grid or "[]"))) for name, grid in launches],
        work=step_work(step),
        context_len=context_len,
    )
