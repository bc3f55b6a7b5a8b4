"""Which evidence a device is good for, by default, and what a window records to give it.

An NVIDIA capture has no kernel names, and graphs captured while CUPTI's kernel records were on may stop emitting them
later (TRACE_FORMAT section 8): so there a window records CPU activities only, and names come from the graph's own nodes.
"""

from __future__ import annotations

import msgspec
from torch.profiler import ProfilerActivity

from shapescope.model import SCHEMA, Evidence, to_plain
from shapescope.record.nodes import graph_nodes
from shapescope.record.recording import Recording
from shapescope.store.layout import publish, trace_name

_DEFAULTS = {
    "cpu": frozenset({Evidence.CAPTURE, Evidence.REPLAY}),
    "hip": frozenset({Evidence.CAPTURE, Evidence.REPLAY}),
    "cuda": frozenset({Evidence.CAPTURE, Evidence.NODES, Evidence.REPLAY}),
}


def default_evidence(device_kind: str) -> frozenset[Evidence]:
    return _DEFAULTS[device_kind]


def activities(
    device_kind: str, evidence: Evidence = Evidence.CAPTURE, asked: bool | None = None
) -> frozenset[ProfilerActivity]:
    """Replays and warm-ups need the device's own records; so does a capture on HIP, whose launches carry the names.

    `asked` decides for captures where it is not None.
    """
    on_device = device_kind == "hip" or (device_kind == "cuda" and evidence is not Evidence.CAPTURE)
    if asked is not None and evidence is Evidence.CAPTURE:
        on_device = asked and device_kind != "cpu"
    return frozenset({ProfilerActivity.CPU, ProfilerActivity.CUDA} if on_device else {ProfilerActivity.CPU})


def write_nodes(recording: Recording) -> None:
    """The kernels of a captured graph, as `.nodes.json` beside its trace. Nothing where no source of nodes is here.

    Raises OutputError.
    """
    nodes = graph_nodes(recording.graph) if recording.nodes is None else recording.nodes
    if nodes is None or recording.key is None:
        return
    plain = {"schema": SCHEMA, "key": to_plain(recording.key), "rank": to_plain(recording.session.rank)}
    text = msgspec.json.encode({**plain, "nodes": [to_plain(node) for node in nodes]})
    publish(
        recording.session.traces,
        lambda n: trace_name(recording.key, recording.session.rank, Evidence.NODES, duplicate=n),
        lambda path: path.write_bytes(text),
    )
