"""The operation inside a launcher: generic kernels say what they do in a template argument.

`vectorized_elementwise_kernel<4, CUDAFunctor_add<float>>` adds, `reduce_kernel<512, 1, ReduceOp<MeanOps>>`
takes the mean; wrappers such as `gpu_kernel_impl` and `BinaryFunctor` are looked through.
"""

from __future__ import annotations

import re

from shapescope.analyse.names.syntax import CALL, LAMBDA, Name, Segment
from shapescope.analyse.names.words import data_type, snake, without_architecture

LAUNCHER = re.compile(
    r"elementwise|pointwise|Pointwise|^reduce_kernel$|multi_tensor_apply|grid_stride|^indexFunc|trampoline"
    r"|_kernel_agent|^static_kernel|parallel_for|for_each|^transform_kernel|tensor_kernel_scan|^apply_kernel"
    r"|^EigenMetaKernel|^launch_kernel|^bulk_|^run_kernel|^generic_kernel|^global_kernel"
)
LOOK_THROUGH = re.compile(
    r"^(?:gpu_kernel\w*|gpu_index_kernel|opmath\w*|BinaryFunctor|AUnaryFunctor|BUnaryFunctor|func_wrapper_t|ReduceOp"
    r"|\w+_and_transform|cuda_take_put_kernel|ParallelForAgent|unary_transform_f|binary_transform_f"
    r"|device_generate_functor|wrapped_function)$"
)
SCALAR = re.compile(r"^[AB]UnaryFunctor$")
# Template arguments that hold data or settings.
STRUCTURAL = re.compile(
    r"^(?:array|Array|tuple|TrivialOffsetCalculator|OffsetCalculator|LoadWith\w*|StoreWith\w*|Memory\w*|TensorInfo"
    r"|\w*TensorListMetadata|TensorListScalar\w*|CUDAGenerator\w*|\w*[cC]onfig\w*|\w*[pP]olicy\w*|target_arch"
    r"|integral_constant|bool_constant|integer_sequence|sequence|\w*_tag|always_true\w*|\w*[mM]ode_t|NullType"
    r"|C|Layout|Shape|void|auto|T\d*|\w*Params?|\w*Kargs)$"
)
# Enums that choose the operation, as opposed to data types, layouts and memory policies.
CHOOSING = re.compile(
    r"^(?:GemmType|\w*FusedAddEnum|AllReduceFusionPattern|ScoringFunc|ActivationKind|Activation\w*Type|NormType"
    r"|BlockScaleQuantizationType|select_method|ReduceOpType|RoutingMethodType)$"
)
ENDS = (
    *(
        "_functor",
        "_kernel_impl",
        "_kernel_cuda",
        "_cuda_kernel",
        "_kernel",
        "_impl",
        "_cuda",
        "_gpu",
        "_ops",
    ),
    *("_op", "_and_transform"),
)
ON_SCALAR = re.compile(r"^cuda_functor_on_(?:self|other)_(\w+)$")
SCATTER_GATHER = "_cuda_scatter_gather_internal_kernel"


def operations(head: Segment) -> list[str]:
    """What a generic launcher launches; for any other kernel the function it was given, `&silu`."""
    functions = [argument for argument in head.arguments if argument.function]
    if functions:
        return [operation(functions[0])]
    if not LAUNCHER.search(head.identifier):
        return []
    found = filter(None, map(operation, head.arguments))
    distinct = list(dict.fromkeys(found))
    return distinct if "multi_tensor" in head.identifier else distinct[:1]


def choices(head: Segment) -> list[str]:
    """The enum values that choose the operation: `(GemmType)1` as `gemm_type1`."""
    inner = (name for argument in head.arguments for name in argument.walk())
    found = [f"{snake(name.cast)}{name.value}" for name in inner if CHOOSING.match(name.cast)]
    return list(dict.fromkeys(found))


def operation(name: Name) -> str:
    """The operation that a functor, a lambda or a wrapper stands for; empty for structure and types."""
    if data_type(name) or name.value or name.cast:
        return ""
    # A lambda is named after the function that it stands in.
    calls = (at for at, segment in enumerate(name.path) if segment.identifier in (LAMBDA, CALL))
    end = next(calls, len(name.path))
    if not end or STRUCTURAL.match(name.path[end - 1].identifier):
        return ""
    function = name.path[end - 1]
    if function.identifier == SCATTER_GATHER:
        return _scatter_gather(function, name.path[end:])
    if LOOK_THROUGH.match(function.identifier):
        inner = next(filter(None, map(operation, function.arguments)), "")
        if inner:
            return f"{inner}_scalar" if SCALAR.match(function.identifier) else inner
    return _spelled(function.identifier)


def _scatter_gather(function: Segment, calls: tuple[Segment, ...]) -> str:
    """The first flag of this wrapper tells scatter from gather; its call operator takes the reduction."""
    arguments = (argument for call in calls for argument in call.arguments)
    reduction = next(filter(None, map(operation, arguments)), "")
    direction = "scatter" if function.arguments and function.arguments[0].value == "true" else "gather"
    return f"{reduction}_{direction}" if reduction else direction


def _spelled(identifier: str) -> str:
    """`GeluCUDAKernelImpl` as `gelu`, `CUDAFunctorOnSelf_add` as `add_scalar`, any copy as `direct_copy`."""
    word = snake(without_architecture(identifier)[0])
    if word.endswith("_copy_kernel_cuda"):
        return "direct_copy"
    on_scalar = ON_SCALAR.match(word)
    if on_scalar:
        return f"{on_scalar[1]}_scalar"
    word = word.removeprefix("cuda_functor_")
    while end := next((end for end in ENDS if word.endswith(end) and word != end), None):
        word = word.removesuffix(end)
    return word
