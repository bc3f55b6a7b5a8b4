"""A made-up run for the page's tests: a decode runner whose GEMMs and attention change kernels with the batch size."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import synthetic_tables as made
from synthetic_tables import RUN, Row, blank

from shapescope.read.problem import Code, Problem
from shapescope.show.page import Page
from shapescope.show.result import Result

LAYERS = 28
SIZES = (1, 2, 4, 8, 12, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256)
UNMEASURED = 40
SLOW = 48

GEMV = "void gemv_splitk_kernel<__hip_bfloat16, 64, 4, 2>(__hip_bfloat16 const*, __hip_bfloat16*, int, int)"
TILED = "Cijk_Alik_Bljk_BBS_BH_Bias_HAS_SAV_UserArgs_MT{}_MI16x16x1_SN_LDSB1_GRVWA8_GRVWB8_GSU{}"
# Module, in features, out features.
PROJECTIONS = {
    "qkv_proj": ("QKVParallelLinear", 4096, 6144),
    "o_proj": ("RowParallelLinear", 4096, 4096),
    "gate_up_proj": ("MergedColumnParallelLinear", 4096, 24576),
    "down_proj": ("RowParallelLinear", 12288, 4096),
}
# Op, module, class, kernel, family, ns, ns a request.
SMALL = {
    "norm": (
        "rms_norm", "RMSNorm", "norm", "aiter::rmsnorm2d_fwd_kernel<bf16, 1, 4096>", "aiter::rmsnorm2d_fwd_kernel", 3200, 12,
    ),
    "rope": (
        "rotary_embedding", "RotaryEmbedding", "rope", "void vllm::rotary_embedding_kernel<c10::BFloat16, true>",
        "vllm::rotary_embedding_kernel", 2600, 9,
    ),
    "cache": (
        "reshape_and_cache", "RadixAttention", "cache", "void vllm::reshape_and_cache_kernel<__hip_bfloat16, 0>",
        "vllm::reshape_and_cache_kernel", 2100, 6,
    ),
    "add_norm": (
        "fused_add_rms_norm", "RMSNorm", "norm", "aiter::add_rmsnorm2d_fwd_kernel<bf16, 1, 4096>",
        "aiter::add_rmsnorm2d_fwd_kernel", 3500, 14,
    ),
    "silu": (
        "silu_and_mul", "SiluAndMul", "activation", "void vllm::act_and_mul_kernel<c10::BFloat16, silu>",
        "vllm::act_and_mul_kernel", 3100, 30,
    ),
}  # fmt: skip


def gemm(size: int, outputs: int) -> tuple[str, str]:
    """Kernel and family that a projection runs at this size: small sizes a GEMV, larger ones ever larger tiles."""
    if size <= 2:
        return GEMV, "gemv_splitk_kernel"
    tile = "32x64x128" if size <= 16 else "64x96x64" if size < (96 if outputs > 8000 else 160) else "256x128x64"
    split = {"32x64x128": 4, "64x96x64": 2}.get(tile, 1)
    return TILED.format(tile, split), "Cijk_Alik_Bljk_BBS_BH" + (" (GSU)" if split > 1 else "")


def attention(size: int) -> list[tuple[str, str]]:
    """Two kernels with a reduction for small batches, one for others."""
    if size > 8:
        return [("aiter::pa_bf16_a16w16_b16_gqa8_blk1", "aiter::pa_bf16")]
    names = ("paged_attention_ll4mi_QKV_mfma16_kernel", "paged_attention_ll4mi_reduce_kernel")
    return [(f"{name}<__hip_bfloat16, 128, 256, 4>", name) for name in names]


def launches(size: int, ranks: int) -> Iterator[Row]:
    """The launches of one replay, with times that grow with the size."""
    for layer in range(LAYERS):
        yield small("norm", layer, size)
        yield projection("qkv_proj", layer, size)
        yield small("rope", layer, size)
        yield small("cache", layer, size)
        for at, (kernel, family) in enumerate(attention(size)):
            base = 9000 if at == 0 else 3000
            yield launch(
                "unified_attention",
                f"RadixAttention_{layer}",
                "attention",
                kernel,
                family,
                base + 95 * size,
                [[size, 32, 128]],
            )
        yield projection("o_proj", layer, size)
        if ranks > 1:
            stages = 1 if size < 128 else 2
            kernel = f"aiter::cross_device_reduce_{stages}stage"
            yield launch("all_reduce", f"RowParallelLinear_{layer}", "collective", f"void {kernel}<__hip_bfloat16, 8>", kernel,
                         7000 + 28 * size, [[size, 4096]])  # fmt: skip
        yield small("add_norm", layer, size)
        yield projection("gate_up_proj", layer, size)
        yield small("silu", layer, size)
        yield projection("down_proj", layer, size)
    kernel = "at::native::reduce_kernel"
    yield launch(
        "argmax", "Sampler", "reduce", f"void {kernel}<512, 1, ArgMaxOps>", kernel, 9000 + 40 * size, [[size, 151936]]
    )


def launch(op: str, module: str, kind: str, kernel: str, family: str, time_ns: int, dims: list[list[int]]) -> Row:
    space = "aten" if op in ("linear", "argmax") or op.startswith("op_") else "sgl"
    return {"op": f"{space}::{op}", "module": module, "class": kind, "kernel": kernel, "family": family, "time_ns": time_ns,
            "dims": dims, "types": ["c10::BFloat16"]}  # fmt: skip


def small(name: str, layer: int, size: int) -> Row:
    op, module, kind, kernel, family, base, more = SMALL[name]
    return launch(op, f"{module}_{layer}", kind, kernel, family, base + more * size, [[size, 4096]])


def projection(name: str, layer: int, size: int) -> Row:
    module, inputs, outputs = PROJECTIONS[name]
    kernel, family = gemm(size, outputs)
    reading_ns, computing_ns = inputs * outputs * 2 / 4200, 2 * size * inputs * outputs / 550_000
    slower = 1 + 0.25 * (size - 1) if kernel == GEMV else 1.9 if (size, name) == (SLOW, "gate_up_proj") else 1
    time = round(max(reading_ns, computing_ns) * slower) + 1800
    return launch("linear", f"{module}_{layer}", "gemm", kernel, family, time, [[size, inputs], [outputs, inputs]])


def extra_families(calls: Sequence[Row], families: int, size: int, chance: random.Random) -> list[Row]:
    """Small element-wise work, until the shape has so many families."""
    missing = families - len({call["family"] for call in calls})
    kernel = "void at::native::vectorized_elementwise_kernel<4, functor_{}, array_{}>"
    return [
        launch(f"op_{n}", f"Block{n}_0", "elementwise", kernel.format(n, size % 3), f"at::native::functor_{n}",
               1500 + chance.randrange(900), [[size, 128 + n]])
        for n in range(max(0, missing))
    ]  # fmt: skip


def page(sizes: Sequence[int] = SIZES, ranks: int = 2, families: int = 0, base: bool = False, seed: int = 7) -> Page:
    """A whole page. `families` asks for so many families a shape, the rest of them small element-wise ones."""
    chance = random.Random(seed)
    tables: dict[str, list[Row]] = {name: [] for name in made.COLUMNS}
    for rank in range(ranks):
        for order, size in enumerate(sorted(sizes, reverse=True)):
            drift = 1 + 0.012 * rank + chance.uniform(-0.01, 0.01)
            calls = list(launches(size, ranks))
            calls = [{**call, "time_ns": round(call["time_ns"] * drift * chance.uniform(0.98, 1.02))} for call in calls]
            calls += extra_families(calls, families, size, chance)
            shape = made.shape(rank, size, calls, size != UNMEASURED, chance)
            rows = [launch_row(shape, seq, call) for seq, call in enumerate(calls)]
            tables["shapes"].append(shape)
            tables["launches"] += rows
            tables["kernels"] += by_kernel(rows)
            tables["memory"].append(made.memory(shape, order))
            if rank == 0 and size != UNMEASURED:
                tables["roofline"] += roofline(size, calls)
    tables["shapes"].sort(key=lambda row: (row["rank"], row["size"]))
    tables |= {
        "switches": switches(sizes),
        "ranks": made.ranks(sizes, ranks),
        "findings": made.findings(),
        "check": made.check(sizes, ranks),
    }
    tables["diff"] = made.diff(tables["kernels"]) if base else []
    results = {
        name: result
        for name, rows in tables.items()
        if (result := made.result(name, rows)) and (name != "diff" or base)
    }
    old = {**made.ENVIRONMENT, "packages.aiter": "0.1.5", "git": "1f2e3d4c5b6a"}
    return Page(RUN, made.facts(sizes, ranks), results, made.ENVIRONMENT, made.DEVICE, "20261128-181200-a90b11" if base else None,
                old if base else {})  # fmt: skip


def launch_row(shape: Row, seq: int, call: Row) -> Row:
    measured = shape["time_ns"] is not None
    row = {**blank("launches"), **{name: shape[name] for name in ("runner", "size", "unit", "variant", "rank")}, **call}
    row |= {
        "segment": 0,
        "seq": seq,
        "grid": [304, 1, 1],
        "block": [256, 1, 1],
        "stream": 7,
        "calls": 1,
        "dims_source": "op",
    }
    row["source"] = "replay" if measured else "capture"
    row["time_ns"] = call["time_ns"] if measured else None
    row["share"] = call["time_ns"] / shape["busy_ns"] if measured else None
    return row


def by_kernel(rows: Sequence[Row]) -> list[Row]:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row["kernel"], []).append(row)
    found = []
    for members in groups.values():
        row = {
            name: value if all(member[name] == value for member in members) else None
            for name, value in members[0].items()
        }
        row["seq"], row["calls"] = None, len(members)
        for summed in ("time_ns", "share"):
            row[summed] = None if members[0][summed] is None else sum(member[summed] for member in members)
        found.append(row)
    return sorted(found, key=lambda row: -(row["time_ns"] or row["calls"]))


def roofline(size: int, calls: Sequence[Row]) -> list[Row]:
    groups: dict[str, list[Row]] = {}
    for call in calls:
        if call["class"] == "gemm":
            groups.setdefault(str(call["dims"]), []).append(call)
    rows = []
    for members in groups.values():
        (batch, inputs), (outputs, _) = members[0]["dims"]
        time = round(sum(member["time_ns"] for member in members) / len(members))
        flops, moved = 2 * batch * inputs * outputs, 2 * (batch * inputs + inputs * outputs + batch * outputs)
        needed = max(flops / 1307.4e12, moved / 5.3e12) * 1e9
        figures = {"flops": flops, "bytes": moved, "time_ns": time, "tflops": flops / time / 1e3, "gbps": moved / time}
        judged = {
            "bound": "compute" if flops / moved > 247 else "memory",
            "attainment": needed / time if needed <= time else None,
        }
        about = {
            "size": size,
            "op": "aten::linear",
            "class": "gemm",
            "dims": members[0]["dims"],
            "types": members[0]["types"],
        }
        rows.append({**blank("roofline"), **about, **figures, **judged, "device": "MI300X", "problems": []})
    return rows


def switches(sizes: Sequence[int]) -> list[Row]:
    rows = []
    for before, after in pairwise(sizes):
        between = {
            **blank("switches"),
            "runner": "decode",
            "variant": "",
            "size_from": before,
            "size_to": after,
            "source": "replay",
        }
        for name, (_, inputs, outputs) in PROJECTIONS.items():
            old, new = gemm(before, outputs)[1], gemm(after, outputs)[1]
            linear = {**between, "op": "aten::linear", "class": "gemm", "dims_pattern": f"[[n,{inputs}],[{outputs},{inputs}]]",
                      "family_from": old, "family_to": new}  # fmt: skip
            if old != new:
                kind = "fallback" if before == 2 else "step"
                rows.append({**linear, "kind": kind, "time_ratio": 0.94, "evidence": f"{name}: 28 calls a side"})
            if (after, name) == (SLOW, "gate_up_proj"):
                rows.append(
                    {**linear, "kind": "cliff", "time_ratio": 1.9, "evidence": "28 calls; 32 and 56 are faster"}
                )
        if len(attention(before)) != len(attention(after)):
            rows.append({**between, "op": "sgl::unified_attention", "class": "attention", "kind": "step",
                         "family_from": attention(before)[0][1], "family_to": attention(after)[0][1], "time_ratio": 0.88,
                         "dims_pattern": "[[n,32,128]]", "evidence": "28 calls a side"})  # fmt: skip
    return rows


HOSTILE = (
    "</script><img src=x onerror=alert(1)>", "<!--<script>", "\"'><svg onload=alert(1)>", '=HYPERLINK("http://x")', "+1",
    "@everyone #1 !x", "\x1b[31mred\x07\x1b]0;title\x07", "\u202eexe.txt\u202c مرحبا", "[bold]x[/bold]", "a|b`c*d_e\\\n# h",
    "k" * 10_000, "\u2028]]>&amp;",
)  # fmt: skip
_KEPT = frozenset({"status", "source", "verdict", "severity", "unit", "kind"})


def hostile(name: str = HOSTILE[0]) -> Page:
    """A page on which every text that a trace or a manifest can bring is this one."""
    calm = page(sizes=[1, 2, 4], ranks=2, base=True)

    def spoiled(result: Result) -> Result:
        rows = [
            {c: name if isinstance(v, str) and c not in _KEPT else v for c, v in row.items()} for row in result.rows
        ]
        warnings = [Problem(Code.TRUNCATED, name, name)]
        return replace(result, run=name, rows=rows, summary={**result.summary, name: name}, warnings=warnings)

    facts = [replace(fact, value=name if fact.value else None) for fact in calm.facts]
    tables = {key: spoiled(result) for key, result in calm.tables.items()}
    return Page(name, facts, tables, {name: name, "command": name}, None, name, {name: "other"})
