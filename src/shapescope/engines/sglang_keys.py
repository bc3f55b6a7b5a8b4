"""What SGLang's runners call their graphs, as our keys and ranks. Read off SGLang 0.5.23; nothing here imports it.

A runner's class alone does not tell its graphs apart: several EAGLE steps share one, a draft worker captures with the
target's, adaptive speculation has one runner for each tier, and a weight update captures everything anew.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

from shapescope.model import GraphKey, Phase, Rank, Shape, Unit

_PHASES = {
    "DECODE": Phase.DECODE,
    "TARGET_VERIFY": Phase.VERIFY,
    "DRAFT_EXTEND": Phase.DRAFT_EXTEND,
    "DRAFT_EXTEND_V2": Phase.DRAFT_EXTEND,
    "EXTEND": Phase.PREFILL,
    "MIXED": Phase.MIXED,
    "DLLM_EXTEND": Phase.DIFFUSION,
}
# A ShapeKey's fields in the order of SGLang's own file names; whatever a later version adds comes after them.
_NAMED_FIELDS = ("attention_variant", "variant_label", "stream_idx")
# The function that runs every draft step in one graph (single-graph multi-layer EAGLE).
_ALL_STEPS = "multi_step_fn"


@dataclass(frozen=True, slots=True)
class RunnerIdentity:
    """What is the same for all graphs of one runner: its name, and what tells it from others of its class."""

    name: str
    variants: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """One word for what belongs to the whole runner, such as its combined trace."""
        return "_".join([self.name, *(variant.replace("=", "_") for variant in self.variants)])


def identity_of(runner: Any, *, configured_steps: int | None, adaptive: bool) -> RunnerIdentity:
    """Name a runner as SGLang's own traces do, with its step and its tier of speculative steps where it has them.

    `configured_steps` is the server's number of speculative steps; a runner with another one belongs to another tier.
    """
    name = type(runner).__name__
    if _is_draft(runner) and "draft" not in name.lower():
        name = f"Draft{name}"
    variants = []
    step, steps = getattr(runner, "step", None), getattr(runner, "speculative_num_steps", None)
    if isinstance(step, int):
        variants.append(f"step={step}")
    if isinstance(steps, int) and (adaptive or steps != configured_steps):
        variants.append(f"steps={steps}")
    return RunnerIdentity(name, tuple(variants))


def key_of(
    runner: Any, identity: RunnerIdentity, shape: Any, forward: Callable[..., Any], generation: int | None
) -> GraphKey:
    """The key of one capture: `shape` is SGLang's ShapeKey, `forward` what it captures, `generation` counts recaptures."""
    variants = identity.variants
    if getattr(forward, "__name__", "") == _ALL_STEPS:
        variants = ("all-steps", *(variant for variant in variants if not variant.startswith("step=")))
    again = (f"generation={generation}",) if generation else ()
    phase = phase_of(runner)
    return GraphKey(identity.name, Shape(shape.size, _unit(runner, phase), (*_labels(shape), *variants, *again)), phase)


def announced_keys(runner: Any, identity: RunnerIdentity, generation: int | None) -> list[GraphKey]:
    """The keys that a runner is about to capture, where its list of sizes says it all; else none, rather than a guess."""
    several = ("record_nolora_graph", "attention_graph_variants", "enable_pdmux", "ragged_verify_mode", "is_dllm")
    prefixes = getattr(runner, "_prefix_capture_variants", ())
    sizes: Sequence[int] = getattr(runner, "capture_bs", None) or getattr(runner, "capture_num_tokens", None) or ()
    if prefixes or any(getattr(runner, name, None) for name in several):
        return []
    phase = phase_of(runner)
    again = (f"generation={generation}",) if generation else ()
    return [
        GraphKey(identity.name, Shape(size, _unit(runner, phase), (*identity.variants, *again)), phase)
        for size in reversed(sizes)
    ]


def encoder_key(runner: Any, graph_key: Any) -> GraphKey:
    """The key of a vision encoder's graph. SGLang keys it by its tokens and how they are cut into images.

    That is (tokens, layout) for most, (images, tokens of each) for InternVL, and a grid for each image for Kimi.
    """
    first, second = graph_key[0], graph_key[1] if len(graph_key) > 1 else None
    if isinstance(first, int):
        tokens = first * second if isinstance(second, int) else first
    else:
        tokens = sum(math.prod(grid) for grid in graph_key)
    layout = hashlib.sha256(repr(graph_key).encode()).hexdigest()[:8]
    return GraphKey.of(type(runner).__name__, tokens, f"layout={layout}", unit=Unit.TOKENS, phase=Phase.ENCODER)


def phase_of(runner: Any) -> Phase:
    """What a runner's graphs do, by the forward mode that it captures and by whose model it runs."""
    speculates = _name(getattr(runner, "_capture_spec_input_type", None))
    if speculates.endswith("_DRAFT"):
        return Phase.DRAFT
    phase = _PHASES.get(_name(getattr(runner, "capture_forward_mode", None)), Phase.OTHER)
    if phase in (Phase.DECODE, Phase.VERIFY) and _is_draft(runner):
        return Phase.DRAFT
    return phase


def rank_of(parallel: Any) -> Rank:
    """This process's rank, from SGLang's `get_parallel()`. What is not set there counts as 0 of 1."""
    tp, tp_size = _place(parallel, "tp_rank", "tp_size")
    pp, pp_size = _place(parallel, "pp_rank", "pp_size")
    dp, dp_size = _place(parallel, "dp_rank", "dp_size")
    ep, ep_size = _place(parallel, "moe_ep_rank", "moe_ep_size")
    return Rank(
        rank=(dp * pp_size + pp) * tp_size + tp,
        tp=tp, pp=pp, dp=dp, ep=ep,
        tp_size=tp_size, pp_size=pp_size, dp_size=dp_size, ep_size=ep_size,
        world_size=dp_size * pp_size * tp_size,
    )  # fmt: skip


def _place(parallel: Any, rank: str, size: str) -> tuple[int, int]:
    return _number(parallel, rank, 0), _number(parallel, size, 1)


def _number(parallel: Any, name: str, default: int) -> int:
    """SGLang raises for what was never published, and has no data parallel rank without a controller."""
    try:
        value = getattr(parallel, name)
    except (AttributeError, RuntimeError, ValueError):
        return default
    return value if isinstance(value, int) else default


def _labels(shape: Any) -> tuple[str, ...]:
    others = [field.name for field in fields(shape) if field.name not in ("size", *_NAMED_FIELDS)]
    labels = []
    for name in (*_NAMED_FIELDS, *others):
        value = getattr(shape, name, None)
        if value is None:
            continue
        plain = name in ("attention_variant", "variant_label")
        labels.append(str(value) if plain else f"{name.removesuffix('_idx')}={value}")
    return tuple(labels)


def _unit(runner: Any, phase: Phase) -> Unit:
    counts_tokens = phase is Phase.PREFILL or getattr(runner, "ragged_verify_mode", False)
    return Unit.TOKENS if counts_tokens else Unit.REQUESTS


def _is_draft(runner: Any) -> bool:
    return bool(getattr(getattr(runner, "model_runner", None), "is_draft_worker", False))


def _name(member: Any) -> str:
    """The name of an enum's member, or nothing."""
    return str(getattr(member, "name", ""))
