"""vLLM's descriptors as keys, and its process groups as ranks."""

from __future__ import annotations

import sys
from collections import namedtuple
from dataclasses import dataclass, fields
from enum import Enum
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shapescope.engines.vllm_keys import manager_key, manager_runner, model_key, rank_of
from shapescope.model import GraphKey, Phase, Rank, Unit

Mode = Enum("Mode", ["NONE", "PIECEWISE", "FULL"])


@dataclass(frozen=True)
class Batch:
    """Of V1."""

    num_tokens: int
    num_reqs: int | None = None
    uniform: bool = False
    has_lora: bool = False
    num_active_loras: int = 0


@dataclass(frozen=True)
class Execution:
    """Of V2."""

    cg_mode: Mode
    num_tokens: int
    num_reqs: int | None
    uniform_token_count: int | None = None
    max_query_len: int | None = None
    num_active_loras: int = 0
    num_ubatches: int = 1


@dataclass(frozen=True)
class Speculation(Execution):
    num_speculative_tokens: int = 0


def manager(name: str, module: str = "vllm.v1.worker.gpu.cudagraph_utils") -> Any:
    return type(name, (), {"__module__": module})()


MODEL = manager("ModelCudaGraphManager")
SPECULATOR = manager("SpeculatorCudaGraphManager", "vllm.v1.worker.gpu.spec_decode.target_dependent_ar.cudagraph_utils")


@pytest.mark.parametrize(
    ("descriptor", "mode", "key"),
    [
        (Batch(8, 8, uniform=True), Mode.FULL, GraphKey.of("decode", 8, "full")),
        (
            Batch(12, 4, uniform=True),
            Mode.FULL,
            GraphKey.of("verify", 12, "full", "requests=4", "uniform", unit=Unit.TOKENS, phase=Phase.VERIFY),
        ),
        (Batch(512), Mode.PIECEWISE, GraphKey.of("mixed", 512, "piecewise", unit=Unit.TOKENS, phase=Phase.MIXED)),
        (
            Batch(64, 64, has_lora=True, num_active_loras=2),
            Mode.FULL,
            GraphKey.of(
                "mixed", 64, "full", "requests=64", "lora", "loras=2", unit=Unit.TOKENS, phase=Phase.MIXED
            ),
        ),
    ],
)  # fmt: skip
def test_v1(descriptor: Batch, mode: Mode, key: GraphKey) -> None:
    assert model_key(descriptor, mode, 1) == key


def test_v1_named_tuples_of_older_versions() -> None:
    older = namedtuple("BatchDescriptor", ["num_tokens", "uniform_decode"])  # type: ignore[name-match]
    assert model_key(older(8, True), Mode.FULL, 1).shape.variants == ("full", "uniform-decode")


@pytest.mark.parametrize(
    ("owner", "bar", "descriptor", "key"),
    [
        (MODEL, "Capturing CUDA graphs", Execution(Mode.FULL, 8, 8, 1), GraphKey.of("decode", 8, "full")),
        (
            MODEL,
            "Capturing CUDA graphs",
            Execution(Mode.FULL, 8, 8, max_query_len=3),
            GraphKey.of("verify", 8, "full", "requests=8", "query=3", unit=Unit.TOKENS, phase=Phase.VERIFY),
        ),
        (
            MODEL,
            "Capturing CUDA graphs",
            Execution(Mode.FULL, 8, 8, 1, num_ubatches=2),
            GraphKey.of("decode", 8, "full", "microbatches=2"),
        ),
        (
            SPECULATOR,
            "Capturing prefill CUDA graphs",
            Execution(Mode.PIECEWISE, 32, None),
            GraphKey.of("draft-extend", 32, "piecewise", unit=Unit.TOKENS, phase=Phase.DRAFT_EXTEND),
        ),
        (
            SPECULATOR,
            "Capturing decode CUDA graphs",
            Speculation(Mode.FULL, 4, 4, 1, num_speculative_tokens=3),
            GraphKey.of("draft", 4, "full", "speculative=3", phase=Phase.DRAFT),
        ),
    ],
)
def test_v2(owner: Any, bar: str, descriptor: Execution, key: GraphKey) -> None:
    assert manager_key(owner, bar, descriptor, 1) == key


def test_v2_runners() -> None:
    drafts = "vllm.v1.worker.gpu.spec_decode.dflash.cudagraph"
    assert manager_runner(manager("DFlashCudaGraphManager", drafts), "Capturing dflash CUDA graphs") == "draft-dflash"
    assert manager_runner(SPECULATOR, "Capturing multi-module MTP CUDA graphs") == "draft-multi-module-mtp"
    replay = manager("DecoderReplayCudaGraphManager", "vllm.models.deepseek_v41.nvidia.decoder_replay_cudagraph")
    assert manager_runner(replay, "Capturing decoder replay CUDA graphs") == "decoder-replay"
    assert manager_runner(replay, "Capturing CUDA graphs") == "decoder-replay"


executions = st.builds(
    Speculation,
    cg_mode=st.sampled_from([Mode.FULL, Mode.PIECEWISE]),
    num_tokens=st.integers(1, 4),
    num_reqs=st.none() | st.integers(1, 4),
    uniform_token_count=st.none() | st.integers(1, 3),
    max_query_len=st.none() | st.integers(1, 3),
    num_active_loras=st.integers(0, 2),
    num_ubatches=st.integers(1, 2),
    num_speculative_tokens=st.integers(0, 2),
)


@example(Speculation(Mode.FULL, 1, 1, None, 1), Speculation(Mode.FULL, 1, 1, 1, 1), 1, 1)
@given(executions, executions, st.integers(1, 3), st.integers(1, 3))
def test_another_descriptor_is_another_key(one: Any, other: Any, first: int, second: int) -> None:
    same = manager_key(MODEL, "", one, first) == manager_key(MODEL, "", other, second)
    assert same == (one == other and first == second)


def test_a_field_of_a_later_version_is_in_the_key() -> None:
    @dataclass(frozen=True)
    class Later(Execution):
        sparse_blocks: int = 0

    assert len(fields(Later)) == len(fields(Execution)) + 1
    key = manager_key(MODEL, "", Later(Mode.FULL, 8, 8, 1, sparse_blocks=4), 1)
    assert key.shape.variants == ("full", "sparse-blocks=4")


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """vLLM's parallel state, in which no group is set up."""
    state = ModuleType("vllm.distributed.parallel_state")
    distributed = ModuleType("vllm.distributed")
    distributed.parallel_state = state  # type: ignore[attr-defined]
    for name, module in {"vllm": ModuleType("vllm"), "vllm.distributed": distributed}.items():
        monkeypatch.setitem(sys.modules, name, module)

    def unset() -> None:
        raise AssertionError("expert parallel group is not initialized")

    state.get_ep_group = unset  # type: ignore[attr-defined]
    return state


def group(rank_in_group: int, world_size: int, rank: int = 0) -> Any:
    return lambda: SimpleNamespace(rank_in_group=rank_in_group, world_size=world_size, rank=rank)


def test_ranks_of_the_groups_that_exist(groups: Any) -> None:
    groups.get_tp_group, groups.get_pp_group = group(1, 2), group(1, 2)
    groups.get_world_group = group(3, 4, rank=3)
    assert rank_of(None) == Rank(rank=3, tp=1, tp_size=2, pp=1, pp_size=2, world_size=4)


def test_no_group_at_all_is_one_process(groups: Any) -> None:
    assert rank_of(None) == Rank()


def test_replicas_of_a_dense_model_stay_apart(groups: Any) -> None:
    groups.get_tp_group, groups.get_dp_group, groups.get_world_group = group(1, 2), group(0, 1), group(1, 2, rank=1)
    ranks = [
        rank_of(SimpleNamespace(parallel_config=SimpleNamespace(data_parallel_index=index, elastic_ep_max_dp_size=2)))
        for index in range(2)
    ]
    assert ranks == [
        Rank(rank=1, tp=1, tp_size=2, dp=0, dp_size=2, world_size=4),
        Rank(rank=3, tp=1, tp_size=2, dp=1, dp_size=2, world_size=4),
    ]


def test_replicas_of_a_mixture_of_experts_are_vllms_own(groups: Any) -> None:
    groups.get_dp_group, groups.get_world_group = group(1, 2), group(1, 2, rank=1)
    config = SimpleNamespace(parallel_config=SimpleNamespace(data_parallel_index=1))
    assert rank_of(config) == Rank(rank=1, dp=1, dp_size=2, world_size=2)
