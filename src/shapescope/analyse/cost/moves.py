"""Ops that only move data: copies, fills, gathers, scatters, cache writes, top-k; and costs by class."""

from __future__ import annotations

import re
from collections.abc import Callable
from math import prod

from shapescope.analyse.cost.model import Call, Cost, Tensor, moved

# Classes whose kernels touch each operand about once, whatever the op is called.
_STREAMING = (
    r"^(norm|activation|rope|elementwise|copy|fill|softmax|reduction|quant|embedding|scatter|moe_routing|"
    r"sampling|sort|scan)$"
)


def moves_cost(call: Call) -> Cost | None:
    """The cost of a data movement; None where the op is none."""
    for pattern, model in _MODELS:
        if call.matches(pattern):
            return model(call)
    return None


def streaming_cost(call: Call) -> Cost | None:
    """By the kernel's class alone: each operand moved once, arithmetic unknown.

    With an index among the operands a table may be read in part: at least the rows that the index can name.
    """
    by_class = re.match(_STREAMING, call.kernel_class or "")
    if not by_class and not call.matches(r"^triton_(poi|red|per)_"):
        return None
    tensors = call.tensors
    if not tensors:
        return None
    named = max((t.numel for t in tensors if t.is_index), default=None)
    least = [_part(t, named) for t in tensors]
    return Cost(None, None, moved(*least), moved(*tensors), None, _leading(tensors[0]), note="by kernel class")


def _part(tensor: Tensor, named: int | None) -> Tensor:
    """As many rows of a table as an index of this size can name."""
    if named is None or len(tensor.shape) < 2 or tensor.rows <= named:
        return tensor
    return tensor.like(named, tensor.shape[-1])


def _leading(tensor: Tensor) -> int | None:
    return tensor.shape[0] if tensor.shape else None


def _fill(call: Call) -> Cost | None:
    written = call.tensor(0)
    return None if written is None else Cost.exact(0, moved(written), rows=_leading(written))


def _copy(call: Call) -> Cost | None:
    """copy_(to, from) reads the second and writes the first; the others write what they read."""
    tensors = call.tensors
    if not tensors:
        return None
    if call.name == "copy_":
        target, source = call.tensor(0), call.tensor(1)
        if target is None or source is None:
            return None
        return Cost.exact(0, moved(target, source), rows=_leading(target))
    if call.name == "_foreach_copy_":
        return Cost.exact(0, moved(*tensors))
    size = moved(*tensors)
    return Cost.exact(0, None if size is None else 2 * size, rows=_leading(tensors[0]))


def _gather(call: Call) -> Cost | None:
    """Rows or elements of a table by an index: what is gathered is read and written; `gather`'s index may be
    a view.

    The bounds of `gather`: an index that was expanded along its last dimension holds one entry a row.
    """
    table = call.tensor(0)
    index = next((t for t in call.tensors[1:] if t.is_index), None)
    if table is None or index is None or not table.shape:
        return None
    if call.name == "gather":
        taken, least = table.like(*index.shape), index.like(max(index.rows, 1))
        traffic = moved(taken, taken)
        lower, upper = moved(least), moved(index)
        if traffic is None or lower is None or upper is None:
            return None
        return Cost(0, 0, traffic + lower, traffic + upper, None, _leading(index))
    axis = int(call.scalar(1) or 0) if call.name == "index_select" else 0
    rest = prod(table.shape) // table.shape[axis] if table.shape[axis] else 0
    taken = table.like(index.numel, rest)
    return Cost.exact(0, moved(taken, taken, index), rows=index.numel)


def _scatter(call: Call) -> Cost | None:
    """Writes the values' elements into a table: values read, as many written (and read, when added), index
    read.
    """
    table = call.tensor(0)
    values = [t for t in call.tensors[1:] if not t.is_index and t.type]
    indices = [t for t in call.tensors[1:] if t.is_index]
    if table is None or not values:
        return None
    written = table.like(*values[-1].shape)
    again = written if call.matches(r"add") else None
    return Cost.exact(0, moved(values[-1], written, again, *indices), rows=_leading(values[-1]))


def _cache_write(call: Call) -> Cost | None:
    """New keys and values [T, ..] into their slots [T]: read once, written once at the width of the cache."""
    slots = next((t for t in call.tensors if t.is_index), None)
    if slots is None:
        return None
    fresh = [t for t in call.tensors if not t.is_index and len(t.shape) > 1 and t.shape[0] == slots.numel]
    caches = [t for t in call.tensors if not t.is_index and len(t.shape) > 1 and t.shape[0] != slots.numel]
    if not fresh or not caches:
        return None
    written = [Tensor(t.shape, caches[0].type) for t in fresh]
    return Cost.exact(0, moved(slots, *fresh, *written), rows=slots.numel)


def _topk(call: Call) -> Cost | None:
    """Reads all, writes values and their int64 positions; comparisons are not FLOPs."""
    x = call.tensor(0)
    if x is None:
        return None
    kept = int(call.scalar(1)) * x.rows if call.name == "topk" and call.scalar(1).isdigit() else x.numel
    return Cost.exact(0, moved(x, x.like(kept), Tensor((kept,), "long int")), rows=x.rows)


_MODELS: tuple[tuple[str, Callable[[Call], Cost | None]], ...] = (
    (r"^aten::(copy_|clone|contiguous|_to_copy|cat|stack|_foreach_copy_|flip|roll)$", _copy),
    (r"^aten::(fill_|zero_|(zeros|ones|full)_like|(normal|uniform|random|bernoulli|exponential)_)$", _fill),
    (r"^aten::(embedding|index_select|gather)$", _gather),
    (r"^aten::(index_put|_index_put_impl|index_copy|index_add|scatter|scatter_add)_?$", _scatter),
    (r"store_cache|reshape_and_cache|concat_and_cache|kv_cache_update|set_kv_buffer", _cache_write),
    (r"^aten::(topk|sort)$", _topk),
)
