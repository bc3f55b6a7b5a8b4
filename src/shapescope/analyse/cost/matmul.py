"""Matrix products: plain, batched, scaled, with packed low-precision weights. 2*M*N*K, biases not counted."""

from __future__ import annotations

from math import prod

from shapescope.analyse.cost.model import MATH, SCALAR_TYPES, Call, Cost, Tensor, moved

# (pattern, position of A, position of B, layout of B, position of the result or None). A is [.., K]; B is
# [.., K, N] in layout `nn` and [N, K] in layout `nt`. Bias, scales and an `out=` tensor follow from the dims.
_SIGNATURES = (
    (r"^aten::(mm|bmm|matmul|_int_mm|dot|mv|vdot)$", 0, 1, "nn", None),
    (r"^aten::(addmm|addmm_|baddbmm|baddbmm_|addmv|_addmm_activation)$", 1, 2, "nn", None),
    (r"^aten::linear$", 0, 1, "nt", None),
    (r"^aten::_scaled_mm$", 0, 1, "nn", None),
    (r"::cutlass_scaled_mm$", 1, 2, "nn", 0),
    (r"::cutlass_scaled_fp4_mm$", 1, 2, "nt", 0),
    (r"::(fp8|int8)_scaled_mm$", 0, 1, "nn", None),
    (r"^aiter::hipb_mm$", 0, 1, "nn", None),
    (r"^aiter::gemm_a\d+w\d+", 0, 1, "nt", None),
    (r"rocm_unquantized_gemm(_impl)?$", 0, 1, "nt", None),
    (r"::(wvSplitK\w*|LLMM1)$", 1, 0, "nt", None),
    (r"::\w*(block_fp8|w8a8_block|deep_gemm_fp8|fp8_gemm_nt)\w*$", 0, 1, "nt", None),
)
# Weights of fewer bits than their storage: (pattern, positions of B and of the scales, bits of a weight or
# None).
_PACKED = (
    (r"::_weight_int4pack_mm\w*$", 1, 3, 4),
    (r"::_weight_int8pack_mm$", 1, 2, 8),
    (r"::awq_gemm\w*$", 1, 2, 4),
    (r"::gptq_gemm$", 1, 3, None),
    (r"::(gptq_)?marlin_gemm$", 2, 4, None),
    (r"::machete_mm$", 1, 3, None),
)


def gemm_cost(call: Call) -> Cost | None:
    """The cost of a matrix product, None where the op is none or its dims do not fit together."""
    for pattern, b_at, scale_at, bits in _PACKED:
        if call.matches(pattern):
            return _packed_cost(call, b_at, scale_at, bits)
    for pattern, a_at, b_at, layout, out_at in _SIGNATURES:
        if call.matches(pattern):
            return _product_cost(call, a_at, b_at, layout, out_at)
    return None


def _product_cost(call: Call, a_at: int, b_at: int, layout: str, out_at: int | None) -> Cost | None:
    a, b = call.tensor(a_at), call.tensor(b_at)
    result = None if a is None or b is None or not a.shape or not b.shape else _result_shape(a, b, layout)
    if a is None or result is None:
        return None
    if out_at is None:
        after = range(max(a_at, b_at) + 1, len(call.arguments))
        out_at = next((at for at in after if (t := call.tensor(at)) is not None and t.shape == result), None)
    out = None if out_at is None else call.tensor(out_at)
    others = [call.tensor(at) for at in range(len(call.arguments)) if at != out_at]
    values = _values_per_item(call, a)
    return Cost.exact(
        2 * prod(result) * a.shape[-1] * values,
        moved(Tensor(result, _result_type(call, a, out)), *others),
        math="fp4" if values == 2 else MATH.get(a.type),
        rows=prod(result[:-1]),
    )


def _result_shape(a: Tensor, b: Tensor, layout: str) -> tuple[int, ...] | None:
    """By torch.matmul's rules: 1-D operands lose their dimension, leading ones broadcast. None: no fit."""
    if layout == "nt":
        if a.shape[-1] != b.shape[-1]:
            return None
        return (*a.shape[:-1], *b.shape[:-1])
    if a.shape[-1] != b.shape[-2 if len(b.shape) > 1 else -1]:
        return None
    columns = b.shape[-1:] if len(b.shape) > 1 else ()
    lead = broadcast(a.shape[:-2], b.shape[:-2])
    return None if lead is None else (*lead, *a.shape[-2:-1], *columns)


def broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...] | None:
    """The common shape of several, by torch's rule; None where there is none."""
    rank = max((len(shape) for shape in shapes), default=0)
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    common = tuple(max(sizes) if min(sizes) else 0 for sizes in zip(*padded, strict=True))
    fits = all(size in (1, full) for shape in padded for size, full in zip(shape, common, strict=True))
    return common if fits else None


def _values_per_item(call: Call, a: Tensor) -> int:
    """Two fp4 values share a byte, either by type or, in uint8 storage, by the op's name."""
    by_name = a.type == "unsigned char" and call.matches(r"fp4|a4w4")
    return 2 if a.type == "c10::Float4_e2m1fn_x2" or by_name else 1


def _result_type(call: Call, a: Tensor, out: Tensor | None) -> str:
    """As given, as asked for by a dtype argument, else the operand's type; 8-bit operands give 16 bits."""
    if out is not None and out.type:
        return out.type
    if call.op == "aten::_scaled_mm" and (asked := SCALAR_TYPES.get(call.scalar(6))):
        return asked
    if call.op == "aten::_int_mm":
        return "int"
    if a.bits == 8 and a.type:
        return "c10::BFloat16"
    return a.type


def _packed_cost(call: Call, b_at: int, scale_at: int, bits: int | None) -> Cost | None:
    """Weights stored several to an item, in a layout of the library's own: N follows from their number.

    Where neither the op's name nor the scales ([groups, N]) tell the bits of a weight, nothing is said.
    """
    a, b, scales = call.tensor(0), call.tensor(b_at), call.tensor(scale_at)
    if a is None or b is None or b.bits is None or not a.shape:
        return None
    inner = a.shape[-1]
    if bits is not None:
        columns, rest = divmod(b.numel * b.bits, bits * inner)
    else:
        columns, rest = (scales.shape[-1], 0) if scales is not None and scales.shape else (0, 1)
    if rest or not columns:
        return None
    written = Tensor((*a.shape[:-1], columns), a.type)
    moved_bytes = moved(a, b, scales, written)
    return Cost.exact(2 * written.numel * inner, moved_bytes, math=MATH.get(a.type), rows=written.rows)
