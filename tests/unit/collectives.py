"""Run by torchrun: a captured graph with an all-to-all and an all-reduce is recorded, and equals eager on every rank."""

from __future__ import annotations

import sys

import torch
import torch.distributed as dist

from shapescope.device import CpuDevice
from shapescope.graphs.runner import GraphRunner
from shapescope.model import Evidence, Rank
from shapescope.record.start import start
from shapescope.settings import Detail, Mode, RecordingSettings


def main(folder: str) -> None:
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    weight = torch.randn(4, 4, generator=torch.Generator().manual_seed(rank))

    def step(x: torch.Tensor) -> torch.Tensor:
        received = torch.empty_like(x)
        dist.all_to_all_single(received, x @ weight)
        total = torch.relu(received)
        dist.all_reduce(total)
        return total

    settings = RecordingSettings(Mode.PER_SHAPE, folder, Detail.LIGHT, frozenset({Evidence.CAPTURE}))
    place = Rank(rank=rank, ep=rank, ep_size=world, world_size=world)
    # Only rank 0 records: the others must neither wait nor hang.
    observer = start(settings, engine="test", device=CpuDevice(), rank=place) if rank == 0 else None
    sizes = [world, world * 2]
    runner = GraphRunner(
        step, {"x": torch.zeros(sizes[-1], 4)}, sizes, name="Experts", observer=observer, barrier=dist.barrier
    )  # fmt: skip
    runner.capture()
    for seed in range(3):
        x = torch.randn(sizes[-1], 4, generator=torch.Generator().manual_seed(100 * rank + seed))
        assert torch.equal(runner(x=x).output, step(x)), f"rank {rank}: replay differs from eager"
    # torch keeps a gloo group that any profile saw until the process ends, and a thread of it that frees its last tensor
    # while the interpreter ends aborts the process. A barrier lets it do so now.
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
