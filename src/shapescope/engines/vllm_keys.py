"""What vLLM captures, in our words: its batch descriptors as graph keys, its process groups as ranks."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from typing import Any

from shapescope.model import GraphKey, Phase, Rank, Unit

# vLLM's fields as our variants spell them. A field that a later version adds keeps its own name.
_WORDS = {
    "num_reqs": "requests",
    "uniform_token_count": "uniform",
    "max_query_len": "query",
    "has_lora": "lora",
    "num_active_loras": "loras",
    "num_ubatches": "microbatches",
    "num_speculative_tokens": "speculative",
}
# What a field holds when it says nothing.
_SILENT = {"num_ubatches": 1}
_PHASE_RUNNERS = {Phase.DECODE: "decode", Phase.VERIFY: "verify", Phase.MIXED: "mixed"}


def model_key(descriptor: Any, mode: Any, generation: int, *, microbatched: bool = False) -> GraphKey:
    """A graph of V1's model, by its `BatchDescriptor` and runtime mode."""
    phase = _model_phase(_tokens_each(descriptor))
    more = ("microbatched",) if microbatched else ()
    return _key(_PHASE_RUNNERS[phase], phase, descriptor, mode, *more, *_generation(generation))


def manager_key(manager: Any, description: str, descriptor: Any, generation: int) -> GraphKey:
    """A graph of one of V2's managers, by its `BatchExecutionDescriptor`; `description` is its progress bar's."""
    runner = manager_runner(manager, description)
    if runner == "model":
        phase = _model_phase(_tokens_each(descriptor))
        runner = _PHASE_RUNNERS[phase]
    else:
        phase = _MANAGER_PHASES.get(runner, Phase.DRAFT if runner.startswith("draft") else Phase.OTHER)
    return _key(runner, phase, descriptor, descriptor.cg_mode, *_generation(generation))


_MANAGER_PHASES = {"draft-extend": Phase.DRAFT_EXTEND, "draft": Phase.DRAFT}
_DRAFT_RUNNERS = {"prefill": "draft-extend", "decode": "draft"}


def manager_runner(manager: Any, description: str) -> str:
    """The runner that a manager stands for. A speculator has managers of one class, told apart by their progress bars."""
    kind = type(manager)
    if kind.__name__ in ("ModelCudaGraphManager", "CudaGraphManager"):
        return "model"
    what = _dashed(description.removeprefix("Capturing ").removesuffix("CUDA graphs"))
    if ".spec_decode." in kind.__module__:
        return _DRAFT_RUNNERS.get(what, f"draft-{what}" if what else "draft")
    return what or _dashed(re.sub(r"(?<=[a-z])(?=[A-Z])", "-", kind.__name__.removesuffix("CudaGraphManager")))


def encoder_key(asked: Mapping[str, Any], generation: int) -> GraphKey:
    """A graph of the vision or audio encoder, by the arguments of `_capture_budget_graph`."""
    path = asked.get("path", "default")
    variants = () if path == "default" else (f"path={path}",)
    axes = tuple(f"axis{place}={value}" for place, value in enumerate(asked.get("axis_keys", ())))
    return GraphKey.of(
        "encoder", asked["token_budget"], *variants, *axes, *_generation(generation),
        unit=Unit.TOKENS, phase=Phase.ENCODER,
    )  # fmt: skip


def _tokens_each(descriptor: Any) -> int | None:
    """How many tokens a request has at most: V1 says that all have as many, V2 says the number. None is no bound."""
    if getattr(descriptor, "uniform", False) and descriptor.num_reqs:
        return int(descriptor.num_tokens // descriptor.num_reqs)
    bound: int | None = getattr(descriptor, "uniform_token_count", None) or getattr(descriptor, "max_query_len", None)
    return bound


def _model_phase(tokens_each: int | None) -> Phase:
    """One token a request is decoding, several are the verification of drafts; no bound admits prefills."""
    if tokens_each is None:
        return Phase.MIXED
    return Phase.DECODE if tokens_each == 1 else Phase.VERIFY


def _key(runner: str, phase: Phase, descriptor: Any, mode: Any, *more: str) -> GraphKey:
    """The size is in requests where each has one token, else in tokens; every other field is a variant."""
    uniform = getattr(descriptor, "uniform", False) or getattr(descriptor, "uniform_token_count", None) == 1
    of_requests = uniform and descriptor.num_reqs == descriptor.num_tokens
    said = {"num_tokens", "cg_mode"}
    if of_requests:
        said |= {"num_reqs", "uniform", "uniform_token_count"}
    unit = Unit.REQUESTS if of_requests else Unit.TOKENS
    variants = (mode.name.lower(), *_variants(descriptor, said), *more)
    return GraphKey.of(runner, descriptor.num_tokens, *variants, unit=unit, phase=phase)


def _variants(descriptor: Any, said: set[str]) -> Iterator[str]:
    for name, value in _fields(descriptor).items():
        if name in said or value is None or value is False or value == _SILENT.get(name, 0):
            continue
        word = _WORDS.get(name, name.replace("_", "-"))
        yield word if value is True else f"{word}={value}"


def _fields(descriptor: Any) -> dict[str, Any]:
    """Descriptors are frozen dataclasses; before vLLM 0.15 one was a named tuple."""
    if dataclasses.is_dataclass(descriptor):
        return {field.name: getattr(descriptor, field.name) for field in dataclasses.fields(descriptor)}
    named: dict[str, Any] = descriptor._asdict()
    return named


def _generation(generation: int) -> tuple[str, ...]:
    return (f"generation={generation}",) if generation > 1 else ()


def _dashed(text: str) -> str:
    return "-".join(text.lower().split())


def rank_of(config: Any) -> Rank:
    """This worker's place in every parallel dimension that vLLM has set up. `config` is vLLM's, None where unknown."""
    from vllm.distributed import parallel_state

    places: dict[str, int] = {}
    for name in ("tp", "pp", "dp", "ep"):
        # Each for itself: a dense model has no expert parallel group, and asking for it raises.
        group = _group(parallel_state, f"get_{name}_group")
        if group is not None:
            places |= {name: group.rank_in_group, f"{name}_size": group.world_size}
    world = _group(parallel_state, "get_world_group")
    rank = Rank(**places, rank=world.rank, world_size=world.world_size) if world is not None else Rank(**places)
    return _among_replicas(rank, getattr(config, "parallel_config", None))


def _group(parallel_state: Any, getter: str) -> Any:
    try:
        return getattr(parallel_state, getter)()
    except (AssertionError, AttributeError):
        return None


def _among_replicas(rank: Rank, parallel: Any) -> Rank:
    """Data parallel replicas of a dense model are worlds of their own to vLLM; only the index and the first size remain."""
    index = getattr(parallel, "data_parallel_index", 0) or 0
    replicas = max(getattr(parallel, "elastic_ep_max_dp_size", 1) or 1, index + 1)
    if rank.dp_size > 1 or replicas == 1:
        return rank
    return dataclasses.replace(
        rank,
        dp=index,
        dp_size=replicas,
        rank=index * rank.world_size + rank.rank,
        world_size=replicas * rank.world_size,
    )
