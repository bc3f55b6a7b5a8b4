"""FLOPs and bytes of one op call, from what a trace says about it: op name, input dims and types, launch."""

from __future__ import annotations

from collections.abc import Sequence

from shapescope.analyse.cost.attention import attention_cost
from shapescope.analyse.cost.collectives import collective_cost
from shapescope.analyse.cost.experts import grouped_cost
from shapescope.analyse.cost.matmul import gemm_cost
from shapescope.analyse.cost.model import Call, Cost, Kernel, Tensor, parse_arguments
from shapescope.analyse.cost.moves import moves_cost, streaming_cost
from shapescope.analyse.cost.rows import rows_cost
from shapescope.analyse.cost.work import Lengths, Work, step_work

__all__ = ["Call", "Cost", "Kernel", "Lengths", "Tensor", "Work", "op_cost", "step_work"]

# The first model that knows the op speaks. A kernel's class is the last resort, after all names.
_MODELS = (gemm_cost, grouped_cost, collective_cost, attention_cost, rows_cost, moves_cost, streaming_cost)


def op_cost(
    op: str,
    dims: Sequence[object],
    types: Sequence[str] = (),
    concrete: Sequence[str] = (),
    kernel_class: str | None = None,
    *,
    kernels: Sequence[Kernel] = (),
    work: Work | None = None,
    context_len: int | None = None,
) -> Cost | None:
    """The cost of one call of `op`, or None where no model knows it.

    `dims`, `types` and `concrete` are the lists of `Input Dims`, `Input type` and `Concrete Inputs` of the
    trace; `kernel_class` is the class of the call's main kernel, `kernels` its launches in order (grids in
    blocks), `work` the aggregates of its step and `context_len` the context length of a replay that states
    it.
    """
    arguments = parse_arguments(dims, types)
    call = Call(op, arguments, tuple(concrete), kernel_class, tuple(kernels), work, context_len)
    for model in _MODELS:
        if (cost := model(call)) is not None:
            return cost
    return None
