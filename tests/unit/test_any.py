"""A program without an adapter: every capture has its record, and a shape only where the program names it."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import fake_cuda
import pytest
import torch
from torch.profiler import ProfilerActivity, profile

import shapescope
from shapescope.engines import any as any_engine
from shapescope.errors import UsageError
from shapescope.graphs.runner import GraphRunner
from shapescope.model import Evidence, GraphKey, ManifestRow, Phase, Status, Unit
from shapescope.record import hooks
from shapescope.record.profiler import CaptureProfiler
from shapescope.store.manifest import read_manifests, read_run
from shapescope.tape import TapeGraph


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> fake_cuda.State:
    return fake_cuda.install(monkeypatch.setattr)


@pytest.fixture
def on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Path]]:
    """Switch recording on as the environment would; returns the run's folder."""
    stops: list[Callable[[], None]] = []

    def switch(mode: str = "SHAPESCOPE_GRAPH_BATCH_CAPTURE", **variables: str) -> Path:
        given = {mode: "1", "SHAPESCOPE_PROFILER_DIR": str(tmp_path), "SHAPESCOPE_RUN_ID": "run", **variables}
        for name, value in {"SHAPESCOPE_DETAIL": "light", **given}.items():
            monkeypatch.setenv(name, value)
        stop = any_engine.watch()
        assert stop is not None
        stops.append(stop)
        return tmp_path / "run"

    yield switch
    for stop in stops:
        stop()
    assert not hooks._everywhere


def rows(folder: Path, missing: bool = False) -> list[ManifestRow]:
    recorder().drain()
    found = [row for _, row in read_manifests(folder)]
    assert all(isinstance(row, ManifestRow) for row in found)
    return [row for row in found if isinstance(row, ManifestRow) and (missing or row.status is not Status.MISSING)]


def recorder() -> CaptureProfiler:
    found = hooks._everywhere[-1]._window.__self__.recorder()  # type: ignore[attr-defined]
    assert isinstance(found, CaptureProfiler)
    return found


def capture(size: int = 4) -> torch.cuda.CUDAGraph:
    graph, x = torch.cuda.CUDAGraph(), torch.ones(size, 3)
    with torch.cuda.graph(graph):
        torch.relu(x @ x.T)
    return graph


def bare(size: int = 4) -> torch.cuda.CUDAGraph:
    graph, x = torch.cuda.CUDAGraph(), torch.ones(size, 3)
    graph.capture_begin()
    torch.relu(x @ x.T)
    graph.capture_end()
    return graph


def tape(size: int = 4) -> TapeGraph:
    graph, x = TapeGraph(), torch.ones(size, 3)
    with graph.capturing():
        torch.relu(x @ x.T)
    return graph


@pytest.mark.parametrize("way", [capture, bare, tape])
def test_captures_are_labelled_where_the_program_says_so(
    cuda: fake_cuda.State, on: Callable[..., Path], way: Callable[[int], object]
) -> None:
    folder = on()
    for size in (4, 2):
        with shapescope.shape("DecodeRunner", size, "lora"):
            way(size)
    way(3)
    found = rows(folder)
    assert [(row.key, row.status, row.launches) for row in found] == [
        (GraphKey.of("DecodeRunner", 4, "lora"), Status.OK, 2),
        (GraphKey.of("DecodeRunner", 2, "lora"), Status.OK, 2),
        (None, Status.UNLABELLED, 2),
    ]
    assert sorted(path.name for path in (folder / "graph_capture_profile").iterdir()) == [
        "DecodeRunner_bs_2_lora_rank0.json.gz",
        "DecodeRunner_bs_4_lora_rank0.json.gz",
        "unlabelled-2_rank0.json.gz",
    ]
    run = read_run(folder)
    assert run is not None and run.engine == "any"


def test_a_replay_is_the_same_call_with_recording_on(cuda: fake_cuda.State, on: Callable[..., Path]) -> None:
    replay = torch.cuda.CUDAGraph.replay
    on()
    graph = capture()
    assert torch.cuda.CUDAGraph.replay is replay
    called: list[str] = []

    def note(frame: object, event: str, argument: object) -> None:
        module = frame.f_globals.get("__name__", "")  # type: ignore[attr-defined]
        if event == "call" and module.startswith("shapescope"):
            called.append(module)

    sys.setprofile(note)
    try:
        graph.replay()
    finally:
        sys.setprofile(None)
    assert set(called) == {"shapescope.tape"}


def test_a_label_holds_for_its_own_thread_only(cuda: fake_cuda.State, on: Callable[..., Path]) -> None:
    folder = on()

    def labelled() -> None:
        with shapescope.shape("Lazy", 8):
            capture(8)

    for target in (capture, labelled):
        with shapescope.shape("DecodeRunner", 4):
            thread = threading.Thread(target=target)
            thread.start()
            thread.join()
    assert [row.key for row in rows(folder)] == [None, GraphKey.of("Lazy", 8)]


def test_threads_that_capture_at_once_do_not_nest_profilers(on: Callable[..., Path]) -> None:
    folder = on()
    barrier = threading.Barrier(3)

    def run(size: int) -> None:
        x = torch.ones(size, 3)
        with shapescope.shape("R", size), TapeGraph().capturing():
            torch.relu(x)
            barrier.wait()

    threads = [threading.Thread(target=run, args=(size,)) for size in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tape()
    statuses = [row.status for row in rows(folder)]
    assert sorted(statuses) == [Status.FAILED, Status.FAILED, Status.OK, Status.UNLABELLED]
    assert {row.reason for row in rows(folder)} == {None, "another profiler is active"}


def test_a_profiler_on_another_thread_is_a_foreign_one(cuda: fake_cuda.State, on: Callable[..., Path]) -> None:
    """torch tells of a profiler on the asking thread only, and crashes where a second one starts."""
    folder = on()
    with profile(activities=[ProfilerActivity.CPU]) as foreign:
        thread = threading.Thread(target=capture)
        thread.start()
        thread.join()
        torch.ones(2) + 1
    assert any(event.name == "aten::add" for event in foreign.events() or ())
    assert [row.reason for row in rows(folder)] == ["another profiler is active"]
    capture()
    assert rows(folder)[-1].status is Status.UNLABELLED


def test_a_capture_that_ends_on_another_thread(cuda: fake_cuda.State, on: Callable[..., Path]) -> None:
    folder = on()
    begun, ended = threading.Event(), threading.Event()
    graph = torch.cuda.CUDAGraph()

    def begin() -> None:
        graph.capture_begin()
        graph.notes.close()
        begun.set()
        ended.wait()
        capture()

    thread = threading.Thread(target=begin)
    thread.start()
    begun.wait()
    graph.capture_end()
    ended.set()
    thread.join()
    first, second = rows(folder)
    assert first.status is Status.FAILED and first.reason is not None and "another thread" in first.reason
    assert second.status is Status.UNLABELLED
    assert not torch.autograd.profiler._is_profiler_enabled


def test_a_capture_that_fails_is_the_hosts_business(cuda: fake_cuda.State, on: Callable[..., Path]) -> None:
    folder = on()
    error = MemoryError("CUDA out of memory")
    with pytest.raises(MemoryError) as caught, shapescope.shape("R", 4), torch.cuda.graph(torch.cuda.CUDAGraph()):
        raise error
    assert caught.value is error
    with shapescope.shape("R", 2):
        capture(2)
    assert [(row.status, row.reason) for row in rows(folder)] == [
        (Status.FAILED, "MemoryError: CUDA out of memory"),
        (Status.OK, None),
    ]


def test_a_begin_without_end_is_told_when_the_graph_is_gone(cuda: fake_cuda.State, on: Callable[..., Path]) -> None:
    folder = on()
    graph = torch.cuda.CUDAGraph()
    with shapescope.shape("R", 4):
        graph.capture_begin()
    cuda.live, notes = None, graph.notes
    notes.close()
    with shapescope.shape("R", 4), torch.cuda.graph(graph):
        pass
    assert [row.reason for row in rows(folder)] == ["RuntimeError: the capture never ended", None]


def test_a_key_captured_again_keeps_both(cuda: fake_cuda.State, on: Callable[..., Path]) -> None:
    folder = on()
    for _ in range(2):
        with shapescope.shape("R", 4):
            capture()
    assert [row.warnings for row in rows(folder)] == [(), ("duplicate-key",)]


def test_an_announced_shape_is_missing_until_it_is_captured(cuda: fake_cuda.State, on: Callable[..., Path]) -> None:
    folder = on(SHAPESCOPE_MEASURE="3")
    with pytest.raises(ValueError), shapescope.runner("DecodeRunner", [8, 4, 2]):
        for size in (8, 4):
            with shapescope.shape("DecodeRunner", size):
                graph = capture(size)
        raise ValueError
    last = {row.key: row.status for row in rows(folder, missing=True) if row.key}
    assert {key.shape.size: status for key, status in last.items()} == {8: "ok", 4: "ok", 2: "missing"}
    assert (folder / "summary-DecodeRunner-rank0.txt").is_file()
    del graph


def test_graphs_of_an_announced_runner_are_timed_where_asked(cuda: fake_cuda.State, on: Callable[..., Path]) -> None:
    folder = on(SHAPESCOPE_MEASURE="3")
    kept = []
    with shapescope.runner("DecodeRunner", [4, 2]):
        for size in (4, 2):
            with shapescope.shape("DecodeRunner", size):
                kept.append(capture(size))
        kept.pop()
        gc.collect()
    replays = [row for row in rows(folder) if row.evidence is Evidence.REPLAY]
    assert [row.key.shape.size for row in replays if row.key] == [4]
    assert replays[0].timing is not None and len(replays[0].timing.samples_ns) == 3


@pytest.mark.parametrize("announced", [True, False])
def test_combined(cuda: fake_cuda.State, on: Callable[..., Path], announced: bool) -> None:
    folder = on("SHAPESCOPE_GRAPH_CAPTURE_TRACE")

    def both() -> None:
        for size in (4, 2):
            with shapescope.shape("R", size):
                capture(size)

    if announced:
        with shapescope.runner("R", [4, 2]):
            both()
    else:
        both()
    names = sorted(path.name for path in (folder / "graph_capture_profile").iterdir())
    first, second = "cuda_graph_capture-R-TP-0.json.gz", "cuda_graph_capture-R-TP-0_dup1.json.gz"
    assert names == ([first] if announced else [first, second])


def test_a_capture_off_the_thread_of_its_combined_trace_says_so(on: Callable[..., Path]) -> None:
    folder = on("SHAPESCOPE_GRAPH_CAPTURE_TRACE")
    with shapescope.runner("R", [4]):
        thread = threading.Thread(target=tape)
        thread.start()
        thread.join()
    assert [row.reason for row in rows(folder) if row.reason] == [
        "captured on another thread than the combined trace of its runner"
    ]


def test_captures_of_our_own_runner_are_not_told_twice(on: Callable[..., Path]) -> None:
    folder = on()
    GraphRunner(lambda x: x + 1, {"x": torch.zeros(2)}, [1, 2], observer=recorder()).capture()
    assert [row.status for row in rows(folder)] == [Status.OK, Status.OK]


def test_labels_cost_nothing_and_do_nothing_while_off() -> None:
    with shapescope.runner("R", [1, 2]), shapescope.shape("R", 2, "lora", unit="tokens", phase="verify") as key:
        assert key == GraphKey.of("R", 2, "lora", unit=Unit.TOKENS, phase=Phase.VERIFY)
    code = "import sys, shapescope\nwith shapescope.shape('R', 1): pass\nprint('torch' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "False\n"


def test_a_phase_is_what_the_runners_name_implies() -> None:
    with shapescope.shape("EagleDraftRunner", 2) as key:
        assert key.phase is Phase.DRAFT


@pytest.mark.parametrize(("size", "more", "words"), [(0, {}, "0 is no size"), (1, {"unit": "bytes"}, "bytes")])
def test_what_is_no_shape_is_refused(size: int, more: dict[str, str], words: str) -> None:
    with pytest.raises(UsageError, match=words), shapescope.shape("R", size, **more):
        pass


@pytest.mark.parametrize("value", ["0", "perhaps"])
def test_off_or_a_bad_setting_leaves_torch_alone(
    value: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SHAPESCOPE_GRAPH_BATCH_CAPTURE", value)
    before = torch.cuda.graph.__enter__
    assert any_engine.watch() is None
    assert torch.cuda.graph.__enter__ is before
    assert len(caplog.records) == (value == "perhaps")


def test_a_folder_that_cannot_be_written_is_one_warning(
    cuda: fake_cuda.State, on: Callable[..., Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "file"
    file.write_text("")
    on(SHAPESCOPE_PROFILER_DIR=str(file))
    capture()
    capture()
    assert [record.message for record in caplog.records if "recording stays off" in record.message] != []
    assert len(caplog.records) == 1
