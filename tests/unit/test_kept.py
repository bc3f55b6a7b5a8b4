"""A result is made once: the same question again is answered from the cache, in the same words."""

from __future__ import annotations

from pathlib import Path

import mini
import pytest

from shapescope.show import kept as module
from shapescope.show import tables
from shapescope.show.export import to_csv, to_json, to_markdown
from shapescope.show.kept import kept
from shapescope.show.result import Result


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two captures, one of them cut off."""
    folder = tmp_path / "traces"
    folder.mkdir()
    for size in (8, 16):
        whole = mini.write(folder / f"bs_{size}_rank0.json", mini.capture(10, 6, dims=[[size, 64]]))
    whole.write_bytes(whole.read_bytes()[:-40])
    return folder


class Maker:
    """Makes a table, and counts how often it was asked to."""

    def __init__(self, folder: Path, table: str) -> None:
        self.made = 0
        self._folder = folder
        self._table = table

    def __call__(self) -> Result:
        from shapescope.read.run import open_run

        self.made += 1
        result: Result = getattr(tables, self._table)(open_run(self._folder))
        return result


@pytest.mark.parametrize("table", ["shapes", "kernels", "check", "memory", "ranks"])
def test_a_kept_result_is_the_one_that_was_made(folder: Path, table: str) -> None:
    make = Maker(folder, table)
    first, second = (kept(folder, make, table) for _ in range(2))
    assert make.made == 1
    for write in (to_json, to_csv, to_markdown):
        assert write(first) == write(second)
    assert (first.shown, first.partial, list(first.warnings)) == (second.shown, second.partial, list(second.warnings))
    assert second.partial


def test_other_options_and_other_files_are_another_question(folder: Path) -> None:
    make = Maker(folder, "shapes")
    assert [kept(folder, make, "shapes", size).rows for size in (1, 2, 1)] and make.made == 2
    (folder / "bs_8_rank0.json").unlink()
    assert [row["size"] for row in kept(folder, make, "shapes", 1).rows] == [16]


def test_what_changed_while_it_was_made_is_not_kept(folder: Path) -> None:
    make = Maker(folder, "shapes")

    def made_while_a_file_comes() -> Result:
        result = make()
        mini.write(folder / f"bs_{make.made + 31}_rank0.json", mini.capture(10, 6, dims=[[32, 64]]))
        return result

    kept(folder, made_while_a_file_comes, "shapes")
    assert len(kept(folder, made_while_a_file_comes, "shapes").rows) == 3 and make.made == 2


def test_a_result_of_very_many_rows_is_not_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_ROWS", 1)
    make = Maker(folder, "shapes")
    assert [len(kept(folder, make, "shapes").rows) for _ in range(2)] == [2, 2] and make.made == 2
