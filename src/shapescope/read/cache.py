"""What reading made of files, kept so that no file is read twice.

An entry is a record of plain values and frames, never code (`packing`). Its name says all that it depends on: the content of
what was read, how it was read, and the code that read it. Content is known by digest; a file whose size, modification time
and inode are those of an earlier look is not digested again. Entries appear by rename, so any number of processes may share
a folder. A cache that cannot be read or written only costs time.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TypeVar

from shapescope import __version__
from shapescope.read.folder import files_below
from shapescope.read.foreign import DETAILS_FILE
from shapescope.read.packing import UNREADABLE, packed, unpacked
from shapescope.store.layout import CACHE_FOLDER, RUN_FILE

T = TypeVar("T")

LIMIT_BYTES = 2 << 30

_DIGEST = re.compile(r"[0-9a-f]{32}")


def cache_folder(path: Path) -> Path:
    """Where the cache of a trace or folder belongs: in its run folder, else in the user's cache folder."""
    whole = path.absolute()
    for folder in (whole, *whole.parents[:2]):
        if (folder / RUN_FILE).is_file():
            return folder / CACHE_FOLDER
    return user_cache()


def user_cache() -> Path:
    """The user's cache folder."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "shapescope"


class Cache:
    """Records in a folder of at most `limit_bytes`."""

    def __init__(self, folder: Path, limit_bytes: int = LIMIT_BYTES) -> None:
        self._folder = folder
        self._limit_bytes = limit_bytes

    def load(self, name: str, kind: type[T]) -> T | None:
        """The record of that name, or None."""
        try:
            entry = self._folder / f"{name}.zip"
            record = unpacked(entry, kind)
            os.utime(entry)  # in use: not the next to go
        except UNREADABLE:
            return None
        return record

    def store(self, name: str, record: object) -> None:
        """Keep a record of dataclasses, plain values and frames."""
        with contextlib.suppress(*UNREADABLE):
            self._publish(f"{name}.zip", packed(record))

    def content(self, path: Path) -> str | None:
        """The digest of a file's content; None where it cannot be read."""
        try:
            known = f"{stat_words(path)}.digest"
            with contextlib.suppress(OSError, UnicodeDecodeError):
                if _DIGEST.fullmatch(digest := (self._folder / known).read_text()):
                    return digest
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()[:32]  # CPUs have instructions for it
            if known != f"{stat_words(path)}.digest":  # being written just now
                return None
        except OSError:
            return None
        with contextlib.suppress(OSError):
            self._publish(known, digest.encode())
        return digest

    def shrink(self) -> None:
        """Remove what was unused for longest until the folder is within its limit."""
        with contextlib.suppress(OSError):
            files = [(file.stat(), file) for file in self._folder.iterdir() if file.suffix in (".zip", ".digest")]
            total = sum(stat.st_size for stat, _ in files)
            for stat, file in sorted(files, key=lambda each: each[0].st_mtime_ns):
                if total <= self._limit_bytes:
                    return
                file.unlink(missing_ok=True)
                total -= stat.st_size

    def _publish(self, name: str, content: bytes) -> None:
        """A file that appears whole or not at all. Raises OSError."""
        self._folder.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=self._folder, prefix=".")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            Path(temporary).replace(self._folder / name)
        finally:
            Path(temporary).unlink(missing_ok=True)


def stat_words(path: Path) -> str:
    """What changes when a file does. Raises OSError."""
    stat = path.stat()
    return f"{stat.st_dev:x}-{stat.st_ino:x}-{stat.st_size:x}-{stat.st_mtime_ns:x}"


def state(path: Path) -> tuple[str, list[tuple[str, str]]]:
    """What changes when a file does of which the run at this path may be made."""
    found = []
    for file in files_below(path) if path.is_dir() else [path, path.parent / DETAILS_FILE]:
        with contextlib.suppress(OSError):  # gone, or never there
            found.append((file.as_posix(), stat_words(file)))
    return str(path), found


def entry_name(*words: object, code: Iterable[Path] = ()) -> str:
    """The name of what was made of these words by this package's reading code, and by the code in the given folders."""
    made_by = [code_digest(folder) for folder in (Path(__file__).parent, *code)]
    return hashlib.blake2b(repr((made_by, words)).encode(), digest_size=16).hexdigest()


@cache
def code_digest(folder: Path) -> str:
    """Changes with the code of a folder: what other code made is made anew, and no version must be raised by hand."""
    found = hashlib.blake2b(__version__.encode(), digest_size=16)
    for file in sorted(folder.rglob("*.py")):
        found.update(file.read_bytes())
    return found.hexdigest()
