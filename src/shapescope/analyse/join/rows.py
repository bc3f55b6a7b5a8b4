"""The rows of the join: replayed kernels with what their launch knows, and captured launches that no replay shows."""

from __future__ import annotations

import polars as pl

from shapescope.analyse.join.alignment import Codes
from shapescope.analyse.join.matching import Matched
from shapescope.analyse.join.pairing import Sure
from shapescope.read.frames import Schema, shaped
from shapescope.read.run import Run

CANDIDATE = pl.Struct({"segment": pl.Int64, "seq": pl.Int64, "op": pl.String, "dims": pl.String, "module": pl.String})
JOIN: Schema = {
    "replay_file": pl.String,
    "rank": pl.Int64,
    "runner": pl.String,
    "variant": pl.String,
    "launch": pl.Int64,
    "step": pl.String,
    "size": pl.Int64,
    "real_size": pl.Int64,
    "segment": pl.Int64,
    "seq_replay": pl.Int64,
    "seq_capture": pl.Int64,
    "kernel": pl.String,
    "stream": pl.Int64,
    "grid": pl.String,
    "block": pl.String,
    "time_ns": pl.Int64,
    "op": pl.String,
    "dims": pl.String,
    "types": pl.String,
    "module": pl.String,
    "stack": pl.List(pl.String),
    "status": pl.String,
    "candidates": pl.List(CANDIDATE),
}
"""The columns of the interface. `seq_replay` counts within a graph launch, `seq_capture` within a segment."""
STATUSES = tuple(sure.name.lower() for sure in Sure)
_LENT = ("op", "op_call", "dims", "types", "strides", "concrete_inputs", "module", "stack")
_SHOWN = ("runner", "phase", "size", "unit", "variant")
_MOST_CANDIDATES = 8


def joined_kernels(run: Run, replayed: pl.DataFrame, captured: pl.DataFrame, found: Matched) -> pl.DataFrame:
    """`replayed` with what each kernel's launch knows, in place of what the replay itself shows, where a pairing is trusted.

    Besides: `status`, `candidates`, `seq_capture`, `segment` of the capture, and the labels of the captured shape.
    """
    window, source = _numbers(found.window), _numbers(found.source)
    shown = run.assembly.windows.select("window", *_SHOWN)
    told = pl.DataFrame({"window": window}).join(shown, on="window", how="left", maintain_order="left")
    known, trusted = window.is_not_null(), source.is_not_null()
    lent = {name: captured[name].gather(source) for name in _LENT}
    return replayed.with_columns(
        **{name: pl.when(known).then(told[name]).otherwise(pl.col(name)) for name in _SHOWN},
        **{name: pl.when(trusted).then(values).otherwise(pl.col(name)) for name, values in lent.items()},
        **{name: pl.coalesce(pl.col(name), captured[name].gather(source)) for name in ("grid", "block")},
        segment=pl.coalesce(_numbers(found.segment), pl.col("position")),
        seq_capture=captured["place"].gather(_numbers(found.launch)),
        status=pl.Series([STATUSES[sure] for sure in found.sure.tolist()], dtype=pl.String),
        candidates=_candidates(captured, found, replayed.height),
    )


def join_rows(run: Run, kernels: pl.DataFrame, captured: pl.DataFrame, found: Matched) -> pl.DataFrame:
    """All rows of the join as `JOIN`: `joined_kernels` without what is not trusted, then launches that no replay shows."""
    texts = run.assembly.steps.select("part", "step", "text").unique(["part", "step"])
    told = kernels.join(texts, on=["part", "step"], how="left", maintain_order="left")
    trusted = pl.col("status").is_in(["exact", "aligned"])
    told = told.with_columns(
        *(pl.when(trusted).then(pl.col(name)).alias(name) for name in _LENT),
        replay_file="file",
        step="text",
        seq_replay="seq_launch",
    )
    return pl.concat([shaped(told, JOIN), shaped(_unseen(run, captured, found), JOIN)])


def _numbers(codes: Codes) -> pl.Series:
    """Row numbers, null where there is none."""
    series = pl.Series(codes, dtype=pl.Int64)
    return series.set(series < 0, None)


def _candidates(captured: pl.DataFrame, found: Matched, count: int) -> pl.Series:
    """The candidates of each kernel that has any, the first few of them."""
    described = captured.select("segment", pl.col("place").alias("seq"), "op", "dims", "module")
    listed: list[list[dict[str, object]] | None] = [None] * count
    known: dict[tuple[int, ...], list[dict[str, object]]] = {}
    for row, places in found.candidates.items():
        few = places[:_MOST_CANDIDATES]
        if few not in known:
            known[few] = described[list(few)].to_dicts()
        listed[row] = known[few]
    return pl.Series("candidates", listed, dtype=pl.List(CANDIDATE))


def _unseen(run: Run, captured: pl.DataFrame, found: Matched) -> pl.DataFrame:
    """Launches of a graph that a file replays, none of whose replays there shows a kernel of them."""
    place = dict(run.executions.select("execution", "part").iter_rows())
    never: dict[int, set[int]] = {}
    shown: dict[int, set[int]] = {}
    for execution, launches, unseen in found.compared:
        part = place[execution]
        never.setdefault(part, set()).update(unseen)
        shown.setdefault(part, set()).update(set(launches) - set(unseen) if unseen else launches)
    rows = [(part, row) for part, places in never.items() for row in sorted(places - shown[part])]
    where = pl.DataFrame(rows, schema={"part": pl.Int64, "row": pl.Int64}, orient="row")
    files = run.assembly.parts.select("part", replay_file="file", replay_rank="rank")
    told = where.join(files, on="part", how="left", maintain_order="left")
    lacking = captured[where["row"].to_list()].drop("rank").hstack(told.select("replay_file", rank="replay_rank"))
    return lacking.select(
        "replay_file", "rank", *_SHOWN, "segment", "kernel", "grid", "block",
        seq_capture="place", status=pl.lit("missing"),
    )  # fmt: skip
