"""vLLM, unpatched: its captures are recorded through the plugin group `vllm.general_plugins`.

vLLM has two model runners. V1 captures a shape in `_warmup_and_capture`, by one `_dummy_run(.., is_graph_capturing=True)`
after the warm-ups: the window is around that call, so that it holds every piece, breakable segment, micro-batch and
drafter. V2 captures through `CudaGraphManager.capture`; a full graph's forward runs with the capture already live, so
its window opens as `torch.cuda.graph` is entered, as the encoder's does in both. The captures that vLLM makes and throws
away to estimate their memory are not recorded. Seams read off vLLM 0.32 and 0.33.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from shapescope.engines.after_import import after_import
from shapescope.engines.vllm_keys import encoder_key, manager_key, manager_runner, model_key
from shapescope.engines.vllm_recorder import ProcessRecorder
from shapescope.errors import ShapescopeError
from shapescope.model import GraphKey
from shapescope.record.guard import Guard, log
from shapescope.settings import Mode, recording_settings

Original = Callable[..., Any]
Around = Callable[[Original, Any, tuple[Any, ...], dict[str, Any]], Any]

_recorder = ProcessRecorder()


def register() -> None:
    """The entry point, which vLLM calls in each of its processes, in some more than once. Writes no file.

    With recording off nothing is watched and nothing patched. The run id goes into the environment here, in the first
    process, so that engine and worker processes inherit it.
    """
    try:
        if recording_settings().mode is Mode.OFF:
            return
    except ShapescopeError as error:
        log.warning("shapescope: recording stays off: %s %s", error, error.hint)
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
                    "shapescope: this vLLM has no %s.%s(%s): what it captures there is not recorded",
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


def _thrown_away(original: Original, runner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`profile_cudagraph_memory`: captures made only to learn what they cost."""
    with _recorder.pause():
        return original(runner, *args, **kwargs)


# V1.


def _v1_model(original: Original, runner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`capture_model`: one generation of graphs, unless vLLM's own profiler is asked to record them."""
    config = _config(runner)
    if getattr(getattr(config, "profiler_config", None), "capture_torch_profiler", False):
        log.warning(
            "shapescope stands back: vLLM's own capture_torch_profiler is on, and two profilers cannot record one capture"
        )
        with _recorder.pause():
            return original(runner, *args, **kwargs)
    _recorder.next_generation(config)

    def announced(generation: int) -> tuple[str, list[GraphKey]]:
        descriptors = runner.cudagraph_dispatcher.get_capture_descs()
        return "model", [model_key(each, mode, generation) for mode, group in descriptors for each in group]

    with _recorder.runner(config, announced):
        return original(runner, *args, **kwargs)


def _v1_shape(original: Original, runner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`_warmup_and_capture`: for its duration, the runner's `_dummy_run` opens the window of the shape."""
    if _recorder.paused:
        return original(runner, *args, **kwargs)
    asked = inspect.signature(original).bind(runner, *args, **kwargs).arguments
    config, dummy_run, warmups = _config(runner), runner._dummy_run, itertools.count()

    def name(generation: int) -> GraphKey:
        microbatched = asked.get("allow_microbatching", False)
        return model_key(asked["desc"], asked["cudagraph_runtime_mode"], generation, microbatched=microbatched)

    def watched(*args: Any, **kwargs: Any) -> Any:
        if kwargs.get("is_graph_capturing", False):
            around = _recorder.window(config, name, whole=_v1_is_whole(asked))
        else:
            around = _recorder.warmup(config, name, next(warmups), _v1_warmups(runner, asked))
        with around:
            return dummy_run(*args, **kwargs)

    # On the instance and only meanwhile: serving calls the class's method as ever.
    with _replaced(runner, "_dummy_run", watched):
        return original(runner, *args, **kwargs)


def _v1_is_whole(asked: dict[str, Any]) -> bool:
    """Micro-batches and pieces are graphs of their own."""
    return getattr(asked["cudagraph_runtime_mode"], "name", "") == "FULL" and not asked.get(
        "allow_microbatching", False
    )


def _v1_warmups(runner: Any, asked: dict[str, Any]) -> int:
    count = asked.get("num_warmups")
    return (
        getattr(getattr(runner, "compilation_config", None), "cudagraph_num_of_warmups", 0) if count is None else count
    )


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


# V2.


def _v2_model(original: Original, runner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`capture_model`: one generation of graphs. vLLM's own profiler records none of them."""
    if not _recorder.paused:
        _recorder.next_generation(_config(runner))
    return original(runner, *args, **kwargs)


def _v2_graphs(original: Original, manager: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`CudaGraphManager.capture`: all graphs of one manager."""
    if _recorder.paused:
        return original(manager, *args, **kwargs)
    asked = inspect.signature(original).bind(manager, *args, **kwargs)
    asked.apply_defaults()
    captures = _ManagerCaptures(manager, asked.arguments["create_forward_fn"], asked.arguments.get("progress_bar_desc"))
    asked.arguments["create_forward_fn"] = captures.create_forward
    with (
        _recorder.runner(captures.config, captures.announced),
        _recorder.graphs(captures.config, captures.at_graph_entry),
    ):
        return original(*asked.args, **asked.kwargs)


class _ManagerCaptures:
    """Knows the shape at hand by the descriptor that a forward was last made for.

    A full graph is entered before its forward runs, a piecewise one within: a graph that is entered inside a forward is
    a part of its shape, and no shape of its own.
    """

    def __init__(self, manager: Any, create: Original, description: str | None) -> None:
        self.manager = manager
        self.config = _config(manager)
        self._create = create
        self._description = description or ""
        self._descriptor: Any = None
        self._live = False
        self._in_forward = False

    def announced(self, generation: int) -> tuple[str, list[GraphKey]]:
        descriptors = [each for group in self.manager._capture_descs.values() for each in group]
        keys = [manager_key(self.manager, self._description, each, generation) for each in descriptors]
        return manager_runner(self.manager, self._description), keys

    def create_forward(self, descriptor: Any, *args: Any, **kwargs: Any) -> Original:
        """In place of `create_forward_fn(desc, warmup)`; older versions lack `warmup`."""
        self._descriptor = descriptor
        forward = self._create(descriptor, *args, **kwargs)

        def watched(mode: Any, *args: Any, **kwargs: Any) -> Any:
            with self._around_forward(getattr(mode, "name", "")), self._inside():
                return forward(mode, *args, **kwargs)

        return watched

    def _around_forward(self, mode: str) -> AbstractContextManager[None]:
        if self._live:
            return nullcontext()
        if mode == "PIECEWISE":
            return _recorder.window(self.config, self._name)
        return _recorder.warmup(self.config, self._name, 0, 1)

    @contextmanager
    def at_graph_entry(self) -> Iterator[None]:
        if self._in_forward:
            yield
            return
        with _recorder.window(self.config, self._name, whole=True):
            self._live = True
            try:
                yield
            finally:
                self._live = False

    @contextmanager
    def _inside(self) -> Iterator[None]:
        self._in_forward = True
        try:
            yield
        finally:
            self._in_forward = False

    def _name(self, generation: int) -> GraphKey:
        return manager_key(self.manager, self._description, self._descriptor, generation)


# The encoder of either.


def _encoder_shape(original: Original, manager: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`_capture_budget_graph`: an eager pass, then one full graph."""
    if _recorder.paused:
        return original(manager, *args, **kwargs)
    asked = inspect.signature(original).bind(manager, *args, **kwargs).arguments

    def at_graph_entry() -> AbstractContextManager[None]:
        return _recorder.window(_config(manager), lambda generation: encoder_key(asked, generation), whole=True)

    with _recorder.graphs(_config(manager), at_graph_entry):
        return original(manager, *args, **kwargs)


def _config(owner: Any) -> Any:
    return getattr(owner, "vllm_config", None)


V1, V2 = "vllm.v1.worker.gpu_model_runner", "vllm.v1.worker.gpu.model_runner"
V2_GRAPHS, ENCODER = "vllm.v1.worker.gpu.cudagraph_utils", "vllm.v1.worker.encoder_cudagraph"
SEAMS = (
    Seam(V1, "GPUModelRunner", "_warmup_and_capture", ("desc", "cudagraph_runtime_mode"), _v1_shape),
    Seam(V1, "GPUModelRunner", "capture_model", (), _v1_model),
    Seam(V1, "GPUModelRunner", "profile_cudagraph_memory", (), _thrown_away),
    Seam(V2, "GPUModelRunner", "capture_model", (), _v2_model),
    Seam(V2, "GPUModelRunner", "profile_cudagraph_memory", (), _thrown_away),
    Seam(V2_GRAPHS, "CudaGraphManager", "capture", ("create_forward_fn",), _v2_graphs),
    Seam(ENCODER, "EncoderCudaGraphManager", "_capture_budget_graph", ("token_budget",), _encoder_shape),
)
