"""Whatever a trace holds, opening it gives tables of the fixed columns, and never an exception."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import mini
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shapescope.read.check import CHECK
from shapescope.read.kernels import BY, KERNELS
from shapescope.read.run import STREAMS, open_run
from shapescope.read.shapes import SHAPES

NAMES = st.sampled_from(
    [
        "aten::mm", "PythonDispatchMode", "hipLaunchKernel", "cudaGraphLaunch", "hipStreamBeginCapture", "cudaStreamEndCapture",
        "step[DECODE bs=4]", "capture_8_FULL", "shapescope.capture ", "shapescope.segment 0", "nn.Module: A_0",
        "shapescope.replay runner=R&phase=decode&size=4&unit=requests", "shapescope.replay size=x", "ProfilerStep#2", "gemm", "",
    ]
)  # fmt: skip
CATEGORIES = st.sampled_from(
    [
        "cpu_op",
        "cuda_runtime",
        "kernel",
        "gpu_memcpy",
        "gpu_user_annotation",
        "user_annotation",
        "python_function",
        "odd",
    ]
)
NUMBERS = st.integers(-3, 60)
ARGS = st.fixed_dictionaries(
    {},
    optional={
        "correlation": st.integers(0, 4),
        "stream": st.sampled_from([0, 7, "0x1", "?"]),
        "device": st.integers(0, 2),
        "kernel": NAMES,
        "grid": st.sampled_from([[8, 1, 1], [0, 0, 0], "grid(1,)", None]),
        "block": st.sampled_from([[0, 1, 1], [256, 1, 1], None]),
        "Input Dims": st.sampled_from([[[4, 8], []], [[[1], [2]], []], "[[4,8", 7, None]),
        "Input type": st.just(["float", ""]),
        "External id": st.integers(0, 4),
    },
)
EVENTS = st.fixed_dictionaries(
    {"ph": st.sampled_from(["X", "X", "X", "M", "i", "s"])},
    optional={
        "cat": CATEGORIES,
        "name": NAMES,
        "ts": NUMBERS,
        "dur": NUMBERS,
        "pid": st.sampled_from([1, 2, "Spans", -1, 0]),
        "tid": st.integers(0, 2),
        "args": ARGS,
    },
)
METADATA = st.fixed_dictionaries(
    {},
    optional={
        "distributedInfo": st.sampled_from(
            [{"rank": 1, "world_size": 2}, {"rank": "0"}, [], {"rank": None}, {"rank": -1}]
        ),
        "shapescope": st.sampled_from([{}, None, 3, {"schema": 99}, {"key": None, "rank": {}, "evidence": "capture"}]),
    },
)
FILES = st.sampled_from(
    ["bs_8_rank0.json", "bs_4_rank0.json", "cuda_graph_capture-R-TP-1.json", "x.replay.json", "a.json", "b.txt"]
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(FILES, st.tuples(st.lists(EVENTS, max_size=40), METADATA), max_size=3))
def test_anything_opens(files: dict[str, tuple[list[dict[str, Any]], dict[str, Any]]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        for file, (events, metadata) in files.items():
            Path(name, file).write_text(json.dumps(mini.document(events, **metadata)))
        run = open_run(name)
    assert run.shapes().columns == list(SHAPES)
    assert run.check().columns == list(CHECK)
    assert set(run.check()["file"]) == set(files)
    assert tuple(run.streams().columns) == STREAMS
    for by in BY:
        assert run.kernels(by).columns == list(KERNELS)
    assert (run.launches()["time_ns"].drop_nulls() >= 0).all()
    assert run.launches()["seq"].null_count() == 0
