"""`run.json` and the manifests: what was asked for, and one line for every window as it ended."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from shapescope.errors import InputError, OutputError
from shapescope.model import ManifestRow, Rank, RunManifest, from_plain, to_plain
from shapescope.store.layout import RUN_FILE, manifest_name, temporary_file


def write_run(folder: Path, run: RunManifest) -> None:
    """Write `run.json` once: an existing one stays, whoever wrote it. Raises OutputError."""
    path, temporary = folder / RUN_FILE, temporary_file(folder)
    try:
        temporary.write_bytes(msgspec.json.format(msgspec.json.encode(to_plain(run)), indent=2))
        temporary.chmod(0o644)
        os.link(temporary, path)
    except FileExistsError:
        pass
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def read_run(folder: Path) -> RunManifest | None:
    """The run's own account, or None where the folder has none. Raises InputError where it is damaged."""
    path = folder / RUN_FILE
    if not path.is_file():
        return None
    try:
        return from_plain(RunManifest, msgspec.json.decode(path.read_bytes()))
    except msgspec.DecodeError as error:
        raise InputError(f"{path} is not JSON: {error}") from error


@dataclass(frozen=True, slots=True)
class ManifestWriter:
    """Appends rows to one process's manifest. A line is one `write`: a killed process leaves whole lines but for the last."""

    folder: Path
    rank: Rank
    host: str
    pid: int

    @property
    def path(self) -> Path:
        return self.folder / manifest_name(self.rank, self.host, self.pid)

    def append(self, *rows: ManifestRow) -> None:
        """All rows in one write. Raises OSError, and leaves no torn line then."""
        self.folder.mkdir(parents=True, exist_ok=True)
        lines = b"".join(msgspec.json.encode(to_plain(row)) + b"\n" for row in rows)
        with self.path.open("ab", buffering=0) as file:
            end = file.seek(0, os.SEEK_END)
            written = file.write(lines)
            if written != len(lines):  # a full disk takes a part, and raises nothing
                file.truncate(end)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))


def read_manifests(folder: Path) -> Iterator[tuple[Path, ManifestRow | InputError]]:
    """Every row of every process in order of files; a line that cannot be read comes as its error."""
    for path in sorted(folder.glob("manifest.*.jsonl")):
        for row in read_manifest(path):
            yield path, row


def read_manifest(path: Path) -> Iterator[ManifestRow | InputError]:
    """Every row of one process, in the order of time."""
    for number, line in enumerate(path.read_bytes().split(b"\n"), start=1):
        if line.strip():
            yield _read_row(path, number, line)


def _read_row(path: Path, number: int, line: bytes) -> ManifestRow | InputError:
    try:
        return from_plain(ManifestRow, msgspec.json.decode(line))
    except (InputError, msgspec.DecodeError, UnicodeDecodeError) as error:
        return InputError(f"{path.name} line {number}: {error}")
