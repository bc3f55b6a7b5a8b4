"""The host boundary: the one place where an error of ours ends, so that it never reaches the server that we run in."""

from __future__ import annotations

import logging
from types import TracebackType

log = logging.getLogger("shapescope")


class Guard:
    """A context that logs and swallows errors of ours; `reason` tells afterwards what happened. Interrupts pass."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.reason: str | None = None

    def __enter__(self) -> Guard:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        # Whatever goes wrong in our own work (disk, profiler, a bug) must not stop a server from starting.
        if not isinstance(error, Exception):
            return False
        self.reason = f"{self.what}: {error}"
        log.warning("shapescope: %s", self.reason, exc_info=log.isEnabledFor(logging.DEBUG))
        return True
