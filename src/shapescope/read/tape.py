"""Launches of a CPU run: there no call launches a kernel, and the ATen ops themselves are what runs.

While the tape records, a dispatch mode is on, and each op that it sees is listed twice: as it was called and, within, as
it ran; torch 2.13 puts a `PythonDispatchMode` between the two. Composite ops around them (`aten::linear` around
`aten::mm`) are listed once: context, not launches.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from shapescope.read.frames import picked_rows
from shapescope.read.nesting import innermost, outermost, parent_rows

# ATen ops that hand out memory, or another look at it, and compute nothing: a graph holds no launch of them.
LAUNCHES_NOTHING = frozenset(
    f"aten::{name}"
    for name in (
        "_conj", "_neg_view", "_reshape_alias", "_unsafe_view", "alias", "as_strided", "as_strided_", "chunk", "conj",
        "detach", "detach_", "diagonal", "empty", "empty_like", "empty_strided", "expand", "expand_as", "flatten",
        "imag", "lift", "lift_fresh", "movedim", "narrow", "new_empty", "new_empty_strided", "numpy_T", "permute", "real",
        "resolve_conj", "resolve_neg", "select", "set_", "slice", "split", "split_with_sizes", "squeeze", "squeeze_",
        "swapaxes", "swapdims", "t", "t_", "tensor_split", "transpose", "transpose_", "unbind", "unflatten", "unfold",
        "unsafe_chunk", "unsafe_split", "unsafe_split_with_sizes", "unsqueeze", "unsqueeze_", "view", "view_as",
        "view_as_complex", "view_as_real",
    )
)  # fmt: skip


_MODE = "PythonDispatchMode"
# Operators have a namespace, Inductor's kernels a prefix. The rest is machinery: compiled regions, cache look-ups, modes.
_OPERATOR = "::|^(?:cpp|triton)_"


def captured_ops(ops: pl.DataFrame, *, on_cpu: bool) -> pl.DataFrame:
    """The ops that a CPU capture holds: what its dispatch mode saw; without a mode (a compiled step) what ran.

    `on_cpu`: the trace is of a machine without devices. Elsewhere ops outside a mode only tell what was asked of the device.
    """
    dispatched = _dispatched(ops)
    if dispatched is not None:
        return dispatched
    return executed_ops(ops) if on_cpu else ops.clear()


def _dispatched(ops: pl.DataFrame) -> pl.DataFrame | None:
    """The ops that a dispatch mode saw, each once: those that lie directly in an op of the same name and thread.

    Where the mode is listed too, it must lie between them, as the ops that an op itself calls may bear its name. None
    where no mode was on.
    """
    names = ops["name"].to_numpy()
    parent = parent_rows(ops)
    listed = _MODE in names
    if listed:
        within_mode = (parent >= 0) & (names[parent] == _MODE)
        parent = np.where(within_mode, parent[parent], -1)
    doubled = picked_rows(ops, np.flatnonzero((parent >= 0) & (names[parent] == names)))
    # What an op calls once it runs is its own affair, even where it calls itself by name.
    found = _launching(picked_rows(doubled, outermost(doubled)))
    return found if listed or _a_mode_was_on(ops, found) else None


def _a_mode_was_on(ops: pl.DataFrame, doubled: pl.DataFrame) -> bool:
    """Whether most of the outermost ops hold a doubled one: some ops call themselves by name without any mode."""
    outer = executed_ops(ops)
    return 2 * len(np.unique(innermost(outer, doubled))) > outer.height


def executed_ops(ops: pl.DataFrame) -> pl.DataFrame:
    """The ops that no other op encloses: what a replay issued, their children being part of them."""
    named = ops.filter(pl.col("name").str.contains(_OPERATOR))
    return _launching(named[outermost(named)])


def _launching(ops: pl.DataFrame) -> pl.DataFrame:
    return ops.filter(~pl.col("name").is_in(list(LAUNCHES_NOTHING))).sort("ts", maintain_order=True)
