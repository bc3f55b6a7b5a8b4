"""Whatever goes wrong around a recording, the host does what it does without one, and the run tells what happened.

Each host is a process of its own: it captures four sizes, and prints what each replay gives. With every fault its output
and its exit code must be those of a host that records nothing. Some faults are in test_record.py and test_any.py.
"""

from __future__ import annotations

import gzip
import json
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from forked import Forks, Host

from shapescope.model import Evidence, ManifestRow, Rank, Status
from shapescope.store.finish import finish_run
from shapescope.store.manifest import ManifestWriter, read_manifests

HOST = """
import os, signal, sys, time
import torch
from shapescope.graphs.runner import GraphRunner
from shapescope.record.start import from_environment

weight = torch.eye(64)
runner = GraphRunner(lambda x: torch.relu(x @ weight), {"x": torch.ones(8, 64)}, [1, 2, 4, 8], observer=from_environment("test"))
# before
runner.capture()
# after
for size in runner.sizes:
    print(size, float(runner(x=torch.full((size, 64), 2.0)).output.sum()))
"""
SIZES = {1, 2, 4, 8}


def host(before: str = "", after: str = "") -> str:
    return HOST.replace("# before", before).replace("# after", after)


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    parent = Forks()
    yield parent
    parent.close()


@pytest.fixture(scope="module")
def expected(forks: Forks, tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the host prints with recording off."""
    process = forks.start(host(), tmp_path_factory.mktemp("off"))
    assert process.wait() == 0, process.stderr
    assert process.stderr == ""
    return process.stdout


Start = Callable[..., Host]


@pytest.fixture
def start(forks: Forks, tmp_path: Path) -> Start:
    """Start a host that records in full; `runs` is where to."""

    def start(code: str, runs: Path | None = None, **environment: str) -> Host:
        given = {
            "SHAPESCOPE_GRAPH_BATCH_CAPTURE": "1",
            "SHAPESCOPE_RUN_ID": "run",
            "SHAPESCOPE_PROFILER_DIR": str(runs or tmp_path / "runs"),
        }
        return forks.start(code, tmp_path, **given, **environment)

    return start


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Mount file systems of a limited size."""
    mounted: list[Path] = []

    def mount(size: str, *options: str) -> Path:
        place = tmp_path / f"small-{len(mounted)}"
        place.mkdir()
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", ",".join([f"size={size}", *options]), "tmpfs", str(place)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            pytest.skip(f"a size-limited file system cannot be mounted here: {done.stderr.strip()}")
        mounted.append(place)
        return place

    yield mount
    for place in mounted:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(folder: Path) -> None:
    """Take every byte that is left, by ones in the end."""
    size = 1 << 20
    with (folder / "filler").open("ab", buffering=0) as file:
        while size:
            try:
                size = size if file.write(b"0" * size) == size else size // 2
            except OSError:
                size //= 2


def rows(folder: Path) -> dict[int, ManifestRow]:
    """The last row of each captured size. Every line must be readable."""
    found = {}
    for _, row in read_manifests(folder):
        assert isinstance(row, ManifestRow), row
        if row.key is not None and row.evidence is Evidence.CAPTURE:
            found[row.key.shape.size] = row
    return found


def whole_files(folder: Path) -> set[str]:
    """Names of the traces, each of which must be whole."""
    names = set()
    for path in (folder / "graph_capture_profile").glob("*.gz"):
        assert json.loads(gzip.decompress(path.read_bytes()))["traceEvents"], path
        names.add(path.name)
    return names


def files_of(rows: dict[int, ManifestRow]) -> set[str]:
    return {Path(row.file).name for row in rows.values() if row.file}


def leftovers(folder: Path) -> list[Path]:
    return list(folder.rglob(".writing-*"))


# Disks and folders.


def test_the_disk_is_full_before(start: Start, expected: str, small: Callable[..., Path]) -> None:
    runs = small("64k")
    fill(runs)
    process = start(host(), runs)
    assert process.wait() == 0
    assert process.stdout == expected
    assert "recording stays off" in process.stderr
    assert [path.name for path in runs.rglob("*") if path.is_file()] == ["filler"]


def test_the_disk_fills_up_meanwhile(start: Start, expected: str, small: Callable[..., Path]) -> None:
    runs = small("1m")
    # The first capture fits; the second finds the disk full.
    process = start(
        host(
            before="from shapescope.record import profiler as p\n"
            "export = p.publish_trace\n"
            "def filling(*arguments):\n"
            "    result = export(*arguments)\n"
            "    if not os.path.exists('filled'):\n"
            "        open('filled', 'w').close()\n"
            f"        open({str(runs / 'filler')!r}, 'wb').write(b'0' * ((1 << 20) - (200 << 10)))\n"
            "    return result\n"
            "p.publish_trace = filling\n"
        ),
        runs,
    )
    assert process.wait() == 0, process.stderr
    assert process.stdout == expected
    found = rows(runs / "run")
    assert found[8].status is Status.OK
    failed = [row for row in found.values() if row.status is Status.FAILED]
    assert failed and all(row.file is None and row.reason for row in failed), found
    assert whole_files(runs / "run") == files_of(found)
    assert leftovers(runs) == []


def test_the_disk_is_full_afterwards(start: Start, expected: str, small: Callable[..., Path]) -> None:
    """Nothing is left for the summary, and for the last rows only what the manifest's last page holds."""
    runs = small("8m")
    process = start(
        host(
            before="from shapescope.record import profiler as p\n"
            "sys.path.insert(0, os.environ['TESTS'])\n"
            "from test_never_hurt_the_host import fill\n"
            "from pathlib import Path\n"
            "export, calls = p.publish_trace, []\n"
            "def filling(*arguments):\n"
            "    result = export(*arguments)\n"
            "    calls.append(1)\n"
            f"    if len(calls) == 4: fill(Path({str(runs)!r}))\n"
            "    return result\n"
            "p.publish_trace = filling\n"
        ),
        runs,
        TESTS=str(Path(__file__).parent),
    )
    assert process.wait() == 0, process.stderr
    assert process.stdout == expected
    found = rows(runs / "run")
    assert {size: row.status for size, row in found.items() if size > 1} == {8: "ok", 4: "ok", 2: "ok"}
    assert not (runs / "run" / "summary-DecodeRunner-rank0.txt").exists()
    assert leftovers(runs) == []
    assert "No space left" in process.stderr


def test_a_manifest_on_a_full_disk_has_no_torn_line(small: Callable[..., Path]) -> None:
    place = small("16k")
    writer = ManifestWriter(place, Rank(), "host", 1)
    row, written = ManifestRow(None, Rank(), Evidence.CAPTURE, 0, Status.OK, reason="x" * 500), 0
    with pytest.raises(OSError, match="No space left"):
        while True:
            writer.append(row)
            written += 1
    assert [found for _, found in read_manifests(place)] == [row] * written
    assert written > 0


def test_the_folder_for_temporary_files_is_full(start: Start, expected: str, small: Callable[..., Path]) -> None:
    temporary = small("16k")
    fill(temporary)
    process = start(host(), TMPDIR=str(temporary))
    assert process.wait() == 0
    assert process.stdout == expected
    run = process.folder.parent / "runs" / "run"
    assert {row.status for row in rows(run).values()} == {Status.OK}
    assert len(whole_files(run)) == 4


def test_the_folder_cannot_be_written(start: Start, expected: str, small: Callable[..., Path]) -> None:
    process = start(host(), small("64k", "ro"))
    assert process.wait() == 0
    assert process.stdout == expected
    assert process.stderr.count("\n") == 1 and "recording stays off" in process.stderr


def test_the_folder_is_removed_meanwhile(start: Start, expected: str, tmp_path: Path) -> None:
    process = start(
        host(
            before="import shutil\n"
            "hook, done = runner.backend.capture_one, []\n"
            "def removing(*arguments):\n"
            "    if len(done) == 2:\n"
            "        runner.backend._observer.drain()\n"
            "        shutil.rmtree(os.environ['SHAPESCOPE_PROFILER_DIR'])\n"
            "    done.append(1)\n"
            "    return hook(*arguments)\n"
            "runner.backend.capture_one = removing\n"
        )
    )
    assert process.wait() == 0
    assert process.stdout == expected
    found = rows(tmp_path / "runs" / "run")
    assert {size: row.status for size, row in found.items()} == {2: "ok", 1: "ok"}
    assert whole_files(tmp_path / "runs" / "run") == files_of(found)


# Interrupts and kills. Each point is a function of ours that sends the signal to its own process before it goes on.

IN_CAPTURE = (
    "step = runner._step\n"
    "def signalled(x):\n"
    "    torch.ones(1)\n"
    "    if torch.autograd.profiler._is_profiler_enabled and len(x) == 4: os.kill(os.getpid(), SIGNAL)\n"
    "    return step(x)\n"
    "runner._step = signalled\n"
)


def at(module: str, function: str, call: int = 2) -> str:
    """Send the signal where `function` is entered for the n-th time."""
    return (
        f"import {module} as module\n"
        f"function, calls = module.{function}, []\n"
        "def signalled(*arguments, **named):\n"
        "    calls.append(1)\n"
        f"    if len(calls) == {call}: os.kill(os.getpid(), SIGNAL)\n"
        "    return function(*arguments, **named)\n"
        f"module.{function} = signalled\n"
    )


POINTS = {
    "in the capture": IN_CAPTURE,
    "in stopping": at("shapescope.record.window", "Window.stop"),
    "in saving": at("shapescope.record.profiler", "save_raw"),
    "in compressing": at("shapescope.record.export", "compress"),
    "in publishing": at("shapescope.store.layout", "_link_first_free"),
}
# The others are on the exporter's thread: a signal then meets the host wherever it is.
ON_THE_HOSTS_THREAD = {"in the capture", "in stopping"}


@pytest.mark.parametrize("point", POINTS)
def test_ctrl_c(start: Start, tmp_path: Path, point: str) -> None:
    process = start(
        "try:\n"
        + "".join(f"    {line}\n" for line in host(POINTS[point].replace("SIGNAL", "signal.SIGINT")).splitlines())
        + "except KeyboardInterrupt: print('interrupted', torch.autograd.profiler._is_profiler_enabled)\n"
    )
    assert process.wait() == 0, process.stderr
    assert process.stdout == "interrupted False\n"
    folder = tmp_path / "runs" / "run"
    failed = [row.reason for row in rows(folder).values() if row.status is Status.FAILED]
    assert all(reason is not None and "KeyboardInterrupt" in reason for reason in failed)
    assert failed or point not in ON_THE_HOSTS_THREAD
    assert whole_files(folder) >= files_of(rows(folder))
    assert leftovers(folder) == []


@pytest.mark.parametrize("point", ["in the capture", "in compressing"])
def test_sigterm_with_a_handler_of_the_hosts(start: Start, tmp_path: Path, point: str) -> None:
    process = start(
        "import signal, sys\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(42))\n"
        + host(POINTS[point].replace("SIGNAL", "signal.SIGTERM"))
    )
    assert process.wait() == 42
    folder = tmp_path / "runs" / "run"
    failed = [row.reason for row in rows(folder).values() if row.status is Status.FAILED]
    assert all(reason is not None and "SystemExit" in reason for reason in failed)
    assert failed or point not in ON_THE_HOSTS_THREAD
    assert leftovers(folder) == []


@pytest.mark.parametrize("name", ["SIGTERM", "SIGKILL"])
@pytest.mark.parametrize("point", POINTS)
def test_killed(start: Start, tmp_path: Path, point: str, name: str) -> None:
    process = start(host(POINTS[point].replace("SIGNAL", f"signal.{name}")))
    assert process.wait() == -getattr(signal, name)
    folder = tmp_path / "runs" / "run"
    finish_run(folder, f"the command was killed by {name}")
    found = rows(folder)
    assert set(found) == SIZES
    missing = [row for row in found.values() if row.status is Status.MISSING]
    assert missing and all(row.reason is not None and name in row.reason for row in missing)
    assert whole_files(folder) >= files_of(found)
    assert leftovers(folder) == []


# What a host may do by itself.


def test_out_of_memory_in_a_shape(start: Start, tmp_path: Path) -> None:
    """A host that lives with it: the exception is its own, and the other sizes are captured."""
    process = start(
        host(
            before="step, capture_one = runner._step, runner.backend.capture_one\n"
            "def failing(x):\n"
            "    if torch.autograd.profiler._is_profiler_enabled and len(x) == 8: raise error\n"
            "    return step(x)\n"
            "error = torch.OutOfMemoryError('CUDA out of memory')\n"
            "def tolerant(key, *rest):\n"
            "    try: return capture_one(key, *rest)\n"
            "    except torch.OutOfMemoryError as caught: print(caught is error, caught.__cause__, caught.__context__)\n"
            "runner._step, runner.backend.capture_one = failing, tolerant\n",
            after="runner.sizes.remove(8)",
        )
    )
    assert process.wait() == 0, process.stderr
    assert process.stdout.splitlines()[0] == "True None None"
    found = rows(tmp_path / "runs" / "run")
    assert {size: row.status for size, row in found.items()} == {8: "failed", 4: "ok", 2: "ok", 1: "ok"}
    assert found[8].reason == "OutOfMemoryError: CUDA out of memory"


def test_recapture_after_a_weight_update(start: Start, expected: str, tmp_path: Path) -> None:
    process = start(host(after="weight.mul_(1)\nrunner.capture()"))
    assert process.wait() == 0
    assert process.stdout == expected
    folder = tmp_path / "runs" / "run"
    found = rows(folder)
    assert {row.status for row in found.values()} == {Status.OK}
    assert {row.warnings for row in found.values()} == {("duplicate-key",)}
    assert len(whole_files(folder)) == 8


def test_two_processes_with_one_identity(start: Start, expected: str, tmp_path: Path) -> None:
    both = [start(host()) for _ in range(2)]
    assert [process.wait() for process in both] == [0, 0]
    assert [process.stdout for process in both] == [expected, expected]
    folder = tmp_path / "runs" / "run"
    told = [row for _, row in read_manifests(folder) if isinstance(row, ManifestRow) and row.status is Status.OK]
    files = [Path(row.file).name for row in told if row.file]
    assert len(files) == len(set(files)) == 8
    assert whole_files(folder) == set(files)


@pytest.mark.parametrize("name", ["SHAPESCOPE_DETAIL", "SHAPESCOPE_EVIDENCE", "SHAPESCOPE_MEASURE"])
def test_a_bad_setting(start: Start, expected: str, tmp_path: Path, name: str) -> None:
    process = start(host(), **{name: "everything"})
    assert process.wait() == 0
    assert process.stdout == expected
    assert process.stderr.count("\n") == 1 and name in process.stderr
    assert not (tmp_path / "runs").exists()
