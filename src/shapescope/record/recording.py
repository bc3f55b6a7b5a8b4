"""The state of one window while it is open, and the manifest row that it becomes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shapescope.device import MemorySample
from shapescope.model import Evidence, GraphKey, ManifestRow, Memory, Status, Timing, TraceIdentity
from shapescope.record.export import Exported
from shapescope.record.guard import Guard
from shapescope.record.nodes import Node
from shapescope.record.session import Session
from shapescope.record.window import Window
from shapescope.store.layout import trace_name
from shapescope.store.spans import Mark

_MARKS = {Evidence.CAPTURE: Mark.CAPTURE, Evidence.WARMUP: Mark.WARMUP, Evidence.REPLAY: Mark.REPLAY}


@dataclass(slots=True)
class Recording:
    """One window: what it is of, how far it got, and what it cost. Times in ns."""

    key: GraphKey | None
    evidence: Evidence
    session: Session
    sequence: int
    timing: Timing | None = None
    window: Window | None = None
    span: Any = None
    saved: Path | None = None
    graph: Any = None
    nodes: tuple[Node, ...] | None = None
    discovering: bool = False
    order: int = 0
    memory_before: MemorySample | None = None
    memory: Memory | None = None
    launches: int | None = None
    file: str | None = None
    bytes: int | None = None
    reason: str | None = None
    record_ns: int = 0
    export_ns: int | None = None
    body_ns: int | None = None
    warnings: list[str] = field(default_factory=list)
    _clock: int = 0

    @property
    def mark(self) -> Mark:
        return _MARKS[self.evidence]

    @property
    def label(self) -> str:
        if self.key is None:
            return f"{self.evidence} unlabelled-{self.sequence}"
        return f"{self.evidence} of {self.key.runner} at {self.key.shape.size} {self.key.shape.unit}"

    @property
    def failed(self) -> bool:
        return self.reason is not None

    def identity(self, run_id: str) -> TraceIdentity:
        return TraceIdentity(self.key, self.session.rank, self.evidence, run_id, self.sequence, self.timing)

    def file_name(self, duplicate: int) -> str:
        real_context = self.timing is not None and not self.timing.dummy_inputs
        return trace_name(
            self.key,
            self.session.rank,
            self.evidence,
            sequence=self.sequence,
            context_len=self.timing.context_len if self.timing and real_context else None,
            duplicate=duplicate,
        )

    # The course of a window: begins, started, ended.

    def begins(self) -> None:
        self._clock = time.perf_counter_ns()

    def started(self) -> None:
        now = time.perf_counter_ns()
        self.record_ns += now - self._clock
        self._clock = now

    def ended(self) -> None:
        self.body_ns = time.perf_counter_ns() - self._clock

    def fail(self, reason: str) -> None:
        """Keep the first reason: what followed is its consequence."""
        self.reason = self.reason or reason

    @contextmanager
    def guard(self, what: str) -> Iterator[None]:
        with (guard := Guard(f"{what} of {self.label}")):
            yield
        if guard.reason is not None:
            self.fail(guard.reason)

    def published(self, exported: Exported) -> None:
        self.bytes = exported.bytes
        if self.launches is None:
            self.launches = exported.tally.launches
        if exported.path is not None:
            self.file = str(exported.path.relative_to(self.session.folder))
        if exported.duplicate:
            self.warnings.append("duplicate-key")

    def count_launches(self) -> None:
        """From the graph itself, where it knows."""
        launches = getattr(self.graph, "launches", None)
        self.launches = None if launches is None else len(launches)

    def row(self, warmup_ns: tuple[int, ...]) -> ManifestRow:
        status = Status.FAILED if self.failed else Status.UNLABELLED if self.key is None else Status.OK
        return ManifestRow(
            key=self.key,
            rank=self.session.rank,
            evidence=self.evidence,
            sequence=self.sequence,
            status=status,
            file=self.file,
            reason=self.reason,
            launches=self.launches,
            bytes=self.bytes,
            warmup_ns=warmup_ns if self.evidence is Evidence.CAPTURE else (),
            capture_ns=self.body_ns if self.evidence is Evidence.CAPTURE else None,
            record_ns=self.record_ns,
            export_ns=self.export_ns,
            memory=self.memory,
            timing=self.timing,
            warnings=tuple(self.warnings),
        )
