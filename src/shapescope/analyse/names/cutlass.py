"""CUTLASS and Composable Kernel: products and convolutions that one template argument spells in full."""

from __future__ import annotations

import re
from collections.abc import Iterator

from shapescope.analyse.names.classes import classify
from shapescope.analyse.names.reading import Reading
from shapescope.analyse.names.syntax import Name, Segment
from shapescope.analyse.names.words import COMPUTE_TYPES, data_type, snake, snake_words, without_architecture

LAUNCHERS = frozenset({"Kernel", "Kernel2", "device_kernel"})
WRAPPER = re.compile(r"^enable_\w+$")
UNIVERSAL = frozenset({"GemmUniversal", "GemmUniversalWithVisitor", "Gemm", "GemmGrouped", "GemmSplitKParallel"})
GROUPED = frozenset({"GroupProblemShape", "MoEProblemShape"})
CONVOLUTION = re.compile(r"^(?:ImplicitGemmConvolution\w*|DirectConvolution|ConvUniversal)$")
DIRECTION = re.compile(r"Fprop|Dgrad|Wgrad")
GRIDWISE = re.compile(r"^Gridwise\w+$")
CK_FUNCTION = re.compile(r"^kernel_\w+$")


def launched(head: Segment) -> Name | None:
    """The kernel that a launcher was given, without the wrapper that chooses an architecture."""
    for argument in head.arguments:
        kernel = argument
        while kernel.arguments and WRAPPER.match(kernel.identifier):
            kernel = kernel.arguments[0]
        if kernel.path and not kernel.cast:
            return kernel
    return None


def read(head: Segment) -> Reading | None:
    """The reading of a product that CUTLASS or CK launches; None where the launcher holds something else."""
    kernel = launched(head)
    if kernel is None:
        return None
    if CK_FUNCTION.match(head.identifier) and GRIDWISE.match(kernel.identifier):
        return _composable(head.identifier, kernel)
    if head.identifier not in LAUNCHERS:
        return None
    mains = kernel.arguments
    collective = len(mains) > 2 and mains[1].identifier.startswith("Collective")
    if kernel.identifier == "GemmUniversal" and collective:
        return _cutlass3(*mains[:3])
    if kernel.identifier in UNIVERSAL or CONVOLUTION.match(kernel.identifier):
        return _cutlass2(kernel.identifier, mains)
    return None


def _cutlass3(problem: Name, mainloop: Name, epilogue: Name) -> Reading:
    """Types of A and B from the mainloop, of D from the epilogue; a grouped problem is another kernel."""
    operation = "grouped_gemm" if problem.identifier in GROUPED else "gemm"
    types = dict.fromkeys([*_direct_types(mainloop)[:2], *_direct_types(epilogue)[-1:]])
    dispatch, tags = without_architecture(mainloop.arguments[0].identifier if mainloop.arguments else "")
    tiles = [tile for main in (mainloop, epilogue) for argument in main.arguments[:3] for tile in _tiles(argument)]
    return Reading("_".join(["cutlass3x", operation, *types]), (*tags, *tiles, snake(dispatch)), operation)


def _cutlass2(identifier: str, mains: tuple[Name, ...]) -> Reading:
    """Types of the first iterators; tf32 always writes f32 and stands alone."""
    operation = "grouped_gemm" if identifier == "GemmGrouped" else "gemm"
    if CONVOLUTION.match(identifier):
        directions = (DIRECTION.search(name.identifier) for main in mains for name in main.walk())
        found = next(filter(None, directions), None)
        operation = found[0].lower() if found else "conv"
    inputs = next(_compute_types(mains[0]), "") if mains else ""
    output = next(_compute_types(mains[1]), "") if len(mains) > 1 else ""
    types = [inputs] if inputs == "tf32" else dict.fromkeys([inputs, output])
    tiles = [tile for main in mains[:1] for name in main.walk() for tile in _tiles(name)]
    return Reading("_".join(filter(None, ["cutlass", operation, *types])), tuple(tiles[:3]), classify(operation))


def _composable(function: str, gridwise: Name) -> Reading:
    """CK: `Gridwise..<.., A, B, accumulator, shuffle, D.., E, ..>`; `unsigned short` there is bf16."""
    types: list[str] = []
    for argument in gridwise.arguments:
        kind = data_type(argument)
        if kind in COMPUTE_TYPES:
            types.append("bf16" if kind == "u16" else kind)
        elif types and argument.identifier != "Tuple":
            break
    words = snake_words(function)
    numbers = tuple(name.value for name in gridwise.arguments if name.value and not name.cast)
    kept = dict.fromkeys([*types[:2], *types[-1:]])
    return Reading("_".join(["ck", *words, *kept]), numbers, classify("_".join(words)))


def _direct_types(name: Name) -> list[str]:
    """Element types among the direct arguments; a block-scaled operand is a tuple of its type and another."""
    found = []
    for argument in name.arguments:
        inner = argument.arguments if argument.identifier == "tuple" else (argument,)
        found += list(filter(None, map(data_type, inner)))[:1]
    return [kind for kind in found if kind in COMPUTE_TYPES]


def _compute_types(name: Name) -> Iterator[str]:
    return (kind for kind in map(data_type, name.walk()) if kind in COMPUTE_TYPES)


def _tiles(name: Name) -> list[str]:
    """`GemmShape<128, 128, 32>` and `tuple<C<128>, C<128>, C<64>>` as `128x128x32`, `128x128x64`."""
    if name.identifier == "GemmShape" and all(size.value for size in name.arguments):
        return ["x".join(size.value for size in name.arguments)]
    sizes = [size.arguments[0].value for size in name.arguments if size.identifier == "C" and size.arguments]
    if name.identifier == "tuple" and len(sizes) == len(name.arguments) > 1:
        return ["x".join(sizes)]
    return [tile for argument in name.arguments[-1:] for tile in _tiles(argument)]
