"""CUTLASS and Composable Kernel: products and convolutions whose one template argument spells the whole kernel."""

from __future__ import annotations

import re
from collections.abc import Iterator

from shapescope.analyse.names.classes import classify
from shapescope.analyse.names.reading import Reading
from shapescope.analyse.names.syntax import Name, Segment
from shapescope.analyse.names.words import COMPUTE_TYPES, data_type, snake, snake_words, without_architecture

UNIVERSAL = frozenset({"GemmUniversal", "GemmUniversalWithVisitor"})
CONVOLUTION = re.compile(r"^(?:ImplicitGemmConvolution\w*|DirectConvolution|ConvUniversal)$")
DIRECTION = re.compile(r"(Fprop|Dgrad|Wgrad)")
GRIDWISE = re.compile(r"^Gridwise\w+$")
CK_FUNCTION = re.compile(r"^kernel_\w+$")
WRAPPER = re.compile(r"^enable_\w+$")
MAX_TYPES = 4096


def read(head: Segment) -> Reading | None:
    """The reading of a CUTLASS or CK launcher's product, or None where the launcher holds something else."""
    kernel = next((argument for argument in head.arguments if argument.path), None)
    while kernel is not None and WRAPPER.match(kernel.identifier) and kernel.arguments:
        kernel = kernel.arguments[0]
    if kernel is None:
        return None
    if head.identifier in ("Kernel", "Kernel2", "device_kernel"):
        return _cutlass(kernel)
    if CK_FUNCTION.match(head.identifier) and GRIDWISE.match(kernel.identifier):
        return _composable(head.identifier, kernel)
    return None


def _cutlass(kernel: Name) -> Reading | None:
    identifier = kernel.identifier
    mains = kernel.arguments
    if identifier in UNIVERSAL and len(mains) > 2 and mains[1].identifier.startswith("Collective"):
        return _cutlass3(mains)
    if (
        identifier in UNIVERSAL
        or identifier in ("Gemm", "GemmGrouped", "GemmSplitKParallel")
        or CONVOLUTION.match(identifier)
    ):
        return _cutlass2(identifier, mains)
    return None


def _cutlass3(mains: tuple[Name, ...]) -> Reading:
    """Types of A and B from the mainloop, of D from the epilogue; a grouped problem is another kernel."""
    problem, mainloop, epilogue = mains[0], mains[1], mains[2]
    grouped = problem.identifier in ("GroupProblemShape", "MoEProblemShape")
    inputs = _direct_types(mainloop)[:2]
    outputs = _direct_types(epilogue)[-1:]
    words = ["cutlass3x", "grouped_gemm" if grouped else "gemm", *dict.fromkeys(inputs + outputs)]
    dispatch, tags = without_architecture(mainloop.arguments[0].identifier if mainloop.arguments else "")
    tiles = [
        tile for main in (mainloop, epilogue) for argument in main.arguments[:3] for tile in _tiles(argument)
    ]
    return Reading("_".join(words), (*tags, *tiles, snake(dispatch)), "grouped_gemm" if grouped else "gemm")


def _cutlass2(identifier: str, mains: tuple[Name, ...]) -> Reading:
    """Types of the first iterators; tf32 always writes f32, so that it stands alone."""
    operation = "grouped_gemm" if identifier == "GemmGrouped" else "gemm"
    if CONVOLUTION.match(identifier):
        directions = (DIRECTION.search(name.identifier) for main in mains for name in main.walk())
        found = next(filter(None, directions), None)
        operation = found[1].lower() if found else "conv"
    inputs = next(_compute_types(mains[0]), "") if mains else ""
    output = next(_compute_types(mains[1]), "") if len(mains) > 1 else ""
    types = [inputs] if inputs == "tf32" else list(dict.fromkeys([inputs, output]))
    tiles = [tile for main in mains[:1] for name in main.walk() for tile in _tiles(name)][:3]
    family = "_".join(filter(None, ["cutlass", operation, *types]))
    return Reading(family, tuple(tiles), classify(operation))


def _composable(function: str, gridwise: Name) -> Reading:
    """CK: `Gridwise..<.., A, B, accumulator, shuffle, D.., E, ..>`; `unsigned short` there is bf16."""
    types: list[str] = []
    for argument in gridwise.arguments:
        kind = data_type(argument)
        if kind in COMPUTE_TYPES:
            types.append("bf16" if kind == "u16" else kind)
        elif types and argument.identifier != "Tuple":
            break
    chosen = list(dict.fromkeys([*types[:2], *types[-1:]]))
    words = snake_words(function)
    kernel_class = classify("_".join(words))
    numbers = [name.value for name in gridwise.arguments if name.value and not name.cast]
    return Reading("_".join(["ck", *words, *chosen]), tuple(numbers), kernel_class)


def _direct_types(name: Name) -> list[str]:
    """Element types among the direct arguments; a block-scaled operand is a tuple of its type and its scale's."""
    found = []
    for argument in name.arguments:
        kind = data_type(argument)
        if not kind and argument.identifier == "tuple":
            kind = next(filter(None, map(data_type, argument.arguments)), "")
        if kind in COMPUTE_TYPES:
            found.append(kind)
    return found


def _compute_types(name: Name) -> Iterator[str]:
    for inner in name.walk():
        kind = data_type(inner)
        if kind in COMPUTE_TYPES:
            yield kind


def _tiles(name: Name) -> list[str]:
    """`GemmShape<128, 128, 32>` and `tuple<C<128>, C<128>, C<64>>` as `128x128x32`, `128x128x64`."""
    if name.identifier in ("GemmShape", "MatrixShape") and all(size.value for size in name.arguments):
        return ["x".join(size.value for size in name.arguments)]
    sizes = [size.arguments[0].value for size in name.arguments if size.identifier == "C" and size.arguments]
    if name.identifier == "tuple" and len(sizes) == len(name.arguments) > 1:
        return ["x".join(sizes)]
    return (
        [tile for argument in name.arguments[-1:] for tile in _tiles(argument)]
        if name.identifier.startswith("Mainloop")
        else []
    )
