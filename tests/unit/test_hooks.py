"""The seam under every engine: captures are told of in order, once, and torch is as before afterwards."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import fake_cuda
import pytest
import torch

from shapescope.record import hooks
from shapescope.tape import TapeGraph


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> fake_cuda.State:
    return fake_cuda.install(monkeypatch.setattr)


class Log:
    """A watcher that writes down what it is told, into the device's own log."""

    def __init__(self, lines: list[str], name: str = "") -> None:
        self.lines = lines
        self.name = name

    def begins(self, graph: Any) -> None:
        self.lines.append(f"{self.name}<")

    def segment_begins(self, graph: Any) -> None:
        self.lines.append(f"{self.name}(")

    def closing(self, graph: Any) -> None:
        self.lines.append(f"{self.name}closing")

    def segment_ended(self, graph: Any) -> None:
        self.lines.append(f"{self.name})")

    def ended(self, graph: Any, error: BaseException | None) -> None:
        self.lines.append(f"{self.name}>" if error is None else f"{self.name}{type(error).__name__}>")


@pytest.fixture(autouse=True)
def torch_is_as_before() -> Iterator[None]:
    before = seams()
    yield
    assert seams() == before
    assert not hooks._captures


def seams() -> list[Any]:
    return [
        torch.cuda.graph.__enter__,
        torch.cuda.graph.__exit__,
        torch.cuda.CUDAGraph.capture_begin,
        torch.cuda.CUDAGraph.capture_end,
        TapeGraph.capturing,
    ]


ONE = ["<", "(", "begin", "body", "end", ")", ">"]


def with_graph(log: list[str]) -> None:
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        log.append("body")


def bare(log: list[str]) -> None:
    graph = torch.cuda.CUDAGraph()
    graph.capture_begin()
    log.append("body")
    graph.capture_end()


@pytest.mark.parametrize("capture", [with_graph, bare])
def test_a_capture_is_told_of_once(cuda: fake_cuda.State, capture: Any) -> None:
    with hooks.watching(Log(cuda.log)):
        capture(cuda.log)
        capture(cuda.log)
    capture(cuda.log)
    assert cuda.log == [*ONE, *ONE, "begin", "body", "end"]


def test_an_xpu_graph_is_told_of_by_its_own_names(monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[str] = []

    class XPUGraph:
        def capture_begin(self) -> None:
            log.append("begin")

        def capture_end(self) -> None:
            log.append("end")

    class graph:
        def __init__(self, xpu_graph: XPUGraph) -> None:
            self.xpu_graph = xpu_graph

        def __enter__(self) -> None:
            self.xpu_graph.capture_begin()

        def __exit__(self, *error: object) -> None:
            self.xpu_graph.capture_end()

    monkeypatch.setattr(torch.xpu, "XPUGraph", XPUGraph)
    monkeypatch.setattr(torch.xpu, "graph", graph)
    with hooks.watching(Log(log)), graph(XPUGraph()):
        log.append("body")
    assert log == ONE


def test_a_tape_is_a_capture_too() -> None:
    log: list[str] = []
    with hooks.watching(Log(log)), TapeGraph().capturing():
        log.append("body")
    assert log == ["<", "(", "body", ")", ">"]


def test_tapes_imported_later_are_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[str] = []
    monkeypatch.delitem(__import__("sys").modules, "shapescope.tape")
    with hooks.watching(Log(log)):
        with TapeGraph().capturing():
            pass
        hooks.watch_tapes(TapeGraph)
        hooks.watch_tapes(TapeGraph)
        with TapeGraph().capturing():
            pass
    assert log == ["<", "(", ")", ">"]


def test_a_failing_body_is_told_and_passes_through(cuda: fake_cuda.State) -> None:
    error = MemoryError("out of memory")
    with hooks.watching(Log(cuda.log)):
        with pytest.raises(MemoryError) as caught, torch.cuda.graph(torch.cuda.CUDAGraph()):
            raise error
        with pytest.raises(MemoryError), TapeGraph().capturing():
            raise error
    assert caught.value is error
    assert cuda.log == ["<", "(", "begin", "end", ")", "MemoryError>", "<", "(", ")", "MemoryError>"]


@pytest.mark.parametrize("capture", [with_graph, bare])
def test_a_capture_that_cannot_begin_is_over(cuda: fake_cuda.State, capture: Any) -> None:
    cuda.refuse_begin = RuntimeError("operation not permitted")
    with hooks.watching(Log(cuda.log)), pytest.raises(RuntimeError, match="not permitted"):
        capture(cuda.log)
    assert cuda.log == ["<", "(", "RuntimeError>"]


@pytest.mark.parametrize("capture", [with_graph, bare])
def test_an_invalidated_capture_fails_at_its_end(cuda: fake_cuda.State, capture: Any) -> None:
    cuda.refuse_end = RuntimeError("capture invalidated")
    with hooks.watching(Log(cuda.log)), pytest.raises(RuntimeError, match="invalidated"):
        capture(cuda.log)
    assert cuda.log == ["<", "(", "begin", "body", "end", ")", "RuntimeError>"]


def test_a_begin_without_end_is_over_when_its_graph_begins_again(cuda: fake_cuda.State) -> None:
    graph = torch.cuda.CUDAGraph()
    with hooks.watching(Log(cuda.log)):
        graph.capture_begin()
        cuda.live.notes.close()
        cuda.live = None
        with torch.cuda.graph(graph):
            cuda.log.append("body")
    assert cuda.log == ["<", "(", "begin", "RuntimeError>", *ONE]


def test_who_is_told(cuda: fake_cuda.State) -> None:
    """Those of the thread, the outermost first; without any those who watch all threads, unless it is none of theirs."""
    stop = hooks.watch_everywhere(Log(cuda.log, "all"))
    with_graph(cuda.log)
    with hooks.watching(Log(cuda.log, "A")), hooks.watching(Log(cuda.log, "B")):
        with_graph(cuda.log)
    with hooks.ignoring():
        with_graph(cuda.log)
    stop()
    with_graph(cuda.log)
    everywhere = ["all<", "all(", "begin", "body", "end", "all)", "all>"]
    nested = ["A<", "B<", "A(", "B(", "begin", "body", "end", "B)", "A)", "B>", "A>"]
    assert cuda.log == [*everywhere, *nested, *["begin", "body", "end"] * 2]


def test_a_window_may_bring_a_watcher_of_its_segments(cuda: fake_cuda.State) -> None:
    @contextmanager
    def window(_: Any) -> Iterator[None]:
        cuda.log.append("window")
        with hooks.watching(Log(cuda.log)):
            yield

    with hooks.watching(hooks.CaptureWindows(window, nullcontext)):
        with_graph(cuda.log)
    assert cuda.log == ["window", "(", "begin", "body", "end", ")"]


def test_another_thread_is_told_of_only_by_those_who_watch_all(cuda: fake_cuda.State) -> None:
    stop = hooks.watch_everywhere(Log(cuda.log))
    with hooks.watching(Log(cuda.log, "here")), hooks.ignoring():
        other = threading.Thread(target=with_graph, args=(cuda.log,))
        other.start()
        other.join()
    stop()
    assert cuda.log == ONE


def test_a_watcher_that_fails_changes_nothing(cuda: fake_cuda.State, caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        def __getattr__(self, name: str) -> Any:
            raise ValueError(name)

    with hooks.watching(Broken()):
        with_graph(cuda.log)
        bare(cuda.log)
    assert cuda.log == ["begin", "body", "end"] * 2
    assert len(caplog.records) == 8


@pytest.mark.parametrize("event", ["begins", "segment_begins", "segment_ended", "ended"])
def test_an_interrupt_in_a_watcher_reaches_the_host_with_the_stream_capture_over(
    cuda: fake_cuda.State, event: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    watcher = Log([])
    monkeypatch.setattr(watcher, event, interrupted, raising=False)
    with hooks.watching(watcher), pytest.raises(KeyboardInterrupt):
        bare(cuda.log)
    assert cuda.live is None


def test_someone_who_patches_over_us_is_left_alone(cuda: fake_cuda.State, monkeypatch: pytest.MonkeyPatch) -> None:
    real = torch.cuda.graph.__enter__
    with hooks.watching(Log(cuda.log)):
        ours = torch.cuda.graph.__enter__

        def theirs(context: Any) -> None:
            cuda.log.append("theirs")
            ours(context)

        torch.cuda.graph.__enter__ = theirs  # type: ignore[method-assign]
    assert torch.cuda.graph.__enter__ is theirs
    with hooks.watching(Log(cuda.log)):
        with_graph(cuda.log)
    assert cuda.log == ["<", "theirs", "(", "begin", "body", "end", ")", ">"]
    torch.cuda.graph.__enter__ = real  # type: ignore[method-assign]


def test_torchs_own_hook_tells_of_a_live_handle(cuda: fake_cuda.State, monkeypatch: pytest.MonkeyPatch) -> None:
    registered: list[Any] = []

    class Handle:
        def remove(self) -> None:
            registered.clear()

    def register(hook: Any) -> Handle:
        registered.append(hook)
        return Handle()

    monkeypatch.setattr(torch.cuda.graphs, "register_graph_capture_end_hook", register, raising=False)
    base = torch.cuda.CUDAGraph.__mro__[1]
    end = base.capture_end  # type: ignore[attr-defined]

    def hooked(graph: Any) -> None:
        for hook in registered:
            hook(graph)
        end(graph)

    monkeypatch.setattr(base, "capture_end", hooked)
    with hooks.watching(Log(cuda.log)):
        with_graph(cuda.log)
    assert cuda.log == ["<", "(", "begin", "body", "closing", "end", ")", ">"]
    assert not registered
