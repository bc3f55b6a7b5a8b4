"""A key-value cache with one row a request, so that a batch of any captured size is a view of the first rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from transformers.cache_utils import Cache, CacheLayerMixin


@dataclass(slots=True)
class Positions:
    """Where the step in hand writes: `rows[n]`, `positions[n, tokens]`. Static buffers while a graph is captured."""

    rows: torch.Tensor | None = None
    positions: torch.Tensor | None = None


class RowLayer(CacheLayerMixin):  # type: ignore[misc]
    """One layer's keys and values, `[rows, heads, length, head_dim]`, written in place at each request's own position."""

    is_compileable = True
    is_sliding = False
    is_croppable = False

    def __init__(self, keys: torch.Tensor, values: torch.Tensor, at: Positions) -> None:
        super().__init__()
        self.keys, self.values = keys, values
        self.is_initialized = True
        self.max_cache_len = keys.shape[2]
        self._at = at

    def lazy_initialization(self, *_: Any) -> None:
        """The memory is there from the start: a graph needs fixed addresses."""

    def update(self, keys: torch.Tensor, values: torch.Tensor, *_: Any, **__: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """Write the new tokens of each request; attend over the first rows, as many as the batch has."""
        rows, positions = self._at.rows, self._at.positions
        assert rows is not None and positions is not None
        self.keys[rows[:, None], :, positions] = keys.transpose(1, 2)
        self.values[rows[:, None], :, positions] = values.transpose(1, 2)
        return self.keys[: keys.shape[0]], self.values[: keys.shape[0]]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:  # noqa: ARG002 - transformers' signature
        return self.max_cache_len, 0

    def get_seq_length(self) -> int:
        return 0

    def get_max_length(self) -> int:
        length: int = self.max_cache_len
        return length


class RowCache:
    """The cache of a whole model: `rows` requests of up to `length` tokens."""

    def __init__(
        self, config: Any, rows: int, length: int, *, dtype: torch.dtype, device: torch.device, heads: int
    ) -> None:
        self.rows, self.length = rows, length
        self.at = Positions()
        head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        shape = (rows, heads, length, head_dim)
        self.layers = [
            RowLayer(
                torch.zeros(shape, dtype=dtype, device=device), torch.zeros(shape, dtype=dtype, device=device), self.at
            )
            for _ in range(config.num_hidden_layers)
        ]
        self.cache = Cache(layers=self.layers)

    def load(self, row: int, prefilled: Cache, length: int) -> None:
        """Copy the first `length` tokens of a one-request cache into a row."""
        for layer, source in zip(self.layers, prefilled.layers, strict=True):
            layer.keys[row, :, :length] = source.keys[0, :, :length]
            layer.values[row, :, :length] = source.values[0, :, :length]

    def move(self, source: int, target: int) -> None:
        for layer in self.layers:
            layer.keys[target].copy_(layer.keys[source])
            layer.values[target].copy_(layer.values[source])
