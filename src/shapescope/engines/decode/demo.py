"""The engines behind `shapescope demo`: a target and, where asked for, a draft and a draft-extend runner beside it."""

from __future__ import annotations

from collections.abc import Sequence

from shapescope.device import Device
from shapescope.engines.decode.engine import DecodeEngine
from shapescope.engines.decode.model import PRESETS, load_model
from shapescope.engines.decode.parallel import World, split_model
from shapescope.engines.decode.record import SHORTEST_CACHE
from shapescope.errors import UsageError
from shapescope.model import Phase

# A draft is extended by the tokens that the target accepted: as many as it proposes at once.
_DRAFT_TOKENS = 3


def demo_engines(
    model: str,
    sizes: Sequence[int],
    *,
    device: Device,
    backend: str,
    contexts: Sequence[int],
    draft: bool,
    world: World,
) -> list[DecodeEngine]:
    """Raises UsageError for a model, a backend, sizes or a world that make no sense."""
    if draft and model not in PRESETS:
        raise UsageError("--draft goes with a preset model", f"Pass --model {' or '.join(PRESETS)}.")
    length = max(SHORTEST_CACHE, *(context + _DRAFT_TOKENS for context in contexts))

    def engine(runner: str, phase: Phase, layers: int | None, tokens: int = 1) -> DecodeEngine:
        loaded = load_model(model, device=device.torch_device, layers=layers)
        heads = split_model(loaded, world)
        return DecodeEngine(
            loaded, sizes, device=device, backend=backend, max_length=length, runner=runner, phase=phase, heads=heads,
            tokens=tokens, barrier=world.barrier if world.mesh is not None else None,
        )  # fmt: skip

    engines = [engine("DecodeRunner", Phase.DECODE, None)]
    if draft:
        engines.append(engine("DraftRunner", Phase.DRAFT, 1))
        engines.append(engine("DraftExtendRunner", Phase.DRAFT_EXTEND, 1, _DRAFT_TOKENS))
    return engines
