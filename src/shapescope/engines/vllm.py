"""vLLM, unpatched: its captures are recorded through the plugin group `vllm.general_plugins`.

vLLM has two model runners. V1 captures a shape in `_warmup_and_capture`, by one `_dummy_run(.., is_graph_capturing=True)`
after the warm-ups: the window is around that call, so that it holds every piece, breakable segment, micro-batch and
drafter. V2 captures through `CudaGraphManager.capture`; a full graph's forward runs with the capture already live, so
its window opens at `torch.cuda.graph.__enter__`, as the encoder's does in both. The captures that vLLM makes and throws
away to estimate their memory are not recorded. Seams read off vLLM 0.32 and 0.33.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

from shapescope.engines.after_import import after_import
from shapescope.engines.graph_seams import segments_marked, windows_at_graph_entry
from shapescope.engines.vllm_keys import encoder_key, manager_key, manager_runner, model_key, rank_of
from shapescope.errors import ShapescopeError
from shapescope.model import GraphKey
from shapescope.record.guard import Guard, log
from shapescope.settings import Mode, recording_settings

if TYPE_CHECKING:
    from shapescope.record.profiler import CaptureProfiler

Original = Callable[..., Any]
Around = Callable[[Original, Any, tuple[Any, ...], dict[str, Any]], Any]


def register() -> None:
    """The entry point, which vLLM calls in each of its processes, in some more than once. Writes no file.

    With recording off nothing is watched and nothing patched. The run id goes into the environment here, in the first
    process, so that engine and worker processes inherit it.
    """
    try:
        if recording_settings().mode is Mode.OFF:
            return
    except ShapescopeError as error:
        log.warning("shapescope records nothing: %s %s", error, error.hint)
        return
    from shapescope.record.session import agree_on_run_id

    agree_on_run_id(os.environ)
    for seam in SEAMS:
        after_import(seam.module, seam.attach)


@dataclass(frozen=True, slots=True)
class Seam:
    """A method of vLLM that we wrap, and the parameters that the wrapper reads."""

    module: str
    owner: str
    method: str
    parameters: tuple[str, ...]
    around: Around

    def attach(self, module: ModuleType) -> None:
        """Wrap the method once. A vLLM without it, or with another signature, is said and left alone."""
        with Guard(f"attaching to vLLM's {self.method}"):
            owner = getattr(module, self.owner, None)
            original = getattr(owner, self.method, None)
            if original is None or not set(self.parameters) <= set(inspect.signature(original).parameters):
                log.warning(
                    "this vLLM has no %s.%s(%s): what it captures there is not recorded",
                    self.owner, self.method, ", ".join(self.parameters),
                )  # fmt: skip
            elif not hasattr(original, "shapescope_seam"):
                setattr(owner, self.method, self._wrapped(original))

    def _wrapped(self, original: Original) -> Original:
        @functools.wraps(original)
        def wrapped(owner: Any, *args: Any, **kwargs: Any) -> Any:
            return self.around(original, owner, args, kwargs)

        wrapped.shapescope_seam = self  # type: ignore[attr-defined]
        return wrapped


class _Watch:
    """What this process records, once it captures.

    A forked worker inherits the patches and this object, but must not write its parent's files: the recorder is made
    at the first capture, and anew under another process id.
    """

    def __init__(self) -> None:
        self.process = 0
        self.generation = 0
        self.paused = False
        self._recorder: CaptureProfiler | None = None

    def recorder(self, config: Any) -> CaptureProfiler | None:
        """This process's recorder. `config` is vLLM's own, which knows the model and the data parallel rank."""
        if self.process != os.getpid():
            from shapescope.record.start import from_environment

            self.process, self.generation, self._recorder = os.getpid(), 0, None
            model = getattr(getattr(config, "model_config", None), "model", None)
            self._recorder = from_environment(engine="vllm", rank=rank_of(config), model=model)
        return self._recorder

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Record nothing of what the body captures."""
        before, self.paused = self.paused, True
        try:
            yield
        finally:
            self.paused = before

    def window(self, config: Any, name: Callable[[int], GraphKey]) -> AbstractContextManager[None]:
        """A window for the key that `name(generation)` gives; without a key where that fails, which is then logged."""
        recorder, key = None, None
        if not self.paused:
            with Guard("opening the recorder"):
                recorder = self.recorder(config)
            with Guard("naming a capture"):
                key = name(self.generation)
        return nullcontext() if recorder is None else _window(recorder, key)

    def runner(self, config: Any, name: str, keys: Callable[[int], list[GraphKey]]) -> AbstractContextManager[None]:
        """All captures of one runner, announced so that a start-up that dies leaves the missing shapes named."""
        with Guard(f"announcing {name}"):
            recorder = None if self.paused else self.recorder(config)
            if recorder is not None:
                return recorder.runner(name, keys(self.generation))
        return nullcontext()


@contextmanager
def _window(recorder: CaptureProfiler, key: GraphKey | None) -> Iterator[None]:
    with recorder.window(key), segments_marked(recorder.segment):
        yield


_watch = _Watch()


def _thrown_away(original: Original, runner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`profile_cudagraph_memory`: captures made only to learn what they cost."""
    with _watch.pause():
        return original(runner, *args, **kwargs)


def _v1_model(original: Original, runner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`capture_model` of V1: one generation of graphs, unless vLLM's own profiler is asked to record them."""
    config = _config(runner)
    if getattr(getattr(config, "profiler_config", None), "capture_torch_profiler", False):
        log.warning(
            "vLLM's own capture_torch_profiler is on: shapescope stands back and records nothing of this capture"
        )
        with _watch.pause():
            return original(runner, *args, **kwargs)
    _next_generation(config)
    with _watch.runner(config, "model", lambda generation: _v1_keys(runner, generation)):
        return original(runner, *args, **kwargs)


def _v1_keys(runner: Any, generation: int) -> list[GraphKey]:
    descriptors = runner.cudagraph_dispatcher.get_capture_descs()
    return [model_key(each, mode, generation) for mode, group in descriptors for each in group]


def _v1_shape(original: Original, runner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`_warmup_and_capture` of V1: for its duration, the runner's `_dummy_run` opens the window of the shape."""
    if _watch.paused:
        return original(runner, *args, **kwargs)
    asked = inspect.signature(original).bind(runner, *args, **kwargs).arguments
    dummy_run = runner._dummy_run

    def name(generation: int) -> GraphKey:
        microbatched = asked.get("allow_microbatching", False)
        return model_key(asked["desc"], asked["cudagraph_runtime_mode"], generation, microbatched=microbatched)

    def watched(*args: Any, **kwargs: Any) -> Any:
        capturing = kwargs.get("is_graph_capturing", False)
        with _watch.window(_config(runner), name) if capturing else nullcontext():
            return dummy_run(*args, **kwargs)

    # On the instance and only meanwhile: serving calls the class's method as ever.
    with _replaced(runner, "_dummy_run", watched):
        return original(runner, *args, **kwargs)


@contextmanager
def _replaced(instance: Any, name: str, value: Any) -> Iterator[None]:
    own = vars(instance).get(name)
    setattr(instance, name, value)
    try:
        yield
    finally:
        if own is None:
            delattr(instance, name)
        else:
            setattr(instance, name, own)


def _v2_model(original: Original, runner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`capture_model` of V2: one generation of graphs. vLLM's own profiler records none of them."""
    if not _watch.paused:
        _next_generation(_config(runner))
    return original(runner, *args, **kwargs)


def _v2_graphs(original: Original, manager: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`CudaGraphManager.capture`: names each shape by the descriptor that it makes a forward for."""
    if _watch.paused:
        return original(manager, *args, **kwargs)
    asked = inspect.signature(original).bind(manager, *args, **kwargs)
    asked.apply_defaults()
    description = asked.arguments.get("progress_bar_desc", "")
    config, shape = _config(manager), _Shape()
    create = asked.arguments["create_forward_fn"]

    def create_watched(descriptor: Any, *args: Any, **kwargs: Any) -> Callable[..., Any]:
        shape.descriptor = descriptor
        forward = create(descriptor, *args, **kwargs)

        def watched(mode: Any, *args: Any, **kwargs: Any) -> Any:
            piecewise = getattr(mode, "name", "") == "PIECEWISE"
            with shape.inside(), _watch.window(config, name) if piecewise else nullcontext():
                return forward(mode, *args, **kwargs)

        return watched

    def name(generation: int) -> GraphKey:
        return manager_key(manager, description, shape.descriptor, generation)

    def keys(generation: int) -> list[GraphKey]:
        descriptors = [each for group in manager._capture_descs.values() for each in group]
        return [manager_key(manager, description, each, generation) for each in descriptors]

    def at_entry() -> AbstractContextManager[None]:
        return nullcontext() if shape.in_forward else _watch.window(config, name)

    asked.arguments["create_forward_fn"] = create_watched
    with _watch.runner(config, manager_runner(manager, description), keys), windows_at_graph_entry(at_entry):
        return original(*asked.args, **asked.kwargs)


@dataclass(slots=True)
class _Shape:
    """The shape at hand. A graph that is entered inside its forward is a part of it, and no shape of its own."""

    descriptor: Any = None
    in_forward: bool = False

    @contextmanager
    def inside(self) -> Iterator[None]:
        self.in_forward = True
        try:
            yield
        finally:
            self.in_forward = False


def _encoder_shape(original: Original, manager: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`_capture_budget_graph`: an eager pass, then one full graph."""
    if _watch.paused:
        return original(manager, *args, **kwargs)
    asked = inspect.signature(original).bind(manager, *args, **kwargs).arguments

    def at_entry() -> AbstractContextManager[None]:
        return _watch.window(_config(manager), lambda generation: encoder_key(asked, generation))

    with windows_at_graph_entry(at_entry):
        return original(manager, *args, **kwargs)


def _config(owner: Any) -> Any:
    return getattr(owner, "vllm_config", None)


def _next_generation(config: Any) -> None:
    """vLLM may capture anew, as elastic expert parallelism does: the graphs of each round keep names of their own."""
    with Guard("opening the recorder"):
        _watch.recorder(config)
        _watch.generation += 1


V1, V2 = "vllm.v1.worker.gpu_model_runner", "vllm.v1.worker.gpu.model_runner"
SEAMS = (
    Seam(V1, "GPUModelRunner", "_warmup_and_capture", ("desc", "cudagraph_runtime_mode"), _v1_shape),
    Seam(V1, "GPUModelRunner", "capture_model", (), _v1_model),
    Seam(V1, "GPUModelRunner", "profile_cudagraph_memory", (), _thrown_away),
    Seam(V2, "GPUModelRunner", "capture_model", (), _v2_model),
    Seam(V2, "GPUModelRunner", "profile_cudagraph_memory", (), _thrown_away),
    Seam(
        "vllm.v1.worker.gpu.cudagraph_utils",
        "CudaGraphManager",
        "capture",
        ("create_forward_fn",),
        _v2_graphs,
    ),
    Seam(
        "vllm.v1.worker.encoder_cudagraph",
        "EncoderCudaGraphManager",
        "_capture_budget_graph",
        ("token_budget",),
        _encoder_shape,
    ),
)
