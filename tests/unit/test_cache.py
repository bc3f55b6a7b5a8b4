"""The cache gives what decoding gives, finds what moved, and never stands in the way."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import pytest

from shapescope.errors import InputError
from shapescope.read import cache as module
from shapescope.read.cache import Cache, cache_folder
from shapescope.read.chrome import decode
from shapescope.read.columns import Trace

EVENTS = [{"ph": "X", "cat": "kernel", "name": f"k{index % 7}", "ts": index, "dur": 1.5} for index in range(500)]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(json.dumps({"traceEvents": EVENTS, "baseTimeNanoseconds": 1 << 60}).encode()))
    return path


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files that were decoded, rather than found."""
    files: list[Path] = []

    def counted(path: Path, **options: str) -> list[Trace]:
        files.append(path)
        return decode(path, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "decode", counted)
    return files


def assert_same(one: list[Trace], other: list[Trace]) -> None:
    assert [(each.member, each.metadata, each.losses) for each in one] == [
        (each.member, each.metadata, each.losses) for each in other
    ]
    for first, second in zip(one, other, strict=True):
        assert first.events.schema == second.events.schema
        assert first.events.equals(second.events)


def test_a_second_read_decodes_nothing(tmp_path: Path, trace: Path, decoded: list[Path]) -> None:
    first = Cache(tmp_path / "cache").decode(trace)
    second = Cache(tmp_path / "cache").decode(trace)
    assert decoded == [trace]
    assert_same(first, second)
    assert_same(second, decode(trace))


def test_a_copy_is_found_by_its_content(tmp_path: Path, trace: Path, decoded: list[Path]) -> None:
    Cache(tmp_path / "cache").decode(trace)
    copy = Path(shutil.copy(trace, tmp_path / "copy.json.gz"))
    (found,) = Cache(tmp_path / "cache").decode(copy)
    assert decoded == [trace]
    assert found.path == copy


def test_a_changed_file_is_decoded_anew(tmp_path: Path, trace: Path, decoded: list[Path]) -> None:
    cache = Cache(tmp_path / "cache")
    cache.decode(trace)
    trace.write_bytes(gzip.compress(json.dumps({"traceEvents": EVENTS[:3]}).encode()))
    assert cache.decode(trace)[0].events.height == 3
    assert len(decoded) == 2


def test_python_frames_are_kept_apart(tmp_path: Path, decoded: list[Path]) -> None:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps([{"ph": "X", "cat": "python_function", "name": "f", "ts": 1}, *EVENTS]))
    cache = Cache(tmp_path / "cache")
    for _ in range(2):
        assert [cache.decode(path, python=mode)[0].events.height for mode in ("all", "none")] == [501, 500]
    assert len(decoded) == 2


def test_losses_and_several_documents_survive(tmp_path: Path, decoded: list[Path]) -> None:
    whole = json.dumps({"traceEvents": EVENTS, "rank": 0}).encode()
    path = tmp_path / "trace.json"
    path.write_bytes(whole + whole[:-9000])
    cache = Cache(tmp_path / "cache")
    first, second = cache.decode(path), cache.decode(path)
    assert len(decoded) == 1
    assert_same(first, second)
    assert str(second[1].losses.reason).startswith("truncated: ")


@pytest.mark.parametrize("content", [b"", b"PAR1", b"garbage" * 100])
def test_a_damaged_entry_is_decoded_anew(tmp_path: Path, trace: Path, decoded: list[Path], content: bytes) -> None:
    cache = Cache(tmp_path / "cache")
    cache.decode(trace)
    for entry in (tmp_path / "cache").iterdir():
        entry.write_bytes(content)
    assert_same(cache.decode(trace), decode(trace))
    assert len(decoded) == 2
    cache.decode(trace)
    assert len(decoded) == 2


def test_a_folder_that_cannot_be_written_only_costs_time(tmp_path: Path, trace: Path, decoded: list[Path]) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("where the folder would be")
    for _ in range(2):
        assert Cache(blocked / "cache").decode(trace)[0].events.height == 500
    assert len(decoded) == 2


def test_the_folder_stays_within_its_limit(tmp_path: Path) -> None:
    limit = 0
    for number in range(8):
        path = tmp_path / f"{number}.json"
        path.write_text(json.dumps([{**event, "ts": event["ts"] + number} for event in EVENTS]))
        Cache(tmp_path / "cache", limit or 1 << 30).decode(path)
        kept = [entry.stat().st_size for entry in (tmp_path / "cache").glob("*.parquet")]
        limit = limit or 3 * kept[0]
    assert kept[0] < sum(kept) <= limit


def test_errors_are_those_of_decoding(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        Cache(tmp_path / "cache").decode(tmp_path / "missing.json")
    path = tmp_path / "text.json"
    path.write_text("no trace")
    with pytest.raises(InputError, match="not a profiler trace"):
        Cache(tmp_path / "cache").decode(path)


def test_where_a_cache_belongs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "run.json").write_text("{}")
    assert cache_folder(run / "graph_capture_profile" / "trace.json") == run / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder(tmp_path / "elsewhere" / "trace.json") == tmp_path / "xdg" / "shapescope"
