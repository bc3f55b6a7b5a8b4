"""A tape has a device graph's semantics: fixed memory, static outputs, no Python of the model, honest refusals."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist
from torch.utils._pytree import tree_leaves

from shapescope.errors import CaptureError
from shapescope.tape import TapeGraph


def captured(forward: Callable[[], torch.Tensor]) -> tuple[TapeGraph, torch.Tensor]:
    graph = TapeGraph()
    with graph.capturing():
        output = forward()
    return graph, output


@pytest.mark.parametrize(
    "step",
    [
        lambda x: x.relu().sum(-1, keepdim=True) * x,
        lambda x: torch.softmax(x @ x.T, dim=-1),
        lambda x: x.to(torch.float64).mean(0).to(torch.float32),
        lambda x: torch.nn.functional.layer_norm(x, (4,)).transpose(0, 1).contiguous(),
        lambda x: torch.where(x > 0, x, torch.tensor(-1.0)),
        lambda x: torch.cat([x, x[:2].flip(0)]).view(-1)[::2].clone(),
        lambda x: x.topk(2, dim=-1).values,
        lambda x: torch.zeros(4).add_(x[0]).mul_(2),
        lambda x: x.reshape(2, -1).sort(dim=-1)[0],
        lambda x: torch.nn.functional.scaled_dot_product_attention(x[None, None], x[None, None], x[None, None]),
    ],
)
def test_a_replay_equals_eager_to_the_bit_on_new_inputs(step: Callable[[torch.Tensor], torch.Tensor]) -> None:
    x = torch.randn(4, 4)
    graph, output = captured(lambda: step(x))
    for _ in range(3):
        x.copy_(torch.randn(4, 4))
        graph.replay()
        assert torch.equal(output, step(x))


def test_no_python_of_the_model_runs_at_replay() -> None:
    calls = []
    x = torch.ones(2)

    def step() -> torch.Tensor:
        calls.append(1)
        return x * 2

    graph, output = captured(step)
    x.fill_(5)
    graph.replay()
    assert output.tolist() == [10, 10]
    assert len(calls) == 1


def test_memory_written_in_place_is_written_again() -> None:
    cache, row = torch.zeros(3, 2), torch.tensor([1])

    def step() -> torch.Tensor:
        cache[row] = cache[row] + 1
        return cache.sum()

    graph, output = captured(step)
    row.fill_(2)
    graph.replay()
    assert cache.tolist() == [[0, 0], [1, 1], [1, 1]]
    assert output.item() == 4


@pytest.mark.parametrize(
    ("step", "name"),
    [
        (lambda x: x.sum().item(), "_local_scalar_dense"),
        (lambda x: x.nonzero(), "nonzero"),
        (lambda x: x[x > 0], "nonzero|index"),
        (torch.unique, "unique"),
        (lambda x: torch.equal(x, x), "equal"),
    ],
)
def test_what_the_host_must_read_is_refused_by_name(step: Callable[[torch.Tensor], object], name: str) -> None:
    x = torch.ones(3)
    with pytest.raises(CaptureError, match=name), TapeGraph().capturing():
        step(x)


def test_views_launch_nothing() -> None:
    x = torch.ones(4, 4)
    graph, _ = captured(lambda: x.t().reshape(4, 4).unsqueeze(0).expand(2, 4, 4)[0] + 1)
    assert [launch.kernel for launch in graph.launches] == ["aten::add"]


def test_random_numbers_advance() -> None:
    graph, output = captured(lambda: torch.rand(8))
    before = output.clone()
    graph.replay()
    assert not torch.equal(output, before)


def test_a_reset_graph_lets_go_of_its_tensors() -> None:
    x = torch.ones(1024)
    graph, _ = captured(lambda: x + 1)
    assert graph.allocated_bytes() == 4096
    graph.reset()
    assert graph.allocated_bytes() == 0


def test_a_tape_holds_no_scripted_process_group() -> None:
    """Freed last, one would join gloo's threads under the interpreter's lock, for which they may be waiting."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        x = torch.ones(3)

        def step() -> torch.Tensor:
            received = torch.empty_like(x)
            dist.all_to_all_single(received, x * 2)
            dist.all_reduce(received)
            return received + 1

        graph, output = captured(step)
        x.fill_(5.0)
        graph.replay()
        assert output.tolist() == [11.0, 11.0, 11.0]
        held = [str(leaf._type()) for leaf in tree_leaves(graph._calls) if isinstance(leaf, torch.ScriptObject)]
        assert held == ["__torch__.torch.classes.c10d.ReduceOp"]
    finally:
        dist.destroy_process_group()
