"""Pairs of a captured and a replayed sequence whose true join is known, and what collectors and schedulers do to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl
from hypothesis import strategies as st

from shapescope.analyse.join.pairing import Pairing, Sure, pair
from shapescope.analyse.join.sequences import coded
from shapescope.read.run import open_run

RENAMED = "a_kernel_that_nothing_captured"
SHOWN = {
    "work": pl.String, "kernel": pl.String, "op": pl.String, "grid": pl.String, "block": pl.String, "stream": pl.Int64,
    "node_id": pl.Int64,
}  # fmt: skip
GIVEN = {"dims": pl.String, "types": pl.String, "module": pl.String}


@dataclass(frozen=True)
class Launch:
    """A captured launch, with what it gives to its kernel."""

    kernel: str | None
    grid: str | None
    dims: str
    op: str | None = "aten::op"
    module: str | None = None
    work: str = "kernel"

    @property
    def info(self) -> tuple[str | None, str, str | None]:
        return self.op, self.dims, self.module


@dataclass(frozen=True)
class Kernel:
    """A replayed kernel; `launch` is the place of the launch it truly came from, None for one of no launch."""

    kernel: str
    grid: str | None
    launch: int | None
    stream: int = 7
    work: str = "kernel"

    @property
    def shown(self) -> tuple[str, str | None, int]:
        """What a trace shows of it, by which the mutator tells two apart."""
        return self.kernel, self.grid, self.stream


@dataclass(frozen=True)
class Pair:
    """One graph: what was captured, what a replay shows."""

    launches: tuple[Launch, ...]
    kernels: tuple[Kernel, ...]

    @classmethod
    def of(cls, launches: Sequence[Launch], streams: Sequence[int] = ()) -> Pair:
        """Unmutated: every launch has its kernel, in order."""
        lanes = streams or [7] * len(launches)
        kernels = [
            Kernel(launch.kernel or "", launch.grid, at, stream, launch.work)
            for at, (launch, stream) in enumerate(zip(launches, lanes, strict=True))
        ]
        return cls(tuple(launches), tuple(kernels))

    def paired(self) -> Pairing:
        """The join's answer."""
        replayed = pl.DataFrame(
            [(one.work, one.kernel, None, one.grid, None, one.stream, None) for one in self.kernels],
            schema=SHOWN,
            orient="row",
        )
        captured = pl.DataFrame(
            [
                (one.work, one.kernel, one.op, one.grid, None, None, None, one.dims, None, one.module)
                for one in self.launches
            ],
            schema=SHOWN | GIVEN,
            orient="row",
        )
        return pair(*coded(replayed, captured))

    def judged(self) -> tuple[int, int, int]:
        """Trusted and right, trusted and wrong, and kernels that have a launch and still bear its name."""
        found = self.paired()
        right = wrong = 0
        for kernel, sure, source in zip(self.kernels, found.sure.tolist(), found.source.tolist(), strict=True):
            if sure not in (Sure.EXACT, Sure.ALIGNED):
                continue
            if kernel.launch is not None and self.launches[source].info == self.launches[kernel.launch].info:
                right += 1
            else:
                wrong += 1
        return right, wrong, sum(one.launch is not None and one.kernel != RENAMED for one in self.kernels)


def real_launches(folder: Path) -> list[list[Launch]]:
    """The segments of a real capture."""
    captured = open_run(folder / "capture").assembly.captured.sort("segment", "seq")
    return [
        [
            Launch(kernel, None, dims, op, module)
            for kernel, dims, op, module in segment.select("kernel", "dims", "op", "module").iter_rows()
        ]
        for segment in captured.partition_by("segment", maintain_order=True)
    ]


@st.composite
def generated_pairs(draw: st.DrawFn) -> Pair:
    """A preamble, layers of one period that are told apart by their modules, an end; on one stream or two."""
    with_grid = draw(st.booleans())
    names = st.sampled_from([f"kernel_{n}" for n in range(draw(st.integers(2, 12)))])

    def stretch(shortest: int, longest: int) -> list[tuple[str, str | None]]:
        drawn = draw(st.lists(names, min_size=shortest, max_size=longest))
        grids = [f"[{draw(st.integers(1, 3))},1,1]" if with_grid else None for _ in drawn]
        return list(zip(drawn, grids, strict=True))

    period, layers = stretch(1, 10), draw(st.integers(1, 10))
    shown = [*stretch(0, 4), *period * layers, *stretch(0, 4)]
    # Two neighbours that show the same cannot be told apart by anybody once one of them is gone.
    shown = [one for at, one in enumerate(shown) if at == 0 or one != shown[at - 1]]
    plain = draw(st.booleans())
    launches = [
        Launch(name, grid, f"[[{at if not plain else name},8]]", module=f"Layer_{at // max(1, len(period))}")
        for at, (name, grid) in enumerate(shown)
    ]
    lanes = {name: draw(st.sampled_from([7, 7, 9])) for name, _ in shown}
    several = draw(st.booleans())
    return Pair.of(launches, [lanes[name] if several else 7 for name, _ in shown])


def names_removed(draw: st.DrawFn, pair: Pair) -> Pair:
    """A capture on NVIDIA: no names, or only those that a compiler wrote down."""
    kept = draw(st.sampled_from(["none", "some"]))
    launches = [
        replace(launch, kernel=launch.kernel if kept == "some" and at % 3 == 0 else None, grid=None)
        for at, launch in enumerate(pair.launches)
    ]
    return replace(pair, launches=tuple(launches))


def swapped(draw: st.DrawFn, pair: Pair) -> Pair:
    """Up to one pair in twenty changed places: within the stretch, or over streams with the place the stream too."""
    kernels = list(pair.kernels)
    used: set[int] = set()
    for _ in range(draw(st.integers(1, max(1, len(kernels) // 40)))):
        one, other = draw(st.integers(0, len(kernels) - 1)), draw(st.integers(0, len(kernels) - 1))
        near = draw(st.booleans())
        other = min(one + 1, len(kernels) - 1) if near else other
        if used & {one, other} or kernels[one].shown[:2] == kernels[other].shown[:2]:
            continue
        used |= {one, other}
        streams = kernels[one].stream, kernels[other].stream
        kernels[one], kernels[other] = (
            replace(kernels[other], stream=streams[0]),
            replace(kernels[one], stream=streams[1]),
        )
    return replace(pair, kernels=tuple(kernels))


def dropped(draw: st.DrawFn, pair: Pair) -> Pair:
    at = draw(st.integers(0, len(pair.kernels) - 1))
    return replace(pair, kernels=pair.kernels[:at] + pair.kernels[at + 1 :])


def two_dropped(draw: st.DrawFn, pair: Pair) -> Pair:
    at = draw(st.integers(0, len(pair.kernels) - 1))
    return replace(pair, kernels=pair.kernels[:at] + pair.kernels[at + 2 :])


def renamed(draw: st.DrawFn, pair: Pair) -> Pair:
    at = draw(st.integers(0, len(pair.kernels) - 1))
    other = replace(pair.kernels[at], kernel=RENAMED)
    return replace(pair, kernels=(*pair.kernels[:at], other, *pair.kernels[at + 1 :]))


def with_preamble(draw: st.DrawFn, pair: Pair) -> Pair:
    """Kernels before the graph's own, under the same launch; some bear names that the graph has too."""
    count = draw(st.integers(1, 4))
    strange = [Kernel(f"preamble_{n}", pair.kernels[0].grid if pair.kernels else None, None) for n in range(count)]
    return replace(pair, kernels=(*strange, *pair.kernels))


def repeated(draw: st.DrawFn, pair: Pair) -> Pair:
    """The replay shows a stretch of the graph twice, as when it was launched again and lost its own launch."""
    until = draw(st.integers(1, len(pair.kernels)))
    return replace(pair, kernels=(*(replace(one, launch=None) for one in pair.kernels[:until]), *pair.kernels))
