"""What a cost is, and what it is computed from: one call of an op as a trace describes it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from shapescope.analyse.cost.work import Work

PER_RANK = "per rank; each operand moved once"
MESSAGE = "per rank; algorithm bandwidth: message bytes over time"

# Bits of one stored element, by the spelling of `Input type` in torch traces.
ELEMENT_BITS = {
    "bool": 8,
    "signed char": 8,
    "unsigned char": 8,
    "short int": 16,
    "int": 32,
    "unsigned int": 32,
    "long int": 64,
    "long": 64,
    "float": 32,
    "double": 64,
    "c10::BFloat16": 16,
    "c10::Half": 16,
    "c10::Float8_e4m3fn": 8,
    "c10::Float8_e4m3fnuz": 8,
    "c10::Float8_e5m2": 8,
    "c10::Float8_e5m2fnuz": 8,
    "c10::Float8_e8m0fnu": 8,
    "c10::Float4_e2m1fn_x2": 8,
    "c10::complex<float>": 64,
    "c10::complex<double>": 128,
}

# The number type that the multiply units see, by element type: the key of a device's peaks.
MATH = {
    "float": "fp32",
    "double": "fp64",
    "c10::BFloat16": "bf16",
    "c10::Half": "fp16",
    "c10::Float8_e4m3fn": "fp8",
    "c10::Float8_e4m3fnuz": "fp8",
    "c10::Float8_e5m2": "fp8",
    "c10::Float8_e5m2fnuz": "fp8",
    "c10::Float4_e2m1fn_x2": "fp4",
    "signed char": "int8",
}

INTEGERS = {"int", "long int", "long", "unsigned int", "short int"}

# `ScalarType` numbers, as `Concrete Inputs` print a dtype argument (c10/core/ScalarType.h).
SCALAR_TYPES = {
    "1": "signed char",
    "3": "int",
    "4": "long int",
    "5": "c10::Half",
    "6": "float",
    "7": "double",
    "15": "c10::BFloat16",
    "23": "c10::Float8_e5m2",
    "24": "c10::Float8_e4m3fn",
}


@dataclass(frozen=True, slots=True)
class Cost:
    """Work and traffic of one op call on one rank.

    `flops` counts a multiply-add as two and a transcendental as one. `bytes` is the traffic that no
    implementation can avoid: each operand read once, each result written once. Where the trace does not fix a
    figure (routing, context length, gathered rows), it is the least that fits and `*_upper` the most;
    otherwise both are equal. None is unknown. `math` is the number type that the work is done in (`vector`:
    outside the matrix units; None: no arithmetic). `rows` is the dimension that grows with the captured size,
    where there is one; `real` says that the work is that of the real requests alone, padding left out.
    """

    flops: int | None
    flops_upper: int | None
    bytes: int | None
    bytes_upper: int | None
    math: str | None = None
    rows: int | None = None
    basis: str = PER_RANK
    note: str | None = None
    real: bool = False

    @classmethod
    def exact(
        cls,
        flops: int | None,
        moved: int | None,
        *,
        math: str | None = None,
        rows: int | None = None,
        note: str | None = None,
    ) -> Cost:
        """A cost without bounds: what the dims say is all there is."""
        return cls(flops, flops, moved, moved, math, rows, PER_RANK, note)


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor argument: its shape and the element type as the trace spells it ("" where it does not)."""

    shape: tuple[int, ...]
    type: str

    @property
    def numel(self) -> int:
        return prod(self.shape)

    @property
    def bits(self) -> int | None:
        return ELEMENT_BITS.get(self.type)

    @property
    def bytes(self) -> int | None:
        """Size in memory, None where the element type is unknown."""
        return None if self.bits is None else self.numel * self.bits // 8

    @property
    def is_index(self) -> bool:
        return self.type in INTEGERS

    @property
    def rows(self) -> int:
        """All dimensions but the last, multiplied."""
        return prod(self.shape[:-1])

    def like(self, *shape: int) -> Tensor:
        """A tensor of this type and another shape, such as a result that the trace does not list."""
        return Tensor(shape, self.type)


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel of the op call, where its name and grid (in blocks) say more than the dims do."""

    name: str
    grid: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Call:
    """One op call. `arguments` keep their position: a Tensor, a tuple of Tensors for a list, None for
    anything else.
    """

    op: str
    arguments: tuple[Tensor | tuple[Tensor, ...] | None, ...]
    concrete: tuple[str, ...] = ()
    kernel_class: str | None = None
    kernels: tuple[Kernel, ...] = ()
    work: Work | None = None
    context_len: int | None = None

    @property
    def name(self) -> str:
        """The op without its namespace."""
        return self.op.rpartition("::")[2]

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All tensors in order, lists opened."""
        found: list[Tensor] = []
        for argument in self.arguments:
            if isinstance(argument, Tensor):
                found.append(argument)
            elif argument is not None:
                found.extend(argument)
        return tuple(found)

    def tensor(self, position: int) -> Tensor | None:
        """The tensor argument at this position, if it is one."""
        argument = self.arguments[position] if position < len(self.arguments) else None
        return argument if isinstance(argument, Tensor) else None

    def scalar(self, position: int) -> str:
        """The printed value of a scalar argument, "" where the trace holds none."""
        return self.concrete[position] if position < len(self.concrete) else ""

    def matches(self, pattern: str) -> bool:
        return re.search(pattern, self.op) is not None


def parse_arguments(dims: Sequence[object], types: Sequence[str]) -> tuple[Tensor | tuple[Tensor, ...] | None, ...]:
    """`Input Dims` and `Input type` as arguments. A 0-dim tensor has dims [] like a scalar, but an element
    type.
    """
    arguments: list[Tensor | tuple[Tensor, ...] | None] = []
    for position, dim in enumerate(dims):
        kind = types[position] if position < len(types) else ""
        if not isinstance(dim, list):
            arguments.append(None)
        elif dim and all(isinstance(item, list) for item in dim):
            arguments.append(tuple(Tensor(tuple(item), "") for item in dim))
        elif dim or kind in ELEMENT_BITS:
            arguments.append(Tensor(tuple(dim), kind))
        else:
            arguments.append(None)
    return tuple(arguments)


def moved(*tensors: Tensor | None) -> int | None:
    """Bytes of these tensors together, None as soon as one has an unknown element type; absent ones are
    skipped.
    """
    total = 0
    for tensor in tensors:
        if tensor is None:
            continue
        if tensor.bytes is None:
            return None
        total += tensor.bytes
    return total
