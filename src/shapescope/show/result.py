"""What every command hands to every renderer: rows of plain values, so that console, JSON, CSV, Markdown and HTML agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shapescope.read.problem import Problem


@dataclass(frozen=True, slots=True)
class Result:
    """One table with its totals. `columns` orders the rows; missing values are None; `streams` only where a command has them.

    `shown` are the columns of a short table, all where empty.
    """

    command: str
    run: str
    columns: tuple[str, ...]
    rows: Sequence[Mapping[str, Any]]
    summary: Mapping[str, Any] = field(default_factory=dict)
    warnings: Sequence[Problem] = ()
    partial: bool = False
    streams: Sequence[Mapping[str, Any]] | None = None
    shown: tuple[str, ...] = ()

    def _repr_html_(self) -> str:
        from shapescope.show.notebook import table

        return table(self)
