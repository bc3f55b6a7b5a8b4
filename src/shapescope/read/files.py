"""Many files read side by side, each from the cache where it was read before.

What travels between workers are paths and parts (small tables), never the events of a trace.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from shapescope.errors import MissingDependencyError
from shapescope.model import GraphKey
from shapescope.read.blocks import deflate
from shapescope.read.cache import Cache, cache_folder, entry_name
from shapescope.read.file import read_file
from shapescope.read.part import Part
from shapescope.read.workers import Where, Workers

_POLARS_THREADS = "POLARS_MAX_THREADS"
# Starting a process costs about as much as reading this many bytes of gzip in one that runs.
_WORTH_PROCESSES_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class TraceFile:
    """A file to read, how reports call it, and what a file beside it says of it."""

    path: Path
    name: str
    stated: GraphKey | None = None


@dataclass(frozen=True, slots=True)
class FileParts:
    """What is cached of a file."""

    parts: list[Part]


def read_files(files: Sequence[TraceFile], *, stacks: bool, cache: bool, workers: Workers) -> list[list[Part]]:
    """The parts of each file, in the order of the files. MissingDependencyError: a cluster's library is not installed."""
    if not files:
        return []
    sizes = [_size(file.path) for file in files]
    parts = _each([(file, stacks, cache) for file in files], sum(sizes), workers)
    found = []
    for number, of_file in enumerate(parts, start=1):
        found.append(of_file)
        if workers.progress is not None:
            workers.progress(sum(sizes[:number]), sum(sizes))
    if cache:
        for folder in {cache_folder(file.path) for file in files}:
            Cache(folder).shrink()
    return found


def read_one(file: TraceFile, stacks: bool, cached: bool) -> list[Part]:
    """The parts of a file, from the cache if asked."""
    cache = Cache(cache_folder(file.path))
    content = cache.content(file.path) if cached else None
    if content is None:
        return read_file(file.path, file.name, stated=file.stated, stacks=stacks)
    # The names of a file and of its folder hint at what it is.
    hints = file.path.name, file.path.absolute().parent.name, file.name, file.stated
    name = entry_name(content, stacks, *hints)
    if (known := cache.load(name, FileParts)) is not None:
        return [replace(part, path=file.path) for part in known.parts]
    parts = read_file(file.path, file.name, stated=file.stated, stacks=stacks)
    cache.store(name, FileParts(parts))
    return parts


def _each(asked: Sequence[tuple[TraceFile, bool, bool]], size: int, workers: Workers) -> Iterator[list[Part]]:
    """`read_one` of each, in order."""
    if workers.where is Where.LOCAL and (workers.jobs == 1 or len(asked) == 1):
        yield from (read_one(*one) for one in asked)
        return
    import joblib

    with _backend(workers.where, size) as backend, joblib.parallel_config(backend, n_jobs=workers.jobs or -1):
        # Ray's backend hands out results only once all are there.
        one_by_one = workers.where is not Where.RAY
        travel = backend != "threading"
        found = joblib.Parallel(return_as="generator" if one_by_one else "list")(
            joblib.delayed(_deflated_parts if travel else read_one)(*one) for one in asked
        )
        yield from map(_inflated_parts, found) if travel else found


def _deflated_parts(file: TraceFile, stacks: bool, cached: bool) -> bytes:
    """Parts as they travel: the many names in them are much alike, and shrink to a tenth."""
    return bytes(deflate.compress(pickle.dumps(read_one(file, stacks, cached)), 1))


def _inflated_parts(parts: bytes) -> list[Part]:
    found: list[Part] = pickle.loads(deflate.decompress(parts))
    return found


@contextmanager
def _backend(where: Where, size: int) -> Iterator[str]:
    """The name of a backend of joblib. A cluster is the one that RAY_ADDRESS or DASK_SCHEDULER_ADDRESS names, else one on
    this machine."""
    if where is Where.LOCAL:
        if size <= _WORTH_PROCESSES_BYTES:
            yield "threading"
            return
        with _one_thread_each():
            yield "loky"
        return
    try:
        if where is Where.RAY:
            from ray.util.joblib import register_ray
        else:
            from distributed import Client
    except ImportError as error:
        raise MissingDependencyError(str(where), str(where)) from error
    if where is Where.RAY:
        register_ray()
        yield "ray"
    else:
        with Client():
            yield "dask"


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Processes that start meanwhile have one polars thread: with a process a core, more of them only wake each other up."""
    if _POLARS_THREADS in os.environ:
        yield
        return
    os.environ[_POLARS_THREADS] = "1"
    try:
        yield
    finally:
        del os.environ[_POLARS_THREADS]


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
