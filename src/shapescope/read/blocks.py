"""The bytes of a file, decompressed, a block at a time. What a file holds is sniffed, never taken from its suffix.

Invariant: memory is bounded by the block size, whatever a file claims to unpack to, and damage never raises: all bytes
that can be had come first, then `damage` says what ended them.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

deflate: Any
try:
    from isal import isal_zlib as deflate
except ImportError:  # no wheel for this platform: the standard library reads the same, at a fifth of the speed
    deflate = zlib

BLOCK_BYTES = 1 << 20
_READ_BYTES = 1 << 17
_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_HEADER = 16 + zlib.MAX_WBITS


class _NoMember(Exception):
    """What follows a gzip member is neither another one nor padding."""


class Blocks:
    """Iterate over `(block, starts_member)`; afterwards `damage` is None or says why the bytes end early."""

    def __init__(self, path: Path, size: int = BLOCK_BYTES) -> None:
        self.damage: str | None = None
        self.gzip = False
        self._path = path
        self.size = size
        self._call_starts_at = 0

    def __iter__(self) -> Iterator[tuple[bytes, bool]]:
        with self._path.open("rb", buffering=0) as file:
            self.gzip = file.read(2) == _GZIP_MAGIC
            file.seek(0)
            yield from self._gzip_blocks(file) if self.gzip else self._plain_blocks(file)

    def _plain_blocks(self, file: BinaryIO) -> Iterator[tuple[bytes, bool]]:
        starts = True
        while block := file.read(self.size):
            yield block, starts
            starts = False

    def _gzip_blocks(self, file: BinaryIO) -> Iterator[tuple[bytes, bool]]:
        delivered = 0
        try:
            for block, starts in self._members(file, None):
                delivered += len(block)
                yield block, starts
        except (EOFError, _InflateError) as error:
            truncated = isinstance(error, EOFError)
            self.damage = f"truncated: {error}" if truncated else f"corrupt: gzip data ({error})"
        except _NoMember:
            self.damage = "corrupt: what follows the gzip data is none"
            return
        if self.damage is None or self.damage.startswith("truncated"):
            return
        # The failing call keeps what it had already unpacked: walk there again, and from it on byte by byte.
        at = self._call_starts_at
        file.seek(0)
        try:
            for block, starts in self._members(file, at):
                if delivered >= len(block):
                    delivered -= len(block)
                    continue
                yield block[delivered:], starts and not delivered
                delivered = 0
        except (EOFError, _InflateError):
            return

    def _members(self, file: BinaryIO, bytewise_from: int | None) -> Iterator[tuple[bytes, bool]]:
        """Blocks of every gzip member. Raises the inflater's error, or EOFError where the last member is unfinished."""
        inflater, data, starts = _inflater(), b"", True
        while True:
            if not data:
                self._call_starts_at = file.tell()
                careful = bytewise_from is not None and self._call_starts_at >= bytewise_from
                data = file.read(1 if careful else _READ_BYTES)
                if not data and (inflater.eof or not (block := inflater.decompress(b"", self.size))):
                    break
                if not data:  # the input is used up, but a full block had kept some output back
                    yield block, starts
                    starts = False
                    continue
            if inflater.eof:  # another member follows, or the zeros that tape and some archivers pad with
                data = data.lstrip(b"\0")
                if not data:
                    continue
                if not _GZIP_MAGIC.startswith(data[:2]):
                    raise _NoMember
                inflater, starts = _inflater(), True
            block = inflater.decompress(data, self.size)
            if block:
                yield block, starts
                starts = False
            data = inflater.unused_data if inflater.eof else inflater.unconsumed_tail
        if not inflater.eof:
            raise EOFError("the gzip data ends before its end marker")


_InflateError: type[Exception] = deflate.error


def _inflater() -> Any:
    # `decompressobj`, not a file object: only it hands out the last buffer of a truncated file.
    return deflate.decompressobj(_GZIP_HEADER)
