"""Who a trace is of: labels and ranks as far as they are known, and what the recorder wrote into the trace itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shapescope.errors import InputError
from shapescope.model import METADATA_FIELD, GraphKey, Phase, TraceIdentity, Unit, from_plain


@dataclass(frozen=True, slots=True)
class Label:
    """What is known of a graph's key; None where it is not. `sequence` numbers what has no size."""

    runner: str | None = None
    phase: Phase | None = None
    size: int | None = None
    unit: Unit | None = None
    variants: tuple[str, ...] = ()
    sequence: int | None = None

    @classmethod
    def of(cls, key: GraphKey) -> Label:
        return cls(key.runner or None, key.phase, key.shape.size, key.shape.unit, key.shape.variants)

    @property
    def words(self) -> str:
        """`DecodeCudaGraphRunner bs=8 dense,lora`, in the order of the file names."""
        size = f"unlabelled-{self.sequence}"
        if self.size is not None:
            size = f"{'tokens' if self.unit is Unit.TOKENS else 'bs'}={self.size}"
        return " ".join(word for word in (self.runner, size, ",".join(self.variants)) if word)


@dataclass(frozen=True, slots=True)
class Window:
    """The stretch of a trace that holds one capture: its label, where that came from, and from when to when (ns).

    `mismatch` says in words what contradicts what; then `claimed` is a name's label that lost, `inferred` what the dims
    imply with `confidence` (0..1).
    """

    label: Label
    key_source: str | None
    ts: int | None = None
    dur: int | None = None
    mismatch: str | None = None
    claimed: Label | None = None
    inferred: Label | None = None
    confidence: float | None = None


@dataclass(frozen=True, slots=True)
class RankFound:
    """A trace's rank where it is known, else its place as far as a name tells it; and the size of the world."""

    rank: int | None
    apart: tuple[tuple[str, int], ...] | None = None
    world_size: int | None = None


def trace_identity(metadata: Mapping[str, Any]) -> TraceIdentity | None:
    """What the recorder wrote into the trace, or None for a foreign one. Raises InputError where it is damaged."""
    plain = metadata.get(METADATA_FIELD)
    return None if plain is None else from_plain(TraceIdentity, plain)


def identity_or_problem(metadata: Mapping[str, Any]) -> tuple[TraceIdentity | None, str | None]:
    """As `trace_identity`, with the words of the error in place of raising it."""
    try:
        return trace_identity(metadata), None
    except InputError as error:
        return None, str(error)
