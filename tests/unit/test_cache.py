"""What was read before is not read again: by content, whatever moved; and the cache never stands in the way."""

from __future__ import annotations

import dataclasses
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import mini
import polars as pl
import pytest

from shapescope.read import files as module
from shapescope.read import run as run_module
from shapescope.read.cache import Cache, cache_folder
from shapescope.read.file import read_file
from shapescope.read.part import Part
from shapescope.read.run import Run, open_run


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    return tmp_path / "xdg" / "shapescope"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two captures, a replay, a damaged file and one that is no trace."""
    folder = tmp_path / "traces"
    folder.mkdir()
    for size in (8, 16):
        mini.write(folder / f"bs_{size}_rank0.json.gz", mini.capture(10, 6, dims=[[size, 64]]))
    whole = mini.write(folder / "serving.json", mini.replay(0, ["a", "b"], correlation=1))
    (folder / "cut.json").write_bytes(whole.read_bytes()[:-40])
    (folder / "notes.txt").write_text("no trace")
    return folder


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that were read, rather than found."""
    names: list[str] = []

    def counted(path: Path, name: str, **options: Any) -> list[Part]:
        names.append(name)
        return read_file(path, name, **options)

    monkeypatch.setattr(module, "read_file", counted)
    return names


def assert_same(one: Any, other: Any) -> None:
    assert type(one) is type(other)
    if isinstance(one, pl.DataFrame):
        assert one.schema == other.schema
        assert one.equals(other, null_equal=True)
    elif dataclasses.is_dataclass(one):
        for field in dataclasses.fields(one):
            assert_same(getattr(one, field.name), getattr(other, field.name))
    elif isinstance(one, (tuple, list)):
        assert len(one) == len(other)
        for first, second in zip(one, other, strict=True):
            assert_same(first, second)
    else:
        assert one == other


def test_a_second_read_reads_nothing_and_gives_the_same(folder: Path, read: list[str]) -> None:
    first = open_run(folder, cache=True)
    assert sorted(read) == ["bs_16_rank0.json.gz", "bs_8_rank0.json.gz", "cut.json", "notes.txt", "serving.json"]
    second = open_run(folder, cache=True)
    assert len(read) == 5
    assert_same(first, second)
    assert_same(second, open_run(folder))
    assert first.partial


def test_real_runs_come_back_as_they_were(traces: Path) -> None:
    first = open_run(traces, cache=True)
    assert_same(open_run(traces, cache=True), first)


def test_a_second_command_imports_no_reader(folder: Path) -> None:
    """Importing is what a command on a cached run spends its time on."""
    shapes = f"sys.argv = ['shapescope', 'shapes', {str(folder)!r}, '-q']"
    heavy = "{'numpy', 'polars', 'torch', 'joblib', 'shapescope.read.reading', 'shapescope.analyse.names.kernel'}"
    tell = f"atexit.register(lambda: print(sorted({heavy} & set(sys.modules))))"
    code = f"import atexit, sys\n{tell}\n{shapes}\nfrom shapescope.cli import main; main()"
    first, second = (
        subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True) for _ in range(2)
    )
    *table, imported = second.stdout.splitlines()
    assert imported == "[]" and table == first.stdout.splitlines()[:-1]
    assert "numpy" in first.stdout.splitlines()[-1]


def test_a_moved_folder_is_found_by_its_content(folder: Path, read: list[str]) -> None:
    open_run(folder, cache=True)
    copy = Path(shutil.copytree(folder, folder.parent / "elsewhere" / folder.name))
    found = open_run(copy, cache=True)
    assert len(read) == 5
    assert [part.path.parent for part in found.parts] == [copy] * 5
    assert str(folder) not in str([problem.message for problem in found.warnings])


def test_only_what_changed_is_read_anew(folder: Path, read: list[str]) -> None:
    open_run(folder, cache=True)
    mini.write(folder / "bs_8_rank0.json.gz", mini.capture(10, 3, dims=[[8, 64]]))
    again = open_run(folder, cache=True)
    assert read[5:] == ["bs_8_rank0.json.gz"]
    assert dict(again.shapes().select("size", "launches").drop_nulls("size").iter_rows()) == {8: 3, 16: 6}


def test_a_file_that_is_added_or_removed_is_seen(folder: Path) -> None:
    open_run(folder, cache=True)
    (folder / "bs_8_rank0.json.gz").unlink()
    assert open_run(folder, cache=True).shapes()["size"].drop_nulls().to_list() == [16]


def test_stacks_are_kept_apart(folder: Path, read: list[str]) -> None:
    for _ in range(2):
        for stacks in (False, True):
            open_run(folder, stacks=stacks, cache=True)
    assert len(read) == 10


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"garbage" * 100])
def test_a_damaged_entry_is_made_anew(folder: Path, cache: Path, read: list[str], content: bytes) -> None:
    first = open_run(folder, cache=True)
    for entry in cache.iterdir():
        entry.write_bytes(content)
    assert_same(open_run(folder, cache=True), first)
    assert len(read) == 10
    open_run(folder, cache=True)
    assert len(read) == 10


def test_every_flipped_bit_gives_the_record_or_none(cache: Path) -> None:
    record = Frames(pl.DataFrame({"a": range(500), "b": ["x", None] * 250}))
    Cache(cache).store("entry", record)
    (entry,) = cache.iterdir()
    whole = entry.read_bytes()
    for at in range(0, len(whole), 7):
        entry.write_bytes(whole[:at] + bytes([whole[at] ^ 16]) + whole[at + 1 :])
        found = Cache(cache).load("entry", Frames)
        assert found is None or found.frame.equals(record.frame)


@dataclasses.dataclass(frozen=True)
class Frames:
    frame: pl.DataFrame


def test_a_folder_that_cannot_be_written_only_costs_time(
    folder: Path, cache: Path, read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = folder.parent / "blocked"
    blocked.write_text("where the folder would be")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    first, second = (open_run(folder, cache=True) for _ in range(2))
    assert_same(first, second)
    assert len(read) == 10
    assert not cache.exists()


def test_without_cache_nothing_is_written(folder: Path, cache: Path, read: list[str]) -> None:
    for _ in range(2):
        open_run(folder)
    assert len(read) == 10
    assert not cache.exists()


def test_the_folder_stays_within_its_limit(cache: Path) -> None:
    sizes: list[int] = []
    for number in range(8):
        kept = Cache(cache, 3 * sizes[0] if sizes else 1 << 30)
        kept.store(f"{number}", Frames(pl.DataFrame({"a": range(number, number + 500)})))
        kept.shrink()
        sizes = [entry.stat().st_size for entry in cache.iterdir()]
    assert sizes[0] < sum(sizes) <= 3 * max(sizes)
    assert Cache(cache).load("7", Frames) is not None


def test_other_code_makes_other_entries(folder: Path, read: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    open_run(folder, cache=True)
    for made_by in (module, run_module):
        monkeypatch.setattr(made_by, "entry_name", lambda *words, **code: f"other-{hash(repr(words))}")
    open_run(folder, cache=True)
    assert len(read) == 10


def test_a_run_keeps_its_cache_within(folder: Path, tmp_path: Path) -> None:
    (folder / "run.json").write_text("{}")
    assert cache_folder(folder) == folder / "cache"
    assert cache_folder(folder / "graph_capture_profile" / "trace.json") == folder / "cache"
    assert cache_folder(tmp_path / "trace.json") == tmp_path / "xdg" / "shapescope"
    first = open_run(folder, cache=True)
    assert list((folder / "cache").iterdir())
    assert isinstance(first, Run)
    assert_same(open_run(folder, cache=True), first)
