"""A whole run read at once: the parts of all its files, put together to tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from shapescope.errors import InputError
from shapescope.read.assembly import SHAPE, Assembly, assemble
from shapescope.read.check import check_rows, folder_problems
from shapescope.read.content import with_inferred_sizes
from shapescope.read.files import TraceFile, read_files
from shapescope.read.folder import RunFolder, run_folders
from shapescope.read.foreign import details_hints
from shapescope.read.frames import empty
from shapescope.read.kernels import Namer, kernels_by_launch
from shapescope.read.nodes import node_rows, of_nameless
from shapescope.read.part import Part, Role, without_tables
from shapescope.read.replayed import replayed_kernels
from shapescope.read.run import Run
from shapescope.read.shapes import RECORDED, recorded_rows, shapes
from shapescope.read.workers import Workers


def read_run(
    path: Path, replays: Sequence[Path], *, stacks: bool, namer: Namer | None, cache: bool, workers: Workers
) -> Run:
    """As `open_run`, whose run cache is not asked. InputError."""
    folders = run_folders(path)
    top = path.parent if path.is_file() else path
    asked = [file for given in replays for folder in run_folders(given) for file in folder.traces]
    if asked and len(folders) > 1:
        raise InputError(f"{path} holds {len(folders)} runs, and a replay is of one", "Name the folder of one run.")
    files = _trace_files(folders, top, asked)
    found = read_files([file for _, file in files], stacks=stacks, cache=cache, workers=workers)
    parts = with_inferred_sizes(
        [(run, file.name, part) for (run, file), of_file in zip(files, found, strict=True) for part in of_file]
    )
    for given in (path, *replays):
        if given.is_file():
            _refuse_unreadable(given, [part for _, _, part in parts if part.path.samefile(given)])
    assembly = assemble(parts)
    replayed, executions = replayed_kernels(assembly)
    nodes, node_files = node_rows(folders, top)
    kernels = kernels_by_launch(assembly, replayed, of_nameless(nodes, assembly), namer)
    each = tuple(part for _, _, part in parts)
    on_disk = _files(assembly, executions, node_files, top)
    recorded = pl.concat([empty(RECORDED), *(_recorded(folder, assembly, run) for run, folder in enumerate(folders))])
    damaged = [number for number, part in enumerate(each) if part.status in ("partial", "corrupt")]
    table = shapes(assembly, kernels, executions, recorded=recorded, files=on_disk, damaged=damaged)
    return Run(
        path=path,
        manifests=tuple(folder.manifest for folder in folders if folder.manifest),
        recorded=tuple((run, row) for run, folder in enumerate(folders) for row in folder.rows),
        parts=tuple(map(without_tables, each)),
        warnings=tuple(
            folder_problems(folders, top, each, assembly, executions=executions, shapes=table, whole=path.is_dir())
        ),
        assembly=assembly,
        nodes=nodes,
        replayed=replayed,
        executions=executions,
        kernel_rows=kernels,
        shape_rows=table,
        check_rows=check_rows(each, assembly),
        asked=tuple(dict.fromkeys(_name(file, top) for file in asked)),
    )


def _trace_files(folders: Sequence[RunFolder], top: Path, asked: Sequence[Path]) -> list[tuple[int, TraceFile]]:
    """Every file, once, with the number of its run; `asked` are those beside the first run's own."""
    found = []
    for number, folder in enumerate(folders):
        stated = {path: details_hints(path) for path in {file.parent for file in folder.traces}}
        found += [
            (number, TraceFile(file, _name(file, top), stated[file.parent].get(file.name))) for file in folder.traces
        ]
    known = {file.name for _, file in found}
    beside = [TraceFile(file, _name(file, top)) for file in dict.fromkeys(asked)]
    return found + [(0, file) for file in beside if file.name not in known]


def _name(file: Path, top: Path) -> str:
    """How a file is called: relative to what was opened, or in full where it lies elsewhere."""
    if file.is_relative_to(top):
        return file.relative_to(top).as_posix()
    whole, root = file.resolve(), top.resolve()
    return whole.relative_to(root).as_posix() if whole.is_relative_to(root) else whole.as_posix()


def _refuse_unreadable(path: Path, parts: Sequence[Part]) -> None:
    if all(part.roles == (Role.NOT_A_TRACE,) for part in parts):
        reasons = [problem.message for part in parts for problem in part.problems]
        reason = reasons[0] if reasons else "no trace in it"
        raise InputError(reason if str(path) in reason else f"{path}: {reason}")


def _recorded(folder: RunFolder, assembly: Assembly, run: int) -> pl.DataFrame:
    requested = folder.manifest.requested if folder.manifest else ()
    return recorded_rows(run, folder.rows, requested, _ranks(folder, assembly, run))


def _ranks(folder: RunFolder, assembly: Assembly, run: int) -> list[int]:
    """The ranks from which a requested shape is expected: those of the world that recorded, else those seen."""
    if folder.manifest is not None and folder.manifest.world_size > 1:
        return list(range(folder.manifest.world_size))
    seen = {row.rank.rank for row in folder.rows} | set(
        assembly.parts.filter(pl.col("run") == run)["rank"].drop_nulls()
    )
    return sorted(rank for rank in seen if rank >= 0) or [0]


def _files(assembly: Assembly, executions: pl.DataFrame, node_files: pl.DataFrame, top: Path) -> pl.DataFrame:
    """Which files speak of which shape, with their size on disk."""
    names = assembly.parts.select("part", "file")
    replays = executions.select(*SHAPE, "part").unique(maintain_order=True).join(names, on="part", how="left")
    labelled = assembly.parts.filter(pl.col("size").is_not_null()).select(*SHAPE, "part", "file")
    captures = assembly.windows.select(*SHAPE, "part", "file")
    rows = pl.concat(
        [captures, replays.select(*SHAPE, "part", "file"), labelled, node_files.select(*SHAPE, "part", "file")]
    )
    sizes = {name: (top / name).stat().st_size for name in rows["file"].unique()}
    return rows.with_columns(bytes=pl.Series([sizes[name] for name in rows["file"]], dtype=pl.Int64))
