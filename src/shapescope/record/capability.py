"""What this machine can record, what it cannot, and why."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, supported_activities

from shapescope.device import Device

_ENOUGH_DISK = 1 << 30


@dataclass(frozen=True, slots=True)
class Capability:
    """One thing that recording needs or profits from. `works` None means that it does not apply here."""

    name: str
    works: bool | None
    detail: str


def capabilities(device: Device, folder: Path) -> Iterator[Capability]:
    """Everything that can be told without capturing anything."""
    yield Capability("torch", True, f"{torch.__version__}, {device.kind}: {device.name}")
    yield Capability("recorder", torch.profiler.kineto_available(), "Kineto is built into this torch")
    yield _device_activity(device)
    yield _graph_nodes(device)
    yield _graph_hooks()
    yield _disk(folder)
    for engine in ("sglang", "vllm"):
        found = importlib.util.find_spec(engine) is not None
        yield Capability(engine, found or None, "its adapter attaches by itself" if found else "not installed")


def _device_activity(device: Device) -> Capability:
    if device.kind == "cpu":
        return Capability("device activity", None, "no GPU: graphs are tapes, and their ops are their kernels")
    name = "CUPTI" if device.kind == "cuda" else "ROCm"
    there = ProfilerActivity.CUDA in supported_activities()  # type: ignore[no-untyped-call]
    return Capability("device activity", there, f"{name} {'answers' if there else 'does not answer this torch'}")


def _graph_nodes(device: Device) -> Capability:
    if device.kind != "cuda":
        return Capability("graph nodes", None, "needed on NVIDIA only: here the capture names its kernels")
    if not _importable("cuda.bindings.driver"):
        return Capability("graph nodes", False, "pip install cuda-bindings, so that captured kernels get names")
    return Capability("graph nodes", True, "cuda.bindings is here")


def _graph_hooks() -> Capability:
    there = hasattr(torch.cuda.graphs, "register_graph_capture_end_hook")
    return Capability(
        "graph hooks", there or None, "torch's own (2.14 and later)" if there else "torch 2.14 brings its own"
    )


def _importable(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def _disk(folder: Path) -> Capability:
    there = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(there).free
    return Capability("disk", free >= _ENOUGH_DISK, f"{free / (1 << 30):.1f} GiB free in {there}")
