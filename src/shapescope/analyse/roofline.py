"""Roofline: what each op of a replay had to do, what it took, and how near that is to what the device can do.

One row a (size, op, class, dims, types): figures are those of one call, averaged over `calls`. A call owns
all the kernels that it launched; its time is their sum. Attainment is the least time that the device needs
for the work (the larger of FLOPs over peak and bytes over bandwidth) over the time that it took: 0..1, null
where the device or the work is unknown, and null with the problem `above-peak` where it would pass 1: then
the time, the join or the model is wrong, or the data lay in a cache, and a number above 100% would hide it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import Any

import polars as pl

from shapescope.analyse.cost import Cost, Kernel, op_cost, step_work
from shapescope.analyse.cost.experts import ROUTING
from shapescope.analyse.cost.model import MESSAGE
from shapescope.analyse.devices import Device

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
# What a row of the input may lack, and then counts as unknown.
_OPTIONAL = (
    "op dims types class concrete_inputs grid module size real_size status source step context_len op_call "
    "replay_file rank launch segment stream"
)
_INSTANCE = (
    "replay_file",
    "rank",
    "launch",
    "segment",
    "stream",
    "size",
    "op",
    "dims",
    "types",
    "module",
    "op_call",
)
# Which peaks a number type may reach. `vector` is arithmetic outside the matrix units.
_PEAKS = {"vector": ("fp32",), "fp32": ("fp32", "tf32")}
# Rows whose op is a guess are not priced: the join withholds their dims.
_TRUSTED = ("exact", "aligned", None)


@dataclass(frozen=True, slots=True)
class Unmodelled:
    """Kernel time without a roofline: the op's name (or the kernel's, where it has no op) and why."""

    name: str
    calls: int
    time_ns: int
    reason: str


@dataclass(frozen=True, slots=True)
class RooflineResult:
    """Rows with the columns of `SCHEMA`, most time first; totals over all calls. `warnings` are (code,
    message).
    """

    rows: pl.DataFrame
    device: Device | None
    kernel_time_ns: int
    modelled_time_ns: int
    unmodelled: tuple[Unmodelled, ...]
    warnings: tuple[tuple[str, str], ...]

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


@dataclass(frozen=True, slots=True)
class _OpCall:
    """One call of an op in one replay: its main kernel's fields, its kernels' time together, and its cost."""

    fields: dict[str, Any]
    time_ns: int
    cost: Cost | None

    @property
    def priced(self) -> bool:
        return self.cost is not None and (self.cost.flops is not None or self.cost.bytes is not None)

    @property
    def key(self) -> tuple[Any, ...]:
        name = self.fields["op"] or self.fields["kernel"]
        return (*(self.fields[column] for column in ("size", "class", "dims", "types")), name, self.priced)

    @property
    def useful_share(self) -> float | None:
        """Real rows over executed ones, where the work grows with the size; None where that is not known."""
        size, real = self.fields["size"], self.fields["real_size"]
        if self.cost is None or size is None or real is None:
            return None
        if self.cost.real or size == real:
            return 1.0
        scales = self.cost.rows is not None and self.cost.rows % size == 0
        return real / size if scales else None


def roofline(rows: pl.DataFrame, device: Device | None) -> RooflineResult:
    """The roofline of replayed kernels.

    `rows` has one row a kernel, in launch order within each (replay_file, rank, launch, segment, stream):
    `kernel`, `time_ns`, and where known `op`, `dims`, `types`, `concrete_inputs` (JSON texts), `class`,
    `grid` (JSON, in blocks), `module`, `size`, `real_size`, `status` (of the join), `source`, `step` (the
    span's text), `context_len`, and `op_call`, any value that is equal for the kernels of one op call and
    differs between neighbouring calls (without it, calls are told apart by where the sequence of kernel names
    repeats). Captured launches that no replay shows (null `time_ns`) are left out.
    """
    calls = list(_op_calls(_complete(rows)))
    groups: dict[tuple[Any, ...], list[_OpCall]] = {}
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


def _complete(rows: pl.DataFrame) -> pl.DataFrame:
    missing = [pl.lit(None).alias(name) for name in _OPTIONAL.split() if name not in rows.columns]
    return rows.filter(pl.col("time_ns").is_not_null()).with_columns(missing)


def _op_calls(rows: pl.DataFrame) -> Iterator[_OpCall]:
    """Neighbouring kernels of one op, cut into calls."""
    for _, run in groupby(rows.iter_rows(named=True), key=_neighbours):
        kernels = list(run)
        length = (
            len(kernels) if kernels[0]["op_call"] is not None else _period([row["kernel"] for row in kernels])
        )
        for start in range(0, len(kernels), length):
            yield _op_call(kernels[start : start + length])


def _neighbours(row: dict[str, Any]) -> list[Any]:
    """Equal for neighbouring kernels that may be of one call; kernels without a trusted op stand alone."""
    alone = row["op"] is None or row["dims"] is None or row["status"] not in _TRUSTED
    return [row[name] for name in _INSTANCE] + [row["kernel"] if alone else None]


def _period(names: list[str]) -> int:
    """The length of the shortest sequence whose repetition gives all names."""
    count = len(names)
    return next(n for n in range(1, count + 1) if count % n == 0 and names == names[:n] * (count // n))


def _op_call(kernels: list[dict[str, Any]]) -> _OpCall:
    """A call from its kernels: the longest one gives the fields. A join that withholds dims leaves no op
    either.
    """
    main = dict(max(kernels, key=lambda row: row["time_ns"]))
    cost = None
    if main["status"] not in _TRUSTED or main["dims"] is None:
        main.update(op=None, dims=None, types=None)
    elif main["op"] is not None:
        texts = tuple(main[name] for name in ("op", "dims", "types", "concrete_inputs", "class"))
        launches = tuple((row["kernel"], row["grid"]) for row in kernels)
        cost = _cost(texts, launches, main["step"], main["context_len"])
    return _OpCall(main, sum(row["time_ns"] for row in kernels), cost)


@lru_cache(maxsize=4096)
def _cost(
    texts: tuple[str | None, ...],
    launches: tuple[tuple[str, str | None], ...],
    step: str | None,
    context_len: int | None,
) -> Cost | None:
    op, dims, types, concrete, kernel_class = texts
    return op_cost(
        op or "",
        json.loads(dims or "[]"),
        json.loads(types or "[]"),
        json.loads(concrete or "[]"),
        kernel_class,
        kernels=[Kernel(name, tuple(json.loads(grid or "[]"))) for name, grid in launches],
        work=step_work(step),
        context_len=context_len,
    )


def _row(members: list[_OpCall], device: Device | None) -> dict[str, Any]:
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


def _problems(members: list[_OpCall]) -> list[str]:
    """What makes a row's figures less than they seem, before the device is asked."""
    problems = [] if members[0].priced else ["not-modelled"]
    if members[0].cost is not None and (members[0].cost.note or "").startswith(ROUTING):
        problems.append(ROUTING)
    dummy = any(call.fields["source"] == "replay-dummy" for call in members)
    if dummy and members[0].fields["class"] in ("attention", "grouped_gemm", "moe_routing"):
        problems.append("dummy-inputs")
    return problems


def _mean(members: list[_OpCall], field: str) -> int | None:
    values = [getattr(call.cost, field) for call in members]
    return None if None in values else round(sum(values) / len(values))


def _useful(members: list[_OpCall]) -> dict[str, Any]:
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


def _least_ns(
    flops: int | None, moved: int | None, math: str | None, device: Device
) -> tuple[float, float] | None:
    """The time that the work needs at the peak, and the traffic at full bandwidth; unknown work counts as
    none.

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


def _unmodelled(members: list[_OpCall]) -> Unmodelled:
    fields, total = members[0].fields, sum(call.time_ns for call in members)
    if fields["op"] is None:
        return Unmodelled(
            fields["kernel"], len(members), total, f"no op joined ({fields['status'] or 'missing'})"
        )
    reason = "no model of this op" if members[0].cost is None else "its dims or types do not tell"
    return Unmodelled(fields["op"], len(members), total, reason)


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
