"""Which sizes to capture: one policy, shared by every runner.

Sizes are named, or follow from a maximum (dense where batches are small, sparse above, as engines have it), or from
observed traffic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from shapescope.errors import UsageError

# Up to each bound sizes stand this far apart: padding stays a small share of a batch.
_STEPS = ((8, 0), (256, 8), (512, 16), (1 << 30, 32))


def checked_sizes(sizes: Sequence[int]) -> list[int]:
    """Sizes in ascending order. Raises UsageError where one is not positive or is asked for twice."""
    if not sizes:
        raise UsageError("no size to capture", "Pass at least one, such as --sizes 1,2,4.")
    for size in sizes:
        if size < 1:
            raise UsageError(f"size {size} cannot be captured", "Sizes count requests or tokens: pass 1 or more.")
    ascending = sorted(sizes)
    for one, other in pairwise(ascending):
        if one == other:
            raise UsageError(f"size {one} is asked for twice", "Name each size once.")
    return ascending


def sizes_up_to(maximum: int) -> list[int]:
    """1, 2, 4, 8, then every 8th to 256, every 16th to 512, every 32nd above; the maximum itself is always one."""
    if maximum < 1:
        raise UsageError(f"a maximum of {maximum} leaves no size to capture", "Pass 1 or more.")
    sizes = [size for size in (1, 2, 4, 8) if size <= maximum]
    for (below, _), (bound, step) in pairwise(_STEPS):
        sizes += range(below + step, min(bound, maximum) + 1, step)
    return sorted({*sizes, maximum})


def sizes_for_traffic(steps: Mapping[int, int], count: int) -> list[int]:
    """At most `count` sizes that cover every batch seen, with the fewest padded slots over all steps.

    `steps` counts the steps seen at each real batch size. Raises UsageError without any.
    """
    real = checked_sizes([size for size, seen in steps.items() if seen > 0])
    if count < 1:
        raise UsageError(f"{count} sizes cannot cover anything", "Pass 1 or more.")
    # padded[j] after k rounds: the fewest slots wasted on the first j real sizes with at most k captured ones.
    padded, chosen = _one_size(real, steps), [[size] for size in real]
    for _ in range(1, min(count, len(real))):
        padded, chosen = _one_more(real, steps, padded, chosen)
    return chosen[-1]


def _one_size(real: Sequence[int], steps: Mapping[int, int]) -> list[int]:
    return [_waste(real[: index + 1], steps) for index in range(len(real))]


def _one_more(
    real: Sequence[int], steps: Mapping[int, int], padded: list[int], chosen: list[list[int]]
) -> tuple[list[int], list[list[int]]]:
    """Let each prefix end in one more captured size: the best place for the one before it."""
    new_padded, new_chosen = padded[:], chosen[:]
    for last in range(len(real)):
        for split in range(last):
            wasted = padded[split] + _waste(real[split + 1 : last + 1], steps)
            if wasted < new_padded[last]:
                new_padded[last], new_chosen[last] = wasted, [*chosen[split], real[last]]
    return new_padded, new_chosen


def _waste(sizes: Sequence[int], steps: Mapping[int, int]) -> int:
    """Slots that run empty when all these sizes run at the largest of them."""
    return sum((sizes[-1] - size) * steps[size] for size in sizes)
