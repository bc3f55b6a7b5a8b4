"""One row a shape: what was captured, what a replay costs, what is missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import quantiles

import polars as pl

from shapescope.model import Evidence, GraphKey, ManifestRow, Status
from shapescope.read.assembly import SHAPE, Assembly, label_columns
from shapescope.read.frames import Schema, shaped
from shapescope.read.identity import Label

SHAPES: Schema = {
    "runner": pl.String,
    "phase": pl.String,
    "size": pl.Int64,
    "unit": pl.String,
    "variant": pl.String,
    "rank": pl.Int64,
    "segments": pl.Int64,
    "launches": pl.Int64,
    "kernels": pl.Int64,
    "families": pl.Int64,
    "ops": pl.Int64,
    "time_ns": pl.Int64,
    "time_p10_ns": pl.Int64,
    "time_p90_ns": pl.Int64,
    "time_source": pl.String,
    "context_len": pl.Int64,
    "replays": pl.Int64,
    "replays_seen": pl.Int64,
    "completeness": pl.Float64,
    "busy_ns": pl.Int64,
    "span_ns": pl.Int64,
    "gap_ns": pl.Int64,
    "time_per_token_ns": pl.Int64,
    "capture_ns": pl.Int64,
    "record_ns": pl.Int64,
    "memory_bytes": pl.Int64,
    "bytes_on_disk": pl.Int64,
    "status": pl.String,
    "files": pl.List(pl.String),
}
RECORDED: Schema = {
    **SHAPE,
    "status": pl.String,
    "capture_ns": pl.Int64,
    "record_ns": pl.Int64,
    "memory_bytes": pl.Int64,
    "unprofiled_ns": pl.Int64,
    "unprofiled_p10_ns": pl.Int64,
    "unprofiled_p90_ns": pl.Int64,
    "unprofiled_source": pl.String,
    "samples": pl.Int64,
    "context_len": pl.Int64,
    "manifest_launches": pl.Int64,
}
_KEYS = list(SHAPE)


def shapes(
    assembly: Assembly, kernels: pl.DataFrame, executions: pl.DataFrame,
    *, recorded: pl.DataFrame, files: pl.DataFrame, damaged: Sequence[int],
) -> pl.DataFrame:  # fmt: skip
    """All shapes of a run, captured, replayed or only asked for, as `SHAPES` with what `SHAPE` has besides.

    `kernels` is the table by launch, `files` has `SHAPE`, `part`, `file`, `bytes`; `recorded` is
    `recorded_rows`, `damaged` numbers the parts that lost something.
    """
    held = _captured(assembly, kernels)
    seen = _replayed(executions, kernels)
    rows = pl.concat([frame.select(_KEYS) for frame in (held, seen, recorded)]).unique(maintain_order=True)
    for frame in (held, seen, recorded, _files(files, damaged)):
        rows = rows.join(frame, on=_KEYS, how="left", nulls_equal=True, maintain_order="left")
    traced = pl.col("span_median_ns")
    time = pl.coalesce("unprofiled_ns", traced)
    per_token = pl.when(pl.col("size") > 0).then((time / pl.col("size")).round().cast(pl.Int64))
    rows = rows.with_columns(
        time_ns=time,
        time_p10_ns=pl.when(pl.col("unprofiled_ns").is_not_null()).then("unprofiled_p10_ns").otherwise("span_p10_ns"),
        time_p90_ns=pl.when(pl.col("unprofiled_ns").is_not_null()).then("unprofiled_p90_ns").otherwise("span_p90_ns"),
        time_source=pl.coalesce("unprofiled_source", pl.when(traced.is_not_null()).then(pl.lit("trace"))),
        replays=pl.coalesce("samples", "replays"),
        launches=pl.coalesce("launches", "manifest_launches"),
        kernels=pl.coalesce("kernels", "replay_kernels"),
        families=pl.coalesce("families", "replay_families"),
        ops=pl.coalesce("ops", "replay_ops"),
        span_ns=traced,
        time_per_token_ns=per_token,
        status=_status(),
    )
    return shaped(rows, {**SHAPE, **SHAPES}).sort(
        "run", "rank", "runner", "phase", "variant", "size", "sequence", nulls_last=True, maintain_order=True
    )


def _status() -> pl.Expr:
    """`missing` where nothing was captured, `unlabelled` without a size, else the worse of manifest and files."""
    return (
        pl.when(pl.col("status").is_in(["failed", "unlabelled"])).then("status")
        .when(pl.col("captured").is_null() & (pl.col("status").fill_null("missing") != "ok")).then(pl.lit("missing"))
        .when(pl.col("damaged").fill_null(value=False) | (pl.col("status") == "partial")).then(pl.lit("partial"))
        .when(pl.col("size").is_null()).then(pl.lit("unlabelled"))
        .otherwise(pl.lit("ok"))
    )  # fmt: skip


def _captured(assembly: Assembly, kernels: pl.DataFrame) -> pl.DataFrame:
    held = assembly.windows.select("window", *_KEYS).join(
        assembly.captured.select("window", "segment"), on="window", how="left", maintain_order="left"
    )
    counts = held.group_by(_KEYS, maintain_order=True).agg(
        segments=_unless_none(pl.col("segment").drop_nulls().n_unique()),
        launches=_unless_none(pl.col("segment").count()),
        captured=pl.lit(value=True),
    )
    kinds = _kinds(kernels.filter(pl.col("source").is_in(["capture", "nodes"])))
    return counts.join(kinds, on=_KEYS, how="left", nulls_equal=True, maintain_order="left")


def _unless_none(count: pl.Expr) -> pl.Expr:
    """A count; null, not 0, where there was nothing to count."""
    return pl.when(count > 0).then(count).cast(pl.Int64)


def _kinds(kernels: pl.DataFrame) -> pl.DataFrame:
    """Distinct kernels, families and ops."""
    distinct = {"kernels": "kernel", "families": "family", "ops": "op"}
    return kernels.group_by(_KEYS, maintain_order=True).agg(
        _unless_none(pl.col(column).drop_nulls().n_unique()).alias(name) for name, column in distinct.items()
    )


def _replayed(executions: pl.DataFrame, kernels: pl.DataFrame) -> pl.DataFrame:
    """Medians over the complete executions; how many those are, and of all how complete they were."""
    complete = pl.col("complete")

    def median(column: str) -> pl.Expr:
        return pl.col(column).filter(complete).median().round().cast(pl.Int64)

    times = executions.group_by(_KEYS, maintain_order=True).agg(
        replays=complete.sum().cast(pl.Int64),
        replays_seen=pl.len().cast(pl.Int64),
        completeness=pl.col("kernels").sum() / pl.col("expected").sum(),
        busy_ns=median("busy_ns"),
        gap_ns=median("gap_ns"),
        span_median_ns=median("span_ns"),
        span_p10_ns=pl.col("span_ns").filter(complete).quantile(0.1, "linear").round().cast(pl.Int64),
        span_p90_ns=pl.col("span_ns").filter(complete).quantile(0.9, "linear").round().cast(pl.Int64),
    )
    kinds = _kinds(kernels.filter(pl.col("source") == "replay"))
    kinds = kinds.rename({"kernels": "replay_kernels", "families": "replay_families", "ops": "replay_ops"})
    return times.join(kinds, on=_KEYS, how="left", nulls_equal=True, maintain_order="left")


def _files(files: pl.DataFrame, damaged: Sequence[int]) -> pl.DataFrame:
    """The files of each shape. What a file of several shapes takes on disk is no one shape's."""
    shared = pl.struct(_KEYS).n_unique().over("file") > 1
    rows = files.with_columns(
        damaged=pl.col("part").is_in(damaged).fill_null(value=False), bytes=pl.when(~shared).then(pl.col("bytes"))
    ).unique([*_KEYS, "file"], maintain_order=True)
    size = pl.when(pl.col("bytes").count() > 0).then(pl.col("bytes").sum())
    return rows.group_by(_KEYS, maintain_order=True).agg(
        files=pl.col("file"), bytes_on_disk=size, damaged=pl.col("damaged").any()
    )


def recorded_rows(
    run: int, rows: Sequence[ManifestRow], requested: Sequence[GraphKey], ranks: Sequence[int]
) -> pl.DataFrame:
    """What the manifests tell of each shape, as `RECORDED`; a requested shape of which they tell nothing is `missing`.

    A later row of one key, rank and evidence replaces an earlier one.
    """
    latest: dict[tuple[int, GraphKey], dict[Evidence, ManifestRow]] = {}
    for row in rows:
        if row.key is not None:
            latest.setdefault((row.rank.rank, row.key), {})[row.evidence] = row
    told = dict(latest)
    for rank in ranks:
        for key in requested:
            told.setdefault((rank, key), {})
    found = [
        (run, rank, *label_columns(Label.of(key)), None, *_told(evidence)) for (rank, key), evidence in told.items()
    ]
    return pl.DataFrame(found, schema=RECORDED, orient="row")


def _told(evidence: Mapping[Evidence, ManifestRow]) -> tuple[object, ...]:
    capture, replay = evidence.get(Evidence.CAPTURE), evidence.get(Evidence.REPLAY)
    status = str(capture.status) if capture else str(Status.MISSING)
    memory = capture.memory if capture else None
    cost = (
        memory.device_bytes
        if memory and memory.device_bytes is not None
        else memory.allocator_bytes
        if memory
        else None
    )
    head = (status, capture and capture.capture_ns, capture and capture.record_ns, cost)
    launches = capture.launches if capture else None
    timing = replay.timing if replay else None
    if timing is None or not timing.samples_ns:
        return (*head, None, None, None, None, None, timing.context_len if timing else None, launches)
    p10, p50, p90 = _percentiles(timing.samples_ns)
    source = "replay-dummy" if timing.dummy_inputs else "replay"
    return (*head, p50, p10, p90, source, len(timing.samples_ns), timing.context_len, launches)


def _percentiles(samples: Sequence[int]) -> tuple[int, int, int]:
    """10th, 50th and 90th percentile, whole ns, interpolated between samples."""
    if len(samples) == 1:
        return samples[0], samples[0], samples[0]
    cuts = quantiles(samples, n=10, method="inclusive")
    return round(cuts[0]), round(cuts[4]), round(cuts[8])
