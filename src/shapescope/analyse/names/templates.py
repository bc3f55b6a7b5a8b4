"""C++ kernels: namespace, function, and for generic launchers the operation that they launch."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from shapescope.analyse.names import cutlass, symbols
from shapescope.analyse.names.classes import CLASSES, classify, keeps_types
from shapescope.analyse.names.reading import Reading
from shapescope.analyse.names.syntax import CALL, LAMBDA, Name, Segment
from shapescope.analyse.names.words import COMPUTE_TYPES, data_type, snake, snake_words, without_architecture

MAX_VARIANT = 48

# Namespaces that sort a library's own files, or that a build puts around it: no part of what a kernel is.
PASSED_OVER = frozenset(
    "at native cuda hip c10 std detail details kernels kernel impl internal ops op templates dev device cutlass_kernels"
    " tensor_operation core launcher common core_ anonymous cutlass_extensions binary_internal memory thread_block"
    " cuda_cub system legacy apply util".split()
)
# Library names that say nothing of the work: `deep_gemm::transpose` is no product.
SILENT = frozenset({"deep_gemm", "cudnn", "cutlass", "cublas", "flash_attn", "fbgemm", "fbgemm_gpu"})

# Libraries of products: their name tells what a function does only where the function does not.
PRODUCTS = frozenset({"marlin", "machete", "awq", "gptq", "exllama", "qserve"})

WHOLE_KERNELS = frozenset({"Kernel", "Kernel2", "device_kernel", "kentry", "kentry_pt"})
WRAPPER = re.compile(r"^enable_\w+$")
ELEMENTWISE = re.compile(r"elementwise|pointwise|multi_tensor|foreach")
POINTWISE_CLASSES = frozenset(CLASSES) - {"other", "reduction", "sort", "scan", "gemm"}

LAUNCHER = re.compile(
    r"elementwise|pointwise|^reduce_kernel$|multi_tensor_apply|grid_stride|^indexFunc|trampoline"
    r"|_kernel_agent|^static_kernel|parallel_for|for_each|^transform_kernel|tensor_kernel_scan|^apply_kernel"
    r"|^EigenMetaKernel|^cuda_foreach|^launch_kernel|^bulk_|^kernelPointwise|^run_kernel|^generic_kernel|^global_kernel"
)
LOOK_THROUGH = re.compile(
    r"^(?:gpu_kernel\w*|gpu_index_kernel|opmath\w*|BinaryFunctor|func_wrapper_t|ReduceOp|enable_\w+|\w+_and_transform|cuda_take_put_kernel"
    r"|AUnaryFunctor|BUnaryFunctor|ParallelForAgent|unary_transform_f|binary_transform_f|device_generate_functor|wrapped_function)$"
)
SCALAR = re.compile(r"^[AB]UnaryFunctor$")
STRUCTURAL = re.compile(
    r"^(?:array|Array|tuple|TrivialOffsetCalculator|OffsetCalculator|LoadWith\w*|StoreWith\w*|\w*TensorListMetadata|TensorListScalar\w*"
    r"|TensorInfo|CUDAGenerator\w*|\w*[cC]onfig\w*|\w*[pP]olicy\w*|target_arch|integral_constant|bool_constant|\w*_tag|always_true\w*|\w*[mM]ode_t|NullType|C|Layout|Shape"
    r"|void|auto|T\d*|\w*Params?|\w*Kargs|Memory\w*|integer_sequence|sequence)$"
)
SELECTING = re.compile(
    r"^(?:GemmType|\w*FusedAddEnum|AllReduceFusionPattern|ScoringFunc|ActivationKind|Activation\w*Type|NormType"
    r"|BlockScaleQuantizationType|select_method|ReduceOpType|OpType|RoutingMethodType)$"
)
OPERATION_ENDS = (
    "_functor", "_kernel_impl", "_kernel_cuda", "_cuda_kernel", "_kernel", "_impl", "_cuda", "_gpu", "_ops", "_op",
    "_and_transform",
)  # fmt: skip


def read(name: Name) -> Reading:
    """The reading of a parsed C++ name."""
    path = list(_functional(name.path))
    if not path:
        return Reading("")
    head = path[-1]
    return cutlass.read(head) or _launched(head) or _function(path)


def _launched(head: Segment) -> Reading | None:
    """A launcher of whole kernels adds nothing: `ck_tile::kentry<2, K>` is K, `cutlass::Kernel<cutlass_80_..>` its word."""
    if head.identifier not in WHOLE_KERNELS:
        return None
    for argument in head.arguments:
        while argument.arguments and WRAPPER.match(argument.identifier):
            argument = argument.arguments[0]
        if argument.value or argument.cast or not argument.path:
            continue
        word = (
            symbols.read(argument.identifier) if len(argument.path) == 1 and not argument.arguments else None
        )
        inner = word or read(argument)
        leading = tuple(number.value for number in head.arguments if number.value)
        return replace(inner, variant=(*leading, *inner.variant)) if inner.family else None
    return None


def _function(path: list[Segment]) -> Reading:
    head = path[-1]
    namespaces, tags = _namespaces(segment.identifier for segment in path[:-1])
    identifier, more_tags = without_architecture(head.identifier)
    base = snake_words(identifier) if identifier.lower() != "kernel" else []
    chosen = [*_operations(head), *_choices(head)]
    kernel_class = _class(namespaces, base, chosen)
    if kernel_class == "other":
        base = [identifier]
    types = _types(head) if keeps_types(kernel_class, "_".join([*base, *chosen])) else []
    words = [*_library(namespaces, base), *base, *chosen, *types]
    variant = tuple(_variant([*tags, *more_tags], head.arguments))
    return Reading("_".join(words), variant, kernel_class)


def _functional(path: Iterable[Segment]) -> Iterator[Segment]:
    """The path up to the function: what follows as lambda or call operator is inside it."""
    for segment in path:
        if segment.identifier in (LAMBDA, CALL):
            return
        yield segment


def _namespaces(identifiers: Iterable[str]) -> tuple[list[str], list[str]]:
    kept: list[str] = []
    tags: list[str] = []
    for identifier in identifiers:
        if identifier in PASSED_OVER:
            continue
        plain, removed = without_architecture(identifier)
        tags += removed
        word = snake(plain)
        if word and word not in kept:
            kept.append(word)
    return kept, tags


def _library(namespaces: list[str], base: list[str]) -> list[str]:
    """Library first; an inner namespace that the function's name repeats is left out, `flashinfer::norm::RMSNorm`."""
    joined = "_".join(base)
    return namespaces[:1] + [word for word in namespaces[1:] if word not in joined]


def _class(namespaces: list[str], base: list[str], operations: list[str]) -> str:
    """By the operation where an elementwise launcher runs it, else by namespaces, function and operation together."""
    function, operation = "_".join(base), "_".join(operations)
    if function == "reduce":
        return "reduction"
    if function.startswith("index_func"):
        return "scatter"
    if operations and ELEMENTWISE.search(function):
        judged = classify(operation)
        if judged in POINTWISE_CLASSES or operation.startswith(("lp_norm", "norm_two")):
            return judged
        return "scatter" if re.search("index|scatter|gather", function) else "elementwise"
    told = [word for word in namespaces if word not in SILENT | PRODUCTS]
    return classify(
        "_".join([*told, *base, *operations]), "gemm" if PRODUCTS.intersection(namespaces) else ""
    )


def _operations(head: Segment) -> list[str]:
    """What a generic launcher launches; for any other kernel the function pointer it was given, as in `&silu`."""
    functions = [argument for argument in head.arguments if argument.function]
    if functions:
        return [_operation(functions[0])]
    if not LAUNCHER.search(head.identifier):
        return []
    found = [operation for argument in head.arguments if (operation := _operation(argument))]
    distinct = list(dict.fromkeys(found))
    return distinct if "multi_tensor" in head.identifier else distinct[:1]


def _operation(name: Name) -> str:
    """The operation that a functor, a lambda or a wrapper of either stands for; empty for structure and data types."""
    if data_type(name) or name.value or name.cast:
        return ""
    path = [segment for segment in name.path if segment.identifier not in PASSED_OVER]
    inside = next((at for at, segment in enumerate(path) if segment.identifier in (LAMBDA, CALL)), len(path))
    if not inside:
        return ""
    function = path[inside - 1]
    if STRUCTURAL.match(function.identifier):
        return ""
    if function.identifier == "_cuda_scatter_gather_internal_kernel":
        return _scatter_gather(function, path[inside:])
    if LOOK_THROUGH.match(function.identifier):
        inner = next(filter(None, map(_operation, function.arguments)), "")
        if inner:
            return f"{inner}_scalar" if SCALAR.match(function.identifier) else inner
    return _plain_operation(function.identifier)


def _scatter_gather(function: Segment, call: list[Segment]) -> str:
    """The first flag of this internal kernel tells scatter from gather; its call operator takes the reduction."""
    reduction = next(
        filter(None, (_operation(argument) for segment in call for argument in segment.arguments)), ""
    )
    direction = "scatter" if function.arguments and function.arguments[0].value == "true" else "gather"
    return f"{reduction}_{direction}" if reduction else direction


def _plain_operation(identifier: str) -> str:
    """`GeluCUDAKernelImpl` as `gelu`, `CUDAFunctorOnSelf_add` as `add_scalar`, any `*_copy_kernel_cuda` as `direct_copy`."""
    operation = snake(without_architecture(identifier)[0])
    if operation.endswith("_copy_kernel_cuda"):
        return "direct_copy"
    scalar = re.match(r"cuda_functor_on_(?:self|other)_(\w+)$", operation)
    if scalar:
        return f"{scalar[1]}_scalar"
    operation = operation.removeprefix("cuda_functor_")
    shortened = True
    while shortened:
        shortened = False
        for end in OPERATION_ENDS:
            if operation.endswith(end) and len(operation) > len(end):
                operation, shortened = operation.removesuffix(end), True
    return operation


def _choices(head: Segment) -> list[str]:
    """Enums that choose the operation: `(GemmType)1` as `gemm_type1`. Zero is the plain case of a GEMM and an addition."""
    found = []
    for argument in head.arguments:
        for name in argument.walk():
            if name.cast and SELECTING.match(name.cast):
                found.append(f"{snake(name.cast)}{name.value}")
    return list(dict.fromkeys(found))


def _types(head: Segment) -> list[str]:
    """Element types among a product's template arguments, in order."""
    types = [data_type(argument) for argument in head.arguments if not argument.cast]
    return [kind for kind in types if kind in COMPUTE_TYPES]


def _variant(tags: list[str], arguments: tuple[Name, ...]) -> Iterator[str]:
    """Architecture tags, then numbers, flags and types of the template arguments in order."""
    tokens = list(tags)
    stack = list(reversed(arguments))
    while stack and len(tokens) < MAX_VARIANT:
        name = stack.pop()
        if STRUCTURAL.match(name.identifier):
            continue
        element = name.value or data_type(name)
        tokens += [element] if element else _closure_types(name)
        if not element:
            for segment in reversed(name.path):
                stack.extend(reversed(segment.arguments))
    return _folded(tokens)


def _closure_types(name: Name) -> list[str]:
    """The types that the last lambda of a path takes; they tell `add` on f32 from `add` on bf16."""
    if any(LOOK_THROUGH.match(segment.identifier) for segment in name.path):
        return []
    for segment in reversed(name.path):
        if segment.identifier == LAMBDA and segment.parameters:
            return list(dict.fromkeys(filter(None, map(data_type, segment.parameters))))
    return []


def _folded(tokens: Iterable[str]) -> Iterator[str]:
    """Runs of flags as one word: `true false true` as `f101`."""
    flags = ""
    for token in tokens:
        if token in ("true", "false"):
            flags += "1" if token == "true" else "0"
            continue
        if flags:
            yield f"f{flags}"
            flags = ""
        yield token
    if flags:
        yield f"f{flags}"
