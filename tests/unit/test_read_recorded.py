"""What our own recorder writes is read back whole: every backend's captures, every mode, every kind of evidence."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
import torch

from shapescope.device import AcceleratorDevice, CpuDevice, Device
from shapescope.graphs.runner import GraphRunner
from shapescope.model import Evidence, GraphKey, Rank
from shapescope.read.run import Run, open_run
from shapescope.record import start
from shapescope.record.measure import measure_replays
from shapescope.record.profiler import CaptureProfiler
from shapescope.settings import Detail, Mode, RecordingSettings
from shapescope.store.manifest import read_manifests
from shapescope.tape_module import TapeModule

SIZES = [1, 2, 4]


@pytest.fixture(autouse=True)
def own_run_id(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHAPESCOPE_RUN_ID", "")


class Block(torch.nn.Module):
    """Two products, a view and a composite op: four launches a call."""

    def __init__(self) -> None:
        super().__init__()
        self.up = torch.nn.Linear(8, 16)
        self.down = torch.nn.Linear(16, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(torch.relu(self.up(x))).view(-1, 8).sum(-1)


def recorded(
    folder: Path, device: Device, *, mode: Mode = Mode.PER_SHAPE, detail: Detail = Detail.FULL, backend: str = "auto"
) -> CaptureProfiler:
    evidence = frozenset({Evidence.CAPTURE, Evidence.REPLAY, Evidence.NODES})
    settings = RecordingSettings(mode, str(folder), detail, evidence, measure=5)
    profiler = start.start(
        settings, engine="test", device=device, rank=Rank(), requested=[GraphKey.of("Toy", s) for s in SIZES]
    )
    toy = GraphRunner(
        Block(), {"x": torch.ones(4, 8)}, SIZES, name="Toy", device=device, backend=backend, observer=profiler
    )
    toy.capture()
    if mode is Mode.PER_SHAPE:
        measure_replays(profiler, {key: lambda key=key: toy.backend.replay(key) for key in toy.keys}, context_len=1)
    return profiler


def counted(run: Run, source: str) -> dict[int, list[str]]:
    rows = run.launches().filter(pl.col("source") == source)
    return {size: rows.filter(pl.col("size") == size)["kernel"].to_list() for size in rows["size"].unique()}


LAUNCHES = ["aten::addmm", "aten::relu", "aten::addmm", "aten::sum"]


@pytest.mark.parametrize(
    "device", [CpuDevice(), AcceleratorDevice(TapeModule(), torch.device("cpu"))], ids=["tape", "full"]
)
def test_captures_and_replays_of_every_size(tmp_path: Path, device: Device) -> None:
    profiler = recorded(tmp_path, device)
    run = open_run(profiler.session.folder)
    assert counted(run, "capture") == counted(run, "replay") == dict.fromkeys(SIZES, LAUNCHES)
    captured = run.launches().filter(pl.col("source") == "capture")
    assert captured["module"].to_list() == ["Linear_0", "Block_0", "Linear_1", "Block_0"] * 3
    assert captured.filter(pl.col("size") == 2)["dims"][0] == "[[16],[2,8],[8,16],[],[]]"
    shapes = run.shapes()
    assert shapes.select("size", "launches", "segments", "status", "replays", "time_source").rows() == [
        (size, 4, 1, "ok", 5, "replay-dummy") for size in SIZES
    ]
    assert shapes["time_ns"].null_count() == shapes["capture_ns"].null_count() == shapes["busy_ns"].null_count() == 0
    assert set(run.check()["status"]) == {"ok"}
    assert set(run.check()["key_source"]) == {"metadata"}
    rows = [row for _, row in read_manifests(profiler.session.folder)]
    assert {row.launches for row in rows if getattr(row, "launches", None)} >= {4}


def test_a_combined_trace_gives_the_same_launches(tmp_path: Path) -> None:
    run = open_run(recorded(tmp_path, CpuDevice(), mode=Mode.COMBINED).session.folder)
    assert counted(run, "capture") == dict.fromkeys(SIZES, LAUNCHES)
    assert run.shapes().select("size", "launches", "status").rows() == [(size, 4, "ok") for size in SIZES]
    assert run.check().select("role", "key", "key_source").rows() == [
        ("capture", f"Toy bs={size}", "annotation") for size in reversed(SIZES)
    ]


def test_a_compiled_step_shows_its_operators_and_not_the_compilers_machinery(tmp_path: Path) -> None:
    run = open_run(recorded(tmp_path, CpuDevice(), detail=Detail.LIGHT, backend="compiled").session.folder)
    for source in ("capture", "replay"):
        kernels_by_size = counted(run, source)
        for size in (2, 4):  # at size 1 Inductor fuses the products into kernels of its own, which torch does not list
            kernels = kernels_by_size[size]
            assert [name for name in kernels if name == "aten::addmm"] == ["aten::addmm"] * 2
            assert all("::" in name or name.startswith("cpp_") for name in kernels)


def test_light_detail_has_shapes_and_no_modules(tmp_path: Path) -> None:
    run = open_run(recorded(tmp_path, CpuDevice(), detail=Detail.LIGHT).session.folder)
    captured = run.launches().filter(pl.col("source") == "capture")
    assert captured["dims"].null_count() == 0
    assert captured["module"].null_count() == captured.height == 12
