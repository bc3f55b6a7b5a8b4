"""Traces leave on a thread of their own, one at a time and in order, so that the host goes on with its next warm-up.

The compression releases the GIL. torch's raw save does not, so it runs between windows and is never part of one.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from shapescope.record.window import gate


class Exporter:
    """A queue of two-step jobs: the save, which the next window waits for, and the rest, which only `drain` waits for."""

    def __init__(self) -> None:
        self._worker: ThreadPoolExecutor | None = None
        self._process = 0
        self._rest: Future[None] | None = None

    def submit(self, save: Callable[[], None], rest: Callable[[], None]) -> None:
        """Queue a job. Both steps must handle their own errors."""
        gate.queue_save()
        try:
            self._thread().submit(_saving, save)
        except RuntimeError:  # no thread can be started any more: the interpreter is about to end
            _saving(save)
            rest()
        else:
            self._rest = self._thread().submit(rest)

    def drain(self) -> None:
        """Wait until everything queued is on disk."""
        if self._rest is not None and self._process == os.getpid():
            self._rest.result()

    def _thread(self) -> ThreadPoolExecutor:
        """A forked child inherits the object, but not the thread."""
        if self._worker is None or self._process != os.getpid():
            self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="shapescope-export")
            self._process = os.getpid()
        return self._worker


def _saving(save: Callable[[], None]) -> None:
    with gate.saving():
        save()
