"""What a reader must be told beside a result: a code that scripts can lean on, words, and the file."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Code(StrEnum):
    """Codes of warnings. They are listed in the docs and never reused."""

    NAME_CONTENT_MISMATCH = "name-content-mismatch"
    TRUNCATED = "truncated"
    CORRUPT = "corrupt"
    UNREADABLE = "unreadable"
    NOT_A_TRACE = "not-a-trace"
    NO_DATA = "no-data"
    MULTIPLE_MEMBERS = "multiple-members"
    MERGED_PROCESSES = "merged-processes"
    INVALID_TIMES = "invalid-times"
    IMPLAUSIBLE_DURATION = "implausible-duration"
    KERNELS_MISSING = "kernels-missing"
    NO_DEVICE_ACTIVITY = "no-device-activity"
    NO_GRAPH_LAUNCH = "no-graph-launch"
    NO_CAPTURE = "no-capture"
    NOT_CAPTURED = "not-captured"
    SIZE_UNKNOWN = "size-unknown"
    GRAPHS_DIFFER = "graphs-differ"
    IDLE_UNRELIABLE = "idle-unreliable"
    ABOVE_LARGEST_SIZE = "above-largest-size"
    RANK_MISSING = "rank-missing"
    DUPLICATE_KEY = "duplicate-key"
    UNLABELLED = "unlabelled"
    DUMMY_INPUTS = "dummy-inputs"
    SEVERAL_RUNS = "several-runs"
    RECORDER = "recorder"
    # Of the analyses.
    ONE_SIZE = "one-size"
    NO_TIMES = "no-times"
    ENVIRONMENT_CHANGED = "environment-changed"
    NO_COMMON_SHAPE = "no-common-shape"
    SIZES_DIFFER = "sizes-differ"
    RUNNERS_DIFFER = "runners-differ"
    UNSURE = "unsure"
    DRIFT = "drift"
    RULE_FAILED = "rule-failed"
    UNKNOWN_DEVICE = "unknown-device"
    ABOVE_PEAK = "above-peak"
    ROUTING_UNKNOWN = "routing-unknown"
    REAL_SIZE_UNKNOWN = "real-size-unknown"
    UNIT_MISMATCH = "unit-mismatch"
    NO_MEMORY = "no-memory"
    DISTURBED_MEMORY = "disturbed-memory"
    CAPTURE_ORDER = "capture-order"
    ONE_RANK = "one-rank"
    NO_CLOCK_BASE = "no-clock-base"


@dataclass(frozen=True, slots=True)
class Problem:
    """One warning of a result."""

    code: Code
    message: str
    file: str | None = None
