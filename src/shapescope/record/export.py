"""A finished profiler's trace into the run folder: saved raw, verified, compressed, published whole.

torch hides failures: a raw save on a full disk or into a folder that is gone raises nothing. So the raw file must exist,
and what follows its last `]` must close an object, before anything gets a final name.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from shapescope.errors import OutputError
from shapescope.record.compress import compress
from shapescope.record.tally import Tally, tally
from shapescope.store.layout import publish

_TAIL = re.compile(rb"\]\s*(?:,[^\]]*)?\}\s*\Z")


class Exportable(Protocol):
    def export_chrome_trace(self, path: str) -> object: ...


@dataclass(frozen=True, slots=True)
class Exported:
    """Where a trace went, its size on disk and before compression, and what it adds up to.

    `duplicate` counts the files that had the name already; `path` is None where only the tally was asked for.
    """

    path: Path | None
    duplicate: int
    bytes: int
    raw_bytes: int
    tally: Tally


def export_trace(profiler: Exportable, folder: Path, name: Callable[[int], str] | None) -> Exported:
    """Publish a trace under `name(duplicate)`, or only tally it where there is no name.

    Raises OutputError; nothing stands under a final name then.
    """
    raw = _saved_raw(profiler, folder)
    if name is None:
        return Exported(None, 0, 0, len(raw), tally(raw))
    packed = compress(raw)

    def write(path: Path) -> None:
        with path.open("wb") as file:
            file.write(packed)
            file.flush()

    path, duplicate = publish(folder, name, write)
    return Exported(path, duplicate, len(packed), len(raw), tally(raw))


def _saved_raw(profiler: Exportable, folder: Path) -> bytes:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle, path = tempfile.mkstemp(prefix=".writing-", suffix=".json", dir=folder)
        os.close(handle)
    except OSError as error:
        raise OutputError(f"cannot write in {folder}: {error.strerror or error}") from error
    try:
        profiler.export_chrome_trace(path)
        raw = Path(path).read_bytes()
    except (OSError, RuntimeError) as error:
        raise OutputError(f"cannot save a trace in {folder}: {error}") from error
    finally:
        with contextlib.suppress(OSError):
            Path(path).unlink()
    if not raw[:64].lstrip().startswith(b"{") or not _TAIL.search(raw[-65536:]):
        raise OutputError(f"a trace saved in {folder} is torn ({len(raw)} bytes)", "Is the disk full?")
    return raw
