"""Replay joined to capture: each replayed kernel gets the op, dims, types, module and stack of the launch it came from.

In production a profile shows the kernels of a graph and nothing else; the capture knows the rest. How sure a pairing is
stands beside it, and what is not sure is withheld:

- `exact`: graph node ids on both sides;
- `aligned`: every optimal alignment of the two sequences gives the kernel the same op, dims, types and module;
- `ambiguous`: optimal alignments differ, the candidates are listed;
- `conflict`: what is known of kernel and launch contradicts the pairing;
- `unverified`: nothing but position speaks for it;
- `missing`: no partner.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from shapescope.analyse.join.account import Scope, account, incomplete_streams, warnings
from shapescope.analyse.join.evidence import captured_launches
from shapescope.analyse.join.matching import matched
from shapescope.analyse.join.rows import JOIN, STATUSES, join_rows, joined_kernels
from shapescope.read.problem import Problem
from shapescope.read.run import Run

__all__ = ["JOIN", "STATUSES", "JoinResult", "join"]


@dataclass(frozen=True, slots=True)
class JoinResult:
    """`rows` have the columns `JOIN`; times ns, missing is null. `partial`: the question was answered in part only.

    `kernels` are the replayed kernels for other analyses: as `Run.replayed`, with op, dims, module .. of their launches
    where these are sure, and `status`. `streams` are those of the replays; where kernels are missing, how idle a stream
    was is unknown, and null.
    """

    rows: pl.DataFrame
    kernels: pl.DataFrame
    streams: pl.DataFrame
    summary: Mapping[str, Any]
    warnings: tuple[Problem, ...]
    partial: bool


def join(run: Run) -> JoinResult:
    """Join the replays of a run, or those that it was opened with, to its captures."""
    scope = Scope.of(run)
    captured = captured_launches(run)
    found = matched(scope.replayed, scope.launches, scope.executions, captured, run.assembly)
    kernels = joined_kernels(run, scope.replayed, captured, found)
    rows = join_rows(run, kernels, captured, found)
    counted = account(scope, rows, found)
    told, partial = warnings(run, scope, found)
    return JoinResult(
        rows=rows,
        kernels=kernels,
        streams=incomplete_streams(run, scope, counted),
        summary=counted.summary,
        warnings=tuple(dict.fromkeys([*run.warnings, *told])),
        partial=run.partial or partial,
    )
