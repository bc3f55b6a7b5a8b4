"""A Llama of two layers with random weights: config and weights on disk, as vLLM loads them."""

from __future__ import annotations

from pathlib import Path


def write(folder: Path) -> None:
    """Save the model to `folder`. Two heads, so that two tensor-parallel ranks can share them."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=512,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=256,
    )
    torch.manual_seed(0)
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
