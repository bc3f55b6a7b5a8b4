"""The tables of the made-up run that need no kernels: what a manifest, a rank analysis or a diff would say."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from shapescope.show.page import Fact
from shapescope.show.result import Result

Row = dict[str, Any]
RUN = "20261130-020516-5c1d9e"
_KERNELS = (
    "runner", "size", "unit", "variant", "rank", "segment", "seq", "kernel", "family", "class", "op", "dims", "types", "module",
    "grid", "block", "stream", "calls", "time_ns", "share", "source", "dims_source", "flag",
)  # fmt: skip
COLUMNS: dict[str, tuple[str, ...]] = {
    "shapes": (
        "runner", "phase", "size", "unit", "variant", "rank", "segments", "launches", "kernels", "families", "ops", "time_ns",
        "time_p10_ns", "time_p90_ns", "time_source", "context_len", "replays", "replays_seen", "completeness", "busy_ns",
        "span_ns", "gap_ns", "time_per_token_ns", "capture_ns", "record_ns", "memory_bytes", "bytes_on_disk", "status", "files",
    ),
    "kernels": _KERNELS,
    "launches": _KERNELS,
    "switches": (
        "runner", "variant", "op", "class", "dims_pattern", "size_from", "size_to", "family_from", "family_to", "kind",
        "time_ratio", "source", "evidence",
    ),
    "join": (),
    "roofline": (
        "size", "op", "class", "dims", "types", "flops", "flops_upper", "bytes", "bytes_upper", "time_ns", "tflops", "gbps",
        "bound", "attainment", "attainment_upper", "useful_share", "device", "problems",
    ),
    "memory": (
        "runner", "size", "variant", "rank", "order", "allocator_bytes", "device_bytes", "other_bytes", "warmup_ns", "capture_ns",
        "export_ns", "disturbed",
    ),
    "ranks": (
        "kind", "size", "step", "op", "class", "dims", "rank", "ranks", "slow_ranks", "kernels", "collectives", "rank_slow",
        "skew_ns", "wait_ns", "transfer_ns", "families",
    ),
    "findings": ("kind", "code", "severity", "size", "op", "ranks", "what", "cost_ns", "evidence", "command"),
    "diff": (
        "size", "variant", "op", "class", "dims", "family_base", "family_head", "base_ns", "head_ns", "ratio", "verdict",
        "n_base", "n_head", "reason",
    ),
    "check": ("file", "role", "key", "key_source", "inferred_key", "confidence", "events", "lost", "status", "problems"),
}  # fmt: skip
_SUMMARIES: dict[str, Row] = {
    "join": {
        "kernels": 9360, "attributed": 9204, "time_ns": 91_400_000, "attributed_time_ns": 90_240_000, "exact": 0, "aligned": 9204,
        "ambiguous": 84, "conflict": 12, "unverified": 0, "missing": 60, "launches": 51, "complete_launches": 50,
        "completeness": 0.998, "eager_steps": 3, "padded_slots": 41, "slots": 408,
    },
    "roofline": {"device": "MI300X", "modelled_share": 0.83},
    "diff": {"slower": 2, "faster": 1, "replaced": 1, "unsure": 1},
}  # fmt: skip
DEVICE = {"name": "MI300X", "peak": {"bf16": 1307.4e12, "fp32": 163.4e12}, "bandwidth": 5.3e12}
ENVIRONMENT = {
    "device": "hip", "device_name": "AMD Instinct MI300X", "hip": "7.0.51831", "driver": "6.14.5", "host": "mi300x-04",
    "python": "3.12.3", "packages.shapescope": "0.1.0", "packages.torch": "2.13.0+rocm7.0", "packages.sglang": "0.5.6",
    "packages.triton": "3.6.0", "packages.aiter": "0.1.7", "variables.HIP_VISIBLE_DEVICES": "0,1",
    "variables.SGLANG_USE_AITER": "1", "git": "8c0f3e1b7d52",
}  # fmt: skip


def blank(table: str) -> Row:
    """A row of which nothing is known."""
    return dict.fromkeys(COLUMNS[table])


def result(table: str, rows: Sequence[Row]) -> Result:
    command = "kernels" if table == "launches" else table
    return Result(command, RUN, COLUMNS[table], rows, _SUMMARIES.get(table, {}))


def facts(sizes: Sequence[int], ranks: int) -> list[Fact]:
    return [
        Fact("model", "Qwen/Qwen3-8B"),
        Fact("engine", "sglang 0.5.6"),
        Fact("device", "AMD Instinct MI300X"),
        Fact("driver", "6.14.5 · ROCm 7.0"),
        Fact("torch", "2.13.0+rocm7.0"),
        Fact("ranks", f"{ranks} of {ranks}"),
        Fact("shapes", f"{len(sizes) * ranks - ranks * (40 in sizes)} of {len(sizes) * ranks} complete"),
        Fact("recorded", "2026-11-30 02:05:16 UTC"),
        Fact("context", "1,024"),
        Fact("precision", None, "the manifest does not state it"),
    ]


def shape(rank: int, size: int, calls: Sequence[Row], measured: bool, chance: random.Random) -> Row:
    busy = sum(call["time_ns"] for call in calls)
    gap = round(busy * 0.09) + 410 * len(calls)
    file = f"graph_capture_profile/decode_bs_{size}_rank{rank}"
    row = {
        **blank("shapes"),
        "runner": "decode",
        "phase": "decode",
        "size": size,
        "unit": "requests",
        "variant": "",
        "rank": rank,
    }
    row |= {"segments": 1, "launches": len(calls), "context_len": 1024, "status": "ok" if measured else "partial"}
    row |= {
        many: len({call[one] for call in calls})
        for many, one in (("kernels", "kernel"), ("families", "family"), ("ops", "op"))
    }
    row["capture_ns"] = 210_000_000 + 900_000 * size + chance.randrange(20_000_000)
    row["record_ns"] = 64_000_000 + chance.randrange(9_000_000)
    row["memory_bytes"], row["bytes_on_disk"] = 2_097_152 * (3 + size // 8), 310_000 + 45 * len(calls)
    row["files"] = [f"{file}.json.gz", *([f"{file}.replay.json.gz"] if measured else [])]
    if measured:
        time = busy + gap
        row |= {
            "time_ns": time,
            "time_p10_ns": round(time * 0.985),
            "time_p90_ns": round(time * (1.02 + 0.03 * chance.random())),
        }
        row |= {"time_source": "replay", "replays": 50, "replays_seen": 51, "completeness": 1.0}
        row |= {"busy_ns": busy, "span_ns": time, "gap_ns": gap, "time_per_token_ns": round(time / size)}
    return row


def memory(of: Row, order: int) -> Row:
    half = of["memory_bytes"] // 2
    same = {name: of[name] for name in ("runner", "size", "variant", "rank", "capture_ns")}
    sizes = {"allocator_bytes": half, "device_bytes": of["memory_bytes"], "other_bytes": half}
    times = {"warmup_ns": 38_000_000, "export_ns": 12_000_000}
    return {**blank("memory"), **same, **sizes, **times, "order": order, "disturbed": of["size"] == 256}


def findings() -> list[Row]:
    found = (
        ("cliff", "high", 48, "aten::linear", 1_214_000, "28 calls, replay x50; 32 and 56 are faster", "switches RUN --size 48",
         "gate_up_proj at size 48 takes 1.9 times its neighbours' midpoint with the same kernel family"),
        ("rank-divergence", "medium", 256, "sgl::all_reduce", 83_000, "50 replays on 2 ranks", "ranks RUN",
         "rank 1 enters the all-reduce late at size 256"),
        ("fallback", "low", 2, "aten::linear", 61_000, "112 calls a replay", "switches RUN",
         "sizes 1 and 2 run a GEMV where sizes from 4 run the tuned GEMM"),
        ("disturbed", "info", 256, None, None, "1 reading", "memory RUN",
         "memory at size 256 was read while another process allocated"),
    )  # fmt: skip
    return [
        {**blank("findings"), "kind": code, "code": code, "severity": severity, "size": size, "op": op, "cost_ns": cost,
         "evidence": evidence, "command": f"shapescope {command}", "what": what}
        for code, severity, size, op, cost, evidence, command, what in found
    ]  # fmt: skip


def ranks(sizes: Sequence[int], count: int) -> list[Row]:
    rows = [
        {**blank("ranks"), "kind": "rank", "rank": rank, "kernels": 9360, "collectives": 28 * len(sizes)}
        for rank in range(count)
    ]
    if count > 1:
        last = {**blank("ranks"), "size": sizes[-1], "ranks": list(range(count)), "slow_ranks": [1]}
        times = {"skew_ns": 83_000, "wait_ns": 79_000, "transfer_ns": 9_100}
        rows.append(
            {
                **last,
                **times,
                "kind": "late",
                "step": "decode 12",
                "op": "sgl::all_reduce",
                "class": "collective",
                "rank_slow": 1,
            }
        )
        families = {"0": "Cijk_Alik_Bljk_BBS_BH", "1": "Cijk_Alik_Bljk_BBS_BH (GSU)"}
        rows.append({**last, "kind": "kernel-divergence", "op": "aten::linear", "class": "gemm", "families": families})
    return rows


def diff(kernels: Sequence[Row]) -> list[Row]:
    rows = []
    for row in kernels:
        if row["rank"] != 0 or row["time_ns"] is None or row["class"] not in ("gemm", "attention"):
            continue
        ratio = {48: 1.31, 256: 0.87}.get(row["size"], 1.0)
        replaced = row["size"] == 16 and row["class"] == "attention"
        verdict = "replaced" if replaced else "slower" if ratio > 1.05 else "faster" if ratio < 0.95 else "same"
        old = "paged_attention_ll4mi_QKV_mfma16_kernel" if replaced else row["family"]
        same = {name: row[name] for name in ("size", "variant", "op", "class", "dims")}
        times = {
            "base_ns": round(row["time_ns"] / ratio),
            "head_ns": row["time_ns"],
            "ratio": ratio,
            "n_base": 50,
            "n_head": 50,
        }
        rows.append(
            {**blank("diff"), **same, **times, "family_base": old, "family_head": row["family"], "verdict": verdict}
        )
    unsure = {
        "size": 40,
        "variant": "",
        "op": "aten::linear",
        "class": "gemm",
        "verdict": "unsure",
        "n_base": 50,
        "n_head": 0,
    }
    return [*rows, {**blank("diff"), **unsure, "reason": "no replay of size 40 in this run"}]


def check(sizes: Sequence[int], count: int) -> list[Row]:
    rows = [
        {**blank("check"), "file": f"graph_capture_profile/decode_bs_{size}_rank{rank}.json.gz", "role": "capture",
         "key": f"decode {size} requests", "key_source": "metadata", "confidence": 1.0, "events": 18_000 + size, "lost": 0,
         "status": "ok", "problems": []}
        for rank in range(count) for size in sizes
    ]  # fmt: skip
    rows[-1] |= {
        "status": "partial",
        "lost": 412,
        "problems": [{"code": "truncated", "message": "412 events lost", "file": None}],
    }
    return rows
