"""Runs on other file systems (`s3://bucket/run`, `gs://..`, `memory://..`), through fsspec: fetched, then read as any other.

What was fetched is kept, and is not fetched again while the file system says that it is the same.
"""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path, PurePosixPath
from typing import Any

from shapescope.errors import InputError, MissingDependencyError
from shapescope.read.cache import user_cache
from shapescope.store.layout import CACHE_FOLDER


def fetched(uri: str) -> Path:
    """A file or folder of another file system, on this one. Raises InputError, MissingDependencyError."""
    try:
        import fsspec
    except ImportError as error:
        raise MissingDependencyError("fsspec", "remote") from error
    try:
        system, root = fsspec.core.url_to_fs(uri)
        return _mirrored(system, root, uri)
    except ImportError as error:
        raise InputError(f"{uri}: {error}", "Install the library that reads this kind of address.") from error
    except (OSError, ValueError) as error:
        raise InputError(f"{uri} cannot be read ({error})", "Check the address, and your access to it.") from error


def _mirrored(system: Any, root: str, uri: str) -> Path:
    files = sorted(system.find(root))
    if not files:
        raise InputError(f"{uri} does not exist, or holds no file", "Check the address.")
    mirror = user_cache() / "remote" / hashlib.blake2b(uri.encode(), digest_size=8).hexdigest()
    top = mirror / (PurePosixPath(root).name or "run")
    kept = set()
    for name in files:
        inside = PurePosixPath(name).relative_to(PurePosixPath(root))
        if CACHE_FOLDER in inside.parts[:-1]:
            continue
        # The version of each file stands in the name of its folder, outside of the mirror that is read.
        version = (
            mirror / "versions" / hashlib.blake2b(f"{name} {system.ukey(name)}".encode(), digest_size=16).hexdigest()
        )
        target = top / inside
        kept.add(target)
        if not (version.exists() and target.exists()):
            _fetch(system, name, target)
            version.parent.mkdir(exist_ok=True)
            version.touch()
    for file in top.rglob("*") if top.is_dir() else ():
        if file.is_file() and file not in kept and file.relative_to(top).parts[0] != CACHE_FOLDER:
            file.unlink()
    return top


def _fetch(system: Any, name: str, target: Path) -> None:
    """A whole file, or none."""
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.partial")
    try:
        with system.open(name, "rb") as source, partial.open("wb") as file:
            shutil.copyfileobj(source, file, 1 << 20)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
