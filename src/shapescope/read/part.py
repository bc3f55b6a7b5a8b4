"""One process of one file, read to the end: what it is, whose it is, and its tables.

Parts are plain frames and values, so that they can be made in another process, and kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import polars as pl

from shapescope.model import Evidence
from shapescope.read.columns import Losses
from shapescope.read.foreign import NameHint
from shapescope.read.frames import CAPTURED, KERNEL, LAUNCH, REPLAY, STEP, STREAM, empty
from shapescope.read.identity import Label, RankFound, Window
from shapescope.read.problem import Problem


class Role(StrEnum):
    """What a trace shows of graphs."""

    CAPTURE = "capture"
    REPLAY = "replay"
    EAGER = "eager"
    CPU = "cpu"
    NOT_A_TRACE = "not-a-trace"


@dataclass(frozen=True, slots=True)
class Part:
    """What one process of a file holds. Times are ns; `events` and `losses` are those of the
    document in the file whose number is `member`.

    `evidence` and `label` are what the recorder wrote into the trace; both None for a foreign one. `metadata` are the
    file's top-level fields, `opened_ns` is the earliest stamp of the process, relative to the file's clock base.
    """

    path: Path
    roles: tuple[Role, ...]
    status: str
    member: int = 0
    events: int = 0
    losses: Losses = Losses()  # noqa: RUF009 - frozen
    evidence: Evidence | None = None
    label: Label | None = None
    rank: RankFound = RankFound(None)  # noqa: RUF009 - frozen
    hint: NameHint = field(default_factory=NameHint)
    profiler_step: int | None = None
    windows: tuple[Window, ...] = ()
    captured: pl.DataFrame = field(default_factory=lambda: empty(CAPTURED))
    replays: pl.DataFrame = field(default_factory=lambda: empty(REPLAY))
    kernels: pl.DataFrame = field(default_factory=lambda: empty(KERNEL))
    eager: pl.DataFrame = field(default_factory=lambda: empty(LAUNCH))
    steps: pl.DataFrame = field(default_factory=lambda: empty(STEP))
    streams: pl.DataFrame = field(default_factory=lambda: empty(STREAM))
    problems: tuple[Problem, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    opened_ns: int | None = None

    @property
    def base_ns(self) -> int | None:
        """What the times of this file are relative to: `baseTimeNanoseconds`, where the file states it."""
        base = self.metadata.get("baseTimeNanoseconds")
        return base if isinstance(base, int) and not isinstance(base, bool) else None


def without_tables(part: Part) -> Part:
    """What a part says of itself, once its tables were put together with those of the other parts."""
    return replace(
        part, captured=empty(CAPTURED), replays=empty(REPLAY), kernels=empty(KERNEL), eager=empty(LAUNCH),
        steps=empty(STEP), streams=empty(STREAM),
    )  # fmt: skip
