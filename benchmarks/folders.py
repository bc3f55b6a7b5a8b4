"""How long a folder of traces takes: cold, with one worker and with several, and from the cache.

python benchmarks/folders.py TRACE [--files 400] [--pairs 24] [--jobs 2] [--rounds 3] [--json]

The folder holds copies of the trace under names of their own, in a temporary place. Commands are timed whole, start-up
included: wall time, and CPU seconds of all their processes. One worker and several take turns on a folder of `--pairs`
files without the cache: threads of this process that turn the files into columns, then the whole command. Between them as
many busy loops that share nothing, one by one and side by side: what several workers can gain on this machine at all. The
folder of `--files` is ingested into an empty cache, by one worker and several in turn, then `shapes` reads it from there.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from shapescope.read.chrome import decode

BUSY = [sys.executable, "-S", "-c", "sum(range(60_000_000))"]
COMMAND = [sys.executable, "-c", "from shapescope.cli import main; main()"]


def main() -> None:
    arguments = _arguments()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        place = Path(name)
        pairs = copies(arguments.trace, place / "pairs", arguments.pairs)
        whole = copies(arguments.trace, place / "whole", arguments.files)
        workers: dict[int, list[tuple[float, float]]] = {1: [], arguments.jobs: []}
        loops: dict[int, list[tuple[float, float]]] = {1: [], arguments.jobs: []}
        threads: dict[int, list[tuple[float, float]]] = {1: [], arguments.jobs: []}
        for _ in range(arguments.rounds):
            for jobs, samples in workers.items():
                threads[jobs].append(decoded(pairs, jobs))
                samples.append(timed(["ingest", str(pairs), "-j", str(jobs), "--no-cache", "-q"], place))
                loops[jobs].append(busy(arguments.jobs, side_by_side=jobs > 1))
        cold: dict[int, list[tuple[float, float]]] = {1: [], arguments.jobs: []}
        for _ in range(arguments.rounds):
            for jobs, samples in cold.items():
                shutil.rmtree(place / "cache", ignore_errors=True)
                samples.append(timed(["ingest", str(whole), "-j", str(jobs), "-q"], place))
        cached = [timed(["shapes", str(whole), "-q"], place) for _ in range(arguments.rounds + 1)][1:]
    rows = [row(f"{arguments.pairs} files to columns, {jobs} threads", samples) for jobs, samples in threads.items()]
    rows += [row(f"{arguments.pairs} files, {jobs} workers", samples) for jobs, samples in workers.items()]
    rows += [
        row(f"{arguments.jobs} busy loops, {'side by side' if jobs > 1 else 'one by one'}", of)
        for jobs, of in loops.items()
    ]
    rows += [row(f"{arguments.files} files, {jobs} workers, cold", samples) for jobs, samples in cold.items()]
    rows.append(row(f"{arguments.files} files, cached shapes", cached))
    print(json.dumps(rows, indent=1) if arguments.json else table(rows))


def copies(trace: Path, folder: Path, count: int) -> Path:
    """Copies, not links: the cache knows a file by its inode."""
    folder.mkdir()
    for number in range(1, count + 1):
        shutil.copyfile(trace, folder / f"bs_{number}_rank0.json.gz")
    return folder


def decoded(folder: Path, threads: int) -> tuple[float, float]:
    """Wall and CPU seconds until all events of all files are columns."""
    wall, cpu = time.perf_counter(), time.process_time()
    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(lambda file: len(decode(file, python="all")), folder.iterdir()):
            pass
    return time.perf_counter() - wall, time.process_time() - cpu


def timed(arguments: Sequence[str], place: Path) -> tuple[float, float]:
    """Wall and CPU seconds of one command."""
    environment = os.environ | {"XDG_CACHE_HOME": str(place / "cache")}
    with clock() as seconds:
        subprocess.run([*COMMAND, *arguments], env=environment, stdout=subprocess.DEVNULL, check=True)
    return seconds[0], seconds[1]


def busy(count: int, *, side_by_side: bool) -> tuple[float, float]:
    """Wall and CPU seconds of so many loops in processes of their own."""
    with clock() as seconds:
        started = []
        for _ in range(count):
            started.append(subprocess.Popen(BUSY))
            if not side_by_side:
                started[-1].wait()
        for process in started:
            process.wait()
    return seconds[0], seconds[1]


@contextmanager
def clock() -> Iterator[list[float]]:
    """Wall and CPU seconds of the child processes of the body, once it is done."""
    seconds: list[float] = []
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    yield seconds
    wall, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds += [wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime]


def row(what: str, samples: Sequence[tuple[float, float]]) -> dict[str, object]:
    walls, cpus = zip(*samples, strict=True)
    return {
        "what": what, "runs": len(samples), "wall_s": statistics.median(walls), "wall_s_range": [min(walls), max(walls)],
        "cpu_s": statistics.median(cpus),
    }  # fmt: skip


def table(rows: Sequence[dict[str, object]]) -> str:
    """As Markdown."""
    lines = ["| what | runs | wall s | range | CPU s |", "|---|---|---|---|---|"]
    for found in rows:
        low, high = found["wall_s_range"]  # type: ignore[misc]
        lines.append(
            f"| {found['what']} | {found['runs']} | {found['wall_s']:.2f} | {low:.2f}..{high:.2f} | {found['cpu_s']:.2f} |"
        )
    return "\n".join(lines)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=Path)
    parser.add_argument("--files", type=int, default=400)
    parser.add_argument("--pairs", type=int, default=24)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="Where the copies are made.")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
