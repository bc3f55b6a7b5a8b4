"""C++ kernels: namespace and function, the operation of a generic launcher, and the types of a product."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from shapescope.analyse.names import cutlass, symbols
from shapescope.analyse.names.classes import CLASSES, classify, keeps_types
from shapescope.analyse.names.functors import LOOK_THROUGH, STRUCTURAL, choices, operations
from shapescope.analyse.names.reading import Reading
from shapescope.analyse.names.syntax import CALL, LAMBDA, Name, Segment
from shapescope.analyse.names.words import COMPUTE_TYPES, data_type, snake, snake_words, without_architecture

MAX_VARIANT = 48

# Namespaces that sort a library's own files, or that a build puts around it: no part of what a kernel is.
PASSED_OVER = frozenset(
    {
        "at",
        "native",
        "cuda",
        "hip",
        "c10",
        "std",
        "detail",
        "details",
        "kernels",
        "kernel",
        "impl",
        "internal",
    }
    | {"ops", "op", "templates", "dev", "device", "cutlass_kernels", "tensor_operation", "core", "launcher"}
    | {"common", "anonymous", "cutlass_extensions", "cuda_cub", "system", "legacy", "apply", "util"}
)
# Library names that say nothing of the work: `deep_gemm::transpose` is no product.
SILENT = frozenset({"cudnn", "cutlass", "cublas", "flash_attn", "fbgemm", "fbgemm_gpu"})
# Libraries of products: the name tells what a function does only where the function does not.
PRODUCTS = frozenset({"marlin", "machete", "awq", "gptq", "exllama", "qserve"})

WHOLE_KERNELS = frozenset({"Kernel", "Kernel2", "device_kernel", "kentry", "kentry_pt"})
ELEMENTWISE = re.compile(r"elementwise|pointwise|multi_tensor|foreach")
INDEXED = re.compile(r"index|scatter|gather")
VECTOR_NORM = ("lp_norm", "l2_norm", "norm_two")
# Elementwise launchers run these operations; a maximum or a sum inside them is an elementwise one.
POINTWISE_CLASSES = frozenset(CLASSES) - {"other", "reduction", "sort", "scan", "gemm"}


def read(name: Name) -> Reading:
    """The reading of a parsed C++ name; its family is empty if there is nothing to read."""
    path = list(_functional(name.path))
    if not path:
        return Reading("")
    head = path[-1]
    return cutlass.read(head) or _launched(head) or _function(path)


def _functional(path: Iterable[Segment]) -> Iterator[Segment]:
    """The path up to the function: a lambda or a call operator that follows is inside it."""
    for segment in path:
        if segment.identifier in (LAMBDA, CALL):
            return
        yield segment


def _launched(head: Segment) -> Reading | None:
    """A launcher of whole kernels adds nothing: `ck_tile::kentry<2, K>` is K."""
    kernel = cutlass.launched(head) if head.identifier in WHOLE_KERNELS else None
    if kernel is None:
        return None
    one_word = len(kernel.path) == 1 and not kernel.arguments
    reading = (symbols.read(kernel.identifier) if one_word else None) or read(kernel)
    numbers = tuple(argument.value for argument in head.arguments if argument.value)
    return replace(reading, variant=(*numbers, *reading.variant)) if reading.family else None


def _function(path: list[Segment]) -> Reading:
    head = path[-1]
    namespaces, tags = _namespaces(segment.identifier for segment in path[:-1])
    identifier, more_tags = without_architecture(head.identifier)
    base = snake_words(identifier) if identifier.lower() != "kernel" else []
    chosen = [*operations(head), *choices(head)]
    kernel_class = _class(namespaces, base, chosen)
    if kernel_class == "other":
        base = [identifier]
    types = _types(head) if keeps_types(kernel_class, "_".join([*base, *chosen])) else []
    words = [*_library(namespaces, base), *base, *chosen, *types]
    return Reading("_".join(words), tuple(_variant([*tags, *more_tags], head.arguments)), kernel_class)


def _namespaces(identifiers: Iterable[str]) -> tuple[list[str], list[str]]:
    """The namespaces that stay, and the architecture tags that were taken out of them."""
    kept: dict[str, None] = {}
    tags: list[str] = []
    for identifier in identifiers:
        if identifier in PASSED_OVER:
            continue
        plain, removed = without_architecture(identifier)
        tags += removed
        kept[snake(plain)] = None
    return list(filter(None, kept)), tags


def _library(namespaces: list[str], base: list[str]) -> list[str]:
    """Library first; an inner namespace that the function repeats is left out: `norm::RMSNorm`."""
    joined = "_".join(base)
    return namespaces[:1] + [word for word in namespaces[1:] if word not in joined]


def _class(namespaces: list[str], base: list[str], chosen: list[str]) -> str:
    """By the operation where an elementwise launcher runs it, else by all words together."""
    function, operation = "_".join(base), "_".join(chosen)
    if function == "reduce":
        return "reduction"
    if function.startswith("index_func"):
        return "scatter"
    if chosen and ELEMENTWISE.search(function):
        if operation.startswith(VECTOR_NORM):
            return "reduction"
        judged = classify(operation)
        if judged in POINTWISE_CLASSES:
            return judged
        return "scatter" if INDEXED.search(function) else "elementwise"
    told = [word for word in namespaces if word not in SILENT | PRODUCTS]
    fallback = "gemm" if PRODUCTS.intersection(namespaces) else ""
    return classify("_".join([*told, *base, *chosen]), fallback)


def _types(head: Segment) -> list[str]:
    """Element types among a product's template arguments, in order."""
    types = [data_type(argument) for argument in head.arguments]
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
            stack.extend(inner for segment in reversed(name.path) for inner in reversed(segment.arguments))
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
    """Flags in a row as one word: `true false true` as `f101`."""
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
