"""`open_run`: anybody's folder of traces, or one trace, as tables.

Everything is read at once: the parts of all files, their shapes, launches and replays. What cannot be read is a row of
`check` and a warning, never an exception, unless the path that was asked for is itself that file.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from shapescope.errors import InputError
from shapescope.model import ManifestRow, RunManifest
from shapescope.read.assembly import SHAPE, Assembly, assemble, rank_name
from shapescope.read.cache import Cache, cache_folder, entry_name, stat_words
from shapescope.read.check import CHECK, check_rows, folder_problems
from shapescope.read.classify import Role
from shapescope.read.content import with_inferred_sizes
from shapescope.read.files import TraceFile, Workers, read_files
from shapescope.read.folder import RunFolder, files_below, run_folders
from shapescope.read.foreign import DETAILS_FILE, details_hints
from shapescope.read.frames import empty
from shapescope.read.kernels import KERNELS, Namer, grouped, kernels_by_launch
from shapescope.read.nodes import node_rows, of_nameless
from shapescope.read.part import Part, without_tables
from shapescope.read.problem import Problem
from shapescope.read.replayed import replayed_kernels
from shapescope.read.shapes import RECORDED, SHAPES, recorded_rows, shapes

_ALL_CORES = Workers()

STREAMS = ("file", "rank", "device", "stream", "kernels", "sum_ns", "busy_ns", "span_ns", "idle")


@dataclass(frozen=True, slots=True)
class Run:
    """What was opened. Tables are polars frames with the columns of the interface; times ns, missing is null.

    Ranks are numbers; a negative rank is one that nothing names (`rank_name` spells it). `assembly`, `replayed` and
    `executions` are the full frames behind the tables, for analyses; `recorded` are the manifests' rows, each with the
    number of its run; `parts` come without their tables, which the assembly holds; `nodes` are the graphs' own kernel
    lists. `asked` names the replays that were given beside the path, none where none was.
    """

    path: Path
    manifests: tuple[RunManifest, ...]
    recorded: tuple[tuple[int, ManifestRow], ...]
    parts: tuple[Part, ...]
    warnings: tuple[Problem, ...]
    assembly: Assembly
    nodes: pl.DataFrame
    replayed: pl.DataFrame
    executions: pl.DataFrame
    kernel_rows: pl.DataFrame
    shape_rows: pl.DataFrame
    check_rows: pl.DataFrame
    asked: tuple[str, ...] = ()

    @property
    def partial(self) -> bool:
        """Whether something was lost: a damaged file gives what it can, and the result must say so."""
        return any(part.status in ("partial", "corrupt", "unreadable", "empty") for part in self.parts)

    def shapes(self) -> pl.DataFrame:
        """One row a shape and rank."""
        return _shown(self.shape_rows, list(SHAPES))

    def launches(self) -> pl.DataFrame:
        """The kernels table by launch: captured launches, kernels per replay, warm-up and eager kernels (`source`)."""
        return self.kernels("launch")

    def kernels(self, by: str = "launch") -> pl.DataFrame:
        """The kernels table by launch, kernel, family, class, op or module. UsageError for any other word."""
        return _shown(grouped(self.kernel_rows, by), list(KERNELS))

    def check(self) -> pl.DataFrame:
        """One row a file and key: what it is, whose, and what is wrong with it."""
        return self.check_rows.select(list(CHECK))

    def streams(self) -> pl.DataFrame:
        """Kernels and times on each stream of each file."""
        return self.assembly.streams.select(STREAMS)


def _shown(rows: pl.DataFrame, columns: list[str]) -> pl.DataFrame:
    """The table's columns; and the run, where several were opened together."""
    return rows.select(*columns, *(["run"] if rows["run"].n_unique() > 1 else []))


def open_run(
    path: Path | str,
    *,
    replays: Sequence[Path] = (),
    stacks: bool = False,
    namer: Namer | None = None,
    cache: bool = False,
    workers: Workers = _ALL_CORES,
) -> Run:
    """Open a run folder, a folder of traces, or one trace file.

    `namer` fills the columns `class` and `family`, and counts families; without it they are null. `stacks` keeps the
    Python stack of each launch. `replays` are traces, or folders of them, that replay what the path captured: they count
    as files of that run. With `cache`, what was read before is not read again. InputError: a path is missing, cannot be
    read, or is a file without a trace; or replays were given for a path of several runs.
    """
    path = Path(path)
    if not cache:
        return _read_run(path, replays, stacks=stacks, namer=namer, cache=False, workers=workers)
    kept = Cache(cache_folder(path))
    name = _entry_name(path, replays, stacks, namer)
    if (known := kept.load(name, Run)) is not None:
        return known
    run = _read_run(path, replays, stacks=stacks, namer=namer, cache=True, workers=workers)
    if name == _entry_name(path, replays, stacks, namer):
        kept.store(name, run)
    return run


def _entry_name(path: Path, replays: Sequence[Path], stacks: bool, namer: Namer | None) -> str:
    """Under which name an opened run is kept: every file that it may be made of, and all else that decides what it is."""
    code = [] if namer is None else [Path(inspect.getfile(namer)).parent]
    return entry_name([_files_at(given) for given in (path, *replays)], stacks, code=code)


def _files_at(path: Path) -> tuple[str, list[tuple[str, str]]]:
    files = files_below(path) if path.is_dir() else [path, path.parent / DETAILS_FILE]
    return str(path), [(file.as_posix(), stat_words(file)) for file in files if file.is_file()]


def _read_run(
    path: Path, replays: Sequence[Path], *, stacks: bool, namer: Namer | None, cache: bool, workers: Workers
) -> Run:
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


__all__ = ["Run", "open_run", "rank_name"]
