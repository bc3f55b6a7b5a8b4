"""Lets vLLM's real `EncoderCudaGraphManager` capture a stand-in encoder: no tiny vision model runs without torchvision."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch

BUDGETS = [16, 8]


class Encoder:
    """What the manager asks of a model that supports encoder graphs."""

    weight = torch.ones(4, 4)

    def prepare_encoder_cudagraph_capture_inputs(self, budget: int, *more: Any) -> Any:
        return SimpleNamespace(values={"patches": torch.ones(budget, 4)})

    def encoder_cudagraph_forward(self, values: dict[str, torch.Tensor], path: str) -> torch.Tensor:
        return values["patches"] @ self.weight


def main() -> None:
    from vllm.plugins import load_general_plugins

    # The stand-in device comes with the capturing worker, shapescope by itself.
    load_general_plugins()
    from vllm.v1.worker.encoder_cudagraph import EncoderCudaGraphManager

    # Its constructor wants a model's whole configuration; capturing needs only this.
    manager = object.__new__(EncoderCudaGraphManager)
    vars(manager).update(
        vllm_config=None, model=Encoder(), device=torch.device("cpu"), dtype=torch.float32, budget_graphs={},
        max_batch_size=1, max_frames_per_batch=1, _capture_axes=(), path_token_budgets={"default": BUDGETS},
    )  # fmt: skip
    manager.capture(graph_pool=torch.cuda.graph_pool_handle())


if __name__ == "__main__":
    main()
