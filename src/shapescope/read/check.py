"""What is here, whose it is, and what is wrong with it: the rows of `check`, and the warnings of every result."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from shapescope.errors import InputError
from shapescope.read.assembly import SHAPE, Assembly
from shapescope.read.folder import RunFolder, read_nodes
from shapescope.read.frames import Schema
from shapescope.read.identity import Label, Window
from shapescope.read.part import Part, Role
from shapescope.read.problem import Code, Problem

PROBLEM = pl.Struct({"code": pl.String, "message": pl.String, "file": pl.String})
CHECK: Schema = {
    "file": pl.String,
    "role": pl.String,
    "key": pl.String,
    "key_source": pl.String,
    "inferred_key": pl.String,
    "confidence": pl.Float64,
    "rank": pl.Int64,
    "events": pl.Int64,
    "lost": pl.Int64,
    "status": pl.String,
    "problems": pl.List(PROBLEM),
}


def check_rows(parts: Sequence[Part], assembly: Assembly) -> pl.DataFrame:
    """One row a file and key, as `CHECK`; a file without captures has one row, and one a role where it has several."""
    rows: list[tuple[object, ...]] = []
    places = assembly.parts.select("file", "rank").iter_rows()
    sequences = assembly.windows.group_by("part", maintain_order=True).agg("sequence")
    numbers = dict(sequences.iter_rows())
    for number, (part, (file, rank)) in enumerate(zip(parts, places, strict=True)):
        for role in part.roles:
            windows = zip(part.windows, numbers.get(number, []), strict=True) if role is Role.CAPTURE else ()
            keys = [_key(window, sequence) for window, sequence in windows] or [_plain_key(part)]
            for key, mismatch in keys:
                status = "conflict" if mismatch and part.status == "ok" else part.status
                told = [*part.problems, *_mismatch(mismatch, file)]
                problems = [{"code": str(one.code), "message": one.message, "file": one.file} for one in told]
                rows.append((file, str(role), *key, rank, part.events, part.losses.events, status, problems))
    return pl.DataFrame(rows, schema=CHECK, orient="row")


def _key(window: Window, sequence: int | None) -> tuple[tuple[object, ...], str | None]:
    """key, key_source, inferred_key, confidence: a name that lost is the key, what it lost to is inferred."""
    label = (
        window.label
        if sequence is None
        else Label(window.label.runner, sequence=sequence, variants=window.label.variants)
    )
    shown = window.claimed or label
    source = "name" if window.claimed else window.key_source
    return (shown.words, source, window.inferred.words if window.inferred else None, window.confidence), window.mismatch


def _plain_key(part: Part) -> tuple[tuple[object, ...], str | None]:
    label = part.label.words if part.label else None
    return (label, "metadata" if label else None, None, None), None


def _mismatch(words: str | None, file: str) -> list[Problem]:
    return [Problem(Code.NAME_CONTENT_MISMATCH, words, file)] if words else []


def folder_problems(
    folders: Sequence[RunFolder], top: Path, parts: Sequence[Part], assembly: Assembly,
    *, executions: pl.DataFrame, shapes: pl.DataFrame, whole: bool,
) -> list[Problem]:  # fmt: skip
    """All warnings: of each file, and of the folder as a whole."""
    found = [problem for part in parts for problem in part.problems if _asked_for(problem)]
    found += [
        problem
        for part, file in zip(parts, assembly.parts["file"], strict=True)
        for window in part.windows
        for problem in _mismatch(window.mismatch, file)
    ]
    found += [Problem(Code.RECORDER, str(error)) for folder in folders for error in folder.errors]
    found += _node_problems(folders, top)
    if not parts and not any(folder.rows for folder in folders):
        found.append(Problem(Code.NO_DATA, f"{top} holds no trace"))
    with_traces = assembly.parts.filter(pl.col("role") != Role.NOT_A_TRACE)["run"]
    runs = [folder for run, folder in enumerate(folders) if folder.manifest or run in with_traces]
    if len(runs) > 1:
        names = ", ".join(folder.root.relative_to(top).as_posix() for folder in runs)
        found.append(Problem(Code.SEVERAL_RUNS, f"{len(runs)} runs were opened together: {names}"))
    if whole:
        found += _missing_ranks(folders, parts, assembly)
    found += _duplicates(assembly) + _replay_problems(executions) + _shape_problems(shapes)
    return list(dict.fromkeys(found))


def _asked_for(problem: Problem) -> bool:
    """A file that is no trace and is not called one is listed by `check`, and no warning of a result."""
    return problem.code is not Code.NOT_A_TRACE or ".json" in (problem.file or "")


def _node_problems(folders: Sequence[RunFolder], top: Path) -> list[Problem]:
    found = []
    for path in (path for folder in folders for path in folder.node_lists):
        try:
            read_nodes(path)
        except InputError as error:
            found.append(Problem(Code.CORRUPT, str(error), path.relative_to(top).as_posix()))
    return found


def _missing_ranks(folders: Sequence[RunFolder], parts: Sequence[Part], assembly: Assembly) -> list[Problem]:
    """Ranks of a known world that no file is of, run by run."""
    problems = []
    for run, folder in enumerate(folders):
        mine = assembly.parts.filter(pl.col("run") == run)
        worlds = [parts[number].rank.world_size or 0 for number in mine["part"]]
        world = max([*worlds, folder.manifest.world_size if folder.manifest else 0, 0])
        missing = sorted(set(range(world)) - set(mine["rank"].drop_nulls()))
        if missing and mine.height:
            listed = ", ".join(_stretches(missing))
            problems.append(Problem(Code.RANK_MISSING, f"of {world} ranks these left no file: {listed}"))
    return problems


def _stretches(numbers: list[int]) -> list[str]:
    """1, 2, 3, 7 as `1-3`, `7`."""
    stretches: list[list[int]] = []
    for number in numbers:
        if stretches and stretches[-1][1] == number - 1:
            stretches[-1][1] = number
        else:
            stretches.append([number, number])
    return [str(first) if first == last else f"{first}-{last}" for first, last in stretches]


def _duplicates(assembly: Assembly) -> list[Problem]:
    keyed = assembly.windows.filter(pl.col("size").is_not_null())
    again = keyed.group_by(list(SHAPE), maintain_order=True).agg("file").filter(pl.col("file").list.len() > 1)
    return [
        Problem(Code.DUPLICATE_KEY, f"one key was captured {len(files)} times: {', '.join(files)}", files[-1])
        for files in again["file"]
    ]


def _replay_problems(executions: pl.DataFrame) -> list[Problem]:
    problems = []
    above = executions.filter(pl.col("resolved_by") == "above-largest-size")
    if above.height:
        problems.append(
            Problem(Code.ABOVE_LARGEST_SIZE, f"{above.height} replays of a size above the largest captured")
        )
    dropped = executions.filter(~pl.col("complete") & pl.col("expected").is_not_null())
    for kernels, expected, count in dropped.group_by("kernels", "expected", maintain_order=True).len().iter_rows():
        problems.append(Problem(Code.KERNELS_MISSING, f"{count} replays show {kernels} of {expected} kernels"))
    return problems


def _shape_problems(shapes: pl.DataFrame) -> list[Problem]:
    problems = []
    nameless = shapes.filter((pl.col("status") == "unlabelled") & pl.col("segments").is_not_null())
    if nameless.height:
        problems.append(Problem(Code.UNLABELLED, f"{nameless.height} captures that nothing names"))
    dummy = shapes.filter(pl.col("time_source") == "replay-dummy")
    if dummy.height:
        problems.append(
            Problem(
                Code.DUMMY_INPUTS,
                f"times of {dummy.height} shapes are of dummy inputs: no serving times of attention or MoE",
            )
        )
    return problems
