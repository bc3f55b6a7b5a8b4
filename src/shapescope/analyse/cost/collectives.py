"""Collectives: the message in bytes. What limits them is the link, which no trace describes, so they get no
roof.

The message is what nccl-tests divides by time for its algorithm bandwidth: the whole buffer of an all-reduce
or broadcast, the gathered result of an all-gather, the unreduced input of a reduce-scatter.
"""

from __future__ import annotations

from shapescope.analyse.cost.model import MESSAGE, Call, Cost

_NAMES = r"all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|broadcast_|::(send|recv)|record_param_comms|nccl:"


def collective_cost(call: Call) -> Cost | None:
    """The cost of a collective; None where the op is none."""
    if call.kernel_class != "collective" and not call.matches(_NAMES):
        return None
    sizes = [t.bytes for t in call.tensors if t.shape]
    if not sizes:
        return None
    message = None if any(size is None for size in sizes) else max(size or 0 for size in sizes)
    return Cost(0, 0, message, message, None, None, MESSAGE, "no roof: the link is not in the trace")
