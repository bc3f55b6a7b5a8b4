"""Kernels read from a captured graph: every source, each call probed. Drivers are stand-ins of the documented calls."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from shapescope.record.nodes import Node, graph_nodes
from shapescope.tape import TapeGraph


def test_a_tape_lists_its_launches() -> None:
    graph, x = TapeGraph(), torch.ones(2)
    with graph.capturing():
        torch.relu(x + 1)
    assert graph_nodes(graph) == (Node(0, "kernel", "aten::add"), Node(1, "kernel", "aten::relu", depends_on=(0,)))


class FromTorch:
    """torch 2.13's own account: any order, ids with the graph in the high bits."""

    def get_graph_data(self) -> dict[str, Any]:
        high = 5 << 32
        return {
            "nodes": [
                {"node_id": high | 9, "node_type": "kernel", "kernel_name": "_Z3addv", "dependencies": [1]},
                {"node_id": high | 4, "node_type": "memset", "kernel_name": None, "dependencies": []},
            ]
        }


def test_torchs_own_account_sorted_by_id() -> None:
    assert graph_nodes(FromTorch()) == (Node(4, "memset"), Node(9, "kernel", "_Z3addv", depends_on=(4,)))


class Raw:
    """A kept graph without torch's account."""

    def raw_cuda_graph(self) -> int:
        return 1


class NotKept:
    def raw_cuda_graph(self) -> int:
        raise RuntimeError("keep_graph must be True")


KERNEL, MEMCPY, CHILD = (SimpleNamespace(name=f"CU_GRAPH_NODE_TYPE_{name}") for name in ("KERNEL", "MEMCPY", "GRAPH"))


def parameters(function: int, grid: int) -> SimpleNamespace:
    return SimpleNamespace(
        func=function, kern=function + 100, gridDimX=grid, gridDimY=1, gridDimZ=1, blockDimX=64, blockDimY=1, blockDimZ=1,
        sharedMemBytes=512,
    )  # fmt: skip


def driver() -> ModuleType:
    """Graph 1 holds a kernel, a child graph 2 with two kernels (one without a function handle), and a copy."""
    module = ModuleType("cuda.bindings.driver")
    graphs = {1: ["k1", "child", "copy"], 2: ["k2", "k3"]}
    kinds = {"k1": KERNEL, "k2": KERNEL, "k3": KERNEL, "child": CHILD, "copy": MEMCPY}
    kernels = {"k1": parameters(7, 2), "k2": parameters(8, 3), "k3": parameters(0, 4)}
    module.CUgraph = lambda init_value: init_value  # type: ignore[attr-defined]
    module.CUgraphNodeType = SimpleNamespace(  # type: ignore[attr-defined]
        CU_GRAPH_NODE_TYPE_KERNEL=KERNEL, CU_GRAPH_NODE_TYPE_GRAPH=CHILD
    )
    module.cuGraphGetNodes = lambda graph, count: (0, graphs[graph][:count], len(graphs[graph]))  # type: ignore[attr-defined]
    module.cuGraphNodeGetType = lambda node: (0, kinds[node])  # type: ignore[attr-defined]
    module.cuGraphChildGraphNodeGetGraph = lambda node: (0, 2)  # type: ignore[attr-defined]
    module.cuGraphKernelNodeGetParams = lambda node: (0, kernels[node])  # type: ignore[attr-defined]
    module.cuFuncGetName = lambda function: (0, f"function{function}".encode())  # type: ignore[attr-defined]
    module.cuKernelGetName = lambda kernel: (0, f"kernel{kernel}")  # type: ignore[attr-defined]
    return module


@pytest.fixture
def bindings(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = driver()
    for name in ("cuda", "cuda.bindings"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", module)
    return module


def test_the_driver_descends_into_child_graphs(bindings: ModuleType) -> None:
    nodes = graph_nodes(Raw())
    assert nodes is not None
    assert [(node.id, node.kind, node.kernel) for node in nodes] == [
        (0, "kernel", "function7"),
        (1, "kernel", "function8"),
        (2, "kernel", "kernel100"),
        (3, "memcpy", None),
    ]
    assert (nodes[1].grid, nodes[1].block, nodes[1].shared_memory) == ((3, 1, 1), (64, 1, 1), 512)


def test_a_driver_that_lacks_a_call_still_lists_what_it_can(bindings: ModuleType) -> None:
    del bindings.cuKernelGetName  # type: ignore[attr-defined]
    bindings.cuGraphKernelNodeGetParams = lambda node: (1,) if node == "k1" else (0, parameters(0, 4))  # type: ignore[attr-defined]
    nodes = graph_nodes(Raw())
    assert nodes is not None
    assert [node.kernel for node in nodes] == [None] * 4


@pytest.mark.parametrize("graph", [Raw(), NotKept(), object()])
def test_without_a_source_there_are_no_nodes(graph: object) -> None:
    assert graph_nodes(graph) is None
