"""What sizes the dims of captures imply, against what their names claim.

Captures of one runner run the same ops over and over; among their dims those that follow the size vary from file to
file. Where names and dims disagree, a file was mislabelled, as a counter that ran out of step does it: the dims decide.
Without dims the profiler's step number still tells the order of captures, and sizes are captured in order.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain

import numpy as np
import numpy.typing as npt

from shapescope.read.identity import Window
from shapescope.read.part import Part

Parts = list[tuple[int, str, Part]]

# A lone capture is doubted only if this share of its launches agrees on another size and none knows the claimed one.
_LONE_SHARE = 0.5
# Sizes come back as small multiples in dims: draft tokens, experts per token, heads folded into the batch.
_LARGEST_MULTIPLE = 16
_ORDER_CONFIDENCE = 0.5


@dataclass(frozen=True, slots=True)
class _Claim:
    """One window with what it claims and the leading dims of its launches."""

    part: int
    window: int
    claimed: int | None
    ops: tuple[str | None, ...]
    leading: tuple[tuple[int, ...], ...]
    profiler_step: int | None = None


def with_inferred_sizes(parts: Parts) -> Parts:
    """Give each capture the size that its dims imply where its name, or nothing, said otherwise.

    A name that dims contradict loses: the size in the tables is the inferred one, the window keeps both and a confidence.
    One that only the order contradicts stays, and is told; so is the inferred size of what has none.
    """
    groups: dict[tuple[object, ...], list[_Claim]] = defaultdict(list)
    for number, (run, _, part) in enumerate(parts):
        for claim, window in zip(_claims(number, part), part.windows, strict=True):
            alike = claim.ops if any(claim.leading) else window.label.variants
            groups[run, part.rank.rank, window.label.runner, alike].append(claim)
    inferred = {
        (claim.part, claim.window): found
        for claims in groups.values()
        for claim, found in zip(claims, _inferred(claims), strict=True)
        if found is not None
    }
    return [
        (run, name, replace(part, windows=tuple(
            _decided(window, inferred.get((number, at))) for at, window in enumerate(part.windows))))
        for number, (run, name, part) in enumerate(parts)
    ]  # fmt: skip


def _claims(number: int, part: Part) -> list[_Claim]:
    ops, dims = part.captured["op"].to_list(), part.captured["dims"].to_list()
    leading = {text: leading_dims(text) for text in set(dims)}
    rows: list[list[int]] = [[] for _ in part.windows]
    for row, at in enumerate(part.captured["window"].to_list()):
        rows[at].append(row)
    return [
        _Claim(
            number, at, window.label.size,
            ops=tuple(ops[row] for row in rows[at]),
            leading=tuple(leading[dims[row]] for row in rows[at]),
            profiler_step=part.profiler_step,
        )
        for at, window in enumerate(part.windows)
    ]  # fmt: skip


@lru_cache(maxsize=65536)
def leading_dims(dims: str | None) -> tuple[int, ...]:
    """The first dim of each tensor among an op's inputs: `[[32,4096],[],[8]]` gives 32 and 8."""
    try:
        inputs = json.loads(dims) if dims else []
    except ValueError:
        return ()
    return tuple(one[0] for one in inputs if isinstance(one, list) and one and isinstance(one[0], int))


def _inferred(claims: Sequence[_Claim]) -> list[tuple[int, float] | None]:
    """For each claim the implied size and a confidence, or None where the dims imply nothing."""
    if len(claims) == 1:
        return [_alone(claims[0])]
    if any(any(claim.leading) for claim in claims):
        return _together(claims) or [_alone(claim) for claim in claims]
    return _in_order(claims)


def _in_order(claims: Sequence[_Claim]) -> list[tuple[int, float] | None]:
    """Sizes are captured from the largest to the smallest, some engines the other way round: who is out of order?

    The order alone does not say which of two neighbours is wrong, so the confidence is low.
    """
    steps = [claim.profiler_step for claim in claims]
    sizes = [claim.claimed for claim in claims]
    if None in steps or None in sizes or len(set(steps)) < len(steps):
        return [None] * len(claims)
    by_step = sorted(range(len(claims)), key=lambda at: steps[at] or 0)
    orders = [sorted((size or 0 for size in sizes), reverse=reverse) for reverse in (True, False)]
    best = min(orders, key=lambda order: sum(size != sizes[at] for at, size in zip(by_step, order, strict=True)))
    implied = {at: size for at, size in zip(by_step, best, strict=True) if size != sizes[at]}
    if 2 * len(implied) > len(claims):
        return [None] * len(claims)
    return [(implied[at], _ORDER_CONFIDENCE) if at in implied else None for at in range(len(claims))]


def _together(claims: Sequence[_Claim]) -> list[tuple[int, float] | None] | None:
    """Captures of the same ops: the leading dims that vary from one to the next are the sizes, or a multiple of them."""
    flat = [tuple(chain.from_iterable(claim.leading)) for claim in claims]
    if not flat[0] or any(len(one) != len(flat[0]) for one in flat):
        return None
    values = np.array(flat, dtype=np.int64)
    varying = values[:, (values != values[:1]).any(axis=0)]
    if not varying.shape[1]:
        return None
    sizes, votes = Counter(map(tuple, varying.T.tolist())).most_common(1)[0]
    vector = np.array(sizes, dtype=np.int64)
    claimed = [claim.claimed for claim in claims]
    multiple = _multiple(vector, claimed)
    if multiple is None:
        return None
    if multiple > 1 and sorted(vector // multiple) != sorted(claim or 0 for claim in claimed):
        return [None] * len(claims)  # rounded up somewhere, rather than mislabelled
    agreeing = _share_in_proportion(varying, vector)
    confidence = max(agreeing, votes / varying.shape[1])
    return [(int(size // multiple), round(confidence, 2)) for size in vector]


def _multiple(vector: npt.NDArray[np.int64], claimed: Sequence[int | None]) -> int | None:
    """How many times larger than the size the varying dim is: 1 where the claims are a permutation of it."""
    known = [(size, claim) for size, claim in zip(vector.tolist(), claimed, strict=True) if claim]
    if not known or sorted(size for size, _ in known) == sorted(claim for _, claim in known):
        return 1
    ratios = Counter(size // claim for size, claim in known if size % claim == 0)
    if not ratios:
        return None
    multiple, votes = ratios.most_common(1)[0]
    divides = not (vector % multiple).any()
    return multiple if divides and votes * 2 > len(known) and multiple <= _LARGEST_MULTIPLE else None


def _share_in_proportion(varying: npt.NDArray[np.int64], vector: npt.NDArray[np.int64]) -> float:
    proportional = varying[:1] * vector[:, None] == varying * vector[:1, None]
    return float(proportional.all(axis=0).mean())


def _alone(claim: _Claim) -> tuple[int, float] | None:
    counts: Counter[int] = Counter()
    total = 0
    for launch, times in Counter(claim.leading).items():
        counts.update(dict.fromkeys(launch, times))
        total += times if launch else 0
    if not total:
        return None
    if claim.claimed:
        multiples = {claim.claimed * times for times in range(1, _LARGEST_MULTIPLE + 1)}
        if any(size in multiples for size in counts):
            return None
    size, votes = max(counts.items(), key=lambda item: (item[1], -item[0]))
    return (size, round(votes / total, 2)) if votes / total >= _LONE_SHARE else None


def _decided(window: Window, found: tuple[int, float] | None) -> Window:
    if found is None or found[0] == window.label.size or window.key_source == "metadata":
        return window
    size, confidence = found
    window = replace(window, inferred=replace(window.label, size=size, sequence=None), confidence=confidence)
    if window.label.size is None:
        return window
    words = f"{window.label.words} is claimed, the content implies {replace(window.label, size=size).words}"
    window = replace(window, mismatch=window.mismatch or words)
    if window.key_source == "name" and confidence > _ORDER_CONFIDENCE:
        return replace(window, claimed=window.label, label=replace(window.label, size=size), key_source="content")
    return window
