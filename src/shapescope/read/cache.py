"""Decoded traces kept as Parquet, so that a trace is decoded once.

A file is looked up by size, modification time and inode; what is found so is the digest of its content, and under that
lie its events, one file a document. A moved or copied trace is found by content; a changed one is decoded anew. Entries
appear by rename, so any number of processes may share a folder. A cache that cannot be read or written only costs time.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Concatenate, ParamSpec

import polars as pl

from shapescope.read.chrome import decode
from shapescope.read.columns import SCHEMA, Losses, PythonFrames, Trace
from shapescope.store.layout import CACHE_FOLDER, RUN_FILE

P = ParamSpec("P")

DECODER_VERSION = 1
"""To be raised whenever a decoder gives other values for the same bytes."""

LIMIT_BYTES = 8 << 30

_FIELD = "shapescope.trace"
_FORMAT = hashlib.blake2b(
    repr((DECODER_VERSION, [(name, str(dtype)) for name, dtype in SCHEMA.items()])).encode(), digest_size=4
).hexdigest()
_STEM = re.compile(rf"[0-9a-f]{{32}}\.{_FORMAT}")
_UNREADABLE = (OSError, ValueError, KeyError, TypeError, pl.exceptions.PolarsError)
"""What a damaged, foreign or vanished entry raises."""


def cache_folder(trace: Path) -> Path:
    """Where the cache of a trace belongs: in its run folder, else in the user's cache folder."""
    for folder in trace.absolute().parents[:2]:
        if (folder / RUN_FILE).is_file():
            return folder / CACHE_FOLDER
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "shapescope"


class Cache:
    """`decode`, remembered in a folder of at most `limit_bytes`."""

    def __init__(self, folder: Path, limit_bytes: int = LIMIT_BYTES) -> None:
        self._folder = folder
        self._limit_bytes = limit_bytes

    def decode(self, path: Path, *, python: PythonFrames = "modules") -> list[Trace]:
        """As `chrome.decode`, with the same errors; from the cache where it is there."""
        try:
            known = self._folder / _known_name(path)
            known_stem = _read_stem(known)
            stem = known_stem or _digest(path)
        except OSError:
            return decode(path, python=python)  # which says what is wrong with the file
        name = f"{stem}.{python}"
        traces = self._load(name, path)
        if traces is None:
            traces = decode(path, python=python)
            if not self._store(name, traces):
                return traces
            self._shrink()
        if stem != known_stem:
            with contextlib.suppress(OSError):
                _publish(known, _write_text, stem)
        return traces

    def _load(self, name: str, path: Path) -> list[Trace] | None:
        try:
            first = self._folder / f"{name}.0.parquet"
            count = json.loads(pl.read_parquet_metadata(first)[_FIELD])["documents"]
            traces = [_read(self._folder / f"{name}.{member}.parquet", path) for member in range(count)]
            os.utime(first)  # in use: not the next to go
        except _UNREADABLE:
            return None
        return traces

    def _store(self, name: str, traces: list[Trace]) -> bool:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            for trace in reversed(traces):  # the first, by which all are found, comes last
                _publish(self._folder / f"{name}.{trace.member}.parquet", _write, trace, len(traces))
        except _UNREADABLE:
            return False
        return True

    def _shrink(self) -> None:
        """Remove what was unused for longest until the folder is within its limit."""
        with contextlib.suppress(OSError):
            files = [(file.stat(), file) for file in self._folder.iterdir() if file.suffix == ".parquet"]
            total = sum(stat.st_size for stat, _ in files)
            for stat, file in sorted(files, key=lambda each: each[0].st_mtime_ns):
                if total <= self._limit_bytes:
                    return
                file.unlink(missing_ok=True)
                total -= stat.st_size


def _known_name(path: Path) -> str:
    stat = path.stat()
    return f"{stat.st_dev:x}-{stat.st_ino:x}-{stat.st_size:x}-{stat.st_mtime_ns:x}.{_FORMAT}"


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return f"{hashlib.file_digest(file, 'blake2b').hexdigest()[:32]}.{_FORMAT}"


def _read_stem(known: Path) -> str | None:
    try:
        stem = known.read_text()
    except (OSError, UnicodeDecodeError):
        return None
    return stem if _STEM.fullmatch(stem) else None


def _publish(target: Path, write: Callable[Concatenate[Path, P], None], *args: P.args, **kwargs: P.kwargs) -> None:
    """Let `write` fill a file that appears whole or not at all."""
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=".")
    os.close(handle)
    temporary = Path(name)
    try:
        write(temporary, *args, **kwargs)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def _write(target: Path, trace: Trace, documents: int) -> None:
    about = {
        "documents": documents,
        "member": trace.member,
        "losses": asdict(trace.losses),
        "metadata": trace.metadata,
    }
    trace.events.write_parquet(target, compression="zstd", compression_level=3, metadata={_FIELD: json.dumps(about)})


def _write_text(target: Path, text: str) -> None:
    target.write_text(text)


def _read(file: Path, path: Path) -> Trace:
    about = json.loads(pl.read_parquet_metadata(file)[_FIELD])
    events = pl.read_parquet(file)
    if events.schema != SCHEMA:
        raise ValueError("written with other columns")
    return Trace(path, about["member"], events, about["metadata"], Losses(**about["losses"]))
