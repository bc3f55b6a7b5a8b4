"""Launches of plain functions: recorded in their spans, read back with op and dims; ops keep what is theirs."""

from __future__ import annotations

import gzip
import json
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mini
import pytest
import torch

from shapescope.device import CpuDevice
from shapescope.model import GraphKey, Rank
from shapescope.read.chrome import decode
from shapescope.read.classify import segments
from shapescope.read.processes import processes
from shapescope.read.run import open_run
from shapescope.read.tables import captured_launches
from shapescope.record import start
from shapescope.settings import Detail, Mode, RecordingSettings
from shapescope.store.spans import Call, call_name

CALL = Call("attention.decode", ((2, 8), (4, 8)), ("float", "c10::BFloat16"), ((8, 1), (8, 1)))


def launches(tmp_path: Path, *inside: dict[str, Any]) -> list[tuple[str, ...]]:
    """Launches of a capture as (kernel, op, dims, dims_source)."""
    events = [mini.call("hipStreamBeginCapture", 0), *inside, mini.call("hipStreamEndCapture", 1000)]
    path = mini.write(tmp_path / "R_bs_2_rank0.json", events)
    rows = open_run(path).launches()
    return rows.select("kernel", "op", "dims", "dims_source").rows()


def launch(kernel: str, ts: float) -> dict[str, Any]:
    return mini.call("hipModuleLaunchKernel", ts, 1, kernel=kernel, grid=[8, 1, 1], block=[64, 1, 1])


def test_a_span_stands_for_the_op_that_is_not_there(tmp_path: Path) -> None:
    found = launches(
        tmp_path, mini.span(call_name(CALL), 10, 10), launch("inside", 12), launch("outside", 30), launch("at_edge", 19)
    )
    assert found == [
        ("inside", "attention.decode", "[[2,8],[4,8]]", "span"),
        ("at_edge", "attention.decode", "[[2,8],[4,8]]", "span"),
        ("outside", None, None, None),
    ]


def test_the_closest_one_around_a_launch_counts(tmp_path: Path) -> None:
    inner = Call("attention.inner", ((1,),), ("int",), ((1,),))
    found = launches(
        tmp_path,
        mini.op("custom::outer", 5, 60, [[9]]),
        mini.span(call_name(CALL), 10, 40),
        launch("of_the_span", 12),
        mini.op("aten::mm", 20, 8, [[2, 3], [3, 4]]),
        launch("of_the_op", 22),
        mini.span(call_name(inner), 30, 8),
        launch("of_the_inner_span", 32),
        launch("of_the_outer_op", 60),
    )
    assert [(kernel, op) for kernel, op, *_ in found] == [
        ("of_the_span", "attention.decode"),
        ("of_the_op", "aten::mm"),
        ("of_the_inner_span", "attention.inner"),
        ("of_the_outer_op", "custom::outer"),
    ]


def test_kernels_of_one_call_are_told_from_those_of_the_next(tmp_path: Path) -> None:
    events = [mini.call("hipStreamBeginCapture", 0), mini.op("aten::mm", 5, 4), launch("op", 6)]
    events += [mini.span(call_name(CALL), 10, 10), launch("one", 12), launch("two", 14)]
    events += [mini.span(call_name(CALL), 30, 10), launch("three", 32), mini.call("hipStreamEndCapture", 100)]
    (trace,) = decode(mini.write(tmp_path / "trace.json", events))
    (process,) = processes(trace)
    numbers = captured_launches(process, segments(process))["op_call"].to_list()
    assert numbers[1] == numbers[2]
    assert len({numbers[0], numbers[1], numbers[3]}) == 3


def test_a_span_of_the_kind_that_cannot_be_read_gives_nothing(tmp_path: Path) -> None:
    ((_, op, dims, _),) = launches(tmp_path, mini.span("shapescope.call nonsense", 10, 10), launch("inside", 12))
    assert (op, dims) == (None, None)


def test_plain_functions_from_recording_to_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, launched: Callable[[Path], None]
) -> None:
    module = types.ModuleType("plain")
    exec("def norm(x, weight):\n    return x\ndef gate(x):\n    return x\n", vars(module))
    monkeypatch.setitem(sys.modules, "plain", module)
    monkeypatch.setenv("SHAPESCOPE_RUN_ID", "run")
    settings = RecordingSettings(Mode.PER_SHAPE, str(tmp_path), Detail.LIGHT, discover=("plain",))
    recorder = start.start(settings, engine="test", device=CpuDevice(), rank=Rank())
    x, weight = torch.ones(2, 8), torch.ones(8, dtype=torch.float16)
    with recorder.window(GraphKey.of("R", 2)), recorder.segment(0):
        torch.relu(x)
        module.norm(x, weight=weight)
        module.gate(x)
    recorder.drain()
    launched(recorder.session.traces / "R_bs_2_rank0.json.gz")
    rows = open_run(tmp_path / "run").launches()
    assert rows.select("op", "dims", "types", "dims_source").rows() == [
        ("plain.norm", "[[2,8],[8]]", '["float","c10::Half"]', "span"),
        ("plain.gate", "[[2,8]]", '["float"]', "span"),
    ]


@pytest.fixture
def launched() -> Callable[[Path], None]:
    """What a GPU adds to such a trace: a launch amid each span."""

    def add(path: Path) -> None:
        trace = json.loads(gzip.decompress(path.read_bytes()))
        spans = [event for event in trace["traceEvents"] if str(event.get("name")).startswith("shapescope.call ")]
        for number, span in enumerate(spans):
            middle = span["ts"] + span["dur"] / 2
            trace["traceEvents"].append(
                mini.call("cudaLaunchKernel", middle, 0.001, pid=span["pid"], tid=span["tid"], correlation=number + 1)
            )
        path.write_bytes(gzip.compress(json.dumps(trace).encode()))

    return add
