"""Prefill eagerly, decode through captured graphs: the smallest engine that serves a transformers model."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers.cache_utils import DynamicCache

from shapescope.device import Device, open_device
from shapescope.engines.decode.cache import RowCache
from shapescope.errors import UsageError
from shapescope.graphs.observer import CaptureObserver
from shapescope.graphs.runner import GraphRunner, StepResult
from shapescope.graphs.sizes import checked_sizes
from shapescope.model import Phase

IDLE_TOKEN = 0


class DecodeStep(torch.nn.Module):
    """The next token of each request: `(ids[n, tokens], positions[n, tokens], rows[n]) -> logits[n, vocabulary]`.

    Decoding runs one token a request; extending a draft runs several. Counts its own calls.
    """

    def __init__(self, model: Any, cache: RowCache) -> None:
        super().__init__()
        self.model = model
        self.calls = 0
        self._cache = cache
        self._steps = torch.arange(cache.length, device=model.device)
        self._cache_argument = cache_argument(model)

    def forward(self, ids: torch.Tensor, positions: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self._cache.at.rows, self._cache.at.positions = rows, positions
        mask = (self._steps <= positions[:, :, None])[:, None]
        output = self.model(
            input_ids=ids,
            position_ids=positions,
            attention_mask=mask,
            use_cache=True,
            **{self._cache_argument: self._cache.cache},
        )
        logits: torch.Tensor = output.logits[:, -1]
        return logits


def cache_argument(model: Any) -> str:
    """The name under which a model takes its cache: transformers renamed it in 5.19."""
    return "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"


def _end_tokens(model: Any) -> frozenset[int]:
    """Where generation ends; a model may name one token, several, or none."""
    ends = model.generation_config.eos_token_id
    return frozenset([ends] if isinstance(ends, int) else ends or [])


@dataclass(slots=True)
class Request:
    """One prompt and the tokens that it got."""

    prompt: Sequence[int]
    max_new_tokens: int
    output: list[int] = field(default_factory=list)
    position: int = 0


class DecodeEngine:
    """A model, a cache of one row a request, and a GraphRunner over the captured sizes.

    The cache has a row for each slot of the largest size. Requests occupy the first rows, densely; padded slots write to
    position 0 of their own free rows, so that they disturb nobody.
    """

    def __init__(
        self,
        model: Any,
        sizes: Sequence[int],
        *,
        max_length: int = 256,
        device: Device | None = None,
        backend: str = "auto",
        observer: CaptureObserver | None = None,
        barrier: Callable[[], object] | None = None,
        runner: str = "DecodeRunner",
        phase: Phase = Phase.DECODE,
        heads: int | None = None,
        tokens: int = 1,
    ) -> None:
        slots = checked_sizes(sizes)[-1]
        self.device = device or open_device()
        self.model = model
        self.max_length = max_length
        where = self.device.torch_device
        config = model.config.get_text_config()
        self.cache = RowCache(
            config, slots, max_length, dtype=model.dtype, device=where, heads=heads or config.num_key_value_heads
        )
        self.step = DecodeStep(model, self.cache)
        self.end_tokens = _end_tokens(model)
        self._rows = torch.arange(slots, device=where)
        buffers = {
            "ids": torch.full((slots, tokens), IDLE_TOKEN, dtype=torch.long, device=where),
            "positions": torch.arange(tokens, device=where).repeat(slots, 1),
            "rows": self._rows.clone(),
        }
        self.buffers = buffers
        self.runner = GraphRunner(
            self.step, buffers, sizes, name=runner, phase=phase, backend=backend, device=self.device,
            observer=observer, barrier=barrier, padding={"rows": self._rows},
        )  # fmt: skip

    def capture(self) -> None:
        with torch.no_grad():
            self.runner.capture()

    def set_context(self, length: int) -> None:
        """Let every slot stand at `length` tokens of context, so that a replay attends over as many."""
        positions = self.buffers["positions"]
        tokens = positions.shape[1]
        if not 1 <= length <= self.max_length - tokens + 1:
            raise UsageError(
                f"context {length} does not fit a cache of {self.max_length} tokens",
                "Pass 1 or more, or a longer cache.",
            )
        positions.copy_(torch.arange(length - 1, length - 1 + tokens, device=positions.device).expand_as(positions))

    @torch.no_grad()
    def prefill(self, request: Request, row: int) -> None:
        """Run the prompt eagerly, keep its cache in a row, and append the first token."""
        self._check(request)
        cache = DynamicCache(config=self.model.config)
        ids = torch.tensor([list(request.prompt)], device=self.device.torch_device)
        logits = self.model(input_ids=ids, use_cache=True, **{cache_argument(self.model): cache}).logits[0, -1]
        self.cache.load(row, cache, len(request.prompt))
        request.position = len(request.prompt)
        request.output.append(int(logits.argmax()))

    @torch.no_grad()
    def decode(self, requests: Sequence[Request]) -> StepResult:
        """One token for each request; request `i` stands in row `i`."""
        where = self.device.torch_device
        result = self.runner(
            ids=torch.tensor([[request.output[-1]] for request in requests], device=where),
            positions=torch.tensor([[request.position] for request in requests], device=where),
            rows=self._rows[: len(requests)],
        )
        for request, token in zip(requests, result.output.argmax(-1).tolist(), strict=True):
            request.position += 1
            request.output.append(token)
        return result

    def _check(self, request: Request) -> None:
        needed = len(request.prompt) + request.max_new_tokens
        if not request.prompt or needed > self.max_length:
            raise UsageError(f"a request of {needed} tokens does not fit a cache of {self.max_length}")
