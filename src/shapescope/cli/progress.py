"""How far reading is: bytes and rate, on stderr, for work of over a second; never in a pipe."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_PATIENCE_S = 1.0


@contextmanager
def reading_bar() -> Iterator[Callable[[int, int], None] | None]:
    """What to call with the bytes done and the bytes in all; None where nobody would see it."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    begun = time.monotonic()
    columns = TextColumn("reading"), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task("reading", total=None)

    def progress(done: int, total: int) -> None:
        bar.update(task, completed=done, total=total)
        if time.monotonic() - begun > _PATIENCE_S:
            bar.start()  # again and again: only the first time counts

    try:
        yield progress
    finally:
        bar.stop()
