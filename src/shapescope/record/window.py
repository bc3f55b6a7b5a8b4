"""One profiler window: the stretch that one profiler records, for one explicit key.

A window opens after the last warm-up and closes after the capture has ended, on one thread, never inside a stream
capture and never nested: torch crashes where a second profiler starts under an active one.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import msgspec
import torch
from torch.profiler import ProfilerActivity, profile

from shapescope.model import METADATA_FIELD, TraceIdentity, to_plain
from shapescope.settings import Detail
from shapescope.store.spans import Mark, span_name


class ForeignThreadError(RuntimeError):
    """A window was to be closed on another thread than it was opened on."""


def profiler_active() -> bool:
    """Whether anybody's profiler records in this process: torch asks the C++ side for this thread only."""
    return torch._C._autograd._profiler_enabled() or torch.autograd.profiler._is_profiler_enabled


class Gate:
    """Kineto keeps state of the whole process: one window is open at a time, and no trace is saved meanwhile.

    Who opens a window waits for the saves that are queued, but never for another window, which may be waiting for him.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self._changed = threading.Condition()
        self._open = False
        self._queued = 0

    def open(self) -> bool:
        """Whether a window may be started now: not beside another one, nor beside anybody's profiler."""
        with self._changed:
            self._changed.wait_for(lambda: self._open or not self._queued)
            if self._open or profiler_active():
                return False
            self._open = True
            return True

    def close(self) -> None:
        with self._changed:
            self._open = False
            self._changed.notify_all()

    def queue_save(self) -> None:
        with self._changed:
            self._queued += 1

    @contextmanager
    def saving(self) -> Iterator[None]:
        """Around one queued save."""
        with self._changed:
            self._changed.wait_for(lambda: not self._open)
        try:
            yield
        finally:
            with self._changed:
                self._queued -= 1
                self._changed.notify_all()

    def quiet(self) -> None:
        """Wait for the queued saves: a child that is forked amid one inherits whatever torch had locked."""
        with self._changed:
            self._changed.wait_for(lambda: self._open or not self._queued)


gate = Gate()
os.register_at_fork(before=gate.quiet, after_in_child=gate.reset)


@dataclass(slots=True)
class Window:
    """One profiler, started and stopped on one thread, and exported afterwards, once.

    Invariant: whatever interrupts it, a window that was started can be stopped: `running` is set before it starts.
    """

    profiler: profile
    thread: int
    running: bool = False
    span: Any = None

    @classmethod
    def of(cls, detail: Detail, activities: frozenset[ProfilerActivity]) -> Window:
        full = detail is Detail.FULL
        profiler = profile(activities=list(activities), record_shapes=True, with_stack=full, profile_memory=full)
        return cls(profiler, threading.get_ident())

    def start(self) -> bool:
        """Start the profiler, unless another one is active."""
        if gate.open():
            self.running = True
            self.profiler.start()
        return self.running

    def enter(self, mark: Mark, identity: TraceIdentity) -> None:
        """Write the identity into the trace, and bracket the body with a span that carries the key."""
        self.identify(identity)
        self.span = torch.profiler.record_function(span_name(mark, identity.key))
        self.span.__enter__()

    def identify(self, identity: TraceIdentity) -> None:
        self.profiler.add_metadata_json(METADATA_FIELD, msgspec.json.encode(to_plain(identity)).decode())

    def stop(self) -> None:
        """Stop the profiler, unless it is stopped already.

        Raises ForeignThreadError on another thread than the opening one: stopping there would crash the process.
        """
        if not self.running:
            return
        if threading.get_ident() != self.thread:
            raise ForeignThreadError("the capture ended on another thread than it began on")
        try:
            span, self.span = self.span, None
            if span is not None:
                span.__exit__(None, None, None)
        finally:
            if torch._C._autograd._profiler_enabled():
                self.profiler.stop()
            # torch clears it after a stop that nothing has interrupted; a stale one would forbid every later window.
            torch.autograd.profiler._is_profiler_enabled = False
            self.running = False
            gate.close()
