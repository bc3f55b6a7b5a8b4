"""`shapescope record -- COMMAND`: the child behaves as without us, and leaves a run that tells what happened to it."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shapescope.errors import UsageError
from shapescope.model import Evidence, GraphKey, ManifestRow, Rank, Status
from shapescope.record.launch import child_environment, launch
from shapescope.settings import Detail, Mode, RecordingSettings, recording_settings, switches_of
from shapescope.store.finish import finish_run
from shapescope.store.layout import temporary_file
from shapescope.store.manifest import ManifestWriter, read_manifests

ROOT = Path(__file__).resolve().parents[2]
SERVER = ROOT / "examples" / "any_server.py"
RECORD = [sys.executable, "-c", "from shapescope.cli import main; main()", "record"]
SIZES = {8, 4, 2, 1}


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, str]:
    monkeypatch.chdir(tmp_path)
    mine = {name: value for name, value in os.environ.items() if not name.startswith("SHAPESCOPE_")}
    return {**mine, "PYTHONPATH": str(ROOT / "src"), "SHAPESCOPE_PROFILER_DIR": str(tmp_path / "runs")}


def record(
    environment: dict[str, str], *command: str, options: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*RECORD, *options, "--", *command], env=environment, capture_output=True, text=True, timeout=100, check=False
    )


def python(environment: dict[str, str], code: str) -> subprocess.CompletedProcess[str]:
    return record(environment, sys.executable, "-c", code)


# The command line.


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("print('done')", 0),
        ("raise SystemExit(7)", 7),
        ("import os; os.kill(os.getpid(), 9)", 128 + 9),
        ("import os; os.kill(os.getpid(), 15)", 128 + 15),
    ],
)
def test_the_exit_code_is_passed_on(environment: dict[str, str], code: str, expected: int) -> None:
    found = python(environment, code)
    assert found.returncode == expected
    assert found.stdout == ("done\n" if expected == 0 else "")
    assert found.stderr.startswith("shapescope: nothing was recorded")


def test_a_command_that_is_not_there(environment: dict[str, str]) -> None:
    found = record(environment, "no-such-command")
    assert found.returncode == 2
    assert found.stderr.startswith("error: cannot start no-such-command: No such file or directory\nhint: ")


def test_a_system_without_such_signals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(signal, "sigwaitinfo")
    with pytest.raises(UsageError, match="as Linux has them"):
        launch(["true"], RecordingSettings(), {})


def test_the_commands_own_options_need_no_dashes(environment: dict[str, str]) -> None:
    found = subprocess.run(
        [*RECORD, "-q", sys.executable, "-q", "-c", "print(1)"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert (found.stdout, found.stderr) == ("1\n", "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_signals_are_passed_on(environment: dict[str, str], number: signal.Signals) -> None:
    code = (
        f"import signal, sys\nsignal.signal({int(number)}, lambda *_: sys.exit(5))\n"
        "print('ready', flush=True)\nsignal.pause()"
    )
    launcher = subprocess.Popen(
        [*RECORD, "--", sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert launcher.stdout is not None and launcher.stdout.readline() == b"ready\n"
    launcher.send_signal(number)
    assert launcher.wait(timeout=30) == 5
    launcher.communicate()


# What the child sees.


def test_a_child_without_torch_is_as_before(environment: dict[str, str], tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text("import sys\nsys.theirs = True\n")
    environment["PYTHONPATH"] += os.pathsep + str(site)
    code = (
        "import sys, sitecustomize\nprint(sys.theirs, sitecustomize.__file__)\n"
        "print([name for name in sys.modules if name.startswith(('torch', 'shapescope', 'msgspec'))])\n"
        "print([entry for entry in sys.path if 'bootstrap' in entry])"
    )
    found = python(environment, code)
    loaded = "['shapescope', 'shapescope.engines', 'shapescope.engines.after_import']"
    assert found.stdout.splitlines() == [f"True {site}/sitecustomize.py", loaded, "[]"]
    assert list((tmp_path / "runs").rglob("*")) == []


def test_a_child_without_shapescope_is_as_before(environment: dict[str, str]) -> None:
    found = python(environment, "import os\nos.environ['PYTHONPATH'] = os.environ['PYTHONPATH'].split(os.pathsep)[0]\n"
                   "os.execv('/usr/bin/env', ['env', 'python3', '-c', 'print(1)'])")  # fmt: skip
    assert found.stdout == "1\n"
    assert "Error" not in found.stderr


@given(
    st.builds(
        RecordingSettings,
        mode=st.sampled_from([Mode.SUMMARY, Mode.COMBINED, Mode.PER_SHAPE]),
        folder=st.none() | st.just("/somewhere"),
        detail=st.sampled_from(Detail),
        evidence=st.none() | st.frozensets(st.sampled_from(Evidence), min_size=1),
        measure=st.none() | st.integers(0, 100),
        discover=st.lists(st.sampled_from(["flashinfer", "aiter.ops"]), unique=True).map(tuple),
    )
)
def test_a_child_reads_the_settings_that_it_was_given(settings: RecordingSettings) -> None:
    assert recording_settings(switches_of(settings), Path("/nowhere")) == settings


def test_a_childs_environment(tmp_path: Path) -> None:
    found = child_environment(RecordingSettings(Mode.COMBINED), "run", {"PYTHONPATH": "theirs", "HOME": "home"})
    assert found["PYTHONPATH"].endswith(f"bootstrap{os.pathsep}theirs")
    assert (found["HOME"], found["SHAPESCOPE_RUN_ID"], found["SHAPESCOPE_GRAPH_CAPTURE_TRACE"]) == ("home", "run", "1")


# Tidying up.


@pytest.fixture
def dead() -> int:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    return ended.pid


def missing(size: int, reason: str | None = None) -> ManifestRow:
    return ManifestRow(GraphKey.of("R", size), Rank(), Evidence.CAPTURE, 0, Status.MISSING, reason=reason)


def written(folder: Path, process: int, *rows: ManifestRow) -> Path:
    writer = ManifestWriter(folder, Rank(), os.uname().nodename, process)
    for row in rows:
        writer.append(row)
    return writer.path


def test_what_a_dead_process_has_left_is_named(tmp_path: Path, dead: int) -> None:
    done = ManifestRow(GraphKey.of("R", 8), Rank(), Evidence.CAPTURE, 0, Status.OK)
    path = written(tmp_path, dead, missing(8), missing(4), done)
    with path.open("ab") as file:
        file.write(b'{"key": {"ru')
    finished = finish_run(tmp_path, "the command was killed by SIGKILL")
    assert finished.captures == {Status.OK: 1, Status.MISSING: 1}
    last = list(read_manifests(tmp_path))[-1][1]
    assert isinstance(last, ManifestRow) and last.key == GraphKey.of("R", 4)
    assert last.reason == "its process ended before it was captured: the command was killed by SIGKILL"
    before = path.read_bytes()
    finish_run(tmp_path, "again")
    assert path.read_bytes() == before


def test_what_still_runs_is_left_alone(tmp_path: Path) -> None:
    path = written(tmp_path, os.getpid(), missing(4))
    temporary, before = temporary_file(tmp_path), path.read_bytes()
    assert finish_run(tmp_path, "the command exited with 0").removed == 0
    assert path.read_bytes() == before
    assert temporary.exists()


def test_what_a_dead_process_was_writing_is_removed(tmp_path: Path, dead: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: dead)
        torn = temporary_file(tmp_path / "graph_capture_profile")
        patch.setattr("platform.node", lambda: "another-host")
        elsewhere = temporary_file(tmp_path)
    assert finish_run(tmp_path, "").removed == 1
    assert not torn.exists() and elsewhere.exists()


# The whole.


def by_rank(folder: Path) -> dict[int, dict[int, ManifestRow]]:
    """The last row of every capture: by rank, by size. Every line must be readable."""
    found: dict[int, dict[int, ManifestRow]] = {}
    for _, row in read_manifests(folder):
        assert isinstance(row, ManifestRow), row
        if row.key is not None:
            found.setdefault(row.rank.rank, {})[row.key.shape.size] = row
    return found


def check_files(folder: Path) -> set[str]:
    """Every file is whole and has its final name."""
    names = set()
    for path in folder.rglob("*"):
        assert not path.name.startswith(".writing-"), path
        if path.name.endswith(".gz"):
            assert json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
            names.add(str(path.relative_to(folder)))
    return names


@pytest.mark.slow
def test_a_server_that_knows_nothing_of_us(environment: dict[str, str], tmp_path: Path) -> None:
    found = record(environment, sys.executable, str(SERVER), options=("--detail", "light", "-o", "here"))
    assert found.returncode == 0, found.stderr
    assert len(found.stdout.splitlines()) == 3
    assert "captures: 8 ok. The run is in " in found.stderr
    (folder,) = (tmp_path / "here").iterdir()
    rows = by_rank(folder)
    assert {rank: set(sizes) for rank, sizes in rows.items()} == {0: SIZES, 1: SIZES}
    assert {row.status for sizes in rows.values() for row in sizes.values()} == {Status.OK}
    assert check_files(folder) == {row.file for sizes in rows.values() for row in sizes.values()}


# Forks what a start of Python would cost seconds for. Two servers run to their end, the second of which tells how long
# that takes; each further one is killed, workers and all: every other one at a random moment of that time, the rest soon
# after a random one of the eight traces, however slow the machine is.
KILLED = """
import os, random, runpy, signal, sys, time
from pathlib import Path
server, root, seed, times = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
import torch, torch.profiler, shapescope.record.start
from shapescope.engines.any import watch
from shapescope.store.finish import finish_run, wait_for_writers
program = runpy.run_path(server)
random.seed(seed)
os.environ.update(SHAPESCOPE_GRAPH_BATCH_CAPTURE="1", SHAPESCOPE_DETAIL="light", SHAPESCOPE_PROFILER_DIR=root)

def start(number):
    os.environ.update(SHAPESCOPE_RUN_ID=f"run-{number}")
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        watch()
        program["main"]("fork")
        os._exit(0)
    os.setpgid(child, child)
    return child

def wait_for_traces(folder, count):
    deadline = time.monotonic() + 60
    while len(list(folder.glob("*/*.gz"))) < count and time.monotonic() < deadline:
        time.sleep(0.001)
    time.sleep(random.uniform(0.0, 0.02))

for _ in range(2):
    begin = time.monotonic()
    os.waitpid(start(0), 0)
    whole = time.monotonic() - begin
for number in range(1, times + 1):
    child, folder = start(number), Path(root, f"run-{number}")
    if number % 2:
        time.sleep(whole * random.random())
    else:
        wait_for_traces(folder, random.randint(1, 7))
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    if folder.is_dir():
        wait_for_writers(folder, 10)
        finish_run(folder, "the command was killed by SIGKILL")
"""


@pytest.mark.slow
@pytest.mark.timeout(600)  # 22 servers one after the other: seconds, but on a machine that has better to do
def test_killed_at_random_moments(environment: dict[str, str], tmp_path: Path) -> None:
    root = tmp_path / "runs"
    times = 20
    subprocess.run(
        [sys.executable, "-c", KILLED, str(SERVER), str(root), "7", str(times)],
        env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True,
    )  # fmt: skip
    captured, named = 0, 0
    for folder in root.glob("run-[1-9]*"):
        files, rows = check_files(folder), by_rank(folder)
        for rank, sizes in rows.items():
            assert set(sizes) == SIZES, (folder, rank)
            for row in sizes.values():
                if row.status is Status.OK:
                    captured += 1
                    assert row.file in files
                else:
                    named += 1
                    assert row.status is Status.MISSING and row.reason is not None and "SIGKILL" in row.reason
    assert named > 0, "no kill fell into the captures"
    assert captured > 0, "no kill came after a capture"


def descendants(process: int) -> Iterator[int]:
    for child in Path(f"/proc/{process}/task/{process}/children").read_text().split():
        yield from descendants(int(child))
        yield int(child)


def test_a_child_that_is_killed(environment: dict[str, str], tmp_path: Path) -> None:
    """The real thing once: the server and its workers die, and the launcher says so."""
    launcher = subprocess.Popen(
        [*RECORD, "-o", "here", "--", sys.executable, str(SERVER)],
        env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not list((tmp_path / "here").glob("*/manifest.*")):
        time.sleep(0.01)
    for process in descendants(launcher.pid):
        os.kill(process, signal.SIGKILL)
    _, said = launcher.communicate(timeout=30)
    assert launcher.returncode == 128 + 9
    (folder,) = (tmp_path / "here").iterdir()
    check_files(folder)
    rows = [row for sizes in by_rank(folder).values() for row in sizes.values()]
    reasons = {row.reason for row in rows if row.status is Status.MISSING}
    assert reasons <= {"its process ended before it was captured: the command was killed by SIGKILL"}
    assert "captures: " in said
