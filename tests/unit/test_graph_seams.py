"""Windows and segments open before a stream capture and close after it, whatever happens within."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch

from shapescope.engines.graph_seams import segments_marked, windows_at_graph_entry


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What happened, over fakes of torch's two classes that nest as the real ones do."""
    steps: list[str] = []

    class CUDAGraph:
        def capture_begin(self, pool: object = None) -> None:
            steps.append("begin")

        def capture_end(self) -> None:
            steps.append("end")

    class graph:
        def __init__(self, cuda_graph: CUDAGraph) -> None:
            self.cuda_graph = cuda_graph

        def __enter__(self) -> None:
            self.cuda_graph.capture_begin(pool=1)

        def __exit__(self, *error: object) -> None:
            self.cuda_graph.capture_end()

    monkeypatch.setattr(torch.cuda, "CUDAGraph", CUDAGraph)
    monkeypatch.setattr(torch.cuda, "graph", graph)
    return steps


@contextmanager
def noting(steps: list[str], name: str) -> Iterator[None]:
    steps.append(f"<{name}")
    try:
        yield
    except BaseException as error:
        steps.append(f"{type(error).__name__}>")
        raise
    steps.append(f"{name}>")


def test_each_graph_has_a_window_around_its_segment(steps: list[str]) -> None:
    with (
        windows_at_graph_entry(lambda: noting(steps, "window")),
        segments_marked(lambda number: noting(steps, str(number))),
    ):
        for _ in range(2):
            with torch.cuda.graph(torch.cuda.CUDAGraph()):
                steps.append("body")
    one, other = (["<window", f"<{number}", "begin", "body", "end", f"{number}>", "window>"] for number in "01")
    assert steps == one + other


def test_bare_captures_are_segments_too(steps: list[str]) -> None:
    with segments_marked(lambda number: noting(steps, str(number))):
        for _ in range(2):
            capture = torch.cuda.CUDAGraph()
            capture.capture_begin()
            capture.capture_end()
    assert steps == ["<0", "begin", "end", "0>", "<1", "begin", "end", "1>"]


def test_a_failing_body_is_told_to_the_window(steps: list[str]) -> None:
    with (
        pytest.raises(MemoryError),
        windows_at_graph_entry(lambda: noting(steps, "window")),
        torch.cuda.graph(torch.cuda.CUDAGraph()),
    ):
        raise MemoryError
    assert steps == ["<window", "begin", "end", "MemoryError>"]


def test_a_capture_that_cannot_begin_closes_its_window(steps: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(capture: object) -> None:
        raise RuntimeError("the stream is capturing")

    monkeypatch.setattr(torch.cuda.CUDAGraph, "capture_begin", refuse)
    with segments_marked(lambda number: noting(steps, str(number))), pytest.raises(RuntimeError):
        torch.cuda.CUDAGraph().capture_begin()
    assert steps == ["<0", "RuntimeError>"]


def test_torch_is_as_before_afterwards(steps: list[str]) -> None:
    before = (torch.cuda.graph.__enter__, torch.cuda.graph.__exit__, torch.cuda.CUDAGraph.capture_begin)
    with pytest.raises(ValueError), windows_at_graph_entry(lambda: noting(steps, "window")):
        raise ValueError
    with segments_marked(lambda number: noting(steps, str(number))):
        pass
    assert before == (torch.cuda.graph.__enter__, torch.cuda.graph.__exit__, torch.cuda.CUDAGraph.capture_begin)
