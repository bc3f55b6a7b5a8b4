"""Fast gzip: torch's own export compresses at level 9 in Python, ten to twenty times slower."""

from __future__ import annotations

import gzip

try:
    from isal import igzip
except ImportError:  # no wheel for this interpreter
    igzip = None


def compress(raw: bytes) -> bytes:
    packed: bytes = gzip.compress(raw, 1, mtime=0) if igzip is None else igzip.compress(raw, 1, mtime=0)
    return packed
