"""One profiler window: the stretch that one profiler records, for one explicit key.

A window opens after the last warm-up and closes after the capture has ended, on one thread, never inside a stream
capture and never nested: torch crashes where a second profiler starts under an active one.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Any

import msgspec
import torch
from torch.profiler import ProfilerActivity, profile

from shapescope.model import METADATA_FIELD, TraceIdentity, to_plain
from shapescope.settings import Detail
from shapescope.store.spans import Mark, span_name


def profiler_active() -> bool:
    """Whether anybody's profiler records in this process."""
    return torch._C._autograd._profiler_enabled()


@dataclass(slots=True)
class Window:
    """An open window. `stop` must run on the thread that opened it; `profiler` is exported afterwards, once."""

    profiler: profile
    thread: int
    started_ns: int
    span: Any = None

    @classmethod
    def open(cls, detail: Detail, activities: frozenset[ProfilerActivity]) -> Window:
        full = detail is Detail.FULL
        profiler = profile(activities=list(activities), record_shapes=True, with_stack=full, profile_memory=full)
        profiler.start()
        return cls(profiler, threading.get_ident(), time.perf_counter_ns())

    def enter(self, mark: Mark, identity: TraceIdentity) -> None:
        """Write the identity into the trace, and bracket the body with a span that carries the key."""
        self.identify(identity)
        self.span = torch.profiler.record_function(span_name(mark, identity.key))
        self.span.__enter__()

    def identify(self, identity: TraceIdentity) -> None:
        self.profiler.add_metadata_json(METADATA_FIELD, msgspec.json.encode(to_plain(identity)).decode())

    def stop(self) -> None:
        """Raises RuntimeError on another thread than the opening one: stopping there would crash the process."""
        if threading.get_ident() != self.thread:
            raise RuntimeError("the capture ended on another thread than it began on")
        try:
            if self.span is not None:
                self.span.__exit__(None, None, None)
        finally:
            try:
                self.profiler.stop()
            except KeyboardInterrupt:
                self.profiler.stop()  # Ctrl-C must not leave a profiler running in the host
                raise
