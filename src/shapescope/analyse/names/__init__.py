"""Kernel names made comparable: class, family and variant, by rules rather than by a list.

A *family* is what is left when tiles, template integers, hashes and counters are taken out; those are the
*variant*. The rules are the project's kernel name notes. A name that no rule knows stays itself, class
`other`. The raw name is always the identity: two names of one family are alike, not the same.
"""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl


def name_frame(names: pl.Series | Iterable[str]) -> pl.DataFrame:
    """One row a distinct name, in the order of first appearance: `kernel`, `class`, `family`, `variant`."""
    # Imported where a name is read: a cached run reads none.
    from shapescope.analyse.names.kernel import kernel_name

    distinct = pl.Series(names).cast(pl.String).drop_nulls().unique(maintain_order=True)
    read = [kernel_name(name) for name in distinct]
    return pl.DataFrame(
        {
            "kernel": distinct,
            "class": [name.kernel_class for name in read],
            "family": [name.family for name in read],
            "variant": [name.variant for name in read],
        },
        schema={"kernel": pl.String, "class": pl.String, "family": pl.String, "variant": pl.String},
    )
