"""A record as bytes: a zip of one JSON text and of Parquet files. Plain values and frames, never code.

Polars is imported where a frame is met: a record without any is read in less time than that import takes.
"""

from __future__ import annotations

import io
import json
import zipfile
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

if TYPE_CHECKING:
    import polars as pl

T = TypeVar("T")

UNREADABLE = (
    OSError, ValueError, KeyError, IndexError, TypeError, EOFError, RuntimeError, zipfile.BadZipFile, msgspec.ValidationError,
)  # fmt: skip
"""What a damaged, foreign or vanished record raises."""

_RECORD = "record.json"
_SMALL_BYTES = 1 << 13


def packed(record: object) -> bytes:
    """A record of dataclasses, plain values and frames."""
    frames: dict[bytes, int] = {}
    known: dict[int, int] = {}

    def reference(value: Any) -> Any:
        import polars as pl

        if not isinstance(value, pl.DataFrame):
            return str(value)
        if id(value) not in known:
            content = _parquet(value) if value.height else _empty_parquet(tuple(value.schema.items()))
            known[id(value)] = frames.setdefault(content, len(frames))
        return known[id(value)]

    plain = msgspec.to_builtins(record, enc_hook=reference)
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as file:
        for content, number in frames.items():
            file.writestr(f"{number}.parquet", content)
        file.writestr(_RECORD, json.dumps(plain))
    return whole.getvalue()


def _parquet(frame: pl.DataFrame) -> bytes:
    content = io.BytesIO()
    frame.write_parquet(content, compression="zstd", compression_level=1, statistics=False)
    return content.getvalue()


@lru_cache(maxsize=256)
def _empty_parquet(columns: tuple[tuple[str, pl.DataType], ...]) -> bytes:
    """Most frames of most files are empty."""
    import polars as pl

    return _parquet(pl.DataFrame(schema=dict(columns)))


def unpacked(entry: Path, kind: type[T]) -> T:
    """The record in a file. Raises what UNREADABLE lists."""
    with zipfile.ZipFile(entry) as file:
        return _record(file, kind)


def _record(file: zipfile.ZipFile, kind: type[T]) -> T:
    frames: dict[int, pl.DataFrame] = {}

    def value(kind: type, reference: Any) -> Any:
        import polars as pl

        if kind is not pl.DataFrame:
            return kind(reference)
        if reference not in frames:
            frames[reference] = _frame(file.read(f"{reference}.parquet"))
        return frames[reference]

    return msgspec.convert(json.loads(file.read(_RECORD)), kind, dec_hook=value)


def _frame(content: bytes) -> pl.DataFrame:
    # The empty ones of one kind are alike.
    return _small_frame(content) if len(content) < _SMALL_BYTES else _read_parquet(content)


def _read_parquet(content: bytes) -> pl.DataFrame:
    import polars as pl

    try:
        return pl.read_parquet(content)
    except pl.exceptions.PolarsError as error:
        raise ValueError("not a Parquet file") from error


_small_frame = lru_cache(maxsize=256)(_read_parquet)
