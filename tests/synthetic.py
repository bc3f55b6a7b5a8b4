"""A made-up run for the page's tests: a decode runner whose GEMMs and attention change kernels with the batch size."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from shapescope.read.problem import Code, Problem
from shapescope.show.page import Fact, Page
from shapescope.show.result import Result

RUN = "20261130-020516-5c1d9e"
LAYERS = 28
SHAPES = (
    "runner", "phase", "size", "unit", "variant", "rank", "segments", "launches", "kernels", "families", "ops", "time_ns",
    "time_p10_ns", "time_p90_ns", "time_source", "context_len", "replays", "replays_seen", "completeness", "busy_ns", "span_ns",
    "gap_ns", "time_per_token_ns", "capture_ns", "record_ns", "memory_bytes", "bytes_on_disk", "status", "files",
)  # fmt: skip
KERNELS = (
    "runner", "size", "unit", "variant", "rank", "segment", "seq", "kernel", "family", "class", "op", "dims", "types", "module",
    "grid", "block", "stream", "calls", "time_ns", "share", "source", "dims_source", "flag",
)  # fmt: skip
SWITCHES = (
    "op", "class", "dims_pattern", "size_from", "size_to", "family_from", "family_to", "kind", "time_ratio", "source", "evidence",
)  # fmt: skip
ROOFLINE = (
    "size", "op", "class", "dims", "types", "flops", "flops_upper", "bytes", "bytes_upper", "time_ns", "tflops", "gbps", "bound",
    "attainment", "attainment_upper", "useful_share", "device", "problems",
)  # fmt: skip
MEMORY = (
    "runner", "size", "variant", "rank", "order", "allocator_bytes", "device_bytes", "other_bytes", "warmup_ns", "capture_ns",
    "export_ns", "disturbed",
)  # fmt: skip
RANKS = (
    "kind", "size", "step", "op", "class", "dims", "rank", "ranks", "slow_ranks", "kernels", "collectives", "rank_slow", "skew_ns",
    "wait_ns", "transfer_ns", "families",
)  # fmt: skip
DIFF = (
    "size", "variant", "op", "class", "dims", "family_base", "family_head", "base_ns", "head_ns", "ratio", "verdict", "n_base",
    "n_head", "reason",
)  # fmt: skip
FINDINGS = ("kind", "code", "severity", "size", "op", "ranks", "what", "cost_ns", "evidence", "command")
CHECK = (
    "file", "role", "key", "key_source", "inferred_key", "confidence", "events", "lost", "status", "problems",
)  # fmt: skip
JOIN = (
    "replay_file", "rank", "runner", "variant", "launch", "step", "size", "real_size", "segment", "seq_replay", "seq_capture",
    "kernel", "stream", "grid", "block", "time_ns", "op", "dims", "types", "module", "stack", "status", "candidates",
)  # fmt: skip
SIZES = (1, 2, 4, 8, 12, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256)

GEMV = "void gemv_splitk_kernel<__hip_bfloat16, 64, 4, 2>(__hip_bfloat16 const*, __hip_bfloat16*, int, int)"
TILES = {
    "32x64": "Cijk_Alik_Bljk_BBS_BH_Bias_HAS_SAV_UserArgs_MT32x64x128_MI16x16x1_SN_LDSB1_GRVWA8_GRVWB8_GSU4",
    "64x96": "Cijk_Alik_Bljk_BBS_BH_Bias_HAS_SAV_UserArgs_MT64x96x64_MI16x16x1_SN_LDSB1_GRVWA8_GRVWB8_GSU2",
    "256x128": "Cijk_Alik_Bljk_BBS_BH_Bias_HAS_SAV_UserArgs_MT256x128x64_MI32x32x1_SN_LDSB1_GRVWA8_GRVWB8_GSU1",
}
# op, module, in features, out features
PROJECTIONS = (
    ("qkv_proj", "QKVParallelLinear", 4096, 6144),
    ("o_proj", "RowParallelLinear", 4096, 4096),
    ("gate_up_proj", "MergedColumnParallelLinear", 4096, 24576),
    ("down_proj", "RowParallelLinear", 12288, 4096),
)


def gemm(size: int, outputs: int) -> tuple[str, str]:
    """Kernel and family that a projection runs at this size: small sizes a GEMV, larger ones ever larger tiles."""
    if size <= 2:
        return GEMV, "gemv_splitk_kernel"
    tile = "32x64" if size <= 16 else "64x96" if size < (96 if outputs > 8000 else 160) else "256x128"
    return TILES[tile], "Cijk_Alik_Bljk_BBS_BH (GSU)" if tile != "256x128" else "Cijk_Alik_Bljk_BBS_BH"


def attention(size: int) -> list[tuple[str, str]]:
    if size <= 8:
        return [
            (
                "paged_attention_ll4mi_QKV_mfma16_kernel<__hip_bfloat16, 128, 256, 4>",
                "paged_attention_ll4mi_QKV_mfma16_kernel",
            ),
            ("paged_attention_ll4mi_reduce_kernel<__hip_bfloat16, 128, 4>", "paged_attention_ll4mi_reduce_kernel"),
        ]
    return [("aiter::pa_bf16_a16w16_b16_gqa8_blk1", "aiter::pa_bf16")]


def launches(size: int, ranks: int) -> Iterator[dict[str, Any]]:
    """The launches of one replay, with times that grow with the size."""
    bits = 2
    for layer in range(LAYERS):
        names = [
            ("rms_norm", f"RMSNorm_{2 * layer}", "norm", "aiter::rmsnorm2d_fwd_kernel<bf16, 1, 4096>", "aiter::rmsnorm2d_fwd_kernel", 3200 + 12 * size, [[size, 4096]]),
            *(projection(size, layer, *p) for p in PROJECTIONS[:1]),
            ("rotary_embedding", f"RotaryEmbedding_{layer}", "rope", "void vllm::rotary_embedding_kernel<c10::BFloat16, true>", "vllm::rotary_embedding_kernel", 2600 + 9 * size, [[size], [size, 4096]]),
            ("reshape_and_cache", f"RadixAttention_{layer}", "cache", "void vllm::reshape_and_cache_kernel<__hip_bfloat16, 0>", "vllm::reshape_and_cache_kernel", 2100 + 6 * size, [[size, 8, 128]]),
            *(("unified_attention", f"RadixAttention_{layer}", "attention", kernel, family, (9000 if at == 0 else 3000) + size * 95, [[size, 32, 128]]) for at, (kernel, family) in enumerate(attention(size))),
            projection(size, layer, *PROJECTIONS[1]),
            *((("all_reduce", f"RowParallelLinear_{layer}", "collective", "void aiter::cross_device_reduce_1stage<__hip_bfloat16, 8>", "aiter::cross_device_reduce_1stage" if size < 128 else "aiter::cross_device_reduce_2stage", 7000 + 28 * size, [[size, 4096]]),) if ranks > 1 else ()),
            ("fused_add_rms_norm", f"RMSNorm_{2 * layer + 1}", "norm", "aiter::add_rmsnorm2d_fwd_kernel<bf16, 1, 4096>", "aiter::add_rmsnorm2d_fwd_kernel", 3500 + 14 * size, [[size, 4096], [size, 4096]]),
            projection(size, layer, *PROJECTIONS[2]),
            ("silu_and_mul", f"SiluAndMul_{layer}", "activation", "void vllm::act_and_mul_kernel<c10::BFloat16, silu>", "vllm::act_and_mul_kernel", 3100 + 30 * size, [[size, 24576]]),
            projection(size, layer, *PROJECTIONS[3]),
        ]  # fmt: skip
        for op, module, kind, kernel, family, time, dims in names:
            yield {
                "op": f"aten::{op}" if op in ("mm", "addmm") else f"sgl::{op}" if kind != "gemm" else "aten::linear",
                "module": module, "class": kind, "kernel": kernel, "family": family, "time_ns": time, "dims": dims, "types": ["bf16"],
                "bytes": bits * 4096 * size,
            }  # fmt: skip
    yield {"op": "aten::argmax", "module": "Sampler", "class": "reduce", "kernel": "void at::native::reduce_kernel<512, 1, ArgMaxOps>", "family": "at::native::reduce_kernel", "time_ns": 9000 + 40 * size, "dims": [[size, 151936]], "types": ["bf16"], "bytes": 0}  # fmt: skip


def projection(size: int, layer: int, name: str, module: str, inputs: int, outputs: int) -> tuple[Any, ...]:
    kernel, family = gemm(size, outputs)
    stream_ns = inputs * outputs * 2 / 4.2e12 * 1e9
    compute_ns = 2 * size * inputs * outputs / 5.5e14 * 1e9
    penalty = {"gemv_splitk_kernel": 1.0 + 0.25 * (size - 1)}.get(family, 1.0)
    # One size where the heuristic picks badly: a cliff.
    penalty *= 1.9 if size == 48 and name == "gate_up_proj" else 1.0
    time = round(max(stream_ns, compute_ns) * penalty + 1800)
    return ("linear", f"{module}_{layer}", "gemm", kernel, family, time, [[size, inputs], [outputs, inputs]])


def page(sizes: Sequence[int] = SIZES, ranks: int = 2, families: int = 0, base: bool = False, seed: int = 7) -> Page:
    """A whole page. `families` asks for so many families a shape, the rest of them small element-wise ones."""
    chance = random.Random(seed)
    shapes, kernels, rows_by_launch, roofline, memory = [], [], [], [], []
    for rank in range(ranks):
        for order, size in enumerate(sorted(sizes, reverse=True)):
            drift = 1 + 0.012 * rank + chance.uniform(-0.01, 0.01)
            calls = [
                dict(call, time_ns=round(call["time_ns"] * drift * chance.uniform(0.98, 1.02)))
                for call in launches(size, ranks)
            ]
            calls += extra_families(calls, families, size, chance)
            key = {"runner": "decode", "size": size, "unit": "requests", "variant": "", "rank": rank}
            file = f"graph_capture_profile/decode_bs_{size}_rank{rank}.replay.json.gz"
            busy = sum(call["time_ns"] for call in calls)
            measured = size != 40
            gap = round(busy * 0.09) + 410 * len(calls)
            time = busy + gap
            shapes.append(
                {**dict.fromkeys(SHAPES), **key, "phase": "decode", "segments": 1, "launches": len(calls),
                 "kernels": len({c["kernel"] for c in calls}), "families": len({c["family"] for c in calls}),
                 "ops": len({c["op"] for c in calls}), "context_len": 1024,
                 "capture_ns": 210_000_000 + 900_000 * size + chance.randrange(20_000_000), "record_ns": 64_000_000 + chance.randrange(9_000_000),
                 "memory_bytes": 2_097_152 * (3 + size // 8), "bytes_on_disk": 310_000 + 45 * len(calls), "status": "ok" if measured else "partial",
                 "files": [file.replace(".replay", ""), *([file] if measured else [])]}
                | ({"time_ns": time, "time_p10_ns": round(time * 0.985), "time_p90_ns": round(time * (1.02 + 0.03 * chance.random())),
                    "time_source": "replay", "replays": 50, "replays_seen": 51, "completeness": 1.0, "busy_ns": busy, "span_ns": time,
                    "gap_ns": gap, "time_per_token_ns": round(time / size)} if measured else {})
            )  # fmt: skip
            source = "replay" if measured else "capture"
            for seq, call in enumerate(calls):
                row = {**dict.fromkeys(KERNELS), **key, "segment": 0, "seq": seq, "grid": [304, 1, 1], "block": [256, 1, 1], "stream": 7,
                       "calls": 1, "source": source, "dims_source": "op", "share": call["time_ns"] / busy if measured else None,
                       **{k: call[k] for k in ("kernel", "family", "class", "op", "module")}, "dims": call["dims"],
                       "types": ["bf16"], "time_ns": call["time_ns"] if measured else None}  # fmt: skip
                rows_by_launch.append(row)
            kernels += grouped(rows_by_launch[-len(calls) :])
            memory.append(
                {**dict.fromkeys(MEMORY), **{k: key[k] for k in ("runner", "size", "variant", "rank")}, "order": order,
                 "allocator_bytes": 1_048_576 * (3 + size // 8), "device_bytes": 2_097_152 * (3 + size // 8),
                 "other_bytes": 1_048_576 * (3 + size // 8), "warmup_ns": 38_000_000, "capture_ns": shapes[-1]["capture_ns"],
                 "export_ns": 12_000_000, "disturbed": size == 256}
            )  # fmt: skip
            if rank == 0 and measured:
                roofline += roofs(size, calls)
    shapes.sort(key=lambda row: (row["rank"], row["size"]))
    found = [s for s in sizes if s != 40]
    tables = {
        "shapes": Result("shapes", RUN, SHAPES, shapes, {"shapes": len(shapes), "ok": len(found) * ranks}, streams=streams(sizes, ranks)),
        "kernels": Result("kernels", RUN, KERNELS, kernels, {"kernels": len({r["kernel"] for r in kernels})}),
        "launches": Result("kernels", RUN, KERNELS, rows_by_launch),
        "switches": Result("switches", RUN, SWITCHES, switches(sizes)),
        "join": Result("join", RUN, JOIN, (), {
            "kernels": 9360, "attributed": 9204, "time_ns": 91_400_000, "attributed_time_ns": 90_240_000, "exact": 0, "aligned": 9204,
            "ambiguous": 84, "conflict": 12, "unverified": 0, "missing": 60, "launches": 51, "complete_launches": 50,
            "completeness": 0.998, "eager_steps": 3, "padded_slots": 41, "slots": 408}),
        "roofline": Result("roofline", RUN, ROOFLINE, roofline, {"device": "AMD Instinct MI300X", "modelled_share": 0.83, "peak_tflops": 1307.4, "peak_gbps": 5300.0}),
        "memory": Result("memory", RUN, MEMORY, memory, {"device_bytes": sum(r["device_bytes"] for r in memory)}),
        "ranks": Result("ranks", RUN, RANKS, rank_rows(sizes, ranks)),
        "findings": Result("findings", RUN, FINDINGS, findings()),
        "check": Result("check", RUN, CHECK, check(sizes, ranks)),
    }  # fmt: skip
    if base:
        tables["diff"] = Result(
            "diff", RUN, DIFF, diff(kernels), {"slower": 2, "faster": 1, "replaced": 1, "unsure": 1}
        )
    environment = {
        "device": "hip", "device_name": "AMD Instinct MI300X", "hip": "7.0.51831", "driver": "6.14.5", "host": "mi300x-04",
        "python": "3.12.3", "packages.shapescope": "0.1.0", "packages.torch": "2.13.0+rocm7.0", "packages.sglang": "0.5.6",
        "packages.triton": "3.6.0", "packages.aiter": "0.1.7", "variables.HIP_VISIBLE_DEVICES": "0,1", "variables.SGLANG_USE_AITER": "1",
        "git": "8c0f3e1b7d52",
    }  # fmt: skip
    facts = [
        Fact("model", "Qwen/Qwen3-8B"), Fact("engine", "sglang 0.5.6"), Fact("device", "AMD Instinct MI300X"),
        Fact("driver", "6.14.5 · ROCm 7.0"), Fact("torch", "2.13.0+rocm7.0"), Fact("ranks", f"{ranks} of {ranks}"),
        Fact("shapes", f"{len(sizes) * ranks - ranks * (40 in sizes)} of {len(sizes) * ranks} complete"),
        Fact("recorded", "2026-11-30 02:05:16 UTC"), Fact("context", "1,024"),
        Fact("precision", None, "the manifest does not state it"),
    ]  # fmt: skip
    old = {**environment, "packages.aiter": "0.1.5", "git": "1f2e3d4c5b6a"}
    return Page(RUN, facts, tables, environment, "20261128-181200-a90b11" if base else None, old if base else {})


def extra_families(
    calls: list[dict[str, Any]], families: int, size: int, chance: random.Random
) -> list[dict[str, Any]]:
    present = len({call["family"] for call in calls})
    return [
        {"op": f"aten::op_{n}", "module": f"Block{n}_0", "class": "elementwise", "types": ["bf16"], "bytes": 0, "dims": [[size, 128 + n]],
         "kernel": f"void at::native::vectorized_elementwise_kernel<4, functor_{n}, array_{size % 3}>", "family": f"at::native::functor_{n}",
         "time_ns": 1500 + chance.randrange(900)}
        for n in range(max(0, families - present))
    ]  # fmt: skip


def grouped(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(row["kernel"], []).append(row)
    found = []
    for members in groups.values():
        row = {k: v if all(m[k] == v for m in members) else None for k, v in members[0].items()}
        row["calls"] = len(members)
        row["time_ns"] = None if members[0]["time_ns"] is None else sum(m["time_ns"] for m in members)
        row["share"] = None if members[0]["share"] is None else sum(m["share"] for m in members)
        found.append({**row, "seq": None})
    return sorted(found, key=lambda row: -(row["time_ns"] or row["calls"]))


def roofs(size: int, calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
    rows = []
    seen: dict[str, list[dict[str, Any]]] = {}
    for call in calls:
        if call["class"] == "gemm":
            seen.setdefault(str(call["dims"]), []).append(call)
    for dims, members in seen.items():
        (batch, inputs), (outputs, _) = members[0]["dims"]
        time = round(sum(m["time_ns"] for m in members) / len(members))
        flops, moved = 2 * batch * inputs * outputs, 2 * (batch * inputs + inputs * outputs + batch * outputs)
        compute = flops / moved > 1307e12 / 5.3e12
        attained = max(flops / 1307e12, moved / 5.3e12) * 1e9 / time
        rows.append(
            {**dict.fromkeys(ROOFLINE), "size": size, "op": "aten::linear", "class": "gemm", "dims": members[0]["dims"], "types": ["bf16"],
             "flops": flops, "bytes": moved, "time_ns": time, "tflops": flops / time / 1e3, "gbps": moved / time,
             "bound": "compute" if compute else "memory", "attainment": attained if attained <= 1 else None,
             "useful_share": 1.0, "device": "AMD Instinct MI300X", "problems": []}
        )  # fmt: skip
    return rows


def switches(sizes: Sequence[int]) -> list[dict[str, Any]]:
    rows = []
    for before, after in zip(sizes, sizes[1:], strict=False):
        for name, _, inputs, outputs in PROJECTIONS:
            old, new = gemm(before, outputs)[1], gemm(after, outputs)[1]
            if old != new:
                rows.append({"op": "aten::linear", "class": "gemm", "dims_pattern": f"[[n,{inputs}],[{outputs},{inputs}]]", "size_from": before,
                             "size_to": after, "family_from": old, "family_to": new, "kind": "fallback" if before == 2 else "step",
                             "time_ratio": 0.94 if before > 2 else 0.71, "source": "replay", "evidence": f"{name}: 28 calls a side"})  # fmt: skip
        if len(attention(before)) != len(attention(after)):
            rows.append({"op": "sgl::unified_attention", "class": "attention", "dims_pattern": "[[n,32,128]]", "size_from": before, "size_to": after,
                         "family_from": attention(before)[0][1], "family_to": attention(after)[0][1], "kind": "step", "time_ratio": 0.88,
                         "source": "replay", "evidence": "28 calls a side"})  # fmt: skip
        if after == 48:
            rows.append({"op": "aten::linear", "class": "gemm", "dims_pattern": "[[n,4096],[24576,4096]]", "size_from": before, "size_to": 48,
                         "family_from": gemm(before, 24576)[1], "family_to": gemm(48, 24576)[1], "kind": "cliff", "time_ratio": 1.9,
                         "source": "replay", "evidence": "28 calls; 32 and 56 are faster"})  # fmt: skip
    return rows


def findings() -> list[dict[str, Any]]:
    blank = dict.fromkeys(FINDINGS)
    return [
        {**blank, "kind": "cliff", "code": "cliff", "severity": "high", "size": 48, "op": "aten::linear", "cost_ns": 1_214_000,
         "what": "gate_up_proj at size 48 takes 1.9 times its neighbours' midpoint with the same kernel family",
         "evidence": "28 calls, replay x50; 32 and 56 are faster", "command": "shapescope switches RUN --size 48"},
        {**blank, "kind": "rank", "code": "rank-divergence", "severity": "medium", "size": 256, "op": "sgl::all_reduce", "ranks": [1],
         "what": "rank 1 enters the all-reduce late at size 256", "cost_ns": 83_000, "evidence": "50 replays on 2 ranks", "command": "shapescope ranks RUN"},
        {**blank, "kind": "fallback", "code": "fallback", "severity": "low", "size": 2, "op": "aten::linear", "cost_ns": 61_000,
         "what": "sizes 1 and 2 run a GEMV where sizes from 4 run the tuned GEMM", "evidence": "112 calls a replay", "command": "shapescope switches RUN"},
        {**blank, "kind": "memory", "code": "disturbed", "severity": "info", "size": 256, "what": "memory at size 256 was read while another process allocated",
         "evidence": "1 reading", "command": "shapescope memory RUN"},
    ]  # fmt: skip


def rank_rows(sizes: Sequence[int], ranks: int) -> list[dict[str, Any]]:
    blank = dict.fromkeys(RANKS)
    rows: list[dict[str, Any]] = [
        {**blank, "kind": "rank", "rank": rank, "kernels": 9360, "collectives": 28 * len(sizes)}
        for rank in range(ranks)
    ]
    if ranks > 1:
        rows.append({**blank, "kind": "late", "size": sizes[-1], "step": 12, "op": "sgl::all_reduce", "class": "collective", "ranks": ranks,
                     "slow_ranks": [1], "rank_slow": 1, "skew_ns": 83_000, "wait_ns": 79_000, "transfer_ns": 9_100})  # fmt: skip
        rows.append({**blank, "kind": "kernel-divergence", "size": sizes[-1], "op": "aten::linear", "class": "gemm", "ranks": ranks, "slow_ranks": [1],
                     "families": {"0": "Cijk_Alik_Bljk_BBS_BH", "1": "Cijk_Alik_Bljk_BBS_BH (GSU)"}})  # fmt: skip
    return rows


def diff(kernels: list[dict[str, Any]]) -> list[dict[str, Any]]:
    rows = []
    for row in (
        r for r in kernels if r["rank"] == 0 and r["time_ns"] is not None and r["class"] in ("gemm", "attention")
    ):
        ratio = {48: 1.31, 256: 0.87}.get(row["size"], 1.0)
        verdict = "slower" if ratio > 1.05 else "faster" if ratio < 0.95 else "same"
        base_family = row["family"]
        if row["size"] == 16 and row["class"] == "attention":
            verdict, base_family = "replaced", "paged_attention_ll4mi_QKV_mfma16_kernel"
        rows.append({"size": row["size"], "variant": "", "op": row["op"], "class": row["class"], "dims": row["dims"], "family_base": base_family,
                     "family_head": row["family"], "base_ns": round(row["time_ns"] / ratio), "head_ns": row["time_ns"], "ratio": ratio,
                     "verdict": verdict, "n_base": 50, "n_head": 50, "reason": None})  # fmt: skip
    rows.append({**dict.fromkeys(DIFF), "size": 40, "variant": "", "op": "aten::linear", "class": "gemm", "verdict": "unsure", "n_base": 50,
                 "n_head": 0, "reason": "no replay of size 40 in this run"})  # fmt: skip
    return rows


def check(sizes: Sequence[int], ranks: int) -> list[dict[str, Any]]:
    blank = dict.fromkeys(CHECK)
    rows = [
        {**blank, "file": f"graph_capture_profile/decode_bs_{size}_rank{rank}.json.gz", "role": "capture", "key": f"decode {size} requests",
         "key_source": "metadata", "confidence": 1.0, "events": 18_000 + size, "lost": 0, "status": "ok", "problems": []}
        for rank in range(ranks) for size in sizes
    ]  # fmt: skip
    rows[-1] |= {"status": "partial", "lost": 412, "problems": ["truncated: 412 events lost"]}
    return rows


def streams(sizes: Sequence[int], ranks: int) -> list[dict[str, Any]]:
    return [
        {"file": f"graph_capture_profile/decode_bs_{size}_rank{rank}.replay.json.gz", "rank": rank, "device": rank, "stream": 7, "kernels": 337,
         "sum_ns": 4_000_000, "busy_ns": 4_000_000, "span_ns": 4_600_000, "idle": 0.13}
        for rank in range(ranks) for size in sizes
    ]  # fmt: skip


def warned() -> list[Problem]:
    return [
        Problem(
            Code.TRUNCATED,
            "412 events were lost at the end of the file",
            "graph_capture_profile/decode_bs_256_rank1.json.gz",
        )
    ]


HOSTILE = (
    "</script><img src=x onerror=alert(1)>", "<!--<script>", "\"'><svg onload=alert(1)>", "=HYPERLINK(\"http://x\")", "+1", "@everyone #1 !x",
    "\x1b[31mred\x07\x1b]0;title\x07", "\u202eexe.txt\u202c مرحبا", "[bold]x[/bold]", "a|b`c*d_e\\\n# h", "k" * 10_000, "\u2028]]>&amp;",
)  # fmt: skip


def hostile(name: str = HOSTILE[0]) -> Page:
    """A page on which every text that a trace or a manifest can bring is this one."""
    made = page(sizes=[1, 2, 4], ranks=2, base=True)

    def spoiled(column: str, value: Any) -> Any:
        kept = ("status", "source", "verdict", "severity", "unit", "kind")
        return name if isinstance(value, str) and column not in kept else value

    tables = {
        key: replace(
            result, run=name, rows=[{c: spoiled(c, v) for c, v in row.items()} for row in result.rows], summary={**result.summary, name: name},
            warnings=[Problem(Code.TRUNCATED, name, name)],
        )
        for key, result in made.tables.items()
    }  # fmt: skip
    facts = [Fact(fact.name, name if fact.value else None) for fact in made.facts]
    return Page(name, facts, tables, {name: name, "command": name}, name, {name: "other"})
