"""The world of our own engine under torchrun: tensor parallel within, data parallel across, over gloo or NCCL."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, ParallelStyle, RowwiseParallel, parallelize_module

from shapescope.device import Device
from shapescope.errors import UsageError
from shapescope.model import Rank

_PLAN: dict[str, Callable[[], ParallelStyle]] = {
    "self_attn.q_proj": ColwiseParallel,
    "self_attn.k_proj": ColwiseParallel,
    "self_attn.v_proj": ColwiseParallel,
    "self_attn.o_proj": RowwiseParallel,
    "mlp.gate_proj": ColwiseParallel,
    "mlp.up_proj": ColwiseParallel,
    "mlp.down_proj": RowwiseParallel,
}


@dataclass(frozen=True, slots=True)
class World:
    """This process's place, and the mesh over which layers are split; no mesh where it is alone."""

    rank: Rank = field(default_factory=Rank)
    mesh: DeviceMesh | None = None

    def barrier(self) -> None:
        if self.mesh is not None:
            dist.barrier()

    def close(self) -> None:
        if self.mesh is not None:
            dist.destroy_process_group()


def join_world(tensor_parallel: int, device: Device, environment: Mapping[str, str] = os.environ) -> World:
    """Join torchrun's processes as (data parallel, tensor parallel). Raises UsageError where the sizes do not fit."""
    size = int(environment.get("WORLD_SIZE", "1"))
    if tensor_parallel < 1 or size % tensor_parallel:
        raise UsageError(
            f"--tp {tensor_parallel} does not divide a world of {size} processes",
            f"Start it with torchrun --nproc-per-node {max(tensor_parallel, 1)} -m shapescope demo ..",
        )
    if size == 1:
        return World()
    if not dist.is_initialized():
        dist.init_process_group("gloo" if device.kind == "cpu" else "nccl")
    mesh = init_device_mesh(
        device.torch_device.type, (size // tensor_parallel, tensor_parallel), mesh_dim_names=("dp", "tp")
    )
    rank = Rank(
        rank=dist.get_rank(),
        tp=mesh.get_local_rank("tp"),
        dp=mesh.get_local_rank("dp"),
        tp_size=tensor_parallel,
        dp_size=size // tensor_parallel,
        world_size=size,
    )
    return World(rank, mesh)


def split_model(model: Any, world: World) -> int:
    """Split every layer over the tensor parallel ranks; returns the key-value heads that stay here."""
    heads: int = model.config.num_key_value_heads
    tp = world.rank.tp_size
    if world.mesh is None or tp == 1:
        return heads
    if heads % tp:
        raise UsageError(f"{heads} key-value heads cannot be split over {tp} ranks", "Pass a --tp that divides them.")
    with torch.no_grad():
        for layer in model.model.layers:
            parallelize_module(layer, world.mesh["tp"], {name: style() for name, style in _PLAN.items()})
    return heads // tp
