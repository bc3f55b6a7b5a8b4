"""Kernels that torch.compile writes: `triton_poi_fused_add_mul_3` lists its operators, and ends in a counter."""

from __future__ import annotations

import re

from shapescope.analyse.names.reading import Reading

KERNEL = re.compile(
    r"^(?:triton_(poi|red|per|tem|for|mm|cooperative|split_scan)_|(?:graph_\d+_)?(cpp)_fused)"
)
UNNAMED = re.compile(r"^triton__(?:\d+[dec]*)*$")
COUNTER = re.compile(r"_(\d+)$")
GRAPH = re.compile(r"^graph_\d+_")

REDUCTIONS = frozenset({"red", "per", "cooperative"})
MOVES = (
    "to_copy clone copy cat stack view reshape unsafe_view permute transpose t expand slice select split split_with_sizes"
    " unbind unsqueeze squeeze contiguous constant_pad_nd flip roll repeat as_strided detach alias empty empty_like"
    " new_empty narrow chunk lift_fresh unfold pad getitem slice_scatter select_scatter"
)
FILLS = "zeros zeros_like zero ones ones_like full full_like fill arange new_zeros new_ones new_full scalar_tensor"
# Extern kernels in the list only say whose output is read.
EXTERNS = (
    "addmm baddbmm addbmm bmm mm linear convolution convolution_backward scaled_dot_product flash_attention"
    " efficient_attention cudnn_attention fused_attention attention fmha for_cpu [a-z0-9]+_gemm moe_forward"
    " moe_forward_shared"
)
INDEXED = "index index_put index_select gather scatter scatter_add index_add"
ACTIVATIONS = "silu gelu sigmoid tanh relu leaky_relu elu softplus hardtanh mish glu"


def _operators(names: str) -> re.Pattern[str]:
    """Any of the operators as whole words; the longest first, because one may begin another."""
    longest_first = sorted(names.split(), key=len, reverse=True)
    return re.compile(rf"_(?:{'|'.join(longest_first)})(?=_)")


MOVE, FILL, EXTERN, INDEX, ACTIVATION = map(_operators, (MOVES, FILLS, EXTERNS, INDEXED, ACTIVATIONS))
NORM = re.compile(r"_rsqrt_|_norm|norm_")
ROPE = re.compile(r"_sin_|_cos_")


def read(name: str) -> Reading | None:
    """The reading of an Inductor name, or None for any other."""
    if UNNAMED.match(name):
        return Reading("triton_unnamed", (name.removeprefix("triton__"),))
    match = KERNEL.match(name)
    if not match:
        return None
    counter = COUNTER.search(name)
    family = GRAPH.sub("", name[: counter.start()] if counter else name)
    variant = (counter[1],) if counter else ()
    template = match[1] or match[2]
    operators = f"{family.partition('_fused')[2]}_"
    if template in ("tem", "mm"):
        return Reading(family, variant, _template_class(operators))
    return Reading(family, variant, _class(template, operators))


def _template_class(operators: str) -> str:
    if "flex_attention" in operators:
        return "attention"
    return "conv" if "convolution" in operators and "mm" not in operators else "gemm"


def _class(template: str, operators: str) -> str:
    """Rule C3 of the project's kernel name notes. `operators` stand between underscores."""
    if not operators.strip("_"):
        return "other"
    named = EXTERN.sub("", operators)
    if NORM.search(named) or ("_mean_" in named and "_pow_" in named):
        return "norm"
    if ROPE.search(named):
        return "rope"
    if "softmax" in named:
        return "softmax"
    if ACTIVATION.search(named):
        return "activation"
    if "_embedding_" in named:
        return "embedding"
    if template in REDUCTIONS:
        return "reduction"
    return _pointwise_class(named)


def _pointwise_class(named: str) -> str:
    if INDEX.search(named):
        return "scatter"
    computed = MOVE.sub("", named)
    if not computed.strip("_"):
        return "copy" if named.strip("_") else "elementwise"
    return "elementwise" if FILL.sub("", computed).strip("_") else "fill"
