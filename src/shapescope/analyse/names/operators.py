"""Operator names that stand as kernels on the CPU tape: `aten::addmm.out`, `c10d::allreduce_`."""

from __future__ import annotations

import re

from shapescope.analyse.names.classes import classify
from shapescope.analyse.names.reading import Reading

NAME = re.compile(
    r"^(aten|prims?|c10d|_c10d_functional|symm_mem|mkldnn|mkldnn_prepacked|mkl|onednn|quantized"
    r"|quantized_decomposed|_quantized|inductor|torchvision|fsdp|xnnpack|profiler)::(\w+)(?:\.\w+)*$"
)
COLLECTIVES = frozenset({"c10d", "_c10d_functional", "symm_mem", "fsdp"})

# Operators whose words alone would not tell, or would tell wrongly. In-place forms stand without their `_`.
SPELLED = {
    "gemm": """mm addmm bmm baddbmm addbmm linear matmul einsum dot vdot inner mv addmv addr outer ger
        tensordot chain_matmul _addmm_activation _scaled_mm _int_mm _weight_int8pack_mm
        _weight_int4pack_mm_for_cpu""",
    "grouped_gemm": "_grouped_mm _scaled_grouped_mm",
    "embedding": "embedding embedding_bag _embedding_bag embedding_renorm embedding_dense_backward",
    "scatter": """index index_put _index_put_impl _unsafe_index _unsafe_index_put index_add index_copy
        index_fill index_select gather scatter scatter_add scatter_reduce take take_along_dim put
        masked_scatter select_scatter slice_scatter""",
    "copy": """copy _to_copy to clone contiguous cat concat stack repeat repeat_interleave tile roll flip
        constant_pad_nd pad _copy_from native_channel_shuffle pixel_shuffle transpose_copy permute_copy
        view_copy lift_fresh_copy""",
    "fill": """fill zero zeros zeros_like ones ones_like full full_like new_zeros new_ones new_full arange
        linspace eye scalar_tensor""",
    "softmax": "softmax _softmax log_softmax _log_softmax _safe_softmax _softmax_backward_data",
    "reduction": """sum mean prod max min amax amin aminmax argmax argmin any all std var var_mean std_mean
        nansum nanmean norm linalg_vector_norm logsumexp count_nonzero median mode cross_entropy_loss
        nll_loss_forward _local_scalar_dense equal""",
    "sort": "sort topk argsort kthvalue msort unique unique_consecutive _unique2",
    "scan": "cumsum cumprod cummax cummin logcumsumexp nonzero masked_select",
    "rng": """bernoulli normal uniform rand randn randint randperm random exponential dropout native_dropout
        geometric cauchy rand_like randn_like randint_like""",
    "sampling": "multinomial",
    "activation": """silu gelu relu sigmoid tanh leaky_relu elu selu celu softplus hardtanh hardswish
        hardsigmoid mish glu prelu relu6 log_sigmoid_forward threshold threshold_backward silu_backward
        gelu_backward tanh_backward sigmoid_backward""",
    "elementwise": """add sub rsub mul div neg abs exp exp2 expm1 log log2 log10 log1p sqrt rsqrt
        reciprocal pow square sin cos tan asin acos atan atan2 sinh cosh erf erfc erfinv floor ceil
        round trunc frac sign sgn clamp clamp_min clamp_max maximum minimum fmax fmin eq ne lt le gt ge
        where masked_fill logical_and logical_or logical_not logical_xor bitwise_and bitwise_or
        bitwise_not bitwise_xor bitwise_left_shift bitwise_right_shift __and__ __or__ __xor__ __lshift__
        __rshift__ lerp addcmul addcdiv fmod remainder floor_divide true_divide isnan isinf isfinite
        nan_to_num xlogy hypot copysign tril triu isin polar complex real imag angle lgamma digamma i0
        sinc ldexp heaviside mse_loss l1_loss""",
    "conv": """convolution _convolution conv1d conv2d conv3d convolution_overrideable
        convolution_backward thnn_conv2d _slow_conv2d_forward slow_conv3d_forward conv_transpose1d
        conv_transpose2d im2col col2im""",
    "other": """view _unsafe_view reshape _reshape_alias expand expand_as permute transpose t unsqueeze
        squeeze slice select split split_with_sizes unbind narrow as_strided detach alias empty empty_like
        empty_strided new_empty new_empty_strided chunk unfold diagonal movedim swapaxes item is_nonzero
        resize set view_as view_as_real view_as_complex flatten unflatten""",
}
CLASS_OF = {operator: kernel_class for kernel_class, names in SPELLED.items() for operator in names.split()}


def read(name: str) -> Reading | None:
    """The reading of an operator name, or None for any other. The overload is no part of the family."""
    match = NAME.match(name)
    if not match:
        return None
    namespace, operator = match[1], match[2].removesuffix("_out")
    family = f"{namespace}::{operator}"
    if namespace in COLLECTIVES:
        return Reading(family, (), "collective")
    functional = operator if operator.endswith("__") else operator.rstrip("_")
    single = functional.removeprefix("_foreach_")
    return Reading(family, (), CLASS_OF.get(single) or classify(functional))
