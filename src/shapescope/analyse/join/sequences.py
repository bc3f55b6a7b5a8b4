"""Launches and kernels as codes: what two of them must have in common to be one, made comparable as integers.

Kernels are told apart by name, spelled alike whether mangled or not; where both sides show them, by grid and block too.
Copies and fills have no name of their own: each is a class. What has no name equals nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from shapescope.analyse.join.alignment import UNNAMED, Codes
from shapescope.analyse.names.kernel import kernel_name
from shapescope.analyse.names.spelling import spell

UNKNOWN = -1
MEMCPY, MEMSET = -2, -3
# ROCm runs the copies and fills of a graph as kernels of its own.
_COPY_KERNEL = r"__amd_rocclr_(copy|fill)"
_COPIES = {"memcpy": MEMCPY, "memset": MEMSET, "copy": MEMCPY, "fill": MEMSET}
_LOW_32 = 0xFFFFFFFF

# Kernel classes that an op of another class of this list never launches, but for those it is made of.
_DISTINCT = frozenset(
    {"gemm", "attention", "norm", "rope", "embedding", "sampling", "conv", "collective", "moe_routing"}
)
_MADE_OF = {
    "attention": frozenset({"gemm", "rope", "moe_routing"}),
    "conv": frozenset({"gemm"}),
    "grouped_gemm": _DISTINCT,
    "moe_routing": frozenset({"gemm", "sampling"}),
    "sampling": frozenset({"moe_routing"}),
    "collective": frozenset({"norm"}),
    "norm": frozenset({"collective"}),
}


@dataclass(frozen=True, slots=True)
class Coded:
    """One side's rows as codes, row by row: `name` (-1: none; copies and fills below), `grid`, `block`, `stream`, `node`
    (-1: unknown).

    `texts` are the rows' (work, kernel, op), for a closer look at single pairs. `info` numbers what a launch gives to
    its kernel, its op, dims, types and module; -1 for replayed kernels.
    """

    name: Codes
    grid: Codes
    block: Codes
    stream: Codes
    node: Codes
    info: Codes
    texts: Sequence[tuple[str | None, str | None, str | None]]

    def rows(self, rows: range) -> Coded:
        """The codes of a stretch of rows."""
        of = slice(rows.start, rows.stop)
        return Coded(
            self.name[of], self.grid[of], self.block[of], self.stream[of], self.node[of], self.info[of], self.texts[of]
        )

    def __len__(self) -> int:
        return len(self.name)


def coded(replayed: pl.DataFrame, captured: pl.DataFrame) -> tuple[Coded, Coded]:
    """Both sides in the same codes. Columns: work, kernel, op, grid, block, stream, node_id; captured: dims, types, module."""
    sides = (replayed, captured)
    names = [_names(side, numbers) for side, numbers in zip(sides, _numbers([_spelled(s) for s in sides]), strict=True)]
    grids, blocks = (_numbers([side[name] for side in sides]) for name in ("grid", "block"))
    told = captured.select(pl.struct("op", "dims", "types", "module").rank("dense").cast(pl.Int64)).to_series()
    infos = (np.full(replayed.height, UNKNOWN), told.to_numpy())
    first, second = (
        Coded(
            names[at], grids[at], blocks[at],
            stream=side["stream"].fill_null(UNKNOWN).to_numpy(),
            node=side.select(pl.when(pl.col("node_id") >= 0).then(pl.col("node_id") & _LOW_32).fill_null(UNKNOWN))
            .to_series().to_numpy(),
            info=infos[at],
            texts=list(side.select("work", "kernel", "op").iter_rows()),
        )
        for at, side in enumerate(sides)
    )  # fmt: skip
    return first, second


def _names(side: pl.DataFrame, numbers: Codes) -> Codes:
    """Numbers of names; copies and fills, by whatever name, are each a class."""
    kinds = side.select(
        pl.when(pl.col("work").is_in(list(_COPIES))).then(pl.col("work")).otherwise(
            pl.col("kernel").str.extract(_COPY_KERNEL)
        ).replace_strict(_COPIES, default=None, return_dtype=pl.Int64)
    ).to_series()  # fmt: skip
    return np.where(kinds.is_null().to_numpy(), numbers, kinds.fill_null(UNNAMED).to_numpy())


def _spelled(side: pl.DataFrame) -> pl.Series:
    """Kernel names in one spelling; null for none."""
    names = side["kernel"]
    distinct = names.drop_nulls().unique()
    return names.replace_strict(
        distinct, pl.Series([spell(name) or None for name in distinct], dtype=pl.String), default=None,
        return_dtype=pl.String,
    )  # fmt: skip


def _numbers(columns: Sequence[pl.Series]) -> list[Codes]:
    """Equal texts of all columns as equal numbers; null as -1."""
    together = pl.concat([column.rename("value") for column in columns])
    ranks = together.rank("dense").cast(pl.Int64).fill_null(UNKNOWN).to_numpy()
    ends = np.cumsum([len(column) for column in columns])[:-1]
    return list(np.split(ranks, ends))


def contradicts(kernel: tuple[Coded, int], launch: tuple[Coded, int]) -> bool:
    """Whether what is known of a replayed kernel cannot be of this launch: its grid, block, family, or its op's class."""
    (ours, at), (theirs, of) = kernel, launch
    for mine, other in ((ours.grid, theirs.grid), (ours.block, theirs.block)):
        if UNKNOWN not in (mine[at], other[of]) and mine[at] != other[of]:
            return True
    (work, name, _), (asked_work, asked_name, op) = ours.texts[at], theirs.texts[of]
    if UNNAMED not in (ours.name[at], theirs.name[of]):
        return bool(ours.name[at] != theirs.name[of]) and _family(work, name) != _family(asked_work, asked_name)
    if not name:
        return False
    if work != asked_work and {work, asked_work} & {"memcpy", "memset"}:
        return True
    return op is not None and _differ(kernel_name(op).kernel_class, kernel_name(name).kernel_class)


def _family(work: str | None, name: str | None) -> str | None:
    return work if work in ("memcpy", "memset") or name is None else kernel_name(name).family


def _differ(op_class: str, kernel_class: str) -> bool:
    """Whether an op of this class launches no kernel of that one."""
    distinct = kernel_class in _DISTINCT and op_class in _DISTINCT | _MADE_OF.keys()
    return distinct and op_class != kernel_class and kernel_class not in _MADE_OF.get(op_class, ())
