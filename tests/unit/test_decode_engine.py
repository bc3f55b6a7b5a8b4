"""Our decode engine says what transformers' `generate` says, token by token, at sizes that need padding."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch

from shapescope.engines.decode.engine import DecodeEngine, Request
from shapescope.engines.decode.model import PRESETS, load_model
from shapescope.engines.decode.scheduler import Scheduler
from shapescope.errors import UsageError

LENGTHS = (1, 2, 3, 5, 8, 13, 21, 34)
NEW_TOKENS = 12


@pytest.fixture(scope="module", params=PRESETS)
def model(request: pytest.FixtureRequest) -> Any:
    return load_model(request.param, device=torch.device("cpu"), layers=2)


def generated(model: Any, prompt: list[int], count: int) -> list[int]:
    ids = torch.tensor([prompt])
    mask = torch.ones_like(ids)
    output = model.generate(ids, attention_mask=mask, max_new_tokens=count, do_sample=False, pad_token_id=0)
    tokens: list[int] = output[0, len(prompt) :].tolist()
    return tokens


@pytest.mark.parametrize(("sizes", "captured"), [([8], 8), ([4, 16], 16), ([2, 4], None)])
def test_tokens_equal_generate(model: Any, sizes: list[int], captured: int | None) -> None:
    source = random.Random(0)
    requests = [Request([source.randrange(3, 8000) for _ in range(length)], NEW_TOKENS) for length in LENGTHS]
    engine = DecodeEngine(model, [*sizes, 32] if captured is None else sizes, max_length=64)
    engine.capture()
    for row, request in enumerate(requests):
        engine.prefill(request, row)
    calls = engine.step.calls
    for _ in range(NEW_TOKENS - 1):
        result = engine.decode(requests)
    assert result.captured_size == (captured or 32)
    assert engine.step.calls == calls, "the model's Python ran at a replay"
    for request in requests:
        expected = generated(model, list(request.prompt), NEW_TOKENS)
        assert request.output[: len(expected)] == expected


def test_continuous_batching_says_what_generate_says(model: Any) -> None:
    """Staggered arrivals and ends, rows moved, padding rows on free rows of their own."""
    source = random.Random(1)
    requests = [
        Request([source.randrange(3, 8000) for _ in range(source.randrange(1, 30))], source.randrange(2, 24))
        for _ in range(40)
    ]
    engine = DecodeEngine(model, [1, 2, 4, 8], max_length=64)
    engine.capture()
    scheduler, arriving, sizes, padded = Scheduler(engine), list(requests), set(), 0
    while arriving or not scheduler.idle:
        for _ in range(source.randrange(0, 3)):
            scheduler.submit([arriving.pop(0)] if arriving else [])
        result = scheduler.step()
        if result is not None:
            sizes.add(result.captured_size)
            padded += result.padded
    assert sizes == {1, 2, 4, 8}
    assert padded > 0
    for request in requests:
        assert request.output == generated(model, list(request.prompt), request.max_new_tokens)


def test_a_replay_equals_eager_to_the_bit(model: Any) -> None:
    engine = DecodeEngine(model, [4], max_length=32)
    engine.capture()
    for _ in range(3):
        ids, positions = torch.randint(3, 8000, (4, 1)), torch.randint(0, 31, (4, 1))
        replayed = engine.runner(ids=ids, positions=positions, rows=torch.arange(4)).output.clone()
        with torch.no_grad():
            assert torch.equal(replayed, engine.step(ids, positions, torch.arange(4)))


def test_a_request_that_does_not_fit_is_refused(model: Any) -> None:
    engine = DecodeEngine(model, [1, 2], max_length=32)
    with pytest.raises(UsageError, match="does not fit"):
        engine.prefill(Request([3] * 30, 12), 0)


def test_an_unknown_model_is_refused() -> None:
    with pytest.raises(UsageError, match="unknown model 'gpt-7'"):
        load_model("gpt-7", device=torch.device("cpu"))


def test_a_context_that_does_not_fit_is_refused(model: Any) -> None:
    engine = DecodeEngine(model, [1], max_length=32)
    with pytest.raises(UsageError, match="context 33"):
        engine.set_context(33)
