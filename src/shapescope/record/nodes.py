"""The kernels of a captured graph, read from the graph itself: what a capture's trace cannot show on NVIDIA.

Sources, in this order, each call probed since versions lack some: torch's `get_graph_data` (2.13 and later; ids that a
profiler reports again, no child graphs, no grids), else `cuda.bindings.driver` (grids, child graphs). Ids are the low 32
bits of CUPTI's `graph node id`; the order of nodes is not promised by CUDA, so they are sorted by id.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_LOW_32 = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Node:
    """One node of a graph. `kernel` is the name as the source spells it; readers demangle."""

    id: int
    kind: str
    kernel: str | None = None
    grid: tuple[int, int, int] | None = None
    block: tuple[int, int, int] | None = None
    shared_memory: int | None = None
    depends_on: tuple[int, ...] = ()


def graph_nodes(graph: Any) -> tuple[Node, ...] | None:
    """All nodes, sorted by id; None where nothing here can list them."""
    launches = getattr(graph, "launches", None)
    if launches is not None:
        return tuple(
            Node(number, "kernel", launch.kernel, depends_on=(number - 1,) if number else ())
            for number, launch in enumerate(launches)
        )
    nodes = _from_torch(graph)
    if nodes is None:
        driver = _module("cuda.bindings.driver")
        handle = _raw_handle(graph)
        nodes = (
            None if driver is None or handle is None else tuple(_from_driver(driver, driver.CUgraph(init_value=handle)))
        )
    return None if nodes is None else tuple(sorted(nodes, key=lambda node: node.id))


def _from_torch(graph: Any) -> tuple[Node, ...] | None:
    read = getattr(graph, "get_graph_data", None)
    if read is None:
        return None
    try:
        found = read()["nodes"]
    except RuntimeError:  # no bindings, too old a driver, or a graph that was not kept
        return None
    ids = [node["node_id"] & _LOW_32 for node in found]
    return tuple(
        Node(ids[i], node["node_type"], node["kernel_name"], depends_on=tuple(ids[d] for d in node["dependencies"]))
        for i, node in enumerate(found)
    )


def _raw_handle(graph: Any) -> int | None:
    try:
        handle: int = graph.raw_cuda_graph()
    except (AttributeError, RuntimeError):  # torch before 2.8, or a graph that was not kept
        return None
    return handle


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def _from_driver(driver: Any, graph: Any, first: int = 0) -> Iterator[Node]:
    """Nodes in the driver's order, numbered from `first`; a child graph's nodes stand in its place."""
    _, count = _call(driver, "cuGraphGetNodes", graph, 0) or ([], 0)
    handles, _ = _call(driver, "cuGraphGetNodes", graph, count) or ([], 0)
    number = first
    for handle in handles:
        kind = _call(driver, "cuGraphNodeGetType", handle)
        child = _call(driver, "cuGraphChildGraphNodeGetGraph", handle) if _is(driver, kind, "GRAPH") else None
        if child is not None:
            for node in _from_driver(driver, child, number):
                yield node
                number = node.id + 1
            continue
        yield _driver_node(driver, handle, kind, number)
        number += 1


def _driver_node(driver: Any, handle: Any, kind: Any, number: int) -> Node:
    name = str(getattr(kind, "name", kind)).removeprefix("CU_GRAPH_NODE_TYPE_").lower()
    parameters = _call(driver, "cuGraphKernelNodeGetParams", handle) if _is(driver, kind, "KERNEL") else None
    if parameters is None:
        return Node(number, name)
    return Node(
        number,
        name,
        _kernel_name(driver, parameters),
        (parameters.gridDimX, parameters.gridDimY, parameters.gridDimZ),
        (parameters.blockDimX, parameters.blockDimY, parameters.blockDimZ),
        parameters.sharedMemBytes,
    )


def _kernel_name(driver: Any, parameters: Any) -> str | None:
    """Kernels of newer libraries have no function handle, only a kernel handle."""
    if int(parameters.func):
        name = _call(driver, "cuFuncGetName", parameters.func)
    else:
        name = _call(driver, "cuKernelGetName", parameters.kern)
    return name.decode() if isinstance(name, bytes) else name


def _is(driver: Any, kind: Any, name: str) -> bool:
    return kind is not None and kind == getattr(driver.CUgraphNodeType, f"CU_GRAPH_NODE_TYPE_{name}", None)


def _call(driver: Any, name: str, *arguments: Any) -> Any:
    """One driver call: its result, several as a tuple; None where the call is not here or fails."""
    function = getattr(driver, name, None)
    if function is None:
        return None
    error, *results = function(*arguments)
    if int(error) != 0:
        return None
    return results[0] if len(results) == 1 else tuple(results)
