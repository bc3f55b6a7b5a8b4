"""Runs behind an address: fetched once, read like any other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mini
import pytest

from shapescope.cli import main
from shapescope.errors import InputError, MissingDependencyError
from shapescope.read.remote import fetched
from shapescope.read.run import open_run

fsspec = pytest.importorskip("fsspec")


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """`memory://run` with two captures, one in a folder of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    system = fsspec.filesystem("memory")
    for size, where in ((8, ""), (16, "rank0/")):
        local = mini.write(tmp_path / f"bs_{size}_rank0.json.gz", mini.capture(10, 6, dims=[[size, 64]]))
        system.pipe(f"/run/{where}{local.name}", local.read_bytes())
    yield system
    system.rm("/run", recursive=True)


def test_a_folder_and_a_file(memory: Any) -> None:
    assert open_run(fetched("memory://run")).shapes()["size"].to_list() == [8, 16]
    assert open_run(fetched("memory://run/bs_8_rank0.json.gz")).shapes()["size"].to_list() == [8]


def test_only_what_changed_is_fetched_again(memory: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names: list[str] = []
    opened = type(memory).open
    monkeypatch.setattr(
        type(memory), "open", lambda self, name, *a, **k: names.append(name) or opened(self, name, *a, **k)
    )
    first = fetched("memory://run")
    assert (len(names), fetched("memory://run")) == (2, first)
    assert len(names) == 2
    local = mini.write(tmp_path / "other.json.gz", mini.capture(10, 3, dims=[[8, 64]]))
    memory.pipe("/run/bs_8_rank0.json.gz", local.read_bytes())
    memory.rm("/run/rank0/bs_16_rank0.json.gz")
    del names[:]
    assert open_run(fetched("memory://run")).shapes().select("size", "launches").rows() == [(8, 3)]
    assert [name for name in names if "bs_16" in name] == []


def test_every_command_takes_an_address(memory: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["shapes", "memory://run", "--format", "json"])
    assert not caught.value.code
    assert [row["size"] for row in json.loads(capsys.readouterr().out)["rows"]] == [8, 16]


@pytest.mark.parametrize("uri", ["memory://nowhere", "nosuch://bucket/run"])
def test_an_address_of_nothing_is_an_input_error(memory: Any, uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InputError, match=uri):
        fetched(uri)
    with pytest.raises(SystemExit) as caught:
        main(["shapes", uri])
    assert caught.value.code == 3
    assert len(capsys.readouterr().err.strip().splitlines()) == 2


def test_without_fsspec_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "fsspec", None)
    with pytest.raises(MissingDependencyError) as caught:
        fetched("memory://run")
    assert "shapescope[remote]" in caught.value.hint
