"""Teaches vLLM's CPU worker what its GPU worker does: estimate the memory of the graphs, then capture the model.

The capture code that runs is vLLM's own, of the runner at hand (V1 or V2), over the stand-in device. A vLLM plugin
(`register`), because the workers of a tensor-parallel engine are processes of their own.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

import stand_in_device
import torch

SIZES = [1, 2, 4, 8]


def register() -> None:
    """Entry point of `vllm.general_plugins`."""
    from vllm.v1.worker.cpu_worker import CPUWorker

    if hasattr(CPUWorker, "stand_in_counts"):
        return
    counts = stand_in_device.install(_forward_context, die_at=int(os.environ.get("STAND_IN_DIE_AT", "0")))
    CPUWorker.stand_in_counts = counts  # type: ignore[attr-defined]
    _define_weak_reference()
    _let_attention_be_captured()
    if os.environ.get("STAND_IN_COMPILED"):
        _compile_in_pieces()
    _capture_at_start(CPUWorker)


def _forward_context() -> Any:
    """Attention reads vLLM's forward context. A replay inside one uses it; one outside gets that of the capture."""
    from vllm import forward_context

    captured = forward_context._forward_context

    def surroundings() -> Any:
        if captured is None or forward_context.is_forward_context_available():
            return contextlib.nullcontext()
        return forward_context.override_forward_context(captured)

    return surroundings


def _define_weak_reference() -> None:
    """The CPU build has no `_C::weak_ref_tensor`; here memory is never reclaimed, so an alias will do."""
    import vllm._custom_ops  # noqa: F401  loads _C

    if not hasattr(torch.ops._C, "weak_ref_tensor"):
        library = torch.library.Library("_C", "FRAGMENT")
        library.define("weak_ref_tensor(Tensor t) -> Tensor")
        library.impl("weak_ref_tensor", lambda t: t[...], "CPU")
        _define_weak_reference.library = library  # type: ignore[attr-defined]


def _let_attention_be_captured() -> None:
    import vllm.v1.worker.gpu.cudagraph_utils as v2
    import vllm.v1.worker.gpu_model_runner as v1
    from vllm.v1.attention.backend import AttentionCGSupport
    from vllm.v1.attention.backends.cpu_attn import CPUAttentionMetadataBuilder

    CPUAttentionMetadataBuilder._cudagraph_support = AttentionCGSupport.ALWAYS
    # The groups' own graph_capture insists on a CUDA or XPU communicator.
    v1.graph_capture = v2.graph_capture = lambda device: contextlib.nullcontext()


def _compile_in_pieces() -> None:
    """The CPU platform compiles a model as one; graphs of compiled pieces need it split at attention, as on a GPU."""
    from vllm.config import CompilationMode, CUDAGraphMode
    from vllm.platforms.cpu import CpuPlatform

    check = CpuPlatform.check_and_update_config

    def check_and_update_config(vllm_config: Any) -> None:
        check(vllm_config)
        config = vllm_config.compilation_config
        config.mode, config.backend = CompilationMode.VLLM_COMPILE, "eager"
        config.cudagraph_mode = CUDAGraphMode[os.environ["STAND_IN_MODE"]]
        config.cudagraph_capture_sizes = list(SIZES)
        config.max_cudagraph_capture_size = max(SIZES)
        config.compile_sizes = []

    CpuPlatform.check_and_update_config = staticmethod(check_and_update_config)  # type: ignore[method-assign]
    CpuPlatform.get_static_graph_wrapper_cls = staticmethod(  # type: ignore[method-assign]
        lambda: "vllm.compilation.cuda_graph.CUDAGraphWrapper"
    )


def _capture_at_start(worker: Any) -> None:
    from vllm.config import set_current_vllm_config
    from vllm.v1.worker.workspace import init_workspace_manager

    determine, warm_up, shutdown = (
        worker.determine_available_memory,
        worker.compile_or_warm_up_model,
        worker.shutdown,
    )

    def determine_available_memory(self: Any) -> int:
        _ask_for_graphs(self.model_runner)
        init_workspace_manager(torch.device("cpu"), 1)
        with set_current_vllm_config(self.vllm_config):
            self.model_runner.profile_cudagraph_memory()
        return int(determine(self))

    def compile_or_warm_up_model(self: Any) -> Any:
        times = warm_up(self)
        with set_current_vllm_config(self.vllm_config):
            for _ in range(int(os.environ.get("STAND_IN_CAPTURES", "1"))):
                _forget_graphs(self.model_runner)
                self.model_runner.capture_model()
        return times

    def report(self: Any) -> None:
        counts = worker.stand_in_counts
        path = Path(os.environ["STAND_IN_REPORTS"]) / f"rank{self.rank}.json"
        path.write_text(json.dumps({"captures": counts.captures, "replays": counts.replays}))
        shutdown(self)

    worker.determine_available_memory = determine_available_memory
    worker.compile_or_warm_up_model = compile_or_warm_up_model
    worker.shutdown = report


def _ask_for_graphs(runner: Any) -> None:
    """What the CPU platform took out of the configuration, and what the GPU runner does after loading the model."""
    from vllm.compilation.breakable_cudagraph import BreakableCUDAGraphWrapper, is_breakable_cudagraph_enabled
    from vllm.compilation.cuda_graph import CUDAGraphWrapper
    from vllm.config import CUDAGraphMode

    config = runner.compilation_config
    config.cudagraph_mode = CUDAGraphMode[os.environ["STAND_IN_MODE"]]
    config.cudagraph_capture_sizes = list(SIZES)
    config.max_cudagraph_capture_size = max(SIZES)
    config.cudagraph_num_of_warmups = 1
    if type(runner).__module__.endswith("cpu_model_runner"):
        if is_breakable_cudagraph_enabled():
            runner.model = BreakableCUDAGraphWrapper(
                runner.model, runner.vllm_config, runtime_mode=CUDAGraphMode.PIECEWISE
            )
        runner.model = CUDAGraphWrapper(runner.model, runner.vllm_config, runtime_mode=CUDAGraphMode.FULL)


def _forget_graphs(runner: Any) -> None:
    """Before a capture anew, as elastic expert parallelism releases the graphs it holds."""
    from vllm.compilation.breakable_cudagraph import BreakableCUDAGraphWrapper
    from vllm.compilation.cuda_graph import CUDAGraphWrapper

    CUDAGraphWrapper.clear_all_graphs()
    BreakableCUDAGraphWrapper.clear_all_graphs()
    if manager := getattr(runner, "cudagraph_manager", None):
        manager.release_graphs()
