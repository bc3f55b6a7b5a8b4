"""The span around a call that launches kernels without an op: its tensors' dims, types and strides."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from shapescope.store.spans import Call, call_name

# A call with more tensors than this, such as one over all layers, names the first ones.
_MOST_TENSORS = 16
# As the profiler spells them for ops.
_TYPES = {
    torch.float32: "float", torch.float64: "double", torch.float16: "c10::Half", torch.bfloat16: "c10::BFloat16",
    torch.int64: "long int", torch.int32: "int", torch.int16: "short int", torch.int8: "signed char",
    torch.uint8: "unsigned char", torch.bool: "bool", torch.float8_e4m3fn: "c10::Float8_e4m3fn",
    torch.float8_e5m2: "c10::Float8_e5m2", torch.float8_e4m3fnuz: "c10::Float8_e4m3fnuz",
    torch.float8_e5m2fnuz: "c10::Float8_e5m2fnuz",
}  # fmt: skip


def described(title: str, args: Iterable[Any], kwargs: dict[str, Any]) -> Call:
    """A call by its tensors, those in lists and tuples too, in the order of its arguments."""
    tensors: list[torch.Tensor] = []
    for value in (*args, *kwargs.values()):
        items = value if isinstance(value, (list, tuple)) else (value,)
        tensors += [item for item in items if isinstance(item, torch.Tensor)]
    del tensors[_MOST_TENSORS:]
    return Call(
        title,
        tuple(tuple(tensor.shape) for tensor in tensors),
        tuple(_TYPES.get(tensor.dtype, str(tensor.dtype)) for tensor in tensors),
        tuple(tensor.stride() if tensor.layout is torch.strided else () for tensor in tensors),
    )


def enter_span(call: Call) -> Any:
    """Past the dispatcher, unlike `record_function`: a tape that is recording must not note it."""
    return torch._C._autograd._record_function_with_args_enter(call_name(call))


def exit_span(span: Any) -> None:
    torch._C._autograd._record_function_with_args_exit(span)
