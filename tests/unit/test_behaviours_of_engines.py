"""What the engines' own tests assert of per-shape capture traces holds for ours."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch

from shapescope.device import AcceleratorDevice, CpuDevice
from shapescope.graphs.backends import create
from shapescope.model import Evidence, GraphKey, ManifestRow, Rank, Status
from shapescope.record.profiler import CaptureProfiler
from shapescope.record.start import from_environment, start
from shapescope.settings import RecordingSettings, recording_settings
from shapescope.store.layout import TRACE_FOLDER
from shapescope.store.manifest import read_manifests
from shapescope.tape_module import TapeModule

PER_SHAPE, COMBINED = "SHAPESCOPE_GRAPH_BATCH_CAPTURE", "SHAPESCOPE_GRAPH_CAPTURE_TRACE"


def settings(folder: Path, **switches: str) -> RecordingSettings:
    environment: Mapping[str, str] = {
        "SHAPESCOPE_PROFILER_DIR": str(folder), "SHAPESCOPE_DETAIL": "light", "SHAPESCOPE_EVIDENCE": "capture", **switches,
    }  # fmt: skip
    return recording_settings(environment, folder)


def recorder(folder: Path, rank: Rank | None = None, **switches: str) -> CaptureProfiler:
    return start(settings(folder, **switches), engine="test", device=CpuDevice(), rank=rank or Rank(), environment={})


def capture(profiler: CaptureProfiler, *keys: GraphKey, announced: tuple[GraphKey, ...] | None = None) -> list[str]:
    """Capture each key once; the names of the traces that come of it."""
    backend = create("tape", CpuDevice(), observer=profiler)
    with backend.observing("R", keys if announced is None else announced):
        for key in keys:
            backend.capture_one(key, lambda key=key: torch.ones(key.shape.size) + 1)
    return sorted(path.name for path in (profiler.session.folder / TRACE_FOLDER).glob("[!.]*"))


def test_the_folder_is_created(tmp_path: Path) -> None:
    profiler = recorder(tmp_path / "not" / "there" / "yet", **{PER_SHAPE: "1"})
    assert capture(profiler, GraphKey.of("R", 4)) == ["R_bs_4_rank0.json.gz"]


def test_there_is_nothing_without_the_switch(tmp_path: Path) -> None:
    assert from_environment("test", settings=settings(tmp_path)) is None
    assert list(tmp_path.iterdir()) == []


def test_combined_wins_over_per_shape_and_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        profiler = recorder(tmp_path, **{PER_SHAPE: "1", COMBINED: "1"})
    assert capture(profiler, GraphKey.of("R", 4), GraphKey.of("R", 2)) == ["cuda_graph_capture-R-TP-0.json.gz"]
    assert "combined trace wins" in caplog.text


def test_names_tell_size_variant_and_rank(tmp_path: Path) -> None:
    rank = Rank(rank=3, tp=3, tp_size=4, world_size=4)
    profiler = recorder(tmp_path, rank, **{PER_SHAPE: "1"})
    keys = [GraphKey.of("R", 4), GraphKey.of("R", 4, "lora"), GraphKey.of("R", 2, "dense", "nolora", "stream=1")]
    assert capture(profiler, *keys) == [
        "R_bs_2_dense_nolora_stream_1_rank3.json.gz",
        "R_bs_4_lora_rank3.json.gz",
        "R_bs_4_rank3.json.gz",
    ]


def test_more_captures_than_announced_sizes_do_not_fail(tmp_path: Path) -> None:
    profiler = recorder(tmp_path, **{PER_SHAPE: "1"})
    keys = [GraphKey.of("R", size) for size in (8, 4, 2, 2)]
    names = capture(profiler, *keys, announced=(keys[0],))
    assert names == [
        "R_bs_2_rank0.json.gz",
        "R_bs_2_rank0_dup1.json.gz",
        "R_bs_4_rank0.json.gz",
        "R_bs_8_rank0.json.gz",
    ]


def test_an_untagged_capture_never_takes_a_name(tmp_path: Path) -> None:
    profiler = recorder(tmp_path, **{PER_SHAPE: "1"})
    with profiler.window(None):
        torch.ones(8)
    assert capture(profiler, GraphKey.of("R", 8)) == ["R_bs_8_rank0.json.gz", "unlabelled-0_rank0.json.gz"]


@pytest.mark.parametrize("recorded", [False, True])
def test_two_warm_ups_one_capture_and_the_hook_twice(recorded: bool, tmp_path: Path) -> None:
    """The same calls in the same order, recorded or not: no extra step; graph and output are kept."""
    module = TapeModule()
    device = AcceleratorDevice(module, torch.device("cpu"))
    observer = None
    if recorded:
        observer = start(
            settings(tmp_path, **{PER_SHAPE: "1"}), engine="test", device=device, rank=Rank(), environment={}
        )  # fmt: skip
    backend, key, x = create("full", device, observer=observer), GraphKey.of("R", 2), torch.ones(2)

    def forward() -> torch.Tensor:
        module.log.append("forward")
        return x + 1

    output = backend.capture_one(key, forward, None, lambda: module.log.append("hook"))
    warm_up = ["synchronize", "forward", "hook"]
    assert module.log == [*warm_up, *warm_up, "graph", "begin pool=(0, 1) stream=capture-stream", "forward", "end"]
    assert backend.outputs[key] is output and key in backend.graphs


def test_a_failing_shape_is_failed_and_the_profiler_is_reset(tmp_path: Path) -> None:
    profiler = recorder(tmp_path, **{PER_SHAPE: "1"})
    key = GraphKey.of("R", 4)
    with pytest.raises(ValueError, match="broken"), profiler.runner("R", [key]), profiler.capture(key):
        raise ValueError("broken")
    assert not torch._C._autograd._profiler_enabled()
    last = [row for _, row in read_manifests(profiler.session.folder) if isinstance(row, ManifestRow)][-1]
    assert (last.status, last.evidence, last.file) == (Status.FAILED, Evidence.CAPTURE, None)
