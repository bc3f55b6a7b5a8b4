"""Why a value is missing, by its column: a dash always comes with a reason."""

from __future__ import annotations

_NOT_TIMED = "no replay of this shape was measured or traced"
_NO_OP = "no op encloses this launch, or the join withholds it"

REASONS = {
    "time_ns": _NOT_TIMED,
    "time_p10_ns": _NOT_TIMED,
    "time_p90_ns": _NOT_TIMED,
    "time_source": _NOT_TIMED,
    "time_per_token_ns": _NOT_TIMED,
    "replays": _NOT_TIMED,
    "share": _NOT_TIMED,
    "busy_ns": "no traced replay shows how busy the device was",
    "gap_ns": "no traced replay shows how busy the device was",
    "span_ns": "no traced replay shows how busy the device was",
    "capture_ns": "this run has no manifest row that timed the capture",
    "record_ns": "this run has no manifest row that timed the recording",
    "memory_bytes": "the device or the run keeps no record of memory",
    "allocator_bytes": "the device or the run keeps no record of memory",
    "device_bytes": "the device or the run keeps no record of memory",
    "context_len": "the replay does not state its context length",
    "size": "nothing names the size",
    "op": _NO_OP,
    "dims": _NO_OP,
    "types": _NO_OP,
    "module": "recorded without module annotations, or launched outside any module",
    "family": "the launch carries no kernel name",
    "class": "the launch carries no kernel name",
    "kernel": "the launch carries no kernel name",
    "grid": "the source has no grid",
    "block": "the source has no block",
    "attainment": "the device's peaks are unknown, or the figure would exceed them",
    "bound": "the device's peaks are unknown",
    "flops": "this op is not modelled",
    "tflops": "this op is not modelled, or has no time",
    "gbps": "this op is not modelled, or has no time",
    "ratio": "one of the two sides has no time",
    "base_ns": "absent from the base run",
    "head_ns": "absent from this run",
    "time_ratio": "one of the neighbours has no time",
}
"""The reason for a missing value of a column; others are simply not recorded."""
