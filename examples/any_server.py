"""A small server with a capture loop of its own: two worker processes, one graph a batch size, replayed for requests.

It needs nothing of shapescope. Where shapescope is installed it says which shape it captures, so that

    shapescope record -- python examples/any_server.py

names each capture; without those words they are recorded all the same, unlabelled. Without a GPU a tape stands in for
the device graph.
"""

from __future__ import annotations

import multiprocessing
import os
from contextlib import nullcontext
from multiprocessing.connection import Connection

import torch

try:
    from shapescope import runner, shape
except ImportError:

    def runner(*_: object) -> nullcontext[None]:
        return nullcontext()

    shape = runner

SIZES = (8, 4, 2, 1)
WORKERS = 2
WIDTH = 64


class Graphs:
    """One captured step per batch size, over static buffers."""

    def __init__(self) -> None:
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        torch.manual_seed(0)
        self.model = torch.nn.Sequential(
            torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.SiLU(), torch.nn.Linear(4 * WIDTH, WIDTH)
        ).to(self.device)
        self.inputs = torch.zeros(max(SIZES), WIDTH, device=self.device)
        self.graphs = {}
        self.outputs = {}

    @torch.inference_mode()
    def capture(self) -> None:
        with runner("Server", SIZES):
            for size in SIZES:
                for _ in range(2):
                    self.model(self.inputs[:size])
                with shape("Server", size):
                    self.capture_one(size)

    def capture_one(self, size: int) -> None:
        if self.device.type == "cuda":
            graph = torch.cuda.CUDAGraph()
            capturing = torch.cuda.graph(graph)
        else:
            from shapescope.tape import TapeGraph

            graph = TapeGraph()
            capturing = graph.capturing()
        with capturing:
            self.outputs[size] = self.model(self.inputs[:size])
        self.graphs[size] = graph

    @torch.inference_mode()
    def __call__(self, batch: torch.Tensor) -> torch.Tensor:
        size = min(size for size in SIZES if size >= len(batch))
        self.inputs[: len(batch)].copy_(batch)
        self.graphs[size].replay()
        return self.outputs[size][: len(batch)].cpu()


def serve(rank: int, requests: Connection) -> None:
    """One worker: captures at start-up, then answers until nobody asks any more."""
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(WORKERS))
    torch.set_num_threads(1)
    graphs = Graphs()
    graphs.capture()
    try:
        while (count := requests.recv()) is not None:
            requests.send(float(graphs(torch.ones(count, WIDTH)).sum()))
    except EOFError:  # the server is gone
        return


def main(start: str = "spawn") -> None:
    context = multiprocessing.get_context(start)
    pipes = [context.Pipe() for _ in range(WORKERS)]
    workers = [context.Process(target=serve, args=(rank, pipe[1])) for rank, pipe in enumerate(pipes)]
    for worker in workers:
        worker.start()
    for count in (1, 3, 8):
        for ours, _ in pipes:
            ours.send(count)
        answers = [ours.recv() for ours, _ in pipes]
        print(f"{count} requests: {', '.join(f'{answer:.3f}' for answer in answers)}", flush=True)
    for ours, _ in pipes:
        ours.send(None)
    for worker in workers:
        worker.join()


if __name__ == "__main__":
    main()
