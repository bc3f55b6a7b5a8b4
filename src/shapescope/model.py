"""The contract between the recording half and the reading half: keys, ranks, evidence, manifest rows. Versioned.

Nothing here knows torch, folders or frames. Every type is a frozen dataclass of plain values, so that the same words
stand in a trace's metadata, in a manifest row and in a table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Self, TypeVar

import msgspec

from shapescope.errors import InputError

T = TypeVar("T")

SCHEMA = 1
METADATA_FIELD = "shapescope"


class Unit(StrEnum):
    """What a size counts."""

    REQUESTS = "requests"
    TOKENS = "tokens"


class Phase(StrEnum):
    """What a runner's graphs do for the model."""

    DECODE = "decode"
    VERIFY = "verify"
    DRAFT = "draft"
    DRAFT_EXTEND = "draft-extend"
    PREFILL = "prefill"
    MIXED = "mixed"
    ENCODER = "encoder"
    DIFFUSION = "diffusion"
    OTHER = "other"


class Evidence(StrEnum):
    """One kind of record of a shape; `memory` is of a whole runner: torch's allocator snapshot."""

    CAPTURE = "capture"
    WARMUP = "warmup"
    NODES = "nodes"
    REPLAY = "replay"
    MEMORY = "memory"


class Status(StrEnum):
    """What became of a window, and of a shape."""

    OK = "ok"
    PARTIAL = "partial"
    FAILED = "failed"
    MISSING = "missing"
    UNLABELLED = "unlabelled"


@dataclass(frozen=True, slots=True)
class Shape:
    """What one graph was captured for: a size, and ordered variants such as `lora` or `stream=1`."""

    size: int
    unit: Unit = Unit.REQUESTS
    variants: tuple[str, ...] = ()

    @property
    def variant(self) -> str:
        """The variants in one word, as tables spell them: `dense,lora,stream=1`; empty without any."""
        return ",".join(self.variants)


@dataclass(frozen=True, slots=True)
class GraphKey:
    """The identity of one captured graph within one rank of a run."""

    runner: str
    shape: Shape
    phase: Phase = Phase.DECODE

    @classmethod
    def of(
        cls,
        runner: str,
        size: int,
        *variants: str,
        unit: Unit = Unit.REQUESTS,
        phase: Phase = Phase.DECODE,
    ) -> Self:
        return cls(runner, Shape(size, unit, variants), phase)


@dataclass(frozen=True, slots=True)
class Rank:
    """Where a process stands in the world: its global rank, and its place and the size of each parallel dimension."""

    rank: int = 0
    tp: int = 0
    pp: int = 0
    dp: int = 0
    ep: int = 0
    tp_size: int = 1
    pp_size: int = 1
    dp_size: int = 1
    ep_size: int = 1
    world_size: int = 1


@dataclass(frozen=True, slots=True)
class Timing:
    """Unprofiled replays of one graph: every sample, so that later comparisons know the spread. Integer ns."""

    samples_ns: tuple[int, ...]
    context_len: int | None = None
    dummy_inputs: bool = True


@dataclass(frozen=True, slots=True)
class TraceIdentity:
    """What a trace carries inside, as top-level metadata under `shapescope`, so that a renamed file still knows itself."""

    key: GraphKey | None
    rank: Rank
    evidence: Evidence
    run_id: str = ""
    sequence: int = 0
    timing: Timing | None = None
    schema: int = SCHEMA


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory around one capture, in bytes; None where the device has no such figure.

    `device_bytes` is what the device lost, `allocator_bytes` what the allocator reserved; marginal in this order.
    """

    order: int
    allocator_bytes: int | None = None
    device_bytes: int | None = None
    disturbed: bool = False

    @property
    def other_bytes(self) -> int | None:
        """The share outside the allocator, such as the driver's own cost of a graph."""
        if self.allocator_bytes is None or self.device_bytes is None:
            return None
        return self.device_bytes - self.allocator_bytes


@dataclass(frozen=True, slots=True)
class MemoryTotals:
    """An allocator's snapshot in plain numbers, in bytes, so that nobody needs to unpickle it."""

    segments: int
    blocks: int
    reserved_bytes: int
    allocated_bytes: int


@dataclass(frozen=True, slots=True)
class ManifestRow:
    """One window, as it ended: one line of `manifest.<rank>-<host>-<pid>.jsonl`. Times in ns, sizes in bytes.

    A later row of the same key, rank and evidence replaces an earlier one: a shape is `missing` until its window ended.
    `runner` is set where a row is about a whole runner: a combined trace, a memory snapshot.
    """

    key: GraphKey | None
    rank: Rank
    evidence: Evidence
    sequence: int
    status: Status
    file: str | None = None
    reason: str | None = None
    launches: int | None = None
    bytes: int | None = None
    warmup_ns: tuple[int, ...] = ()
    capture_ns: int | None = None
    record_ns: int | None = None
    export_ns: int | None = None
    memory: Memory | None = None
    timing: Timing | None = None
    runner: str | None = None
    totals: MemoryTotals | None = None
    warnings: tuple[str, ...] = ()
    schema: int = SCHEMA


@dataclass(frozen=True, slots=True)
class RunManifest:
    """`run.json`: who recorded, where, with which versions, and which shapes were asked for. Written once by rank 0."""

    run_id: str
    created: str
    engine: str
    model: str | None
    requested: tuple[GraphKey, ...]
    world_size: int = 1
    mode: str = "per-shape"
    detail: str = "full"
    environment: Mapping[str, Any] = field(default_factory=dict)
    schema: int = SCHEMA


def to_plain(value: object) -> dict[str, Any]:
    """A record as the plain dict that JSON holds; `from_plain` is its exact inverse."""
    plain: dict[str, Any] = msgspec.to_builtins(asdict(value))  # type: ignore[call-overload]
    return plain


def from_plain(kind: type[T], plain: object) -> T:
    """Read a record back. Raises InputError where fields are missing, of another type, or of a newer schema."""
    schema = plain.get("schema", SCHEMA) if isinstance(plain, dict) else SCHEMA
    if schema != SCHEMA:
        raise InputError(
            f"schema {schema} of a {kind.__name__} is not known here (this is {SCHEMA})",
            "Upgrade shapescope.",
        )
    try:
        return msgspec.convert(plain, kind)
    except msgspec.ValidationError as error:
        raise InputError(f"not a {kind.__name__}: {error}") from error
