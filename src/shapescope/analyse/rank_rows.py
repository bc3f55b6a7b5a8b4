"""What `ranks` compares: the collectives of every rank with its clock, and the ops of its replays."""

from __future__ import annotations

import re

import polars as pl

from shapescope.analyse.samples import named, op_samples, replay_kernels
from shapescope.read.identity import identity_or_problem
from shapescope.read.run import Run

_COLLECTIVES: dict[str, pl.DataType | type[pl.DataType]] = {
    "rank": pl.Int64,
    "base_ns": pl.Int64,
    "opened_ns": pl.Int64,
    "start_ns": pl.Int64,
    "dur_ns": pl.Int64,
    "op": pl.String,
    "size": pl.Int64,
    "dims": pl.String,
    "group": pl.String,
}
# Ranks may well run one collective through different kernels: what they do together goes by its kind.
_KINDS = (
    ("all_reduce", r"all_?reduce|cross_device_reduce|quick_?reduce|one_?shot|two_?shot|lamport"),
    ("all_gather", r"all_?gather"),
    ("reduce_scatter", r"reduce_?scatter"),
    ("all_to_all", r"all_?to_?all|all2all|a2a_|ep_dispatch|ep_combine|deep_ep"),
    ("broadcast", r"broadcast"),
    ("send_recv", r"send_?recv"),
)


def collective_kind(kernel: str) -> str:
    """`all_reduce`, `all_gather`, ..; the kernel's own name where no kind is known."""
    return next((kind for kind, words in _KINDS if re.search(words, kernel, re.IGNORECASE)), kernel)


def collective_rows(run: Run) -> pl.DataFrame:
    """One row a collective kernel, replayed or eager: rank, times relative to `base_ns`, what it is."""
    wanted = ("part", "rank", "kernel", "ts", "time_ns", "size", "dims")
    sizeless = run.assembly.eager.with_columns(size=pl.lit(None, pl.Int64))
    kernels = named(pl.concat([run.replayed.select(wanted), sizeless.select(wanted)]))
    rows = kernels.filter(
        (pl.col("class") == "collective") & pl.col("time_ns").is_not_null() & pl.col("rank").is_not_null()
    )
    kinds = {name: collective_kind(name) for name in rows["kernel"].unique()}
    placed = rows.join(_clocks(run), on="part", how="left", maintain_order="left")
    return placed.select(
        "rank", "base_ns", "opened_ns", "group", "size", "dims",
        start_ns="ts", dur_ns="time_ns", op=pl.col("kernel").replace_strict(kinds, return_dtype=pl.String),
    ).select(pl.col(name).cast(kind) for name, kind in _COLLECTIVES.items())  # fmt: skip


def _clocks(run: Run) -> pl.DataFrame:
    """Of each part: what its times are relative to, when it opened, and which replica and stage it is of."""
    rows = []
    for number, part in enumerate(run.parts):
        identity, _ = identity_or_problem(part.metadata)
        group = f"pp{identity.rank.pp} dp{identity.rank.dp}" if identity else None
        rows.append((number, part.base_ns, part.opened_ns, group))
    schema = {"part": pl.Int64, "base_ns": pl.Int64, "opened_ns": pl.Int64, "group": pl.String}
    return pl.DataFrame(rows, schema=schema, orient="row")


def rank_kernels(run: Run, kernels: pl.DataFrame | None = None) -> pl.DataFrame:
    """One row a (rank, size, op, dims, family) of complete replays, time the median of a replay; see `ranks`.

    A kernel without an op stands for its class, with all the families of that.
    """
    rows = replay_kernels(run, kernels).filter("complete")
    samples = op_samples(rows.with_columns(op=pl.coalesce("op", "class")))
    keys = ["rank", "size", "op", "dims", "family"]
    return samples.group_by(keys, maintain_order=True).agg(
        pl.col("class").first(), pl.col("calls").first(), time_ns=pl.col("time_ns").median().round().cast(pl.Int64)
    )


def world_size(run: Run) -> int | None:
    """How many ranks the traces say there are."""
    stated = [part.rank.world_size for part in run.parts if part.rank.world_size]
    stated += [manifest.world_size for manifest in run.manifests if manifest.world_size > 1]
    return max(stated, default=None)
