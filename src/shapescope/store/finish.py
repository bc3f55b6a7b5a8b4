"""What is left to do when the processes of a run have ended, however they ended: name what is missing, remove what is torn.

Only what dead processes of this host have left is touched; one that still runs finishes its own part.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from shapescope.model import Evidence, GraphKey, ManifestRow, Rank, Status, to_plain
from shapescope.store.layout import manifests_here, temporary_files
from shapescope.store.manifest import read_manifest, read_manifests


@dataclass(frozen=True, slots=True)
class Finished:
    """What a run holds of captures: how many of each status over all ranks, and how many torn files were removed."""

    captures: Counter[Status]
    removed: int


def finish_run(folder: Path, ending: str) -> Finished:
    """Give each missing shape of a dead process its reason, with `ending` in it, and remove its temporary files.

    Raises OSError.
    """
    removed = 0
    for path, process in temporary_files(folder):
        if not _alive(process):
            path.unlink(missing_ok=True)
            removed += 1
    for path, process in manifests_here(folder):
        if not _alive(process):
            _explain(path, ending)
    return Finished(Counter(row.status for row in _latest(folder)), removed)


def wait_for_writers(folder: Path, seconds: float) -> None:
    """Wait until no process of this host that writes here is alive any more, but no longer than that."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and any(_alive(process) for _, process in _writers(folder)):
        time.sleep(0.02)


def _writers(folder: Path) -> Iterator[tuple[Path, int]]:
    yield from manifests_here(folder)
    yield from temporary_files(folder)


def _explain(path: Path, ending: str) -> None:
    torn = not path.read_bytes().endswith(b"\n")
    last = {(row.rank, row.key, row.evidence): row for row in read_manifest(path) if isinstance(row, ManifestRow)}
    missing = [row for row in last.values() if row.status is Status.MISSING and row.reason is None]
    rows = [replace(row, reason=f"its process ended before it was captured: {ending}") for row in missing]
    lines = b"".join(msgspec.json.encode(to_plain(row)) + b"\n" for row in rows)
    with path.open("ab") as file:
        file.write(b"\n" * torn + lines)


def _latest(folder: Path) -> list[ManifestRow]:
    """The last row of every capture that has a key, and every one that has none."""
    keyed: dict[tuple[Rank, GraphKey], ManifestRow] = {}
    unlabelled: list[ManifestRow] = []
    for _, row in read_manifests(folder):
        if not isinstance(row, ManifestRow) or row.evidence is not Evidence.CAPTURE or row.runner is not None:
            continue
        if row.key is None:
            unlabelled.append(row)
        else:
            keyed[row.rank, row.key] = row
    return [*keyed.values(), *unlabelled]


def _alive(process: int) -> bool:
    """A zombie has ended: it only waits for a parent that may never ask."""
    with contextlib.suppress(OSError):
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        return state not in "ZX"
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
