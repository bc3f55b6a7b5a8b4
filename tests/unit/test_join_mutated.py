"""Never wrong without saying so: pairs with a known truth, mutated, and not one trusted row may be wrong."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mutated import (
    Kernel,
    Launch,
    Pair,
    dropped,
    generated_pairs,
    names_removed,
    real_launches,
    renamed,
    repeated,
    swapped,
    two_dropped,
    with_preamble,
)

Mutation = Callable[[st.DrawFn, Pair], Pair]
MUTATIONS: dict[str, tuple[Mutation, ...]] = {
    "unmutated": (),
    "names removed": (names_removed,),
    "swapped": (swapped,),
    "dropped": (dropped,),
    "two dropped": (two_dropped,),
    "renamed": (renamed,),
    "preamble": (with_preamble,),
    "repeated": (repeated,),
    "preamble, dropped": (with_preamble, dropped),
    "names removed, dropped": (names_removed, dropped),
    "preamble, renamed": (with_preamble, renamed),
}
RECALL = {"unmutated": 1.0, "dropped": 0.99, "renamed": 0.99, "swapped": 0.9, "preamble": 1.0}
# A thousand pairs in all.
EXAMPLES = 91


@pytest.fixture(scope="module")
def real(traces: Path) -> list[Pair]:
    """Both real captures as they are: one graph of 544 launches, 25 of 361."""
    folders = ("sglang_qwen3_8b_mi300x_bs32", "vllm_gptoss_mi300x_piecewise")
    return [Pair.of(segment) for folder in folders for segment in real_launches(traces / folder)]


@pytest.fixture(scope="module")
def recall() -> dict[str, list[int]]:
    """Right rows, and rows that have a launch, by what was done to them."""
    return defaultdict(lambda: [0, 0])


def mutated(draw: st.DrawFn, pair: Pair, mutations: tuple[Mutation, ...]) -> Pair:
    for mutation in mutations:
        if pair.kernels:
            pair = mutation(draw, pair)
    return pair


@pytest.mark.parametrize("kind", list(MUTATIONS))
def test_no_trusted_row_is_wrong(kind: str, real: list[Pair], recall: dict[str, list[int]]) -> None:
    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(st.data())
    def hold(data: st.DataObject) -> None:
        base = data.draw(st.one_of(generated_pairs(), generated_pairs(), st.sampled_from(real)))
        pair = mutated(data.draw, base, MUTATIONS[kind])
        right, wrong, known = pair.judged()
        assert wrong == 0, pair
        recall[kind][0] += right
        recall[kind][1] += known

    hold()
    right, known = recall[kind]
    assert right >= RECALL.get(kind, 0) * known, (kind, right / known)


def test_of_launches_whose_names_are_not_known_a_kernel_on_any_stream_may_be_one() -> None:
    """Of four launches the first is missing; the second, of no known name, bore the same one."""
    launches = [Launch(name, None, f"[[{at},8]]") for at, name in enumerate(["twice", None, None, "twice"])]
    kernels = Kernel("twice", None, 1, 9), Kernel("once", None, 2, 7), Kernel("twice", None, 3, 9)
    assert Pair(tuple(launches), kernels).judged() == (0, 0, 3)


def test_a_kernel_that_the_merged_order_leaves_alone_may_have_come_from_another_stream() -> None:
    names = ["a", "lane", "b", "lane", "a", "lane", "b", "lane"]
    launches = [Launch(name, None, f"[[{name},8]]", module=f"Layer_{at // 4}") for at, name in enumerate(names)]
    kernels = list(Pair.of(launches, [9 if name == "lane" else 7 for name in names]).kernels)
    kernels[2], kernels[7] = replace(kernels[7], stream=7), replace(kernels[2], stream=9)
    right, wrong, _ = Pair(tuple(launches), tuple(kernels)).judged()
    assert (right, wrong) == (3, 0)
