"""Every table's rows, made once: what all renderers show. Columns are those of the interface.

An analysis is imported where its table is made: `shapes` of a cached run would spend a fifth of its time on the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import polars as pl

from shapescope.errors import InputError
from shapescope.read.part import Part
from shapescope.read.problem import Code, Problem
from shapescope.read.run import Run, rank_name
from shapescope.show.result import Result

if TYPE_CHECKING:
    from shapescope.analyse.devices import Device
    from shapescope.analyse.diff import DiffResult

# What a table shows without -v; JSON, CSV and Markdown hold every column.
SHAPES_SHOWN = (
    "runner", "size", "variant", "rank", "launches", "kernels", "time_ns", "time_p10_ns", "time_p90_ns",
    "time_per_token_ns", "context_len", "capture_ns", "memory_bytes", "status",
)  # fmt: skip
DEMO_SHOWN = (
    "runner", "rank", "size", "context_len", "launches", "kernels", "time_ns", "time_p10_ns", "time_p90_ns", "time_per_token_ns",
    "capture_ns", "status",
)  # fmt: skip
CHECK_SHOWN = ("file", "role", "key", "inferred_key", "rank", "events", "lost", "status")
_PLACE = ("runner", "size", "variant", "rank")
_GROUPED = ("calls", "time_ns", "share", "source")
KERNELS_SHOWN = {
    "launch": (*_PLACE, "seq", "kernel", "op", "dims", "module", "time_ns", "source"),
    "kernel": (*_PLACE, "kernel", "class", *_GROUPED),
    "family": (*_PLACE, "family", "class", *_GROUPED),
    "class": (*_PLACE, "class", *_GROUPED),
    "op": (*_PLACE, "op", *_GROUPED),
    "module": (*_PLACE, "module", *_GROUPED),
}
INGEST = ("run", "file", "role", "key", "events", "lost", "status")
JOIN_SHOWN = ("size", "launch", "seq_replay", "kernel", "time_ns", "op", "dims", "module", "status")
SWITCHES_SHOWN = (
    "runner",
    "variant",
    "op",
    "class",
    "size_from",
    "size_to",
    "family_from",
    "family_to",
    "kind",
    "time_ratio",
)
DIFF_SHOWN = (
    "runner", "size", "variant", "op", "dims", "base_ns", "head_ns", "ratio", "verdict", "reason",
)  # fmt: skip
ROOFLINE_SHOWN = ("size", "op", "dims", "time_ns", "tflops", "gbps", "bound", "attainment", "useful_share", "problems")
MEMORY_SHOWN = (
    "runner", "size", "variant", "rank", "order", "allocator_bytes", "device_bytes", "other_bytes", "warmup_ns",
    "capture_ns", "export_ns", "disturbed",
)  # fmt: skip
COVERAGE_SHOWN = (
    "kind",
    "unit",
    "real_size",
    "size",
    "steps",
    "eager_steps",
    "padded_slots",
    "slots",
    "padding",
    "order",
)
RANKS_SHOWN = (
    "kind",
    "size",
    "op",
    "rank",
    "slow_ranks",
    "kernels",
    "collectives",
    "skew_ns",
    "wait_ns",
    "transfer_ns",
)
FINDINGS_SHOWN = ("severity", "size", "what", "cost_ns", "cost_bytes", "evidence", "command")

# Columns that hold JSON text in frames and plain lists in results.
_JSON = frozenset({"dims", "types", "grid", "block", "strides"})
_RANKS = frozenset({"rank", "ranks", "rank_slow", "slow_ranks"})


def shapes(run: Run) -> Result:
    """One row a shape and rank."""
    streams = [{**row, "rank": _rank(row["rank"])} for row in run.streams().iter_rows(named=True)]
    return _result("shapes", run, run.shapes(), SHAPES_SHOWN, streams=streams)


def kernels(run: Run, *, by: str = "launch", sizes: Sequence[int] | None = None) -> Result:
    """What runs in each shape, by launch or grouped. Raises UsageError for an unknown grouping."""
    frame = run.kernels(by)
    wanted = frame.filter(pl.col("size").is_in(list(sizes))) if sizes else frame
    return _result("kernels", run, wanted, KERNELS_SHOWN[by])


def check(run: Run) -> Result:
    """One row a file and key."""
    return _result("check", run, run.check(), CHECK_SHOWN)


def ingest(runs: Sequence[Run], errors: Sequence[tuple[Path, InputError]] = ()) -> Result:
    """One row a file of one or several runs; `errors` are the paths that could not be opened."""
    rows = [row for run in runs for row in _files(run)]
    refused = [Problem(Code.UNREADABLE, str(error), str(path)) for path, error in errors]
    partial = bool(errors) or any(run.partial for run in runs)
    warnings = [*(problem for run in runs for problem in run.warnings), *refused]
    paths = ", ".join(str(run.path) for run in runs)
    shown = INGEST[len(runs) + len(errors) == 1 :]
    return Result("ingest", paths, INGEST, rows, warnings=warnings, partial=partial, shown=shown)


def _files(run: Run) -> Iterator[dict[str, Any]]:
    documents: dict[str, dict[int, Part]] = {}
    for file, part in zip(run.assembly.parts["file"], run.parts, strict=True):
        documents.setdefault(file, {})[part.member] = part
    for (file,), told in run.check().group_by("file", maintain_order=True):
        parts = documents[str(file)].values()
        yield {
            "run": str(run.path),
            "file": file,
            "role": ",".join(told["role"].unique(maintain_order=True)),
            "key": "; ".join(told["key"].drop_nulls().unique(maintain_order=True)) or None,
            "events": sum(part.events for part in parts),
            "lost": sum(part.losses.events for part in parts),
            "status": told["status"][0],
        }


def join(run: Run) -> Result:
    """One row a replayed kernel, then one a captured launch that no replay shows."""
    from shapescope.analyse import join as join_of

    found = join_of.join(run)
    return _result(
        "join", run, found.rows, JOIN_SHOWN, summary=found.summary, warnings=found.warnings, partial=found.partial,
        streams=[{**row, "rank": _rank(row["rank"])} for row in found.streams.iter_rows(named=True)],
    )  # fmt: skip


def switches(run: Run, *, tiles: bool = False) -> Result:
    """One row a change of kernels from one size to the next."""
    from shapescope.analyse import switches as switches_of

    found = switches_of.switches(run, tiles=tiles)
    return _analysed(
        _result("switches", run, found.rows, SWITCHES_SHOWN, summary=found.summary), found.warnings, found.partial
    )


def diff(found: DiffResult, base: Run, head: Run, broken: Iterable[Mapping[str, Any]] = ()) -> Result:
    """One row a (size, op, dims) of two runs; `broken` rows of a rule are warned of."""
    summary = {"base": str(base.path), "head": str(head.path), **found.summary}
    failed = [("rule-failed", _broken(row)) for row in broken]
    both = [replace(problem, message=f"{name}: {problem.message}") for name, run in (("base", base), ("head", head))
            for problem in run.warnings]  # fmt: skip
    result = replace(_result("diff", head, found.rows, DIFF_SHOWN, summary=summary), warnings=both)
    return _analysed(result, [*found.warnings, *failed], found.partial)


def changes(result: Result) -> Result:
    """A diff without the rows in which nothing changed."""
    return replace(result, rows=[row for row in result.rows if row["verdict"] != "same"])


def _broken(row: Mapping[str, Any]) -> str:
    what = f"{row['op']} {row['dims'] or ''}".strip() if row.get("op") else "the whole replay"
    if row["verdict"] == "replaced":
        return f"size {row['size']}: {what} runs {row['family_head']} in place of {row['family_base']}"
    return f"size {row['size']}: {what} took {row['ratio']:.2f} times as long"


def roofline(run: Run, device: Device | None) -> Result:
    """One row a (size, op, class, dims, types)."""
    from shapescope.analyse import roofline as roofline_of
    from shapescope.analyse import roofline_rows

    found = roofline_of.roofline(roofline_rows.roofline_rows(run), device)
    empty = found.rows.is_empty()
    warnings = [*found.warnings, *([("no-data", "No complete replay with times is here.")] if empty else [])]
    return _analysed(
        _result("roofline", run, found.rows, ROOFLINE_SHOWN, summary=found.summary), warnings, found.partial or empty
    )


def memory(run: Run) -> Result:
    """One row a capture, in order of capture."""
    from shapescope.analyse import memory as memory_of

    found = memory_of.memory(run)
    return _analysed(
        _result("memory", run, found.rows, MEMORY_SHOWN, summary=found.summary), found.warnings, found.partial
    )


def coverage(run: Run, served: Sequence[Run] = ()) -> Result:
    """One row a real size of the traffic, then one an addition. Without traffic, the run's own steps are it."""
    from shapescope.analyse import coverage as coverage_of
    from shapescope.analyse import traffic

    captured = traffic.captured_sizes(run)
    steps, others = traffic.traffic_steps(served or [run], captured)
    found = coverage_of.coverage(captured.sizes, steps, requested=captured.requested)
    summary = {"runner": captured.runner, **found.summary, "other_steps": others}
    damaged = found.partial or any(traced.partial for traced in served)
    return _analysed(_result("coverage", run, found.rows, COVERAGE_SHOWN, summary=summary), found.warnings, damaged)


def ranks(run: Run) -> Result:
    """One row a rank, then one a difference between ranks."""
    from shapescope.analyse import rank_rows
    from shapescope.analyse import ranks as ranks_of

    world = rank_rows.world_size(run)
    found = ranks_of.ranks(rank_rows.collective_rows(run), rank_rows.rank_kernels(run), world_size=world)
    seen = [_rank(rank) for rank in found.rows.filter(pl.col("kind") == "rank")["rank"]]
    summary = {"ranks": seen, "world_size": world}
    return _analysed(_result("ranks", run, found.rows, RANKS_SHOWN, summary=summary), found.warnings, found.partial)


def findings(run: Run, *, device: Device | None = None) -> Result:
    """The short list, most costly first."""
    from shapescope.analyse import findings as findings_of

    found = findings_of.findings(run, device)
    return _result("findings", run, found.rows, FINDINGS_SHOWN, summary=found.summary)


def _analysed(result: Result, warnings: Iterable[tuple[str, str]], partial: bool) -> Result:
    """Add what an analysis says to what the files say; where both say it, the analysis knows better."""
    own = [Problem(Code(code), message) for code, message in warnings]
    codes = {problem.code for problem in own}
    kept = [problem for problem in result.warnings if problem.code not in codes]
    return replace(result, warnings=[*kept, *own], partial=result.partial or partial)


def _result(command: str, run: Run, frame: pl.DataFrame, shown: tuple[str, ...], **more: Any) -> Result:
    return Result(
        command=command,
        run=str(run.path),
        columns=tuple(frame.columns),
        rows=[_plain(row) for row in frame.iter_rows(named=True)],
        shown=shown,
        **{"warnings": run.warnings, "partial": run.partial, **more},
    )


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {column: _value(column, value) for column, value in row.items()}


def _value(column: str, value: Any) -> Any:
    if column in _JSON and isinstance(value, str):
        try:
            return msgspec.json.decode(value)
        except msgspec.DecodeError:
            return value
    if column in _RANKS:
        return [_rank(rank) for rank in value] if isinstance(value, list) else _rank(value)
    return value


def _rank(rank: int | None) -> int | str | None:
    """Ranks that nothing names are negative numbers in frames, `unknown-<n>` for people."""
    return rank_name(rank) if rank is not None and rank < 0 else rank
