"""What is worth a look, most costly first: a short list, each with its evidence, its cost and the command that shows more.

A finding costs time (of a replay), memory or trust: what is damaged, missing or unnamed makes every other figure
doubtful, and comes first where it is bad.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import polars as pl

from shapescope.analyse.coverage import coverage
from shapescope.analyse.devices import Device
from shapescope.analyse.join import join
from shapescope.analyse.memory import memory
from shapescope.analyse.rank_rows import collective_rows, rank_kernels, world_size
from shapescope.analyse.ranks import ranks
from shapescope.analyse.roofline import roofline
from shapescope.analyse.roofline_rows import roofline_rows
from shapescope.analyse.switches import switches
from shapescope.analyse.traffic import captured_sizes, traffic_steps
from shapescope.read.problem import Code
from shapescope.read.run import Run

SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "code": pl.String,
    "kind": pl.String,
    "severity": pl.String,
    "size": pl.Int64,
    "op": pl.String,
    "ranks": pl.List(pl.Int64),
    "what": pl.String,
    "cost": pl.String,
    "cost_ns": pl.Int64,
    "cost_bytes": pl.Int64,
    "evidence": pl.String,
    "command": pl.String,
}
# No engineer reads more at once.
LONGEST = 12
_SEVERITIES = ("high", "medium", "low")
# From these shares of a replay's time on, a finding is high or medium.
_HIGH_SHARE, _MEDIUM_SHARE = 0.05, 0.01
_HIGH_BYTES, _MEDIUM_BYTES = 1 << 30, 64 << 20
# An op this far from what the device can do is worth a look where it is this much of its replay.
_POOR, _LARGE = 0.25, 0.10
_PADDED = 0.10
_DAMAGE = {Code.TRUNCATED, Code.CORRUPT, Code.UNREADABLE, Code.NAME_CONTENT_MISMATCH, Code.KERNELS_MISSING}
_DOUBT = {
    Code.RANK_MISSING,
    Code.INVALID_TIMES,
    Code.IMPLAUSIBLE_DURATION,
    Code.DUPLICATE_KEY,
    Code.UNLABELLED,
    Code.RECORDER,
}


@dataclass(frozen=True, slots=True)
class FindingsResult:
    """Rows as in `SCHEMA`; `found` counts all, of which the rows are the costliest."""

    rows: pl.DataFrame
    found: int

    @property
    def summary(self) -> dict[str, Any]:
        """The totals as plain values."""
        severities = dict(self.rows.group_by("severity", maintain_order=True).len().iter_rows())
        return {
            "found": self.found,
            "shown": self.rows.height,
            **{name: severities.get(name, 0) for name in _SEVERITIES},
        }


def findings(run: Run, device: Device | None = None) -> FindingsResult:
    """Everything worth a look in one run; of the roofline only where the device is given."""
    replays, kernels = _replay_times(run), join(run).kernels
    found = [
        *_trust(run),
        *_shapes(run),
        *_switches(run, kernels, replays),
        *_memory(run),
        *_ranks(run, kernels, replays),
        *_traffic(run),
        *(_roofline(run, kernels, device, replays) if device is not None else ()),
    ]
    found.sort(key=_weight)
    rows = [{name: row.get(name) for name in SCHEMA} for row in found[:LONGEST]]
    return FindingsResult(pl.DataFrame(rows, schema=SCHEMA), len(found))


def _weight(row: dict[str, Any]) -> tuple[int, bool, int, int]:
    trust = row["cost"] == "trust"
    return _SEVERITIES.index(row["severity"]), not trust, -(row.get("cost_ns") or 0), -(row.get("cost_bytes") or 0)


def _replay_times(run: Run) -> dict[int, int]:
    """How long a replay of each size takes: what shares are of."""
    timed = run.shape_rows.filter(pl.col("time_ns").is_not_null() & pl.col("size").is_not_null())
    return dict(timed.group_by("size", maintain_order=True).agg(pl.col("time_ns").max()).iter_rows())


def _trust(run: Run) -> Iterator[dict[str, Any]]:
    for code in dict.fromkeys(problem.code for problem in run.warnings):
        if code not in _DAMAGE | _DOUBT:
            continue
        told = [problem for problem in run.warnings if problem.code is code]
        files = ", ".join(dict.fromkeys(problem.file for problem in told if problem.file))
        count = f" ({len(told)} times)" if len(told) > 1 else ""
        yield {
            "code": f"check-{code}",
            "kind": str(code),
            "severity": "high" if code in _DAMAGE else "medium",
            "what": f"{told[0].message}{count}",
            "cost": "trust",
            "evidence": files or told[0].message,
            "command": f"shapescope check {run.path}",
        }


def _shapes(run: Run) -> Iterator[dict[str, Any]]:
    lost = run.shape_rows.filter(pl.col("status").is_in(["failed", "missing"]) & pl.col("capture_ns").is_null())
    asked = lost.filter(pl.col("replays_seen").is_null() & pl.col("size").is_not_null())
    for (status,), members in asked.group_by("status", maintain_order=True):
        sizes = ", ".join(map(str, members["size"].unique().sort()))
        yield {
            "code": f"shapes-{status}",
            "kind": str(status),
            "severity": "medium",
            "size": members["size"][0] if members["size"].n_unique() == 1 else None,
            "what": f"{members.height} shapes were asked for, and their capture is {status}",
            "cost": "trust",
            "evidence": f"sizes {sizes}",
            "command": f"shapescope shapes {run.path}",
        }


def _switches(run: Run, kernels: pl.DataFrame, replays: dict[int, int]) -> Iterator[dict[str, Any]]:
    for row in switches(run, kernels).rows.iter_rows(named=True):
        costly = row["cost_ns"] is not None
        if row["kind"] not in ("cliff", "fallback"):
            continue
        ratio = f", {row['time_ratio']:.2f} times its neighbours" if row["time_ratio"] is not None else ""
        yield {
            "code": f"switches-{row['kind']}",
            "kind": row["kind"],
            "severity": _severity(row["cost_ns"], replays.get(row["size_to"])) if costly else "medium",
            "size": row["size_to"],
            "op": row["op"],
            "what": f"{row['op']} runs {row['family_to']} at {row['size_to']}{ratio}",
            "cost": "time",
            "cost_ns": row["cost_ns"],
            "evidence": row["evidence"],
            "command": f"shapescope switches {run.path}",
        }


def _memory(run: Run) -> Iterator[dict[str, Any]]:
    result = memory(run)
    for order in result.orders:
        severity = "high" if order.bytes >= _HIGH_BYTES else "medium" if order.bytes >= _MEDIUM_BYTES else "low"
        mine = result.rows.filter((pl.col("rank") == order.rank) & (pl.col("runner") == order.runner)).sort("order")
        yield {
            "code": "memory-capture-order",
            "kind": "capture-order",
            "severity": severity,
            "ranks": [order.rank],
            "what": "smaller sizes were captured before larger ones, so that the pool grew each time",
            "cost": "memory",
            "cost_bytes": order.bytes,
            "evidence": "order of capture: " + ", ".join(map(str, mine["size"])),
            "command": f"shapescope memory {run.path}",
        }
    disturbed = result.rows.filter("disturbed")
    if disturbed.height:
        yield {
            "code": "memory-disturbed",
            "kind": "disturbed",
            "severity": "low",
            "what": "another process freed memory during a capture",
            "cost": "trust",
            "evidence": "sizes " + ", ".join(map(str, disturbed["size"].unique().sort())),
            "command": f"shapescope memory {run.path}",
        }


_RANK_WORDS = {
    "late": "rank {rank} enters {op} last, and the others wait",
    "kernel-divergence": "ranks run different kernels for {op}",
    "load-imbalance": "rank {rank} takes longer for {op} with the same kernels",
}


def _ranks(run: Run, kernels: pl.DataFrame, replays: dict[int, int]) -> Iterator[dict[str, Any]]:
    rows = ranks(collective_rows(run), rank_kernels(run, kernels), world_size=world_size(run)).rows
    for row in rows.filter(pl.col("kind").is_in(list(_RANK_WORDS))).iter_rows(named=True):
        late = row["kind"] == "late"
        lost = row["wait_ns"] if late else row["skew_ns"]
        counted = f"median of {row['collectives']} collectives: " if late else ""
        yield {
            "code": f"ranks-{row['kind']}",
            "kind": row["kind"],
            "severity": _severity(lost, replays.get(row["size"])),
            "size": row["size"],
            "op": row["op"],
            "ranks": row["slow_ranks"],
            "what": _RANK_WORDS[row["kind"]].format(**row),
            "cost": "time",
            "cost_ns": lost,
            "evidence": f"{counted}{lost / 1e3:.1f} us" + (f"; {row['families']}" if row["families"] else ""),
            "command": f"shapescope ranks {run.path}",
        }


def _traffic(run: Run) -> Iterator[dict[str, Any]]:
    captured = captured_sizes(run)
    steps, _ = traffic_steps([run], captured)
    if steps.is_empty() or captured.sizes.is_empty():
        return
    summary = coverage(captured.sizes, steps, requested=captured.requested).summary
    best = ", ".join(str(add["size"]) for add in summary["additions"])
    for kind, share, least, what in (
        ("eager", summary["eager_share"], 0.0, "of the steps found no graph and ran eagerly"),
        ("padding", summary["padding_share"], _PADDED, "of the replayed slots were padding"),
    ):
        if share is not None and share > least:
            yield {
                "code": f"coverage-{kind}",
                "kind": kind,
                "severity": "high" if share >= 0.25 else "medium",
                "what": f"{share:.1%} {what}",
                "cost": "time",
                "evidence": f"{summary['steps']} steps" + (f"; best sizes to add: {best}" if best else ""),
                "command": f"shapescope coverage {run.path}",
            }


def _roofline(run: Run, kernels: pl.DataFrame, device: Device, replays: dict[int, int]) -> Iterator[dict[str, Any]]:
    """Ops that take much of their replay and reach little of what the device can do."""
    complete = run.executions.filter("complete").group_by("size").len()
    counts = dict(complete.iter_rows())
    for row in roofline(roofline_rows(run, kernels), device).rows.iter_rows(named=True):
        if row["attainment"] is None or row["attainment"] >= _POOR:
            continue
        each = row["time_ns"] * row["calls"] / max(counts.get(row["size"], 1), 1)
        if each < _LARGE * replays.get(row["size"], each / _LARGE):
            continue
        lost = round(each * (1 - row["attainment"]))
        yield {
            "code": "roofline-attainment",
            "kind": "attainment",
            "severity": "medium",
            "size": row["size"],
            "op": row["op"],
            "what": f"{row['op']} reaches {row['attainment']:.0%} of what {device.name} can do ({row['bound']} bound)",
            "cost": "time",
            "cost_ns": lost,
            "evidence": f"{row['dims']}: {row['time_ns'] / 1e3:.1f} us a call, {row['calls']} calls",
            "command": f"shapescope roofline {run.path}",
        }


def _severity(cost_ns: int, replay_ns: int | None) -> str:
    if replay_ns is None:
        return "medium"
    share = cost_ns / replay_ns
    return "high" if share >= _HIGH_SHARE else "medium" if share >= _MEDIUM_SHARE else "low"
