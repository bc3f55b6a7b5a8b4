"""Roofline: what each op of a replay had to do, what it took, and how near that is to what the device can do.

One row a (size, op, class, dims, types): figures are those of one call, averaged over `calls`. A call owns
all the kernels that it launched; its time is their sum. Attainment is the least time that the device needs
for the work (the larger of FLOPs over peak and bytes over bandwidth) over the time that it took: 0..1, null
where the device or the work is unknown, and null with the problem `above-peak` where it would pass 1: then
the time, the join or the model is wrong, or the data lay in a cache, and a number above 100% would hide it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import polars as pl

from shapescope.analyse.cost.experts import ROUTING
from shapescope.analyse.cost.model import MESSAGE
from shapescope.analyse.devices import Device
from shapescope.analyse.op_calls import OpCall, op_calls

SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "size": pl.Int64,
    "op": pl.String,
    "class": pl.String,
    "dims": pl.String,
    "types": pl.String,
    "flops": pl.Int64,
    "flops_upper": pl.Int64,
    "bytes": pl.Int64,
    "bytes_upper": pl.Int64,
    "time_ns": pl.Int64,
    "tflops": pl.Float64,
    "gbps": pl.Float64,
    "bound": pl.String,
    "attainment": pl.Float64,
    "attainment_upper": pl.Float64,
    "useful_share": pl.Float64,
    "useful_flops": pl.Int64,
    "basis": pl.String,
    "note": pl.String,
    "calls": pl.Int64,
    "device": pl.String,
    "problems": pl.List(pl.String),
}
# Which peaks a number type may reach. `vector` is arithmetic outside the matrix units.
_PEAKS = {"vector": ("fp32",), "fp32": ("fp32", "tf32")}


@dataclass(frozen=True, slots=True)
class Unmodelled:
    """Kernel time without a roofline: the op's name (or the kernel's, where it has no op) and why."""

    name: str
    calls: int
    time_ns: int
    reason: str
    joined: bool


@dataclass(frozen=True, slots=True)
class RooflineResult:
    """Rows as in `SCHEMA`, most time first; totals over all calls; `warnings` are (code, message)."""

    rows: pl.DataFrame
    device: Device | None
    kernel_time_ns: int
    modelled_time_ns: int
    unmodelled: tuple[Unmodelled, ...]
    warnings: tuple[tuple[str, str], ...]

    @property
    def partial(self) -> bool:
        """Some kernels have no op that the join vouches for."""
        return not all(item.joined for item in self.unmodelled)

    @property
    def summary(self) -> dict[str, Any]:
        """The totals as plain values."""
        share = self.modelled_time_ns / self.kernel_time_ns if self.kernel_time_ns else None
        return {
            "device": self.device.name if self.device else None,
            "kernel_time_ns": self.kernel_time_ns,
            "modelled_time_ns": self.modelled_time_ns,
            "modelled_share": share,
            "unmodelled": [
                {"name": item.name, "calls": item.calls, "time_ns": item.time_ns, "reason": item.reason}
                for item in self.unmodelled
            ],
        }


def roofline(rows: pl.DataFrame, device: Device | None) -> RooflineResult:
    """The roofline of replayed kernels.

    `rows` has one row a kernel, in launch order within each (replay_file, rank, launch, segment, stream):
    `kernel`, `time_ns`, and where known `op`, `dims`, `types`, `concrete_inputs` (JSON texts), `class`,
    `grid` (JSON, in blocks), `module`, `size`, `real_size`, `status` (of the join), `source`, `step` (the
    span's text), `context_len`, and `op_call`, any value that is equal for the kernels of one op call and
    differs between neighbouring calls (without it, calls are told apart by where the sequence of kernel names
    repeats). Captured launches that no replay shows (null `time_ns`) are left out.
    """
    calls = list(op_calls(rows))
    groups: dict[tuple[Any, ...], list[OpCall]] = {}
    for call in calls:
        groups.setdefault(call.key, []).append(call)
    table = [_row(members, device) for members in groups.values()]
    table.sort(key=lambda row: -row["time_ns"] * row["calls"])
    unmodelled = [_unmodelled(members) for members in groups.values() if not members[0].priced]
    return RooflineResult(
        rows=pl.DataFrame(table, schema=SCHEMA),
        device=device,
        kernel_time_ns=sum(call.time_ns for call in calls),
        modelled_time_ns=sum(call.time_ns for call in calls if call.priced),
        unmodelled=tuple(sorted(unmodelled, key=lambda item: -item.time_ns)),
        warnings=tuple(_warnings(table, device)),
    )


def _row(members: list[OpCall], device: Device | None) -> dict[str, Any]:
    """One row: means over the calls, and what they say about the device."""
    fields, cost, count = members[0].fields, members[0].cost, len(members)
    row: dict[str, Any] = dict.fromkeys(SCHEMA)
    row.update({name: fields[name] for name in ("size", "op", "class", "dims", "types")})
    row.update(calls=count, time_ns=round(sum(call.time_ns for call in members) / count))
    row.update(device=device.name if device else None, problems=_problems(members))
    if cost is None or not members[0].priced:
        row["note"] = f"kernel {fields['kernel']}" if fields["op"] is None else None
        return row
    row.update({name: _mean(members, name) for name in ("flops", "flops_upper", "bytes", "bytes_upper")})
    row.update(basis=cost.basis, note=cost.note, **_useful(members))
    if row["time_ns"]:
        row["tflops"] = None if row["flops"] is None else row["flops"] / row["time_ns"] / 1e3
        row["gbps"] = None if row["bytes"] is None else row["bytes"] / row["time_ns"]
    if device is not None and cost.basis != MESSAGE:
        _judge(row, cost.math, device)
    return row


def _problems(members: list[OpCall]) -> list[str]:
    """What makes a row's figures less than they seem, before the device is asked."""
    problems = [] if members[0].priced else ["not-modelled"]
    if members[0].cost is not None and (members[0].cost.note or "").startswith(ROUTING):
        problems.append(ROUTING)
    dummy = any(call.fields["source"] == "replay-dummy" for call in members)
    if dummy and members[0].fields["class"] in ("attention", "grouped_gemm", "moe_routing"):
        problems.append("dummy-inputs")
    return problems


def _mean(members: list[OpCall], field: str) -> int | None:
    values = [getattr(call.cost, field) for call in members]
    return None if None in values else round(sum(values) / len(values))


def _useful(members: list[OpCall]) -> dict[str, Any]:
    """The share of the executed work that real rows needed, and its FLOPs; empty if a call's is unknown."""
    shares = [call.useful_share for call in members]
    known = [share for share in shares if share is not None]
    if len(known) < len(shares):
        return {}
    executed = [call.cost.flops if call.cost else None for call in members]
    flops = [count for count in executed if count is not None]
    if len(flops) < len(executed):
        return {"useful_share": sum(known) / len(known)}
    useful = sum(round(count * share) for count, share in zip(flops, known, strict=True))
    share = useful / sum(flops) if sum(flops) else sum(known) / len(known)
    return {"useful_share": share, "useful_flops": round(useful / len(members))}


def _judge(row: dict[str, Any], math: str | None, device: Device) -> None:
    """Bound and attainment of a row, in place; nothing above the peak is ever given as a result."""
    least = _least_ns(row["flops"], row["bytes"], math, device)
    most = _least_ns(row["flops_upper"], row["bytes_upper"], math, device)
    if least is None or most is None:
        row["problems"].append("peak-unknown")
        return
    bounded = all(row[name] is None or row[f"{name}_upper"] is not None for name in ("flops", "bytes"))
    sides = {"compute" if compute > memory else "memory" for compute, memory in (least, most)}
    row["bound"] = sides.pop() if bounded and len(sides) == 1 else None
    if not row["time_ns"]:
        return
    attainment, upper = max(least) / row["time_ns"], max(most) / row["time_ns"]
    if attainment > 1:
        row["problems"].append("above-peak")
        return
    row["attainment"] = attainment
    row["attainment_upper"] = upper if bounded and upper <= 1 else None
    if math == "fp32" and "tf32" in device.peak:
        row["note"] = "; ".join(filter(None, (row["note"], "roof of tf32, which the trace does not rule out")))


def _least_ns(flops: int | None, moved: int | None, math: str | None, device: Device) -> tuple[float, float] | None:
    """Least times of the work at its peak and of the traffic at full bandwidth; unknown work counts as none.

    fp32 products may run as tf32, which no trace tells: their roof is the higher one.
    """
    if device.bandwidth is None:
        return None
    compute = 0.0
    if flops:
        peaks = [device.peak[kind] for kind in _PEAKS.get(math or "", (math or "",)) if kind in device.peak]
        if not peaks:
            return None
        compute = flops / max(peaks) * 1e9
    return compute, (moved or 0) / device.bandwidth * 1e9


def _unmodelled(members: list[OpCall]) -> Unmodelled:
    fields, count, total = members[0].fields, len(members), sum(call.time_ns for call in members)
    if fields["op"] is None:
        reason = f"no op joined ({fields['status'] or 'missing'})"
        return Unmodelled(fields["kernel"], count, total, reason, joined=False)
    reason = "no model of this op" if members[0].cost is None else "its dims or types do not tell"
    return Unmodelled(fields["op"], count, total, reason, joined=True)


def _warnings(table: list[dict[str, Any]], device: Device | None) -> Iterator[tuple[str, str]]:
    """(code, message), each once."""
    problems = {problem for row in table for problem in row["problems"]}
    if device is None:
        yield "unknown-device", "The device is not known: absolute figures only. Name it with --device."
    if "above-peak" in problems:
        yield "above-peak", "Some ops seem faster than the device can be; their attainment is withheld."
    if ROUTING in problems:
        yield (
            ROUTING,
            "Which experts the tokens went to is not in the trace: bytes of expert layers are bounds.",
        )
    if "dummy-inputs" in problems:
        yield (
            "dummy-inputs",
            "Replays on dummy inputs: times of attention and expert layers are not serving times.",
        )
    if any(row["useful_share"] is None for row in table if row["flops"] is not None):
        yield "real-size-unknown", "How much of the work was padding is not known for every op."
