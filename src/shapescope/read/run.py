"""`open_run`: anybody's folder of traces, or one trace, as tables.

Everything is read at once: the parts of all files, their shapes, launches and replays. What cannot be read is a row of
`check` and a warning, never an exception, unless the path that was asked for is itself that file.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from shapescope.model import ManifestRow, RunManifest
from shapescope.read.assembly import Assembly, rank_name
from shapescope.read.cache import Cache, cache_folder, entry_name, state
from shapescope.read.check import CHECK
from shapescope.read.kernels import KERNELS, Namer, grouped
from shapescope.read.part import Part
from shapescope.read.problem import Problem
from shapescope.read.shapes import SHAPES
from shapescope.read.workers import Workers

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
        return _read(path, replays, stacks=stacks, namer=namer, cache=False, workers=workers)
    kept = Cache(cache_folder(path))
    name = _entry_name(path, replays, stacks, namer)
    if (known := kept.load(name, Run)) is not None:
        return known
    run = _read(path, replays, stacks=stacks, namer=namer, cache=True, workers=workers)
    if name == _entry_name(path, replays, stacks, namer):
        kept.store(name, run)
    return run


def _read(path: Path, replays: Sequence[Path], **how: Any) -> Run:
    """What reads is imported when something is read: a cached run need not spend that time."""
    from shapescope.read.reading import read_run

    return read_run(path, replays, **how)


def _entry_name(path: Path, replays: Sequence[Path], stacks: bool, namer: Namer | None) -> str:
    """Under which name an opened run is kept: every file that it may be made of, and all else that decides what it is."""
    code = [] if namer is None else [Path(inspect.getfile(namer)).parent]
    return entry_name([state(given) for given in (path, *replays)], stacks, code=code)


__all__ = ["Run", "open_run", "rank_name"]
