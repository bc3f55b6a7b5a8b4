"""The rows of the join: replayed kernels with what their launch knows, and captured launches that no replay shows."""

from __future__ import annotations

import polars as pl

from shapescope.analyse.join.matching import Matched
from shapescope.analyse.join.pairing import Sure
from shapescope.analyse.names import name_frame
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
MORE: Schema = {
    "class": pl.String,
    "family": pl.String,
    "phase": pl.String,
    "unit": pl.String,
    "op_call": pl.Int64,
    "concrete_inputs": pl.String,
    "strides": pl.String,
    "source": pl.String,
    "context_len": pl.Int64,
    "complete": pl.Boolean,
    "flag": pl.String,
    "device": pl.Int64,
    "ts": pl.Int64,
    "dur": pl.Int64,
}
"""What analyses need besides: `ts` and `dur` are the replayed kernel's own, as the trace says."""
STATUSES = tuple(sure.name.lower() for sure in Sure)
_LENT = ("op", "op_call", "dims", "types", "strides", "concrete_inputs", "module", "stack")
_MOST_CANDIDATES = 8


def join_rows(run: Run, replayed: pl.DataFrame, captured: pl.DataFrame, found: Matched) -> pl.DataFrame:
    """All rows, as `JOIN` and `MORE`: replayed kernels in the order of `replayed`, then what no replay shows."""
    kernels = _kernels(run, replayed, captured, found)
    rows = pl.concat([shaped(kernels, {**JOIN, **MORE}), shaped(_unseen(run, replayed, captured, found), {**JOIN, **MORE})])
    names = name_frame(rows["kernel"]).select("kernel", "class", "family")
    return shaped(rows.drop("class", "family").join(names, on="kernel", how="left", maintain_order="left"), {**JOIN, **MORE})


def _kernels(run: Run, replayed: pl.DataFrame, captured: pl.DataFrame, found: Matched) -> pl.DataFrame:
    texts = run.assembly.steps.select("part", "step", "text").unique(["part", "step"])
    base = replayed.drop("kind").join(texts, on=["part", "step"], how="left", maintain_order="left")
    window = _numbers(found.window)
    shown = run.assembly.windows.select("window", *_SHOWN)
    told = pl.DataFrame({"window": window}).join(shown, on="window", how="left", maintain_order="left")
    source, launch = _numbers(found.source), _numbers(found.launch)
    lent = {name: captured[name].gather(source) for name in _LENT}
    known = window.is_not_null()
    return base.select(
        *("rank", "launch", "real_size", "kernel", "stream", "time_ns", "complete", "flag", "device", "ts", "dur"),
        replay_file="file",
        step="text",
        seq_replay="seq_launch",
        seq_capture=captured["place"].gather(launch),
        segment=pl.coalesce(_numbers(found.segment), pl.col("position")),
        **{name: pl.when(known).then(told[name]).otherwise(pl.col(name)) for name in _SHOWN},
        **{name: pl.coalesce(pl.col(name), captured[name].gather(source)) for name in ("grid", "block")},
        **lent,
        status=pl.Series([STATUSES[sure] for sure in found.sure.tolist()], dtype=pl.String),
        candidates=_candidates(captured, found, replayed.height),
    ).pipe(_with_source, run, replayed)


_SHOWN = ("runner", "phase", "size", "unit", "variant")


def _with_source(rows: pl.DataFrame, run: Run, replayed: pl.DataFrame) -> pl.DataFrame:
    """`source` and `context_len`: the recorder's own replays say whether their inputs were dummies; others are serving."""
    evidence = run.assembly.parts.select("part", "evidence")
    ours = replayed.select("part").join(evidence, on="part", how="left", maintain_order="left")["evidence"] == "replay"
    keys = ["rank", *_SHOWN]
    timed = run.shape_rows.select(*keys, "time_source", "context_len").unique(keys)
    rows = rows.join(timed, on=keys, how="left", nulls_equal=True, maintain_order="left")
    own = ours.fill_null(value=False)
    return rows.with_columns(
        source=pl.when(own).then(pl.coalesce("time_source", pl.lit("replay"))).otherwise(pl.lit("replay")),
        context_len=pl.when(own).then("context_len"),
    )


def _numbers(codes: object) -> pl.Series:
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


def _unseen(run: Run, replayed: pl.DataFrame, captured: pl.DataFrame, found: Matched) -> pl.DataFrame:
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
