"""Random weights on disk, as vLLM loads them: a Llama of two layers, and an EAGLE head of one that drafts for it."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM


def write(folder: Path) -> None:
    """Two heads, so that two tensor-parallel ranks can share them."""
    torch.manual_seed(0)
    LlamaForCausalLM(_config(layers=2)).to(torch.bfloat16).save_pretrained(folder)


def write_eagle(folder: Path) -> None:
    """EAGLE's layout: the layers without a prefix, the first without its norm, and `fc` from two hidden states to one."""
    torch.manual_seed(1)
    config = _config(layers=1)
    weights = LlamaForCausalLM(config).to(torch.bfloat16).model.state_dict()
    kept = {
        name: value for name, value in weights.items() if name.startswith("layers.") and "input_layernorm" not in name
    }
    kept["fc.weight"] = torch.randn(config.hidden_size, 2 * config.hidden_size).mul(0.05).to(torch.bfloat16)
    config.architectures = ["LlamaForCausalLM"]
    config.save_pretrained(folder)
    save_file(kept, folder / "model.safetensors")


def _config(layers: int) -> LlamaConfig:
    return LlamaConfig(
        vocab_size=512,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=layers,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=256,
    )
