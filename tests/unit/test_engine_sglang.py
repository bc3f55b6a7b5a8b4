"""SGLang's adapter over fakes shaped like its runners and backends; `make test-sglang` drives the real ones."""

from __future__ import annotations

import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from sglang_fakes import ShapeKey, runner

from shapescope.device import CpuDevice
from shapescope.engines import sglang
from shapescope.engines.sglang_captures import RunnerCaptures, StreamCapture
from shapescope.engines.sglang_keys import identity_of
from shapescope.errors import UsageError
from shapescope.model import Evidence, GraphKey, Rank
from shapescope.record import start
from shapescope.settings import Detail, Mode, RecordingSettings

# Switches.


@pytest.mark.parametrize(
    ("environment", "mode"),
    [
        ({}, Mode.OFF),
        ({"SGLANG_TORCH_PROFILER_DIR": "/traces"}, Mode.OFF),
        ({"SGLANG_GRAPH_BATCH_CAPTURE": "y"}, Mode.PER_SHAPE),
        ({"SGLANG_GRAPH_BATCH_CAPTURE": "1", "SGLANG_ENABLE_CUDA_GRAPH_CAPTURE_TRACE": "true"}, Mode.COMBINED),
        ({"SHAPESCOPE_GRAPH_BATCH_CAPTURE": "1", "SGLANG_ENABLE_CUDA_GRAPH_CAPTURE_TRACE": "1"}, Mode.COMBINED),
        ({"SHAPESCOPE_GRAPH_BATCH_CAPTURE": "0", "SGLANG_GRAPH_BATCH_CAPTURE": "1"}, Mode.OFF),
        ({"SHAPESCOPE_PROFILE_CUDA_GRAPH": "1"}, Mode.SUMMARY),
    ],
)
def test_its_own_switches_count_where_ours_are_not_set(environment: dict[str, str], mode: Mode) -> None:
    assert sglang.settings_of(environment).mode is mode


def test_our_folder_wins_over_its_own() -> None:
    theirs = {"SGLANG_GRAPH_BATCH_CAPTURE": "1", "SGLANG_TORCH_PROFILER_DIR": "/theirs"}
    assert sglang.settings_of(theirs).folder == "/theirs"
    assert sglang.settings_of({**theirs, "SHAPESCOPE_PROFILER_DIR": "/ours"}).folder == "/ours"


def test_names_and_times_come_from_the_warm_up_and_replays_only_when_asked_for() -> None:
    on = {"SHAPESCOPE_GRAPH_BATCH_CAPTURE": "1"}
    by_default = {Evidence.CAPTURE, Evidence.WARMUP, Evidence.NODES}
    assert sglang.settings_of(on).evidence == by_default
    assert sglang.settings_of({**on, "SHAPESCOPE_MEASURE": "5"}).evidence == by_default | {Evidence.REPLAY}
    assert sglang.settings_of({**on, "SHAPESCOPE_EVIDENCE": "capture"}).evidence == {Evidence.CAPTURE}


def test_a_bad_switch_is_named() -> None:
    with pytest.raises(UsageError, match="SHAPESCOPE_GRAPH_BATCH_CAPTURE"):
        sglang.settings_of({"SGLANG_GRAPH_BATCH_CAPTURE": "perhaps"})


@pytest.fixture
def hooks(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What is registered with SGLang, by target, over a stand-in for its registry."""
    registered: dict[str, str] = {}
    registry = ModuleType("sglang.srt.plugins.hook_registry")
    registry.HookType = SimpleNamespace(AFTER="after", AROUND="around")  # type: ignore[attr-defined]
    registry.HookRegistry = SimpleNamespace(  # type: ignore[attr-defined]
        register=lambda target, hook, kind: registered.update({target: kind})
    )
    for name in ("sglang", "sglang.srt", "sglang.srt.plugins"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, registry.__name__, registry)
    for name in ("SHAPESCOPE_GRAPH_BATCH_CAPTURE", "SGLANG_GRAPH_BATCH_CAPTURE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SHAPESCOPE_RUN_ID", "")
    return registered


def test_switched_off_it_hooks_nothing(hooks: dict[str, str]) -> None:
    sglang.register()
    assert hooks == {}


def test_switched_on_it_hooks_both_resolvers_and_fixes_the_run(
    hooks: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHAPESCOPE_GRAPH_BATCH_CAPTURE", "1")
    sglang.register()
    assert {target.rpartition(".")[2] for target, kind in hooks.items() if kind == "after"} == {
        "resolve_decode_backend",
        "resolve_prefill_backend",
    }
    assert sum(kind == "around" for kind in hooks.values()) == 3
    assert os.environ["SHAPESCOPE_RUN_ID"]


def test_a_bad_switch_is_one_warning_inside_the_engine(
    hooks: dict[str, str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("SHAPESCOPE_GRAPH_BATCH_CAPTURE", "maybe")
    sglang.register()
    assert hooks == {}
    assert [record.levelname for record in caplog.records] == ["WARNING"]


# The course of a capture.


class Graph:
    """Where torch's graph class stands."""

    def __init__(self, steps: list[str]) -> None:
        self.steps = steps

    def capture_begin(self, pool: object = None) -> None:
        self.steps.append("begin")

    def capture_end(self) -> None:
        self.steps.append("end")

    def replay(self) -> None:
        self.steps.append("replay")


class Recorder:
    """Notes what it is told, as the recorder's own contexts would bracket it."""

    def __init__(self, steps: list[str]) -> None:
        self.steps = steps
        self.keys: list[GraphKey] = []
        self.settings = SimpleNamespace(mode=Mode.PER_SHAPE)
        self.evidence: frozenset[Evidence] = frozenset()

    @contextmanager
    def runner(self, name: str, keys: Sequence[GraphKey] = ()) -> Iterator[None]:
        self.steps.append(f"runner {name} {[found.shape.size for found in keys]}")
        yield
        self.steps.append("runner over")

    @contextmanager
    def warmup(self, found: GraphKey, index: int, count: int) -> Iterator[None]:
        self.steps.append(f"warm-up {index} of {count}")
        yield

    @contextmanager
    def capture(self, found: GraphKey) -> Iterator[None]:
        self.keys.append(found)
        self.steps.append("open")
        try:
            yield
        except BaseException as error:
            self.steps.append(f"failed {error}")
            raise
        self.steps.append("close")

    @contextmanager
    def segment(self, index: int) -> Iterator[None]:
        self.steps.append(f"segment {index}")
        yield
        self.steps.append("segment over")

    def captured(self, found: GraphKey, graph: Any) -> None:
        self.steps.append("graph")

    def closing(self, graph: Any) -> None:
        self.steps.append("nodes")


class Backend:
    """SGLang's `capture_one`, with any number of warm-ups and of segments."""

    def __init__(self, steps: list[str], warmups: int = 2, segments: int = 1) -> None:
        self.steps, self.warmups, self.segments = steps, warmups, segments
        self.kept: Callable[[], Any] | None = None
        self.asked: list[tuple[Any, ...]] = []

    def capture_one(
        self,
        shape_key: ShapeKey,
        forward_fn: Callable[[], Any],
        capture_inputs: Any = None,
        post_warmup_hook: Any = None,
    ) -> str:
        self.asked.append((shape_key, capture_inputs))
        for _ in range(self.warmups):
            forward_fn()
            if post_warmup_hook is not None:
                post_warmup_hook()
        for _ in range(self.segments):
            graph: Any = torch.cuda.CUDAGraph(self.steps)  # type: ignore[arg-type]
            graph.capture_begin(pool=1)
            try:
                forward_fn()
            finally:
                graph.capture_end()
        self.kept = forward_fn
        return "captured"


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    return []


def attached(
    steps: list[str], backend: Backend, made: Any = None, rounds: Counter[Any] | None = None
) -> tuple[Recorder, Any]:
    recorder, made = Recorder(steps), made or runner(capture_bs=[4])
    made.capture = lambda: backend.capture_one(ShapeKey(4), forward(steps), None, hook(steps))
    captures = RunnerCaptures(
        recorder,  # type: ignore[arg-type]
        made,
        identity_of(made, configured_steps=None, adaptive=False),
        Counter() if rounds is None else rounds,
        lambda: steps.append("barrier"),
    )
    captures.attach(backend)
    return recorder, made


def forward(steps: list[str]) -> Callable[[], None]:
    return lambda: steps.append("forward")


def hook(steps: list[str]) -> Callable[[], None]:
    return lambda: steps.append("hook")


@pytest.mark.parametrize("warmups", [0, 1, 2, 3])
def test_the_window_opens_after_the_last_hook_and_closes_after_the_capture(steps: list[str], warmups: int) -> None:
    backend = Backend(steps, warmups)
    attached(steps, backend)
    assert backend.capture_one(ShapeKey(4), forward(steps), None, hook(steps)) == "captured"
    warm = [step for index in range(warmups) for step in (f"warm-up {index} of 2", "forward", "hook")]
    capture = ["open", "segment 0", "begin", "forward", "end", "segment over", "graph", "close"]
    assert steps == [*warm, *capture]


def test_all_segments_are_in_one_window_and_none_stands_for_the_graph(steps: list[str]) -> None:
    backend = Backend(steps, segments=3)
    attached(steps, backend)
    backend.capture_one(ShapeKey(4), forward(steps))
    assert [step for step in steps if step.startswith("segment ") and step != "segment over"] == [
        f"segment {index}" for index in range(3)
    ]
    assert (steps.count("open"), steps.count("close"), steps.count("graph")) == (1, 1, 0)


def test_arguments_pass_through_however_they_are_given(steps: list[str]) -> None:
    backend = Backend(steps)
    attached(steps, backend)
    inputs = object()
    backend.capture_one(forward_fn=forward(steps), capture_inputs=inputs, shape_key=ShapeKey(2))
    assert backend.asked == [(ShapeKey(2), inputs)]


def test_a_forward_that_is_kept_for_replay_is_left_alone_afterwards(steps: list[str]) -> None:
    backend = Backend(steps)
    attached(steps, backend)
    backend.capture_one(ShapeKey(4), forward(steps))
    steps.clear()
    assert backend.kept is not None
    backend.kept()
    assert steps == ["forward"]


def test_torch_is_as_before_once_the_capture_is_over(steps: list[str]) -> None:
    before = dict(vars(Graph))
    backend = Backend(steps)
    attached(steps, backend)
    backend.capture_one(ShapeKey(4), forward(steps))
    assert dict(vars(Graph)) == before


def test_an_exception_of_the_engine_passes_unchanged_and_fails_the_window(steps: list[str]) -> None:
    backend = Backend(steps)
    attached(steps, backend)
    calls = iter([None, None, MemoryError("out of memory")])

    def failing() -> None:
        error = next(calls)
        if error is not None:
            raise error

    with pytest.raises(MemoryError, match="out of memory"):
        backend.capture_one(ShapeKey(4), failing)
    assert steps[-1] == "failed out of memory"
    assert vars(Graph)["capture_begin"].__name__ == "capture_begin"


def test_where_a_key_cannot_be_made_the_engine_captures_all_the_same(
    steps: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    backend = Backend(steps)
    attached(steps, backend)
    assert backend.capture_one("no shape key", forward(steps)) == "captured"  # type: ignore[arg-type]
    assert steps.count("forward") == 3
    assert "open" not in steps
    assert "watching a capture" in caplog.text


def test_a_capture_of_another_thread_is_not_this_ones(steps: list[str]) -> None:
    def elsewhere() -> None:
        graph: Any = torch.cuda.CUDAGraph(steps)  # type: ignore[arg-type]
        graph.capture_begin()
        graph.capture_end()

    with StreamCapture(Recorder(steps), GraphKey.of("A", 1)):  # type: ignore[arg-type]
        other = threading.Thread(target=elsewhere)
        other.start()
        other.join()
    assert steps == ["begin", "end"]


def test_the_runners_loop_is_announced_and_a_second_runner_is_a_recapture(steps: list[str]) -> None:
    rounds: Counter[Any] = Counter()
    first, made = attached(steps, Backend(steps), rounds=rounds)
    made.capture()
    assert steps[0] == "runner DecodeCudaGraphRunner [4]"
    assert steps[-1] == "runner over"
    second, made = attached(steps, Backend(steps), rounds=rounds)
    made.capture()
    made.capture()
    variants = [found.shape.variant for found in (*first.keys, *second.keys)]
    assert variants == ["", "generation=1", "generation=2"]


def test_captures_outside_the_loop_are_of_one_round(steps: list[str]) -> None:
    backend = Backend(steps)
    recorder, _ = attached(steps, backend)
    for size in (4, 2, 1):
        backend.capture_one(ShapeKey(size), forward(steps))
    assert [found.shape.variants for found in recorder.keys] == [(), (), ()]
    assert not any(step.startswith("runner") for step in steps)


def test_replays_are_measured_after_all_captures_of_whole_graphs(steps: list[str], tmp_path: Path) -> None:
    settings = RecordingSettings(
        Mode.PER_SHAPE, str(tmp_path), Detail.LIGHT, frozenset({Evidence.CAPTURE, Evidence.REPLAY}), measure=4
    )
    recorder = start.start(settings, engine="sglang", device=CpuDevice(), rank=Rank())
    for backend in (Backend(steps), Backend(steps, segments=2)):
        made = runner(capture_bs=[4])
        made.capture = lambda backend=backend: backend.capture_one(ShapeKey(4), forward(steps))
        identity = identity_of(made, configured_steps=None, adaptive=False)
        RunnerCaptures(recorder, made, identity, Counter(), lambda: steps.append("barrier")).attach(backend)
        made.capture()
    assert steps.index("barrier") > steps.index("end")
    assert steps.count("barrier") == 1
    assert "replay" not in steps[: steps.index("barrier")]
    recorder.drain()
    (replayed,) = tmp_path.rglob("*.replay.json.gz")
    assert replayed.name == "DecodeCudaGraphRunner_bs_4_rank0.replay.json.gz"
