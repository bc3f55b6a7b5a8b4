"""Reading many files: the same from one worker, many, and a cluster; and what the command says of it."""

from __future__ import annotations

import json
from pathlib import Path

import mini
import pytest
from test_cache import assert_same

from shapescope.cli import main
from shapescope.errors import MissingDependencyError
from shapescope.read import files as module
from shapescope.read.run import open_run
from shapescope.read.workers import Where, Workers


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Captures, a replay, a file that is cut and one that is no trace."""
    folder = tmp_path / "traces"
    folder.mkdir()
    for size in (4, 8, 16):
        mini.write(folder / f"bs_{size}_rank0.json.gz", mini.capture(10, 6, dims=[[size, 64]]))
    whole = mini.write(folder / "serving.json", mini.replay(0, ["a", "b"], correlation=1))
    (folder / "cut.json").write_bytes(whole.read_bytes()[:-40])
    (folder / "notes.txt").write_text("no trace")
    return folder


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as caught:
        main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return int(caught.value.code or 0), out, err


@pytest.mark.parametrize("processes", [False, True])
def test_many_workers_give_what_one_gives(folder: Path, processes: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_WORTH_PROCESSES_BYTES", 0 if processes else 1 << 30)
    assert_same(open_run(folder, workers=Workers(2)), open_run(folder, workers=Workers(1)))


@pytest.mark.cluster
@pytest.mark.timeout(300)
@pytest.mark.parametrize("where", [Where.RAY, Where.DASK])
def test_a_cluster_gives_what_one_worker_gives(folder: Path, where: Where) -> None:
    pytest.importorskip("distributed" if where is Where.DASK else "ray")
    assert_same(open_run(folder, workers=Workers(2, where)), open_run(folder, workers=Workers(1)))


@pytest.mark.parametrize("where", [Where.RAY, Where.DASK])
def test_a_cluster_that_is_not_installed_is_named(folder: Path, where: Where, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ray.util.joblib", "distributed"):
        monkeypatch.setitem(__import__("sys").modules, name, None)
    with pytest.raises(MissingDependencyError) as caught:
        open_run(folder, workers=Workers(2, where))
    assert f"shapescope[{where}]" in caught.value.hint


def test_progress_tells_bytes(folder: Path) -> None:
    told: list[tuple[int, int]] = []
    open_run(folder, workers=Workers(2, progress=lambda done, total: told.append((done, total))))
    size = sum(file.stat().st_size for file in folder.iterdir())
    assert len(told) == 6
    assert told[-1] == (size, size)
    assert told == sorted(told)


def test_one_line_a_file_and_a_bad_one_stops_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "ingest", folder, "-j", 2, "--format", "json")
    rows = {row["file"]: row for row in json.loads(out)["rows"]}
    assert code == 3
    assert len(rows) == 6
    assert [rows[f"bs_{size}_rank0.json.gz"]["key"] for size in (4, 8, 16)] == ["bs=4", "bs=8", "bs=16"]
    assert rows["serving.json"]["role"] == "replay"
    assert (rows["cut.json"]["status"], rows["notes.txt"]["status"]) == ("partial", "not-a-trace")
    assert rows["bs_4_rank0.json.gz"]["events"] == len(mini.capture(10, 6, dims=[[4, 64]]))


def test_a_run_that_cannot_be_opened_stops_no_other(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "cut.json").unlink()
    code, out, _ = run(capsys, "ingest", folder.parent / "missing", folder, "--format", "json")
    result = json.loads(out)
    assert (code, len(result["rows"]), result["partial"]) == (3, 5, True)
    assert "missing" in result["warnings"][-1]["message"]
    assert run(capsys, "ingest", folder.parent / "missing")[0] == 3


def test_strict_is_a_rule(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "cut.json").unlink()
    assert run(capsys, "ingest", folder, "-q")[0] == 0
    mini.write(folder / "bs_4_rank1.json.gz", mini.capture(10, 6, dims=[[4, 64]]))
    mini.write(folder / "bs_4_rank1_dup1.json.gz", mini.capture(10, 6, dims=[[4, 64]]))
    assert run(capsys, "ingest", folder, "-q", "--strict")[0] == 1


def test_what_ingest_read_the_others_find(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Path] = []
    monkeypatch.setattr(module, "read_file", lambda path, *_, **__: read.append(path) or [])
    run(capsys, "ingest", folder, "-j", 1, "--no-cache", "-q")
    assert len(read) == 6
    monkeypatch.undo()
    first = run(capsys, "ingest", folder, "-q", "--format", "json")[1]
    monkeypatch.setattr(module, "read_file", lambda path, *_, **__: read.append(path) or [])
    code, out, _ = run(capsys, "shapes", folder, "--format", "json")
    assert (len(read), code, len(json.loads(out)["rows"]) > 2) == (6, 3, True)
    assert run(capsys, "ingest", folder, "-q", "--format", "json")[1] == first
