"""FLOPs and bytes of every modelled op against a second count, on generated dims.

The second count is torch's FlopCounterMode and the sizes of its own tensors (on the meta device) where torch
has the op, a closed form elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from shapescope.analyse.cost import Cost, Kernel, op_cost, step_work

# Torch's first call of an op takes long; a deadline would judge that and not the code.
settings.register_profile("torch", deadline=None)
settings.load_profile("torch")

SPELLING = {
    torch.float32: "float",
    torch.bfloat16: "c10::BFloat16",
    torch.float16: "c10::Half",
    torch.float8_e4m3fn: "c10::Float8_e4m3fn",
    torch.int8: "signed char",
    torch.uint8: "unsigned char",
    torch.int32: "int",
    torch.int64: "long int",
    torch.bool: "bool",
}
BF16, FP8, INT, LONG, BYTE = "c10::BFloat16", "c10::Float8_e4m3fn", "int", "long int", "unsigned char"
small = st.integers(1, 40)
floats = st.sampled_from([torch.float32, torch.bfloat16, torch.float16])


def empty(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.empty(shape, device="meta", dtype=dtype)


def priced(op: str, *arguments: Any, **options: Any) -> Cost:
    """op_cost on torch tensors, described as a trace describes them."""
    dims = [list(a.shape) if isinstance(a, torch.Tensor) else [] for a in arguments]
    types = [SPELLING[a.dtype] if isinstance(a, torch.Tensor) else "Scalar" for a in arguments]
    concrete = ["" if isinstance(a, torch.Tensor) or a is None else str(a) for a in arguments]
    cost = op_cost(op, dims, types, concrete, **options)
    assert cost is not None
    return cost


def counted(function: Callable[..., Any], *arguments: Any) -> tuple[int, int]:
    """Torch's FLOPs, and the bytes of its inputs and (first) output."""
    with FlopCounterMode(display=False) as counter:
        result = function(*arguments)
    out = result[0] if isinstance(result, tuple) else result
    tensors = [a for a in (*arguments, out) if isinstance(a, torch.Tensor)]
    return counter.get_total_flops(), sum(t.numel() * t.element_size() for t in tensors)


def agree(cost: Cost, truth: tuple[int, int]) -> None:
    assert (cost.flops, cost.bytes) == truth
    assert (cost.flops_upper, cost.bytes_upper) == truth


@given(small, small, small, floats)
def test_plain_products_agree_with_torch(m: int, n: int, k: int, dtype: torch.dtype) -> None:
    a, b, bias = empty(m, k, dtype=dtype), empty(k, n, dtype=dtype), empty(n, dtype=dtype)
    agree(priced("aten::mm", a, b), counted(torch.mm, a, b))
    agree(priced("aten::addmm", bias, a, b, 1, 1), counted(torch.addmm, bias, a, b))
    weight = empty(n, k, dtype=dtype)
    truth = counted(torch.nn.functional.linear, a, weight, bias)
    for op in ("aten::linear", "vllm::rocm_unquantized_gemm", "aiter::gemm_a16w16"):
        agree(priced(op, a, weight, bias), truth)


@given(small, small, small, small, st.integers(1, 4))
def test_batched_products_agree_with_torch(batch: int, m: int, n: int, k: int, lead: int) -> None:
    a, b, bias = empty(batch, m, k), empty(batch, k, n), empty(batch, m, n)
    agree(priced("aten::bmm", a, b), counted(torch.bmm, a, b))
    agree(priced("aten::baddbmm", bias, a, b, 1, 1), counted(torch.baddbmm, bias, a, b))
    # Broadcasting: torch may copy the smaller operand, which is no traffic that an implementation needs.
    for left, right in ((empty(lead, batch, m, k), b), (a, empty(k, n)), (empty(lead, 1, m, k), b)):
        agree(priced("aten::matmul", left, right), counted(torch.matmul, left, right))


@given(small, small, small)
def test_an_out_tensor_is_the_result_and_not_one_more_operand(m: int, n: int, k: int) -> None:
    a, b, out, bias = empty(m, k), empty(k, n), empty(m, n), empty(m, n)
    assert priced("aten::mm", a, b, out) == priced("aten::mm", a, b)
    assert priced("aten::addmm", bias, a, b, 1, 1, out) == priced("aten::addmm", bias, a, b, 1, 1)


@given(st.integers(1, 20), st.integers(1, 20), st.integers(1, 20))
def test_scaled_products_agree_with_torch(m: int, n: int, k: int) -> None:
    a, b = empty(m, 16 * k, dtype=torch.float8_e4m3fn), empty(16 * n, 16 * k, dtype=torch.float8_e4m3fn).t()
    scale = empty(dtype=torch.float32)
    flops, _ = counted(lambda: torch._scaled_mm(a, b, scale, scale, out_dtype=torch.bfloat16))
    cost = priced("aten::_scaled_mm", a, b, scale, scale, None, None, 15, False)
    assert cost.flops == flops
    assert cost.bytes == 16 * m * k + 256 * n * k + 2 * m * 16 * n + 8
    assert cost.math == "fp8"
    out, scales = empty(m, 16 * n), empty(m, 1, dtype=torch.float32)
    library = priced("_C::cutlass_scaled_mm", out, a, b, scales, scale, None)
    assert library.flops == flops
    assert library.bytes == cost.bytes - 4 + 4 * m


@given(small, st.integers(1, 20), st.integers(1, 20))
def test_packed_weights_are_unpacked(m: int, n: int, k: int) -> None:
    columns, inner = 8 * n, 32 * k
    a, scales = empty(m, inner), empty(k, columns)
    flops, traffic = 2 * m * columns * inner, 2 * m * inner + inner * columns // 2 + 2 * m * columns
    awq = empty(inner, n, dtype=torch.int32)
    gptq = empty(inner // 8, columns, dtype=torch.int32)
    zeros = empty(k, n, dtype=torch.int32)
    assert priced("_C::awq_gemm", a, awq, scales, zeros, 8).flops == flops
    assert priced("_C::awq_gemm", a, awq, scales, zeros, 8).bytes == traffic + 2 * k * columns
    assert priced("_C::gptq_gemm", a, gptq, zeros, scales, None, True, 4).flops == flops
    tiles = empty(inner // 16, columns * 2, dtype=torch.int32)
    assert priced("_C::gptq_marlin_gemm", a, None, tiles, None, scales).flops == flops
    cpu = empty(columns, inner // 2, dtype=torch.uint8)
    assert priced("aten::_weight_int4pack_mm_for_cpu", a, cpu, 32, scales).flops == flops


@given(small, small, small)
def test_fp4_operands_hold_two_values_a_byte(m: int, n: int, k: int) -> None:
    a, b, out = empty(m, k, dtype=torch.uint8), empty(n, k, dtype=torch.uint8), empty(m, n)
    cost = priced("_C::cutlass_scaled_fp4_mm", out, a, b)
    assert cost.flops == 2 * m * n * 2 * k
    assert cost.bytes == m * k + n * k + 2 * m * n
    assert cost.math == "fp4"
    assert priced("aiter::gemm_a4w4", a, b).flops == cost.flops
    typed = op_cost("aten::_scaled_mm", [[m, k], [k, n]], ["c10::Float4_e2m1fn_x2"] * 2)
    assert typed is not None
    assert typed.flops == cost.flops


@pytest.mark.parametrize(("op", "causal_at"), [("flash", 4), ("efficient", 6), ("cudnn", 6)])
@given(batch=st.integers(1, 3), heads=st.integers(1, 4), queries=small, keys=small, size=st.integers(1, 16))
@settings(max_examples=20)
def test_dense_attention_agrees_with_torch(
    op: str, causal_at: int, batch: int, heads: int, queries: int, keys: int, size: int
) -> None:
    q, k, v = (empty(batch, heads, length, size) for length in (queries, keys, keys))
    function = getattr(torch.ops.aten, f"_scaled_dot_product_{op}_attention")
    rest = () if op == "flash" else (None, False)
    truth = counted(lambda *_: function(q, k, v, *rest), q, k, v)
    name = f"aten::_scaled_dot_product_{op}_attention"
    padding = [None] * (causal_at - 3)
    agree(priced(name, q, k, v, *padding, False), truth)
    causal = priced(name, q, k, v, *padding, True)
    assert causal.flops_upper == truth[0]
    seen = sum(min(row + 1, keys) for row in range(queries))
    assert causal.flops == 4 * batch * heads * seen * size


@given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 4), small, small, st.integers(1, 16))
def test_grouped_query_attention_reads_fewer_keys(
    batch: int, groups: int, kv: int, queries: int, keys: int, size: int
) -> None:
    q = empty(batch, kv * groups, queries, size)
    k = v = empty(batch, kv, keys, size)
    cost = priced("aten::scaled_dot_product_attention", q, k, v, None, 0.0, False)
    assert cost.flops == 4 * batch * kv * groups * queries * keys * size
    assert cost.bytes == 2 * (2 * q.numel() + 2 * k.numel())
    flipped = priced("aten::_flash_attention_forward", *(t.transpose(1, 2) for t in (q, k, v)))
    assert (flipped.flops, flipped.bytes) == (cost.flops, cost.bytes)


lengths = st.lists(st.tuples(st.integers(1, 30), st.integers(0, 50)), min_size=1, max_size=6)


@given(
    lengths,
    st.lists(st.integers(1, 90), max_size=6),
    st.integers(1, 4),
    st.integers(1, 3),
    st.integers(1, 16),
)
def test_paged_attention_from_the_step_equals_a_count_by_request(
    context: list[tuple[int, int]], generation: list[int], kv: int, groups: int, size: int
) -> None:
    requests = [(new, new + old) for new, old in context] + [(1, keys) for keys in generation]
    sums = [_sums([(n, n + old) for n, old in context]), _sums([(1, keys) for keys in generation])]
    work = step_work("execute_9_context_1({})_generation_1({})".format(*sums))
    tokens = sum(new for new, _ in requests)
    query, fresh = [tokens, kv * groups, size], [tokens, kv, size]
    cost = op_cost("vllm::unified_attention_with_output", [query, fresh, fresh, query], [BF16] * 4, work=work)
    assert cost is not None
    pairs = sum(sum(keys - new + row + 1 for row in range(new)) for new, keys in requests)
    assert cost.flops == cost.flops_upper == 4 * kv * groups * size * pairs
    read = sum(keys for _, keys in requests)
    assert cost.bytes == 2 * (2 * tokens * kv * groups * size + 2 * read * kv * size)


def _sums(requests: list[tuple[int, int]]) -> str:
    parts = (sum(q for q, _ in requests), sum(k for _, k in requests), sum(q * q for q, _ in requests))
    return "sq{}sk{}sqsq{}sqsk{}".format(*parts, sum(q * k for q, k in requests))


@given(st.integers(1, 32), st.integers(1, 400), st.integers(1, 8), st.integers(1, 8))
def test_decode_attention_is_bounded_by_the_cache_until_the_context_is_known(
    batch: int, context: int, kv: int, groups: int
) -> None:
    pages, page, size = 500, 16, 64
    query, cache = [batch, kv * groups, size], [pages, page, kv, size]
    dims, types = [query, cache, cache, [batch, pages]], [BF16, BF16, BF16, INT]
    bounds = op_cost("my::decode_attention", dims, types, kernel_class="attention")
    exact = op_cost("my::decode_attention", dims, types, kernel_class="attention", context_len=context)
    assert bounds is not None and exact is not None
    assert exact.flops == 4 * batch * context * kv * groups * size
    assert exact.bytes == 2 * (2 * batch * kv * groups * size + 2 * batch * context * kv * size)
    assert (bounds.flops or 0) <= exact.flops <= (bounds.flops_upper or 0)
    assert bounds.note is not None and "context-unknown" in bounds.note


def test_vllm_paged_attention_reads_the_heads_from_the_blocked_key_cache() -> None:
    dims: list[object] = [
        [4, 32, 128],
        [4, 32, 128],
        [100, 8, 16, 16, 8],
        [100, 8, 128, 16],
        [],
        [],
        [4, 20],
        [4],
    ]
    types = [BF16, BF16, BF16, BF16, "Scalar", "Scalar", INT, INT]
    cost = op_cost("_C::paged_attention_v1", dims, types, context_len=7)
    assert cost is not None
    assert cost.flops == 4 * 4 * 7 * 32 * 128
    assert cost.bytes == 2 * (2 * 4 * 32 * 128 + 2 * 4 * 7 * 8 * 128)


@given(st.integers(1, 16), st.integers(1, 128), st.integers(1, 300))
def test_mla_decode_reads_one_latent_row_a_token(batch: int, heads: int, context: int) -> None:
    dims = [[batch, heads, 576], [1000, 1, 1, 576], [batch, heads, 512], [batch + 1]]
    cost = op_cost("aiter::mla_decode_fwd", dims, [BF16, BF16, BF16, INT], context_len=context)
    assert cost is not None
    assert cost.flops == 2 * batch * context * heads * (576 + 512)
    assert cost.bytes == 2 * (batch * heads * (576 + 512) + batch * context * 576)


@given(st.integers(1, 64), st.integers(1, 8), st.integers(1, 16), st.integers(1, 16))
def test_grouped_product_counts_every_row_once(rows: int, groups: int, k: int, n: int) -> None:
    a, b, offsets = empty(rows, k), empty(groups, k, n), empty(groups, dtype=torch.int32)
    cost = priced("aten::_grouped_mm", a, b, offsets)
    assert cost.flops == cost.flops_upper == sum(2 * k * n for _ in range(rows))
    fixed = 2 * (rows * k + rows * n)
    assert (cost.bytes, cost.bytes_upper) == (fixed + 2 * k * n, fixed + 2 * k * n * min(groups, rows))


@given(st.integers(1, 64), st.integers(2, 16), st.integers(1, 8), st.integers(1, 8), st.data())
def test_expert_layer_lies_within_its_bounds_for_any_routing(
    tokens: int, experts: int, width: int, inner: int, data: st.DataObject
) -> None:
    width, k = 16 * width, data.draw(st.integers(1, experts - 1))
    routes = data.draw(st.lists(st.permutations(range(experts)).map(lambda p: p[:k]), min_size=tokens, max_size=tokens))
    hidden, w1, w2 = empty(tokens, width), empty(experts, 2 * inner, width), empty(experts, width, inner)
    chosen = empty(tokens, k, dtype=torch.float32), empty(tokens, k, dtype=torch.int32)
    cost = priced("vllm::outplace_fused_experts", hidden, w1, w2, *chosen)
    visits = sum(len(route) for route in routes)
    assert cost.flops == cost.flops_upper == visits * (2 * width * 2 * inner + 2 * inner * width)
    touched = len({expert for route in routes for expert in route})
    truth = 2 * (2 * tokens * width + touched * 3 * inner * width)
    assert (cost.bytes or 0) <= truth <= (cost.bytes_upper or 0)
    packed = (
        w1.new_empty(experts, 2 * inner, width // 2, dtype=torch.uint8),
        w2.new_empty(experts, width, inner // 2, dtype=torch.uint8),
    )
    if inner % 2 == 0:
        assert priced("vllm::fused_moe", hidden, *packed, *chosen).flops == cost.flops


@given(st.integers(1, 4000), st.integers(2, 64), st.integers(1, 30), st.integers(1, 30), st.data())
def test_expert_layer_without_listed_weights_is_bounded_by_its_launches(
    tokens: int, experts: int, width: int, inner: int, data: st.DataObject
) -> None:
    k = data.draw(st.integers(1, min(experts, 8)))
    width, inner, rows = 32 * width, 32 * inner, tokens * k
    tiles_m = rows if rows <= experts else -(-(rows - experts + 1) // 128) + experts - 1
    grids = [tiles_m * -(-2 * inner // 128), tiles_m * -(-width // 128)]
    names = [
        "_matmul_ogs_NNT_bf16xbf16xmxfp4_128x128x128x1_swiglu",
        "_matmul_ogs_NNT_bf16xbf16xmxfp4_128x128x128x1",
    ]
    kernels = [Kernel(name, (grid, 1, 1)) for name, grid in zip(names, grids, strict=True)]
    dims, types = [[tokens, width], [tokens, experts], []], [BF16, BF16, ""]
    cost = op_cost("vllm::moe_forward", dims, types, kernels=kernels)
    assert cost is not None and cost.flops is not None and cost.flops_upper is not None
    assert cost.flops <= 2 * rows * width * 3 * inner <= cost.flops_upper
    assert cost.note is not None and "routing-unknown" in cost.note


@given(small, small, floats)
def test_norms_read_and_write_each_stream_once(rows: int, size: int, dtype: torch.dtype) -> None:
    x, w = empty(rows, size, dtype=dtype), empty(size, dtype=dtype)
    functional = torch.nn.functional.layer_norm
    _, traffic = counted(lambda x, w, b: functional(x, (size,), w, b), x, w, w)
    assert priced("aten::native_layer_norm", x, None, w, w, 1e-5).bytes == traffic
    _, traffic = counted(lambda x, w: torch.nn.functional.rms_norm(x, (size,), w), x, w)
    for listed in ((x, w), (x, x, w)):
        cost = priced("lib::rmsnorm", *listed, 1e-6)
        assert (cost.flops, cost.bytes) == (4 * rows * size, traffic)
    for listed in ((x, x, w), (x, x, x, x, w)):
        cost = priced("lib::fused_add_rms_norm", *listed, 1e-6)
        assert (cost.flops, cost.bytes) == (5 * rows * size, (4 * rows * size + size) * x.element_size())


@given(small, small, st.booleans())
def test_gated_activation_halves_its_input(rows: int, size: int, listed: bool) -> None:
    x, out = empty(rows, 2 * size), empty(rows, size)
    cost = priced("sgl_kernel::silu_and_mul", *((out, x) if listed else (x,)))
    assert (cost.flops, cost.bytes) == (5 * rows * size, 2 * 3 * rows * size)


@given(small, st.integers(1, 8), st.integers(1, 8), st.sampled_from([32, 64]), st.sampled_from([32, 64]))
def test_rotary_turns_the_rotated_part_in_place(tokens: int, heads: int, kv: int, head: int, rotated: int) -> None:
    rotated = min(rotated, head)
    q, k = empty(tokens, heads * head), empty(tokens, kv * head)
    table, positions = empty(5000, rotated), empty(tokens, dtype=torch.int64)
    cost = priced("_C::rotary_embedding", positions, q, k, head, table, True)
    turned = tokens * (heads + kv) * rotated
    assert cost.flops == turned // 2 * 6
    assert cost.bytes == 8 * tokens + 2 * tokens * rotated + 2 * 2 * turned


UNARY = ["neg", "exp", "rsqrt", "sin", "relu", "silu", "tanh", "abs"]
BINARY = ["add", "mul", "sub", "div", "maximum", "eq", "lt", "pow"]


@given(st.sampled_from(UNARY), small, small, floats)
def test_unary_ops_agree_with_torchs_sizes(name: str, rows: int, size: int, dtype: torch.dtype) -> None:
    x = empty(rows, size, dtype=dtype)
    function = torch.nn.functional.silu if name == "silu" else getattr(torch, name)
    _, traffic = counted(function, x)
    cost = priced(f"aten::{name}", x)
    assert (cost.flops, cost.bytes) == ((4 if name == "silu" else 1) * rows * size, traffic)
    assert priced(f"aten::{name}_", x).bytes == traffic


@given(st.sampled_from(BINARY), small, small, st.booleans(), st.booleans(), floats, floats)
def test_binary_ops_broadcast_and_promote_like_torch(
    name: str, rows: int, size: int, column: bool, row: bool, left: torch.dtype, right: torch.dtype
) -> None:
    a = empty(rows, 1 if column else size, dtype=left)
    b = empty(1 if row else rows, size, dtype=right)
    if {left, right} == {torch.bfloat16, torch.float16}:
        b = b.to(left)
    _, traffic = counted(getattr(torch, name), a, b)
    cost = priced(f"aten::{name}", a, b, 1)
    assert (cost.flops, cost.bytes) == (rows * size, traffic)


@given(st.sampled_from(["sum", "mean", "amax", "argmax", "any"]), small, small, st.sampled_from([None, -1, 0]))
def test_reductions_agree_with_torchs_sizes(name: str, rows: int, size: int, dim: int | None) -> None:
    x = empty(rows, size, dtype=torch.bool if name == "any" else torch.float32)
    function = getattr(torch, name)
    _, traffic = counted(function, x) if dim is None else counted(lambda x: function(x, dim=dim), x)
    cost = priced(f"aten::{name}", x, "[]" if dim is None else f"[{dim}]", False)
    assert (cost.flops, cost.bytes) == (rows * size, traffic)


@given(small, small, st.integers(1, 60), floats)
def test_moves_agree_with_torchs_sizes(rows: int, size: int, table: int, dtype: torch.dtype) -> None:
    x, index = empty(rows, size, dtype=dtype), empty(rows, dtype=torch.int64)
    weight = empty(table, size, dtype=dtype)
    assert priced("aten::copy_", empty(rows, size, dtype=torch.float32), x).bytes == rows * size * (
        4 + x.element_size()
    )
    assert priced("aten::clone", x).bytes == 2 * x.numel() * x.element_size()
    assert priced("aten::fill_", x, 0).bytes == x.numel() * x.element_size()
    assert priced("aten::_softmax", x, -1, False).bytes == 2 * x.numel() * x.element_size()
    gathered = torch.nn.functional.embedding(index, weight)
    traffic = 2 * gathered.numel() * gathered.element_size() + 8 * rows
    assert priced("aten::embedding", weight, index).bytes == traffic
    assert priced("aten::index_select", weight, 0, index).bytes == traffic
    wide = empty(rows, size, dtype=torch.int64)
    cost = priced("aten::gather", weight, 0, wide, False, x)
    assert (cost.bytes, cost.bytes_upper) == (traffic, traffic - 8 * rows + 8 * rows * size)
    values = torch.topk(x, min(3, size))
    assert priced("aten::topk", x, min(3, size), -1).bytes == sum(t.numel() * t.element_size() for t in (x, *values))


@given(small, st.integers(1, 8), st.sampled_from([torch.bfloat16, torch.uint8]))
def test_cache_writes_cost_the_new_rows_not_the_cache(tokens: int, heads: int, kept: torch.dtype) -> None:
    fresh, cache = empty(tokens, heads, 64), empty(7001, 16, heads, 64, dtype=kept)
    cost = priced("_C_cache_ops::reshape_and_cache_flash", fresh, fresh, cache, cache, empty(tokens, dtype=torch.int64))
    assert cost.bytes == 8 * tokens + 2 * fresh.numel() * (2 + cache.element_size())


@given(small, small)
def test_collectives_are_messages_without_a_roof(rows: int, size: int) -> None:
    message = empty(rows, size)
    cost = priced("symm_mem::multimem_all_reduce_", message, None, None)
    assert (cost.flops, cost.bytes) == (0, 2 * rows * size)
    assert "algorithm bandwidth" in cost.basis
    gathered = priced("c10d::_allgather_base_", empty(4 * rows, size), message)
    assert gathered.bytes == 4 * cost.bytes


def test_a_table_beside_an_index_may_be_read_in_part() -> None:
    dims = [[8192], [201088, 2880], [131072, 64], [8192, 2880], [131072, 64]]
    cost = op_cost("triton_poi_fused_0", dims, [INT, BF16, "float", BF16, BF16])
    assert cost is not None
    assert cost.bytes == 8192 * 4 + 2 * (8192 * 2880 * 2) + 8192 * 64 * (4 + 2)
    assert cost.bytes_upper == 8192 * 4 + 2 * 2880 * (201088 + 8192) + 131072 * 64 * (4 + 2)
    assert cost.flops is None


@pytest.mark.parametrize(
    ("op", "dims", "types"),
    [
        ("aten::mm", [[4, 5], [6, 7]], [BF16, BF16]),
        ("vllm::moe_forward", [[888, 3072], [888, 128], []], [BF16, BF16, ""]),
        ("my::secret", [[4, 5]], [BF16]),
        ("aten::view", [[4, 5], []], [BF16, "ScalarList"]),
    ],
)
def test_what_the_dims_do_not_tell_has_no_cost(op: str, dims: list[object], types: list[str]) -> None:
    assert op_cost(op, dims, types) is None


def test_unknown_element_types_leave_bytes_unknown_and_flops_known() -> None:
    cost = op_cost("aten::mm", [[2, 3], [3, 4]], [])
    assert cost is not None
    assert (cost.flops, cost.bytes, cost.bytes_upper) == (48, None, None)
    cat = op_cost("aten::cat", [[[1, 5], [1, 5]], []], ["TensorList", "Scalar"])
    assert cat is not None
    assert (cat.flops, cat.bytes) == (0, None)


@pytest.mark.parametrize(
    ("span", "context", "generation"),
    [
        ("step[DECODE bs=64 g_sqsq=64 g_sqsk=100032 g_sk=100032]", (0, 0, 0, 0), (64, 100032, 64, 100032)),
        (
            "step[EXTEND bs=1 toks=1025 c_sqsq=1050625 c_sqsk=1050625 c_sk=1025]",
            (1025, 1025, 1050625, 1050625),
            None,
        ),
        (
            "step[MIXED bs=66 c=2 g=64 c_sq=2048 c_sk=2100 g_sq=64 g_sk=640]",
            (2048, 2100, None, None),
            (64, 640, None, 640),
        ),
        (
            "execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk32785sqsq32sqsk32785)",
            (0, 0, 0, 0),
            (32, 32785, 32, 32785),
        ),
    ],
)
def test_every_dialect_of_work_aggregates(span: str, context: Any, generation: Any) -> None:
    work = step_work(span)
    assert work is not None
    for lengths, expected in ((work.context, context), (work.generation, generation or (0, 0, 0, 0))):
        assert (lengths.sq, lengths.sk, lengths.sqsq, lengths.sqsk) == expected


@pytest.mark.parametrize("span", [None, "", "step[DECODE bs=32]", "decode[bs=117/128 tok=117 d=117]"])
def test_spans_without_aggregates_say_nothing(span: str | None) -> None:
    assert step_work(span) is None
