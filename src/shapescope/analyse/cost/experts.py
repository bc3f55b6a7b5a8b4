"""Grouped products and mixture-of-experts layers: which expert a token goes to is data, so bytes are bounds.

The arithmetic of a routed layer is certain (every token visits its k experts); the weights that it reads are
those of at least k and at most min(E, T*k) experts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod

from shapescope.analyse.cost.matmul import gemm_cost
from shapescope.analyse.cost.model import MATH, Call, Cost, Tensor, moved

ROUTING = "routing-unknown"
# triton_kernels' matmul_ogs: layouts; number types of x, result and weights, as in `bf16xbf16xmxfp4`; tile
# m x n x k and the split of k.
_OGS = re.compile(
    r"_matmul_ogs_[NT]+_[a-z0-9]+?x[a-z0-9]+?x(?P<w>[a-z0-9]+)_(?P<m>\d+)x(?P<n>\d+)x\d+x\d+(?P<swiglu>_swiglu)?"
)
# Bits of one weight, scales included: an MX block is 32 values with one 8-bit scale.
_OGS_WEIGHT_BITS = {"mxfp4": 4.25, "mxfp8": 8.25, "bf16": 16, "fp16": 16, "fp8": 8, "fp32": 32}


@dataclass(frozen=True, slots=True)
class Layer:
    """A routed layer on one rank: hidden [T, H], E experts, each token to k of them, k known or bounded."""

    hidden: Tensor
    experts: int
    least: int
    most: int

    def cost(self, visit: tuple[int, int], expert: tuple[int, int] | None, between: int, note: str) -> Cost:
        """A cost from (least, most) multiply-adds of one token's visit to one expert, (least, most) bytes of
        an expert's weights, and the elements that a visit passes between its kernels where they are not
        fused.
        """
        tokens = self.hidden.shape[0]
        lower = upper = None
        if self.hidden.bytes is not None and self.hidden.bits and expert is not None:
            visits = tokens * self.most
            lower = 2 * self.hidden.bytes + min(self.experts, self.least) * expert[0]
            upper = 2 * self.hidden.bytes + min(self.experts, visits) * expert[1]
            upper += 2 * visits * between * self.hidden.bits // 8
        flops, flops_upper = 2 * tokens * self.least * visit[0], 2 * tokens * self.most * visit[1]
        return Cost(flops, flops_upper, lower, upper, MATH.get(self.hidden.type), tokens, note=note)


def grouped_cost(call: Call) -> Cost | None:
    """The cost of a grouped or expert product; None where the op is none or its dims do not tell."""
    if call.matches(r"^aten::_(scaled_)?grouped_mm$"):
        return _grouped_mm(call)
    if call.matches(r"(fused_experts|fused_moe|moe_stage\d|fused_marlin_moe|cutlass_moe|asm_moe)"):
        return _routed_layer(call)
    if call.matches(r"moe_forward|triton_kernel_moe|matmul_ogs"):
        return _ogs_layer(call)
    return None


def _grouped_mm(call: Call) -> Cost | None:
    """torch._grouped_mm: [M, K] by [G, K, N] (rows grouped), [G, M, K] by [K, N] (columns), 2-D by 2-D (K),
    3-D by 3-D (one by one).
    """
    a, b = call.tensor(0), call.tensor(1)
    if a is None or b is None or len(a.shape) not in (2, 3) or len(b.shape) not in (2, 3):
        return None
    if len(a.shape) == len(b.shape) == 3:
        return gemm_cost(Call("aten::bmm", (a, b)))
    flops, math = 2 * a.shape[-2] * a.shape[-1] * b.shape[-1], MATH.get(a.type)
    result = Tensor((a.shape[-2], b.shape[-1]), "c10::BFloat16" if a.bits == 8 else a.type)
    if len(a.shape) == len(b.shape) == 2:
        offsets = call.tensor(4 if "_scaled_" in call.op else 2)
        if offsets is None or not offsets.shape:
            return None
        return Cost.exact(flops, moved(a, b, result.like(*offsets.shape, *result.shape)), math=math)
    shared, grouped = (a, b) if len(b.shape) == 3 else (b, a)
    most = min(grouped.shape[0], shared.shape[0 if shared is a else 1])
    always, expert = moved(shared, result), grouped.like(*grouped.shape[1:]).bytes
    if always is None or expert is None:
        return Cost(flops, flops, None, None, math, a.shape[-2], note=ROUTING)
    return Cost(flops, flops, always + expert, always + most * expert, math, a.shape[-2], note=ROUTING)


def _routed_layer(call: Call) -> Cost | None:
    """Ops that take hidden [T, H], w1 [E, N1, H], w2 [E, H, I] and per-token choices [T, k], hidden first.

    A `stage1` or `stage2` op does one of the two products. With an expert map (expert parallel) a token may
    visit no expert of this rank.
    """
    cubes = [t for t in call.tensors if len(t.shape) == 3]
    hidden = next((t for t in call.tensors if len(t.shape) == 2 and not t.is_index), None)
    if len(cubes) < 2 or hidden is None:
        return None
    gate, down = cubes[0], cubes[1]
    (tokens, width), experts = hidden.shape, gate.shape[0]
    columns, inner = gate.shape[1], down.shape[2] * _values_per_item(gate, down)
    products, weights = {"1": columns * width, "2": inner * width}, {"1": gate, "2": down}
    stage = re.search(r"stage([12])", call.op)
    stages = stage[1] if stage else "12"
    size = moved(*(weights[at] for at in stages))
    choices = _choices(call, tokens, experts)
    mapped = any(t.is_index and len(t.shape) == 1 and t.numel > experts for t in call.tensors)
    layer = Layer(hidden, experts, 0 if mapped else choices or 1, choices or experts)
    visit = sum(products[at] for at in stages)
    expert = None if size is None else (size // experts, size // experts)
    return layer.cost((visit, visit), expert, columns + inner + width, ROUTING)


def _values_per_item(gate: Tensor, down: Tensor) -> int:
    """Two fp4 or int4 values share a byte: then w1 has four times as many rows as w2 has stored columns."""
    narrow = down.type in ("unsigned char", "c10::Float4_e2m1fn_x2")
    return 2 if narrow and gate.shape[1] >= 4 * down.shape[2] else 1


def _choices(call: Call, tokens: int, experts: int) -> int | None:
    """k, from the [T, k] tensor of chosen experts (integers) or of their weights (fp32)."""
    narrow = [t for t in call.tensors if len(t.shape) == 2 and t.shape[0] == tokens and t.shape[1] < experts]
    chosen = [t for t in narrow if t.is_index] or [t for t in narrow if t.type == "float"]
    return chosen[0].shape[1] if chosen else None


def _ogs_layer(call: Call) -> Cost | None:
    """A layer whose weights the op does not list (vLLM's `moe_forward` over triton_kernels).

    Dims have hidden and router logits only; the launches tell the rest. A grid has `tiles_m * tiles_n`
    blocks; the second product is as wide as the layer, so that tiles_m follows, and from it k, by
    triton_kernels' rule for the tiles that T*k rows over E experts can need. The first product's columns are
    known to one tile.
    """
    hidden, logits = call.tensor(0), call.tensor(1)
    found = [(kernel, match) for kernel in call.kernels if (match := _OGS.search(kernel.name))]
    if hidden is None or logits is None or len(found) != 2 or len(hidden.shape) != 2:
        return None
    (first, name1), (second, name2) = found
    width, experts, tile = hidden.shape[1], logits.shape[-1], int(name1["n"])
    tiles_m, rest2 = divmod(prod(second.grid), -(-width // int(name2["n"])))
    tiles_n, rest1 = divmod(prod(first.grid), tiles_m or 1)
    choices = _choices_by_tiles(hidden.shape[0], experts, int(name2["m"]), tiles_m)
    bits = _OGS_WEIGHT_BITS.get(name1["w"])
    if rest1 or rest2 or name1["m"] != name2["m"] or not choices or bits is None:
        return None
    gates = 2 if name1["swiglu"] else 1
    visit, visit_upper = (width * (n + n // gates) for n in ((tiles_n - 1) * tile + 1, tiles_n * tile))
    expert = int(visit * bits / 8), int(visit_upper * bits / 8)
    layer = Layer(hidden, experts, choices[0], choices[-1])
    note = f"{ROUTING}; widths from tile counts"
    return layer.cost((visit, visit_upper), expert, tiles_n * tile + width, note)


def _choices_by_tiles(tokens: int, experts: int, tile: int, tiles: int) -> list[int]:
    """Every k for which T*k rows over E experts take this many tiles at worst.

    Formula: triton_kernels, routing.py, `RoutingData.n_blocks`.
    """

    def most_tiles(rows: int) -> int:
        return rows if rows <= experts else -(-(rows - experts + 1) // tile) + experts - 1

    return [k for k in range(1, experts + 1) if most_tiles(tokens * k) == tiles]
