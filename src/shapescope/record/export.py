"""A finished profiler's trace into the run folder: saved raw, verified, compressed, published whole.

torch hides failures: a raw save on a full disk or into a folder that is gone raises nothing. So the raw file must exist,
and what follows its last `]` must close an object, before anything gets a final name.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from shapescope.errors import OutputError
from shapescope.record.compress import compress
from shapescope.record.tally import Tally, tally
from shapescope.store.layout import publish, temporary_file

_EVENT = b'"ph":'
_TAIL = re.compile(rb"\]\s*(?:,[^\]]*)?\}\s*\Z")


# A raw trace above this is not read into the host's memory: it is dropped.
LARGEST_TRACE_BYTES = 1 << 30


class TooLargeError(OutputError):
    """A trace that would take too much of the host's memory to compress."""

    default_hint = "Record with SHAPESCOPE_DETAIL=light."


class Exportable(Protocol):
    def export_chrome_trace(self, path: str) -> object: ...


@dataclass(frozen=True, slots=True)
class Exported:
    """Where a trace went, its size on disk and before compression, how many events it holds, and what it adds up to.

    `duplicate` counts the files that had the name already; `path` is None where only the tally was asked for.
    """

    path: Path | None
    duplicate: int
    bytes: int
    raw_bytes: int
    events: int
    tally: Tally


def save_raw(profiler: Exportable, folder: Path) -> Path:
    """Let torch write its JSON to a temporary file in the folder. Raises OutputError; the file is the caller's to remove."""
    path = temporary_file(folder)
    try:
        profiler.export_chrome_trace(str(path))
    except BaseException as error:
        _remove(path)
        if isinstance(error, (OSError, RuntimeError)):
            raise OutputError(f"cannot save a trace in {folder}: {error}") from error
        raise
    finally:
        _remove(path.with_name(f"{path.name}.tmp"))  # torch writes there first, and leaves it where it fails
    return path


def publish_trace(saved: Path, folder: Path, name: Callable[[int], str] | None) -> Exported:
    """Publish a saved trace under `name(duplicate)`, or only tally it where there is no name; the saved file goes away.

    Raises OutputError; nothing stands under a final name then.
    """
    try:
        size = saved.stat().st_size
        if size > LARGEST_TRACE_BYTES:
            raise TooLargeError(f"a trace of {size >> 20} MB is dropped: it is above the cap")
        raw = saved.read_bytes()
    except OSError as error:
        raise OutputError(f"cannot read back a trace in {folder}: {error.strerror or error}") from error
    finally:
        _remove(saved)
    if not raw[:64].lstrip().startswith(b"{") or not _TAIL.search(raw[-65536:]):
        raise OutputError(f"a trace saved in {folder} is torn ({len(raw)} bytes)", "Is the disk full?")
    if name is None:
        return Exported(None, 0, 0, len(raw), raw.count(_EVENT), tally(raw))
    packed = compress(raw)
    path, duplicate = publish(folder, name, lambda path: path.write_bytes(packed))
    return Exported(path, duplicate, len(packed), len(raw), raw.count(_EVENT), tally(raw))


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()
