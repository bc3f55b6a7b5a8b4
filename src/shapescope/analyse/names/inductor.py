"""Kernels that torch.compile writes: `triton_poi_fused_add_mul_3` lists operators and ends in a counter."""

from __future__ import annotations

import re

from shapescope.analyse.names.reading import Reading

KERNEL = re.compile(r"^(?:triton_(poi|red|per|tem|for|mm|cooperative|split_scan)_|(?:graph_\d{1,9}_)?(cpp)_fused)")
UNNAMED = re.compile(r"^triton__[\ddec]*$")
COUNTER = re.compile(r"_(\d+)$")
GRAPH = re.compile(r"^graph_\d+_")

MOVES = """to_copy clone copy cat stack view reshape unsafe_view permute transpose t expand slice select
    split split_with_sizes unbind unsqueeze squeeze contiguous constant_pad_nd flip roll repeat as_strided
    detach alias empty empty_like new_empty narrow chunk lift_fresh unfold pad getitem slice_scatter
    select_scatter"""
FILLS = """zeros zeros_like zero ones ones_like full full_like fill arange new_zeros new_ones new_full
    scalar_tensor"""
# Extern kernels in the list only say whose output is read.
EXTERNS = """addmm baddbmm addbmm bmm mm linear convolution convolution_backward scaled_dot_product
    flash_attention efficient_attention cudnn_attention fused_attention attention fmha for_cpu
    [a-z0-9]+_gemm moe_forward moe_forward_shared"""
INDEXED = "index index_put index_select gather scatter scatter_add index_add"
ACTIVATIONS = "silu gelu sigmoid tanh relu leaky_relu elu softplus hardtanh mish glu"


def _operators(names: str) -> re.Pattern[str]:
    """Any of the operators as whole words; the longest first, because one may begin another."""
    longest_first = sorted(names.split(), key=len, reverse=True)
    return re.compile(rf"_(?:{'|'.join(longest_first)})(?=_)")


MOVE, FILL, EXTERN, INDEX = map(_operators, (MOVES, FILLS, EXTERNS, INDEXED))
COMPUTED = (
    ("norm", re.compile(r"_rsqrt_|_norm|norm_")),
    ("rope", re.compile(r"_sin_|_cos_")),
    ("softmax", re.compile(r"softmax_")),
    ("activation", _operators(ACTIVATIONS)),
    ("embedding", re.compile(r"_embedding_")),
)
# What the template itself computes, where no operator says more.
TEMPLATE_CLASS = {"red": "reduction", "per": "reduction", "cooperative": "reduction", "split_scan": "scan"}


def read(name: str) -> Reading | None:
    """The reading of an Inductor name, or None for any other."""
    if UNNAMED.match(name):
        return Reading("triton_unnamed", (name.removeprefix("triton__"),))
    match = KERNEL.match(name)
    if not match:
        return None
    counter = COUNTER.search(name)
    family = GRAPH.sub("", name[: counter.start()] if counter else name)
    template = match[1] or match[2]
    operators = f"{family.partition('_fused')[2]}_"
    kernel_class = _template_class(operators) if template in ("tem", "mm") else _class(template, operators)
    return Reading(family, (counter[1],) if counter else (), kernel_class)


def _template_class(operators: str) -> str:
    if "flex_attention" in operators:
        return "attention"
    return "conv" if "convolution" in operators and "mm" not in operators else "gemm"


def _class(template: str, operators: str) -> str:
    """Rule C3 of the project's kernel name notes. `operators` stand between underscores."""
    if not operators.strip("_"):
        return "other"
    named = EXTERN.sub("", operators)
    if "_mean_" in named and "_pow_" in named:
        return "norm"
    told = next((kernel_class for kernel_class, pattern in COMPUTED if pattern.search(named)), None)
    return told or TEMPLATE_CLASS.get(template) or _pointwise_class(named)


def _pointwise_class(named: str) -> str:
    if INDEX.search(named):
        return "scatter"
    computed = MOVE.sub("", named)
    if not computed.strip("_"):
        return "copy" if named.strip("_") else "elementwise"
    return "elementwise" if FILL.sub("", computed).strip("_") else "fill"
