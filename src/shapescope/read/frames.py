"""Frames of a fixed layout: what every table here is made of."""

from __future__ import annotations

from typing import TypeAlias

import polars as pl

Schema: TypeAlias = dict[str, pl.DataType | type[pl.DataType]]
"""The columns of a table in order, with their types."""


def empty(schema: Schema) -> pl.DataFrame:
    return pl.DataFrame(schema=schema)


def shaped(frame: pl.DataFrame, schema: Schema) -> pl.DataFrame:
    """Bring a frame into a layout: its columns in order and of the right types, null where the frame lacks one."""
    return frame.select(
        (pl.col(name) if name in frame.columns else pl.lit(None)).cast(kind).alias(name)
        for name, kind in schema.items()
    )
