"""Starts the real engine on the tiny model, generates, and writes the tokens as JSON, with what was called to get them."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from types import FrameType, SimpleNamespace

PROMPTS = [[1, 2, 3, 4], [5, 6, 7], [8, 9, 10, 11, 12]]


class Calls:
    """A profile hook that counts Python calls: all, and those into shapescope by function."""

    def __init__(self) -> None:
        self.all = 0
        self.ours: list[str] = []

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            self.all += 1
            if frame.f_globals.get("__name__", "").partition(".")[0] == "shapescope":
                self.ours.append(frame.f_code.co_qualname)


def offer_triton() -> None:
    """vLLM uses Triton only where it sees an active backend; the interpreter needs none."""
    import triton.backends

    driver = SimpleNamespace(is_active=lambda: True)
    triton.backends.backends["cpu"] = SimpleNamespace(driver=driver, compiler=None)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("tokens", type=Path, help="where to write them")
    parser.add_argument("--tensor-parallel", type=int, default=1)
    parser.add_argument("--own-switch", metavar="FOLDER", help="the engine's own capture traces")
    parser.add_argument("--eagle", metavar="FOLDER", help="a model that drafts two tokens a step")
    arguments = parser.parse_args()
    if os.environ.get("TRITON_INTERPRET"):
        offer_triton()
    from vllm import LLM, SamplingParams

    more = {}
    if arguments.eagle:
        more["speculative_config"] = {"method": "eagle", "model": arguments.eagle, "num_speculative_tokens": 2}
    if arguments.own_switch:
        more["profiler_config"] = {
            "profiler": "torch",
            "torch_profiler_dir": arguments.own_switch,
            "capture_torch_profiler": True,
        }
    engine = LLM(
        model=arguments.model,
        skip_tokenizer_init=True,
        max_model_len=128,
        max_num_seqs=8,
        enforce_eager=not os.environ.get("STAND_IN_COMPILED"),
        dtype="bfloat16",
        tensor_parallel_size=arguments.tensor_parallel,
        **more,
    )
    calls = Calls()
    sys.setprofile(calls)
    outputs = engine.generate(
        [{"prompt_token_ids": prompt} for prompt in PROMPTS],
        SamplingParams(max_tokens=8, temperature=0, detokenize=False),
        use_tqdm=False,
    )
    sys.setprofile(None)
    engine.llm_engine.engine_core.shutdown()
    tokens = [list(output.outputs[0].token_ids) for output in outputs]
    arguments.tokens.write_text(json.dumps({"tokens": tokens, "calls": calls.ours, "all_calls": calls.all}))


if __name__ == "__main__":
    main()
