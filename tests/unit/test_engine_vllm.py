"""The vLLM adapter over tiny fakes of vLLM's seams: which windows open, for which key, in which order with the host's calls.

The real package runs in tests/engines/vllm (`make test-vllm`).
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import pytest
import torch

from shapescope.engines import vllm as adapter
from shapescope.engines.vllm_recorder import ProcessRecorder
from shapescope.model import Evidence, GraphKey, Phase, Rank, Unit
from shapescope.record.hooks import CaptureWindows, watch_everywhere
from shapescope.store.layout import RUN_ID_VARIABLE

Mode = Enum("Mode", ["NONE", "PIECEWISE", "FULL"])


@dataclass(frozen=True)
class BatchDescriptor:
    num_tokens: int
    num_reqs: int | None = None
    uniform: bool = False
    has_lora: bool = False
    num_active_loras: int = 0


@dataclass(frozen=True)
class BatchExecutionDescriptor:
    cg_mode: Mode
    num_tokens: int
    num_reqs: int | None
    uniform_token_count: int | None = None
    max_query_len: int | None = None
    num_active_loras: int = 0
    num_ubatches: int = 1


DECODE = BatchDescriptor(8, 8, uniform=True)
MIXED = BatchDescriptor(16)
DECODE_KEY = GraphKey.of("decode", 8, "full")
MIXED_KEY = GraphKey.of("mixed", 16, "piecewise", unit=Unit.TOKENS, phase=Phase.MIXED)


class Journal(list[Any]):
    """What happened, in order: the host's steps and the recorder's. Warm-ups are told apart, beside."""

    def __init__(self) -> None:
        super().__init__()
        self.warmups: list[tuple[GraphKey, int, int]] = []
        self.segments: list[int] = []
        self.whole_graphs: list[Any] = []
        self.opened = 0

    def recorder(self, engine: str, **known: Any) -> Any:
        @contextmanager
        def window(key: GraphKey | None) -> Iterator[None]:
            self.append(("open", key))
            try:
                yield
            except BaseException as error:
                self.append(("failed", key, type(error)))
                raise
            self.append(("close", key))

        @contextmanager
        def runner(name: str, keys: list[GraphKey]) -> Iterator[None]:
            self.append(("runner", name, keys))
            yield

        @contextmanager
        def warmup(key: GraphKey, index: int, count: int) -> Iterator[None]:
            self.warmups.append((key, index, count))
            yield

        self.known = {"engine": engine, **known}
        self.opened += 1

        def segment(number: int) -> AbstractContextManager[None]:
            self.segments.append(number)
            return nullcontext()

        return SimpleNamespace(
            window=window, runner=runner, warmup=warmup, segment=segment, closing=self.whole_graphs.append
        )

    def windows(self) -> list[GraphKey | None]:
        return [event[1] for event in self if isinstance(event, tuple) and event[0] == "close"]


@pytest.fixture
def journal(monkeypatch: pytest.MonkeyPatch) -> Journal:
    journal = Journal()
    monkeypatch.setattr("shapescope.record.start.from_environment", journal.recorder)
    monkeypatch.setattr(adapter, "_recorder", ProcessRecorder())
    monkeypatch.setattr("shapescope.engines.vllm_recorder.rank_of", lambda config: Rank())
    fake_graphs(monkeypatch, journal)
    return journal


def fake_graphs(monkeypatch: pytest.MonkeyPatch, journal: Journal) -> None:
    """torch's two classes, nested as the real ones are; as from torch 2.14 on, a hook is told of a captured graph."""
    hooks: list[Callable[[Any], None]] = []

    class CUDAGraph:
        def capture_begin(self) -> None:
            journal.append("capture begins")

        def capture_end(self) -> None:
            for hook in hooks:
                hook(self)
            journal.append("capture ends")

    class graph:
        def __init__(self) -> None:
            self.cuda_graph = CUDAGraph()

        def __enter__(self) -> None:
            self.cuda_graph.capture_begin()

        def __exit__(self, *error: object) -> None:
            self.cuda_graph.capture_end()

    def register(hook: Callable[[Any], None]) -> Any:
        hooks.append(hook)
        return SimpleNamespace(remove=lambda: hooks.remove(hook))

    monkeypatch.setattr(torch.cuda, "CUDAGraph", CUDAGraph)
    monkeypatch.setattr(torch.cuda, "graph", graph)
    monkeypatch.setattr(torch.cuda.graphs, "register_graph_capture_end_hook", register, raising=False)


@pytest.fixture
def v1(journal: Journal) -> Any:
    class GPUModelRunner:
        vllm_config = SimpleNamespace(profiler_config=SimpleNamespace(capture_torch_profiler=False))
        cudagraph_dispatcher = SimpleNamespace(
            get_capture_descs=lambda: [(Mode.PIECEWISE, [MIXED]), (Mode.FULL, [DECODE])]
        )
        failing = False
        pieces = 0

        def capture_model(self) -> int:
            for mode, descriptors in self.cudagraph_dispatcher.get_capture_descs():
                for descriptor in descriptors:
                    self._warmup_and_capture(descriptor, cudagraph_runtime_mode=mode)
            return 5

        def profile_cudagraph_memory(self) -> int:
            self._warmup_and_capture(DECODE, Mode.FULL, profile_seq_lens=3)
            return 7

        def _warmup_and_capture(
            self,
            desc: Any,
            cudagraph_runtime_mode: Mode,
            profile_seq_lens: Any = None,
            allow_microbatching: bool = False,
            num_warmups: int | None = None,
        ) -> None:
            for _ in range(num_warmups or 1):
                self._dummy_run(desc.num_tokens, cudagraph_runtime_mode=Mode.NONE)
            self._dummy_run(desc.num_tokens, cudagraph_runtime_mode=cudagraph_runtime_mode, is_graph_capturing=True)

        def _dummy_run(self, num_tokens: int, cudagraph_runtime_mode: Mode, is_graph_capturing: bool = False) -> None:
            journal.append("capture" if is_graph_capturing else "warmup")
            if self.failing and is_graph_capturing:
                raise MemoryError
            if is_graph_capturing and self.pieces:
                for _ in range(self.pieces):
                    with torch.cuda.graph():
                        journal.append("piece")

    attach(GPUModelRunner=GPUModelRunner, module=adapter.V1)
    return GPUModelRunner()


def attach(*, module: str, **members: Any) -> None:
    fake = ModuleType(module)
    vars(fake).update(members)
    for seam in adapter.SEAMS:
        if seam.module == module:
            seam.attach(fake)


def test_v1_opens_after_the_warmup_and_closes_after_the_capture(v1: Any, journal: Journal) -> None:
    assert v1.capture_model() == 5
    assert journal == [
        ("runner", "model", [MIXED_KEY, DECODE_KEY]),
        "warmup", ("open", MIXED_KEY), "capture", ("close", MIXED_KEY),
        "warmup", ("open", DECODE_KEY), "capture", ("close", DECODE_KEY),
    ]  # fmt: skip


def test_v1_tells_of_its_warmups(v1: Any, journal: Journal) -> None:
    v1.compilation_config = SimpleNamespace(cudagraph_num_of_warmups=1)
    v1.capture_model()
    v1._warmup_and_capture(DECODE, Mode.FULL, num_warmups=2)
    assert journal.warmups == [(MIXED_KEY, 0, 1), (DECODE_KEY, 0, 1), (DECODE_KEY, 0, 2), (DECODE_KEY, 1, 2)]


def test_v1_marks_pieces_and_lists_the_kernels_of_whole_graphs(v1: Any, journal: Journal) -> None:
    v1.pieces = 2
    v1._warmup_and_capture(MIXED, Mode.PIECEWISE)
    assert journal.segments == [0, 1] and journal.whole_graphs == []
    v1.pieces = 1
    v1._warmup_and_capture(DECODE, Mode.FULL)
    assert journal.segments == [0, 1, 0] and len(journal.whole_graphs) == 1


def test_v1_lets_nobody_else_record_what_it_throws_away(v1: Any, journal: Journal) -> None:
    v1.pieces = 1
    others: list[Any] = []
    stop = watch_everywhere(CaptureWindows(lambda graph: nullcontext(others.append(graph)), nullcontext))
    v1.profile_cudagraph_memory()
    v1.capture_model()
    with torch.cuda.graph():
        pass
    stop()
    assert len(others) == 1


def test_v1_does_not_record_what_it_throws_away(v1: Any, journal: Journal) -> None:
    assert v1.profile_cudagraph_memory() == 7
    assert journal == ["warmup", "capture"]


def test_v1_stands_back_where_the_engine_records(v1: Any, journal: Journal, caplog: pytest.LogCaptureFixture) -> None:
    v1.vllm_config.profiler_config.capture_torch_profiler = True
    assert v1.capture_model() == 5
    assert journal == ["warmup", "capture"] * 2
    assert "stands back" in caplog.text


def test_v1_serves_through_its_own_dummy_run(v1: Any) -> None:
    v1.capture_model()
    assert "_dummy_run" not in vars(v1)
    assert not hasattr(type(v1)._dummy_run, "shapescope_seam")


def test_v1_passes_the_hosts_exception_through(v1: Any, journal: Journal) -> None:
    v1.failing = True
    with pytest.raises(MemoryError):
        v1.capture_model()
    assert ("failed", MIXED_KEY, MemoryError) in journal
    assert "_dummy_run" not in vars(v1)


def test_a_second_capture_is_another_generation(v1: Any, journal: Journal) -> None:
    v1.capture_model()
    v1.capture_model()
    assert journal.windows()[3] == GraphKey.of("decode", 8, "full", "generation=2")
    assert len(set(journal.windows())) == 4


def test_a_microbatched_graph_is_another(v1: Any, journal: Journal) -> None:
    v1._warmup_and_capture(DECODE, Mode.FULL, allow_microbatching=True)
    assert journal.windows() == [GraphKey.of("decode", 8, "full", "microbatched")]


def test_the_recorder_learns_model_and_rank_and_is_made_once(v1: Any, journal: Journal) -> None:
    v1.vllm_config = SimpleNamespace(model_config=SimpleNamespace(model="llama"))
    v1.capture_model()
    assert journal.opened == 1
    settings = journal.known.pop("settings")
    assert journal.known == {"engine": "vllm", "rank": Rank(), "model": "llama"}
    assert settings.evidence == {Evidence.CAPTURE, Evidence.WARMUP, Evidence.NODES}


def test_the_evidence_that_was_asked_for_is_recorded(
    v1: Any, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHAPESCOPE_EVIDENCE", "capture")
    v1.capture_model()
    assert journal.known["settings"].evidence == {Evidence.CAPTURE}


def test_a_forked_worker_makes_its_own_recorder(v1: Any, journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    v1.capture_model()
    assert journal.opened == 1
    monkeypatch.setattr(os, "getpid", lambda: -1)
    v1.capture_model()
    assert journal.opened == 2
    assert journal.windows() == [MIXED_KEY, DECODE_KEY] * 2


def test_what_cannot_be_named_is_recorded_without_a_key(v1: Any, journal: Journal) -> None:
    v1._warmup_and_capture(SimpleNamespace(num_tokens=4), Mode.FULL)
    assert journal.windows() == [None]


def test_a_recorder_that_fails_to_open_leaves_the_host_alone(
    v1: Any, journal: Journal, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(engine: str, **known: Any) -> None:
        raise OSError("no room")

    monkeypatch.setattr("shapescope.record.start.from_environment", refuse)
    assert v1.capture_model() == 5
    assert journal == ["warmup", "capture"] * 2
    assert "no room" in caplog.text


def test_attaching_twice_wraps_once(v1: Any, journal: Journal) -> None:
    attach(GPUModelRunner=type(v1), module=adapter.V1)
    v1.capture_model()
    assert len(journal.windows()) == 2


def test_another_signature_is_said_and_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    class GPUModelRunner:
        def _warmup_and_capture(self, shape: int) -> None: ...

    original = GPUModelRunner._warmup_and_capture
    attach(GPUModelRunner=GPUModelRunner, module=adapter.V1)
    assert GPUModelRunner._warmup_and_capture is original
    assert "_warmup_and_capture(desc, cudagraph_runtime_mode)" in caplog.text


FULL = BatchExecutionDescriptor(Mode.FULL, 8, 8, uniform_token_count=1)
PIECEWISE = BatchExecutionDescriptor(Mode.PIECEWISE, 16, None)


@pytest.fixture
def v2(journal: Journal) -> Any:
    class CudaGraphManager:
        _capture_descs: ClassVar = {Mode.PIECEWISE: [PIECEWISE], Mode.FULL: [FULL]}
        vllm_config = None

        def capture(
            self, create_forward_fn: Callable[..., Any], progress_bar_desc: str = "Capturing CUDA graphs"
        ) -> None:
            for descriptors in self._capture_descs.values():
                for descriptor in descriptors:
                    create_forward_fn(descriptor, warmup=True)(Mode.NONE)
                    if descriptor.cg_mode is Mode.PIECEWISE:
                        create_forward_fn(descriptor, warmup=False)(Mode.PIECEWISE)
                        continue
                    forward = create_forward_fn(descriptor, warmup=False)
                    with torch.cuda.graph():
                        forward(Mode.NONE)

    class ModelCudaGraphManager(CudaGraphManager):
        def capture(self, model: Any) -> None:  # type: ignore[override]
            def create(descriptor: Any, warmup: bool) -> Any:
                def forward(mode: Mode) -> None:
                    if mode is Mode.PIECEWISE:
                        with torch.cuda.graph():
                            journal.append("forward")
                    else:
                        journal.append("warmup" if warmup else "forward")

                return forward

            super().capture(create)

    attach(CudaGraphManager=CudaGraphManager, module="vllm.v1.worker.gpu.cudagraph_utils")
    return ModelCudaGraphManager()


def test_v2_opens_before_the_capture_is_live(v2: Any, journal: Journal) -> None:
    enter = torch.cuda.graph.__enter__
    v2.capture(model=None)
    assert journal == [
        ("runner", "model", [MIXED_KEY, DECODE_KEY]),
        "warmup", ("open", MIXED_KEY), "capture begins", "forward", "capture ends", ("close", MIXED_KEY),
        "warmup", ("open", DECODE_KEY), "capture begins", "forward", "capture ends", ("close", DECODE_KEY),
    ]  # fmt: skip
    assert torch.cuda.graph.__enter__ is enter
    assert journal.warmups == [(MIXED_KEY, 0, 1), (DECODE_KEY, 0, 1)]
    assert journal.segments == [0, 0] and len(journal.whole_graphs) == 1


def test_v2_does_not_record_what_it_throws_away(v2: Any, journal: Journal) -> None:
    class GPUModelRunner:
        vllm_config = None

        def profile_cudagraph_memory(self) -> int:
            self.capture_model(profile_only=True)
            return 7

        def capture_model(self, *, profile_only: bool = False) -> None:
            v2.capture(model=None)

    attach(GPUModelRunner=GPUModelRunner, module=adapter.V2)
    runner = GPUModelRunner()
    assert runner.profile_cudagraph_memory() == 7
    assert journal.windows() == []
    runner.capture_model()
    assert journal.windows() == [MIXED_KEY, DECODE_KEY]


def test_v2_an_older_factory_without_warmup_is_passed_through(v2: Any, journal: Journal) -> None:
    def older(create_forward_fn: Callable[..., Any]) -> None:
        forward = create_forward_fn(FULL)
        forward(Mode.NONE)
        with torch.cuda.graph():
            forward(Mode.NONE)

    adapter._v2_graphs(lambda manager, create_forward_fn: older(create_forward_fn), v2, (lambda d: journal.append,), {})
    assert journal[1:] == [
        Mode.NONE, ("open", DECODE_KEY), "capture begins", Mode.NONE, "capture ends", ("close", DECODE_KEY),
    ]  # fmt: skip


def test_v2_a_failing_capture_fails_its_window(v2: Any, journal: Journal) -> None:
    def failing(create_forward_fn: Callable[..., Any]) -> None:
        create_forward_fn(FULL)
        with torch.cuda.graph():
            raise MemoryError

    with pytest.raises(MemoryError):
        adapter._v2_graphs(lambda manager, create_forward_fn: failing(create_forward_fn), v2, (lambda d: None,), {})
    assert journal[-1] == ("failed", DECODE_KEY, MemoryError)


def test_the_encoder_opens_at_its_graph(journal: Journal) -> None:
    class EncoderCudaGraphManager:
        vllm_config = None

        def _capture_budget_graph(
            self, token_budget: int, path: str = "default", axis_keys: tuple[Any, ...] = ()
        ) -> None:
            journal.append("warmup")
            with torch.cuda.graph():
                journal.append("forward")

    attach(EncoderCudaGraphManager=EncoderCudaGraphManager, module="vllm.v1.worker.encoder_cudagraph")
    manager = EncoderCudaGraphManager()
    manager._capture_budget_graph(64)
    manager._capture_budget_graph(64, path="audio", axis_keys=(2,))
    plain = GraphKey.of("encoder", 64, unit=Unit.TOKENS, phase=Phase.ENCODER)
    assert journal[:6] == ["warmup", ("open", plain), "capture begins", "forward", "capture ends", ("close", plain)]
    assert journal.windows()[1] == GraphKey.of(
        "encoder", 64, "path=audio", "axis0=2", unit=Unit.TOKENS, phase=Phase.ENCODER
    )


# Registration.


def test_with_recording_off_nothing_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter, "after_import", lambda *args: pytest.fail("recording is off"))
    adapter.register()


@pytest.mark.parametrize("switch", ["SHAPESCOPE_GRAPH_BATCH_CAPTURE", "SHAPESCOPE_GRAPH_CAPTURE_TRACE"])
def test_a_switch_watches_all_seams_and_names_the_run(
    switch: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    watched: list[str] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(adapter, "after_import", lambda name, action: watched.append(name))
    monkeypatch.setenv(switch, "1")
    monkeypatch.setenv(RUN_ID_VARIABLE, "")
    adapter.register()
    assert watched == [seam.module for seam in adapter.SEAMS]
    assert os.environ[RUN_ID_VARIABLE]
    assert list(tmp_path.iterdir()) == []


def test_a_bad_switch_is_one_warning(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("SHAPESCOPE_GRAPH_BATCH_CAPTURE", "perhaps")
    monkeypatch.setattr(adapter, "after_import", lambda *args: pytest.fail("recording is off"))
    adapter.register()
    assert len(caplog.records) == 1 and "perhaps" in caplog.text


@pytest.mark.parametrize(("switch", "unwanted"), [("0", {"torch", "vllm", "polars"}), ("1", {"vllm", "polars"})])
def test_registering_is_silent_light_and_leaves_no_file(switch: str, unwanted: set[str], tmp_path: Path) -> None:
    code = (
        "import sys; from shapescope.engines.vllm import register; register(); register();"
        f"assert not {unwanted} & set(sys.modules), sys.modules"
    )
    source = Path(adapter.__file__).parents[2]
    environment = {**os.environ, "SHAPESCOPE_GRAPH_BATCH_CAPTURE": switch, "PYTHONPATH": str(source)}
    run = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
    assert list(tmp_path.iterdir()) == []
