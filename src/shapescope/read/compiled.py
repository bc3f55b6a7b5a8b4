"""Events to columns through the compiled scanner (scanner/*.c): one pass over the bytes, without the interpreter lock.

Importing this fails with ImportError where the scanner was not built.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from shapescope.read._scanner import Scanner
from shapescope.read.columns import INTEGERS, SCHEMA, Decoded, PythonFrames, join_chunks, null_column

if TYPE_CHECKING:
    from shapescope.read._scanner import Column


class CompiledReader:
    """Takes the text behind the `[` of the events in pieces; gives a frame of columns."""

    def __init__(self, python: PythonFrames, bare: bool, lost: bool) -> None:
        self._scanner = Scanner(python=python, bare=bare, lost=lost)
        self._texts = pl.Series([], dtype=pl.Categorical)
        self._chunks: list[pl.DataFrame] = []

    def feed(self, block: bytes, final: bool = False) -> bool:
        """True once the list of events has ended."""
        ended = self._scanner.feed(block, final)
        self._take_chunks()
        return ended

    def rest(self) -> bytes:
        """What follows the list of events, as far as it was fed."""
        return self._scanner.rest()

    def finish(self) -> Decoded:
        """The events, what was lost of them, and how many are not kept."""
        return Decoded(join_chunks(self._chunks), *self._scanner.counts())

    def _take_chunks(self) -> None:
        while (chunk := self._scanner.take()) is not None:
            if new := self._scanner.texts(len(self._texts)):
                self._texts = pl.concat([self._texts, pl.Series(new).cast(pl.Categorical)], rechunk=True)
            rows, columns = chunk
            self._chunks.append(pl.DataFrame([self._series(name, columns.pop(name, None), rows) for name in SCHEMA]))

    def _series(self, name: str, column: Column | None, rows: int) -> pl.Series:
        if column is None:
            return null_column(name, rows)
        values = pl.Series(column)  # without a copy
        return values.alias(name) if name in INTEGERS else self._texts[values].alias(name)
