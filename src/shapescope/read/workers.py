"""Who reads files, and where."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

Progress: TypeAlias = Callable[[int, int], None]
"""Told after each file: bytes read so far, and bytes in all."""


class Where(StrEnum):
    """On which machines files are read."""

    LOCAL = "local"
    RAY = "ray"
    DASK = "dask"


@dataclass(frozen=True, slots=True)
class Workers:
    """Who reads: how many (None: one a core, or all of a cluster), where, and who is told how far they are."""

    jobs: int | None = None
    where: Where = Where.LOCAL
    progress: Progress | None = None
