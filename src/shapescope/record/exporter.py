"""Traces leave on a thread of their own, one at a time and in order, so that the host goes on with its next warm-up.

torch's raw save and the compression release the GIL. Invariant: no trace is saved while a window is open, since Kineto
keeps state of the whole process: `settle` runs before a window opens.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor


class Exporter:
    """A queue of two-step jobs: the save, which `settle` waits for, and the rest, which only `drain` waits for."""

    def __init__(self) -> None:
        self._worker: ThreadPoolExecutor | None = None
        self._process = 0
        self._save: Future[None] | None = None
        self._rest: Future[None] | None = None

    def submit(self, save: Callable[[], None], rest: Callable[[], None]) -> None:
        """Queue a job. Both steps must handle their own errors."""
        worker = self._thread()
        self._save = worker.submit(save)
        self._rest = worker.submit(rest)

    def settle(self) -> None:
        """Wait until nothing is being saved."""
        if self._save is not None and self._process == os.getpid():
            self._save.result()

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
