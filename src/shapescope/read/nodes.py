"""Node lists beside captures: a graph's own kernels, where the capture's launches carry no names (NVIDIA)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from shapescope.errors import InputError
from shapescope.read.assembly import SHAPE, Assembly, label_columns
from shapescope.read.folder import Node, RunFolder, read_nodes
from shapescope.read.foreign import name_hint
from shapescope.read.frames import Schema
from shapescope.read.identity import Label

NODES: Schema = {
    **SHAPE,
    "seq": pl.Int64,
    "node_id": pl.Int64,
    "kernel": pl.String,
    "work": pl.String,
    "grid": pl.String,
    "block": pl.String,
    "source": pl.String,
    "calls": pl.Int64,
}
FILES: Schema = {**SHAPE, "part": pl.Int64, "file": pl.String}


def node_rows(folders: Sequence[RunFolder], top: Path) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The nodes of captured graphs, one `NODES` row each in order of id; and the files, by shape.

    A list that cannot be read is left out; `folder_problems` names it.
    """
    rows: list[tuple[object, ...]] = []
    files: list[tuple[object, ...]] = []
    for run, folder in enumerate(folders):
        for path in folder.node_lists:
            try:
                found = read_nodes(path)
            except InputError:
                continue
            if found.key is None:
                continue
            shape = (run, name_hint(path).ranks.get("rank", -1), *label_columns(Label.of(found.key)), None)
            files.append((*shape, None, path.relative_to(top).as_posix()))
            ordered = sorted(found.nodes, key=lambda node: node.id)
            rows += [(*shape, seq, *_columns(node), "nodes", 1) for seq, node in enumerate(ordered)]
    return pl.DataFrame(rows, schema=NODES, orient="row"), pl.DataFrame(files, schema=FILES, orient="row")


def of_nameless(nodes: pl.DataFrame, assembly: Assembly) -> pl.DataFrame:
    """Those nodes whose shape's captured launches carry no kernel names, and for which they stand in."""
    rows = assembly.captured.filter(pl.col("kernel").is_not_null() & pl.col("work").is_in(["kernel", "op"]))
    named = assembly.windows.filter(pl.col("window").is_in(rows["window"].unique().implode()))
    return nodes.join(named.select(list(SHAPE)), on=list(SHAPE), how="anti", nulls_equal=True)


def _columns(node: Node) -> tuple[object, ...]:
    grid, block = (
        None if three is None else json.dumps(three, separators=(",", ":")) for three in (node.grid, node.block)
    )
    return node.id, node.kernel, node.kind, grid, block
