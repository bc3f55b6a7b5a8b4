"""Attention: 2*(Dk+Dv) FLOPs for each query head and each pair of query and key; keys and values read once.

What a graph replays on is decided at run time: how long the contexts are is in no dims. It comes from the
step's work aggregates, else from a stated context length, else it is bounded by one token and by what the
cache or the block table can hold.
"""

from __future__ import annotations

from dataclasses import dataclass

from shapescope.analyse.cost.model import MATH, Call, Cost, Tensor, moved
from shapescope.analyse.cost.work import Lengths

_DENSE = r"^aten::(scaled_dot_product_attention|_scaled_dot_product_\w+|_(flash|efficient)_attention_forward)$"
_BACKWARD = r"backward"
# vLLM's own list out, (sums, maxima, partial out,) query, key cache, value cache, .., block tables, ..: where
# the query and the tables are.
_PAGED = (
    (r"_C::paged_attention_v1$", 1, 6),
    (r"_C::paged_attention_v2$", 4, 9),
    (r"_rocm_C::paged_attention$", 4, 9),
)
_MLA = r"mla"
# The least and the most, where there is a most.
Bounds = tuple[int, int | None]


@dataclass(frozen=True, slots=True)
class Heads:
    """The sizes of one attention layer on one rank, and the bytes of query and result."""

    query: int
    kv: int
    key_size: int
    value_size: int
    kv_bits: int | None
    fixed_bytes: int | None
    math: str | None
    tokens: int
    shared: bool = False

    def cost(self, pairs: Bounds, keys: Bounds, note: str, *, real: bool = False) -> Cost:
        """A cost from (least, most) query-key pairs of one head and (least, most) KV tokens read."""
        per_pair = 2 * self.query * (self.key_size + self.value_size)
        stored = self.key_size if self.shared else self.key_size + self.value_size
        row = None if self.kv_bits is None else self.kv * stored * self.kv_bits // 8
        flops, flops_upper = (None if count is None else per_pair * count for count in pairs)
        lower, upper = (
            None if count is None or row is None or self.fixed_bytes is None else self.fixed_bytes + row * count
            for count in keys
        )
        return Cost(flops, flops_upper, lower, upper, self.math, self.tokens, note=note, real=real)


def attention_cost(call: Call) -> Cost | None:
    """The cost of an attention op; None where the op is none, or its operands cannot be told apart."""
    if call.matches(_BACKWARD):
        return None
    if call.matches(_DENSE):
        return _dense_cost(call)
    for pattern, query_at, table_at in _PAGED:
        if call.matches(pattern):
            return _vllm_paged(call, query_at, table_at)
    if call.kernel_class == "attention" or call.matches(r"attention|flash_attn|fmha|mla_decode|::fwd(_kvcache)?"):
        return _by_shapes(call)
    return None


def _dense_cost(call: Call) -> Cost | None:
    """Query [B, H, S, D], or [B, S, H, D] in the flash op; causal by torch's rule: row i sees keys 0..i."""
    q, k, v = (call.tensor(position) for position in range(3))
    if q is None or k is None or v is None or len(q.shape) != 4 or len(k.shape) != 4:
        return None
    heads_at, length_at = (2, 1) if call.matches(r"(flash|efficient)_attention_forward$") else (1, 2)
    queries, keys = q.shape[length_at], k.shape[length_at]
    full = queries * keys
    seen = min(queries, keys)
    triangle = seen * (seen + 1) // 2 + (queries - seen) * keys
    causal = _causal(call)
    batch = q.shape[0]
    per_pair = 2 * batch * q.shape[heads_at] * (q.shape[-1] + v.shape[-1])
    out = Tensor((*q.shape[:-1], v.shape[-1]), q.type)
    # Keys past the last query's are masked out and need not be read.
    used = keys if not causal or queries >= keys else queries
    kv = moved(k, v)
    lower = None if kv is None else kv * used // keys if keys else 0
    masks = [t for t in call.tensors[3:] if len(t.shape) > 1]
    fixed = moved(q, out, *masks)
    return Cost(
        per_pair * (triangle if causal else full),
        per_pair * full,
        None if fixed is None or lower is None else fixed + lower,
        None if fixed is None or kv is None else fixed + kv,
        MATH.get(q.type),
        batch * queries,
        note="causal: from half of the pairs, as needed, to all of them" if causal else None,
    )


def _causal(call: Call) -> bool:
    """The `is_causal` argument of each dense op."""
    position = {
        "scaled_dot_product_attention": 5,
        "_scaled_dot_product_flash_attention": 4,
        "_scaled_dot_product_flash_attention_for_cpu": 4,
        "_scaled_dot_product_efficient_attention": 6,
        "_scaled_dot_product_cudnn_attention": 6,
        "_scaled_dot_product_attention_math": 5,
        "_scaled_dot_product_fused_attention_overrideable": 5,
        "_flash_attention_forward": 8,
        "_efficient_attention_forward": 10,
    }.get(call.name)
    return position is not None and call.scalar(position) in ("True", "1")


def _vllm_paged(call: Call, query_at: int, table_at: int) -> Cost | None:
    """Key cache [blocks, Hkv, D/x, block, x], value cache [blocks, Hkv, D, block], block tables [B, ..]."""
    q, cache, table = call.tensor(query_at), call.tensor(query_at + 2), call.tensor(table_at)
    if q is None or cache is None or len(q.shape) != 3 or len(cache.shape) < 4:
        return None
    size = q.shape[2]
    heads = Heads(q.shape[1], cache.shape[1], size, size, cache.bits, moved(q, q), MATH.get(q.type), q.shape[0])
    page = cache.shape[-1]
    room = table.numel * page if table is not None else cache.shape[0] * page
    return _with_lengths(call, heads, min(room, cache.shape[0] * page * q.shape[0]))


def _by_shapes(call: Call) -> Cost | None:
    """Any other op: the query is the first [T, H, D]; caches have more dimensions and end in [.., Hkv, D]."""
    floats = [t for t in call.tensors if len(t.shape) >= 3 and not t.is_index]
    if len(floats) < 2:
        return None
    triples = [t for t in floats if len(t.shape) == 3]
    if call.matches(_MLA):
        return _mla_cost(call, floats)
    query = triples[0] if triples else floats[0]
    if len(query.shape) not in (3, 4):
        return None
    size, tokens = query.shape[-1], query.rows // query.shape[-2]
    paged = [t for t in floats if len(t.shape) >= 4 and t.shape[-1] == size and t is not query]
    new = [t for t in triples if t.shape != query.shape and t.shape[-1] == size]
    source = (paged or new or [t for t in triples if t is not query])[0:1]
    if not source:
        return None
    cache = source[0]
    heads = Heads(
        query.shape[-2],
        cache.shape[-2],
        size,
        size,
        cache.bits,
        moved(query, query),
        MATH.get(query.type),
        tokens,
    )
    return _with_lengths(call, heads, cache.rows // cache.shape[-2] if paged else None)


def _mla_cost(call: Call, floats: list[Tensor]) -> Cost | None:
    """Query [T, H, latent + rope], cache [.., 1, latent + rope], result [T, H, latent] where listed."""
    widest = max(t.shape[-1] for t in floats)
    query, *others = (t for t in floats if t.shape[-1] == widest)
    caches = [t for t in others if t.shape[-2] == 1]
    if not caches:
        return None
    cache = max(caches, key=lambda t: t.numel)
    results = [t for t in floats if t.shape[:-1] == query.shape[:-1] and t.shape[-1] < widest]
    # An op that returns its result takes the size of a value instead, such as 512 of 576.
    stated = [int(text) for text in call.concrete if text.isdigit() and widest // 2 < int(text) < widest]
    value_size = results[0].shape[-1] if results else stated[0] if stated else None
    if value_size is None:
        return None
    tokens = query.rows // query.shape[-2]
    fixed = moved(query, Tensor((*query.shape[:-1], value_size), query.type))
    math = MATH.get(query.type)
    heads = Heads(query.shape[-2], 1, widest, value_size, cache.bits, fixed, math, tokens, shared=True)
    return _with_lengths(call, heads, cache.rows)


def _with_lengths(call: Call, heads: Heads, capacity: int | None) -> Cost | None:
    """Query-key pairs and KV tokens of this call, from the best source that there is."""
    if call.work is not None:
        chosen = _lengths(call)
        pairs = [_pairs(lengths) for lengths in chosen]
        keys = [lengths.sk for lengths in chosen]
        if any(lengths.sq for lengths in chosen) and None not in pairs and None not in keys:
            total_keys = sum(key or 0 for key in keys)
            total_pairs = sum(pair or 0 for pair in pairs)
            note = "from the step's work aggregates, full attention assumed"
            return heads.cost((total_pairs, total_pairs), (total_keys, total_keys), note, real=True)
    tokens = heads.tokens
    if call.context_len is not None:
        keys_read = tokens * call.context_len
        return heads.cost((keys_read, keys_read), (keys_read, keys_read), f"context length {call.context_len}")
    if capacity is None:
        return heads.cost((tokens, None), (tokens, None), "context-unknown: one token or more")
    return heads.cost((tokens, tokens * capacity), (tokens, capacity), "context-unknown: one token to all of the cache")


def _lengths(call: Call) -> list[Lengths]:
    """Which part of the step this op serves: decode kernels the generation requests, prefill kernels the
    others.
    """
    assert call.work is not None
    context, generation = call.work.context, call.work.generation
    if call.matches(r"decode|paged_attention") and generation.sq:
        return [generation]
    if call.matches(r"prefill|extend|context") and context.sq:
        return [context]
    return [context, generation]


def _pairs(lengths: Lengths) -> int | None:
    """Causal query-key pairs: the last query of a request sees all its keys, each earlier one a key less."""
    if lengths.sqsk is None:
        return None
    if lengths.sqsq is None:
        return None if lengths.sq else 0
    return lengths.sqsk - (lengths.sqsq - lengths.sq) // 2
