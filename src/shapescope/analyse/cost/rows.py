"""Ops that go over rows or elements once: norms, activations, rotary embedding, softmax, reductions.

Arithmetic is counted by element, a transcendental as one; it runs outside the matrix units.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from math import prod

from shapescope.analyse.cost.matmul import broadcast
from shapescope.analyse.cost.model import Call, Cost, Tensor, moved

VECTOR = "vector"
# FLOPs an element. rms: square, sum, scale, weight. layer: mean, centring and bias too. silu: neg, exp, add,
# divide.
_RMS, _LAYER, _ADD = 4, 7, 1
_ACTIVATION = {"silu": 4, "gelu": 5, "relu": 1, "sigmoid": 3, "tanh": 1, "swiglu": 4, "swish": 4}
_SOFTMAX = 5  # maximum, subtract, exp, sum, divide
_ELEMENTWISE = {
    "silu": 4,
    "gelu": 5,
    "sigmoid": 3,
    "lerp": 3,
    "addcmul": 3,
    "addcdiv": 3,
    "mish": 5,
    "softplus": 3,
}
_UNARY = re.compile(
    r"^(abs|neg|exp|log|log2|log1p|sqrt|rsqrt|sin|cos|tan|tanh|erf|sigmoid|relu|silu|gelu|mish|softplus|sign|"
    r"reciprocal|floor|ceil|round|trunc|isnan|isinf|logical_not|bitwise_not|clamp|clamp_min|clamp_max|square|"
    r"hardtanh|threshold)$"
)
_BINARY = re.compile(
    r"^(add|sub|rsub|mul|div|pow|maximum|minimum|remainder|floor_divide|fmod|atan2|eq|ne|lt|le|gt|ge|lerp|"
    r"logical_and|logical_or|bitwise_and|bitwise_or|bitwise_xor|__and__|__or__|masked_fill)$"
)
_TERNARY = re.compile(r"^(where|addcmul|addcdiv)$")
_COMPARE = re.compile(r"^(eq|ne|lt|le|gt|ge|logical_and|logical_or|logical_not|isnan|isinf)$")


def rows_cost(call: Call) -> Cost | None:
    """The cost of a row-wise op; None where the op is none."""
    for pattern, model in _MODELS:
        if call.matches(pattern):
            return model(call)
    return None


def _norm(call: Call) -> Cost | None:
    """A norm reads x and writes y; with a residual it reads two and writes two. Lists as the library has
    them.

    A call lists some or all of these: `(out, x, w)`, `(x, w)`, `(x, residual, w)` in place, `(out, x,
    residual, new residual, w)`.
    """
    full = [t for t in call.tensors if len(t.shape) >= 2]
    if not full:
        return None
    x = full[0]
    full = [t for t in full if t.shape == x.shape]
    with_add = call.matches(r"add")
    streams = 4 if with_add else 2
    listed = full[:streams]
    missing = streams - len(listed)
    weights = [t for t in call.tensors if len(t.shape) == 1 and t.numel == x.shape[-1]]
    per_element = (_LAYER if call.matches(r"layer_?norm") else _RMS) + (_ADD if with_add else 0)
    traffic = moved(*listed, *([listed[-1]] * missing), *weights)
    return Cost.exact(per_element * x.numel, traffic, math=VECTOR, rows=x.rows)


def _gated(call: Call) -> Cost | None:
    """act(x[.., :d]) * x[.., d:]: input [.., 2d], result [.., d] listed first or not at all."""
    matrices = [t for t in call.tensors if len(t.shape) >= 2 and not t.is_index]
    if not matrices:
        return None
    x = max(matrices[:2], key=lambda t: t.shape[-1])
    half = x.shape[-1] // 2
    out = next((t for t in matrices if t.shape == (*x.shape[:-1], half)), x.like(*x.shape[:-1], half))
    name = next((name for name in _ACTIVATION if name in call.name), "silu")
    return Cost.exact((_ACTIVATION[name] + 1) * out.numel, moved(x, out), math=VECTOR, rows=x.rows)


def _rotary(call: Call) -> Cost | None:
    """`(positions [T], query [T, Hq*D], key [T, Hk*D], head size, cos and sin [P, R], ..)`: in place, R of
    each D turned.

    Six FLOPs a pair of elements. A call without a table of that kind is not modelled.
    """
    positions = next((t for t in call.tensors if t.is_index), None)
    table = next((t for t in reversed(call.tensors) if len(t.shape) == 2 and not t.is_index), None)
    if positions is None or table is None:
        return None
    tokens = positions.numel
    turned = [t for t in call.tensors if t is not table and not t.is_index and t.numel and t.shape[0] == tokens]
    if not turned:
        return None
    heads = [int(text) for text in call.concrete if text.isdigit() and int(text) >= table.shape[1]]
    share = table.shape[1], heads[0] if heads else table.shape[1]
    elements = [t.numel * share[0] // share[1] for t in turned]
    parts = [Tensor((2 * count,), t.type) for count, t in zip(elements, turned, strict=True)]
    traffic = moved(positions, table.like(tokens, table.shape[1]), *parts)
    return Cost.exact(3 * sum(elements), traffic, math=VECTOR, rows=tokens)


def _over(call: Call, per_element: int) -> Cost | None:
    """Reads and writes one tensor of its first argument's shape."""
    x = call.tensor(0)
    if x is None:
        return None
    out = next((t for t in call.tensors[1:] if t.shape == x.shape), x)
    return Cost.exact(per_element * x.numel, moved(x, out), math=VECTOR, rows=x.rows)


def _reduction(call: Call) -> Cost | None:
    """Reads all, writes what the dims of the call leave; one FLOP an element."""
    x = call.tensor(0)
    if x is None:
        return None
    left = _left_over(x.shape, call.scalar(2 if call.matches(r"norm$") else 1))
    if left is None:
        return None
    out = Tensor((left,), _reduced_type(call, x))
    pair = Tensor((left,), "long int") if call.matches(r"::(max|min)$") and left > 1 else None
    return Cost.exact(x.numel, moved(x, out, pair), math=VECTOR, rows=x.rows)


def _reduced_type(call: Call, x: Tensor) -> str:
    if call.matches(r"arg"):
        return "long int"
    return "bool" if call.matches(r"::(any|all)$") else x.type


def _left_over(shape: tuple[int, ...], dims: str) -> int | None:
    """Elements that remain when the printed dims (`-1`, `[0, 2]`, `[]` or nothing for all) are reduced."""
    wanted = [int(text) for text in re.findall(r"-?\d+", dims)]
    if not wanted:
        return 1
    if any(not -len(shape) <= dim < max(len(shape), 1) for dim in wanted):
        return None
    gone = {dim % len(shape) for dim in wanted} if shape else set()
    return prod(size for dim, size in enumerate(shape) if dim not in gone)


def _elementwise(call: Call) -> Cost | None:
    """Operands broadcast; the result has the widest operand's type, or bool for comparisons. In place writes
    the first.
    """
    in_place = call.name.endswith("_") and not call.name.startswith("__")
    name = call.name.removesuffix("_") if in_place else call.name
    arities = ((_UNARY, 1), (_BINARY, 2), (_TERNARY, 3))
    arity = next((count for pattern, count in arities if pattern.match(name)), 0)
    operands = [call.tensor(position) for position in range(len(call.arguments))]
    inputs = [t for t in operands[:arity] if t is not None]
    shape = broadcast(*(t.shape for t in inputs)) if inputs else None
    if shape is None:
        return None
    given = [t for t in operands[arity:] if t is not None and t.shape == shape]
    new = Tensor(shape, "bool" if _COMPARE.match(name) else _widest(inputs))
    out = inputs[0] if in_place else given[-1] if given else new
    flops = _ELEMENTWISE.get(name, 1) * prod(shape)
    return Cost.exact(flops, moved(*inputs, out), math=VECTOR, rows=prod(shape[:-1]))


def _widest(inputs: list[Tensor]) -> str:
    """Torch's promotion, as far as sizes go: tensors with dimensions decide, floats before integers, wider
    before narrower.
    """
    shaped = [t for t in inputs if t.shape] or inputs
    return max(shaped, key=lambda t: (not t.is_index and t.type != "bool", t.bits or 0)).type


def _softmax(call: Call) -> Cost | None:
    return _over(call, _SOFTMAX)


def _scan(call: Call) -> Cost | None:
    return _over(call, 1)


_MODELS: tuple[tuple[str, Callable[[Call], Cost | None]], ...] = (
    (r"^(?!.*(backward|quant)).*(rms|layer)_?norm", _norm),
    (r"(silu|gelu|swiglu|swish)\w*_and_mul|swiglu$", _gated),
    (r"rotary|rope", _rotary),
    (r"^aten::_?(log_)?softmax$", _softmax),
    (r"^aten::(cumsum|cumprod)$", _scan),
    (r"^aten::(sum|mean|a?max|a?min|argmax|argmin|any|all|prod|(linalg_vector_)?norm|var|std)$", _reduction),
    (r"^aten::\w+$", _elementwise),
)
