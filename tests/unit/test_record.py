"""The recorder tells the truth about every window, and never hurts its host. Case 01 with its four faults is here."""

from __future__ import annotations

import gzip
import json
import logging
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from shapescope.device import AcceleratorDevice, CpuDevice
from shapescope.errors import OutputError
from shapescope.graphs.runner import GraphRunner
from shapescope.model import Evidence, GraphKey, ManifestRow, Rank, Status, TraceIdentity, from_plain
from shapescope.record import export, start
from shapescope.record.measure import measure_replays
from shapescope.record.profiler import CaptureProfiler
from shapescope.record.window import Window, profiler_active
from shapescope.settings import Detail, Mode, RecordingSettings
from shapescope.store.manifest import read_manifests, read_run
from shapescope.tape_module import TapeModule

SIZES = (8, 4, 2)
VARIANTS = [(attention, lora) for attention in ("dense", "sparse") for lora in ("lora", "nolora")]


@pytest.fixture(autouse=True)
def own_run_id(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SHAPESCOPE_RUN_ID", raising=False)
    monkeypatch.setenv("SHAPESCOPE_RUN_ID", "")


def recorder(
    folder: Path, mode: Mode = Mode.PER_SHAPE, detail: Detail = Detail.LIGHT, **options: object
) -> CaptureProfiler:
    settings = RecordingSettings(mode=mode, folder=str(folder), detail=detail, measure=5, **options)  # type: ignore[arg-type]
    return start.start(settings, engine="test", device=CpuDevice(), rank=Rank())


def rows(profiler: CaptureProfiler) -> list[ManifestRow]:
    profiler.drain()
    found = [row for _, row in read_manifests(profiler.session.folder)]
    assert all(isinstance(row, ManifestRow) for row in found)
    return [row for row in found if isinstance(row, ManifestRow) and row.status is not Status.MISSING]


def trace(profiler: CaptureProfiler, row: ManifestRow) -> dict[str, object]:
    assert row.file is not None
    content: dict[str, object] = json.loads(gzip.decompress((profiler.session.folder / row.file).read_bytes()))
    return content


def first_dim(content: dict[str, object]) -> int:
    events: list[dict[str, dict[str, list[list[int]]]]] = content["traceEvents"]  # type: ignore[assignment]
    dims = [event["args"]["Input Dims"] for event in events if event.get("name") == "aten::mm"]
    return dims[0][0][0]


def engine(profiler: CaptureProfiler, capture: Callable[[GraphKey], None] | None = None) -> None:
    """A toy engine: per size two attention and two LoRA variants, each a small matmul as wide as the batch."""

    def matmul(key: GraphKey) -> None:
        torch.ones(key.shape.size, 3) @ torch.ones(3, 3)

    for size in SIZES:
        for variant in VARIANTS:
            key = GraphKey.of("ToyRunner", size, *variant)
            with profiler.window(key):
                (capture or matmul)(key)


def test_case_01_every_capture_keeps_its_own_key(tmp_path: Path) -> None:
    profiler = recorder(tmp_path)
    engine(profiler)
    found = rows(profiler)
    assert len({row.key for row in found}) == len({row.file for row in found}) == 12
    for row in found:
        content = trace(profiler, row)
        identity = from_plain(TraceIdentity, content["shapescope"])
        assert row.key is not None
        assert identity.key == row.key
        assert first_dim(content) == row.key.shape.size
        assert row.status is Status.OK
        assert row.launches is not None and row.launches >= 1
        assert row.bytes == (profiler.session.folder / str(row.file)).stat().st_size
        assert row.capture_ns is not None and row.record_ns is not None
    assert [row.sequence for row in found] == list(range(12))


def test_case_01a_a_full_disk_costs_one_shape_and_not_the_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    profiler = recorder(tmp_path)
    publish, calls = export.publish, []

    def third_fails(*arguments: object) -> object:
        calls.append(1)
        if len(calls) == 3:
            raise OutputError("cannot write: No space left on device")
        return publish(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(export, "publish", third_fails)
    engine(profiler)
    found = rows(profiler)
    assert [row.status for row in found].count(Status.OK) == 11
    failed = found[2]
    assert failed.status is Status.FAILED and failed.file is None
    assert failed.reason is not None and "No space left" in failed.reason


def test_case_01b_the_hosts_own_exception_passes_through(tmp_path: Path) -> None:
    profiler = recorder(tmp_path)
    key, error = GraphKey.of("ToyRunner", 4, "sparse"), MemoryError("CUDA out of memory")
    with pytest.raises(MemoryError) as caught, profiler.window(key):
        raise error
    assert caught.value is error
    engine(profiler)
    found = rows(profiler)
    assert found[0].status is Status.FAILED
    assert found[0].reason == "MemoryError: CUDA out of memory"
    assert [row.status for row in found[1:]] == [Status.OK] * 12
    names = [path.name for path in profiler.session.traces.iterdir()]
    assert len(names) == 12 and "ToyRunner_bs_4_sparse_rank0.json.gz" not in names


def test_case_01c_a_foreign_profiler_is_left_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    profiler = recorder(tmp_path)
    with caplog.at_level(logging.WARNING), profile(activities=[ProfilerActivity.CPU]) as foreign:
        engine(profiler)
    assert any(event.name == "aten::mm" for event in foreign.events() or ())
    assert {row.reason for row in rows(profiler)} == {"another profiler is active"}
    assert "another profiler is active" in caplog.text
    assert not profiler.session.traces.exists()


def test_case_01d_without_a_key_a_size_is_never_guessed(tmp_path: Path) -> None:
    profiler = recorder(tmp_path)
    engine(profiler)
    with profiler.window(None):
        torch.ones(8, 3) @ torch.ones(3, 3)
    row = rows(profiler)[-1]
    assert row.status is Status.UNLABELLED
    assert row.key is None
    assert row.file == "graph_capture_profile/unlabelled-12_rank0.json.gz"
    assert from_plain(TraceIdentity, trace(profiler, row)["shapescope"]).key is None


def test_a_key_captured_twice_keeps_both_files(tmp_path: Path) -> None:
    profiler = recorder(tmp_path)
    for _ in range(2):
        with profiler.window(GraphKey.of("R", 4)):
            torch.ones(4)
    one, other = rows(profiler)
    assert (one.file, other.file) == (
        "graph_capture_profile/R_bs_4_rank0.json.gz",
        "graph_capture_profile/R_bs_4_rank0_dup1.json.gz",
    )
    assert other.warnings == ("duplicate-key",)


def test_a_profiler_that_dies_is_not_the_hosts_trouble(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    profiler = recorder(tmp_path)

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("kineto is not available")

    monkeypatch.setattr(profile, "start", broken)
    engine(profiler)
    assert {row.status for row in rows(profiler)} == {Status.FAILED}


def test_an_interrupt_while_a_window_closes_reaches_the_host_and_the_manifest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    profiler = recorder(tmp_path)
    stop = profile.stop

    def interrupted(self: profile) -> None:
        monkeypatch.setattr(profile, "stop", stop)
        raise KeyboardInterrupt

    monkeypatch.setattr(profile, "stop", interrupted)
    with pytest.raises(KeyboardInterrupt), profiler.window(GraphKey.of("R", 4)):
        torch.ones(4)
    assert rows(profiler)[0].reason == "interrupted by KeyboardInterrupt"
    assert not profiler_active()


def test_a_folder_that_disappears_is_logged_and_swallowed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    profiler = recorder(tmp_path / "runs")
    for path in (profiler.session.folder / "run.json", profiler.session.folder, tmp_path / "runs"):
        path.unlink() if path.is_file() else path.rmdir()
    (tmp_path / "runs").write_text("a file where the folder was")
    engine(profiler)
    profiler.drain()
    assert "cannot write in" in caplog.text


@pytest.mark.parametrize("tail", [b"", b'{"traceEvents": [', b'{"traceEvents": [{"ph": "X"}', b"\0" * 28])
def test_a_torn_raw_trace_gets_no_final_name(tmp_path: Path, tail: bytes) -> None:
    class Torn:
        def export_chrome_trace(self, path: str) -> None:
            Path(path).write_bytes(tail)

    with pytest.raises(OutputError, match="torn"):
        export.publish_trace(export.save_raw(Torn(), tmp_path), tmp_path, lambda n: "name")
    assert list(tmp_path.iterdir()) == []


def runner(profiler: CaptureProfiler, device: object = None) -> GraphRunner:
    buffers = {"x": torch.ones(4, 3)}
    return GraphRunner(lambda x: torch.relu(x @ x.T), buffers, [1, 4], name="Toy", device=device, observer=profiler)  # type: ignore[arg-type]


def test_captures_and_replays_of_a_runner(tmp_path: Path) -> None:
    profiler = recorder(tmp_path, detail=Detail.FULL)
    toy = runner(profiler)
    toy.capture()
    measure_replays(profiler, {key: lambda key=key: toy.backend.replay(key) for key in toy.keys}, context_len=1)
    found = {(row.key.shape.size, row.evidence): row for row in rows(profiler) if row.key}
    assert set(found) == {(size, kind) for size in (1, 4) for kind in (Evidence.CAPTURE, Evidence.REPLAY)}
    for (size, kind), row in found.items():
        assert (
            row.file
            == f"graph_capture_profile/Toy_bs_{size}_rank0{'.replay' if kind is Evidence.REPLAY else ''}.json.gz"
        )
        assert row.status is Status.OK
    capture, replay = found[4, Evidence.CAPTURE], found[4, Evidence.REPLAY]
    assert capture.launches == 2
    assert len(capture.warmup_ns) == 2
    assert replay.timing is not None and len(replay.timing.samples_ns) == 5 and replay.timing.dummy_inputs
    assert from_plain(TraceIdentity, trace(profiler, replay)["shapescope"]).timing == replay.timing
    names = [event.get("name") for event in trace(profiler, capture)["traceEvents"]]  # type: ignore[attr-defined]
    assert "shapescope.segment 0" in names
    assert any(str(name).startswith("shapescope.capture runner=Toy") for name in names)


def test_the_windows_of_a_device_graph_are_the_same_lines(tmp_path: Path) -> None:
    device = AcceleratorDevice(TapeModule(), torch.device("cpu"))
    settings = RecordingSettings(
        Mode.PER_SHAPE, str(tmp_path), Detail.LIGHT, frozenset({Evidence.CAPTURE, Evidence.NODES})
    )
    profiler = start.start(settings, engine="test", device=device, rank=Rank())
    runner(profiler, device).capture()
    names = sorted(path.name for path in profiler.session.traces.iterdir())
    assert names == [f"Toy_bs_{size}_rank0{end}" for size in (1, 4) for end in (".json.gz", ".nodes.json")]
    nodes = json.loads((profiler.session.traces / "Toy_bs_4_rank0.nodes.json").read_text())["nodes"]
    assert [node["kernel"] for node in nodes] == ["aten::mm", "aten::relu"]
    assert [row.evidence for row in rows(profiler)] == [Evidence.CAPTURE, Evidence.CAPTURE, Evidence.MEMORY]


def test_combined_is_one_trace_with_a_span_for_every_shape(tmp_path: Path) -> None:
    profiler = recorder(tmp_path, Mode.COMBINED)
    runner(profiler).capture()
    assert [path.name for path in profiler.session.traces.iterdir()] == ["cuda_graph_capture-Toy-TP-0.json.gz"]
    whole = next(row for row in rows(profiler) if row.runner)
    events = trace(profiler, whole)["traceEvents"]
    spans = [str(e["name"]) for e in events if str(e.get("name")).startswith("shapescope.capture")]  # type: ignore[attr-defined]
    assert len(spans) == 2
    assert {row.status for row in rows(profiler)} == {Status.OK}


def test_the_master_switch_alone_writes_tables_and_no_trace(tmp_path: Path) -> None:
    profiler = recorder(tmp_path, Mode.SUMMARY)
    runner(profiler).capture()
    assert not list(profiler.session.folder.rglob("*.gz"))
    text = (profiler.session.folder / "summary-Toy-rank0.txt").read_text()
    assert "by device time\n  none recorded" in text
    assert "aten::matmul" in text and "aten::relu" in text
    assert {row.launches for row in rows(profiler)} == {2}


def test_shapes_that_were_never_captured_are_named(tmp_path: Path) -> None:
    profiler = recorder(tmp_path)
    keys = [GraphKey.of("R", size) for size in (4, 2)]
    with pytest.raises(RuntimeError, match="killed"), profiler.runner("R", keys):
        with profiler.window(keys[0]):
            torch.ones(4)
        raise RuntimeError("killed")
    last = {row.key: row.status for _, row in read_manifests(profiler.session.folder) if isinstance(row, ManifestRow)}
    assert last == {keys[0]: Status.OK, keys[1]: Status.MISSING}


def test_run_json_says_who_and_where(tmp_path: Path) -> None:
    profiler = recorder(tmp_path)
    run = read_run(profiler.session.folder)
    assert run is not None
    assert (run.run_id, run.engine, run.mode) == (profiler.session.run_id, "test", "per-shape")
    assert run.environment["packages"]["torch"] == torch.__version__


def test_memory_of_the_allocator_is_switched_off_again_when_a_capture_fails(tmp_path: Path) -> None:
    module = TapeModule()
    device = AcceleratorDevice(module, torch.device("cpu"))
    settings = RecordingSettings(Mode.PER_SHAPE, str(tmp_path), Detail.LIGHT, frozenset({Evidence.CAPTURE}))
    profiler = start.start(settings, engine="test", device=device, rank=Rank())
    with pytest.raises(ValueError, match="broken"), profiler.runner("Toy", []):
        raise ValueError("broken")
    assert module.log[-1] == "history off"
    row = rows(profiler)[-1]
    assert row.file == "memory_snapshot-Toy-rank0.pickle"
    assert row.totals is not None and row.totals.reserved_bytes == 2048


@pytest.mark.parametrize("value", ["perhaps", "2", "-1"])
def test_a_bad_switch_is_one_warning_and_recording_stays_off(
    value: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SHAPESCOPE_GRAPH_BATCH_CAPTURE", value)
    assert start.from_environment("test") is None
    assert len(caplog.records) == 1
    assert "recording stays off" in caplog.text


def test_nothing_without_the_switch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SHAPESCOPE_GRAPH_BATCH_CAPTURE", raising=False)
    assert start.from_environment("test") is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("cap", ["HEAVY_TRACE_BYTES", "HEAVY_TRACE_EVENTS"])
def test_a_heavy_trace_is_kept_and_later_ones_are_light(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, cap: str
) -> None:
    monkeypatch.setattr(f"shapescope.record.profiler.{cap}", 10)
    profiler = recorder(tmp_path, detail=Detail.FULL)
    for size in (4, 2, 1):
        with profiler.window(GraphKey.of("R", size)):
            torch.ones(4)
        profiler.drain()
    found = [trace(profiler, row)["traceEvents"] for row in rows(profiler)]
    stacks = [any(event.get("cat") == "python_function" for event in events) for events in found]  # type: ignore[attr-defined]
    assert stacks == [True, False, False]
    assert caplog.text.count("later windows record no stacks") == 1


def test_a_trace_above_the_cap_is_dropped_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    profiler = recorder(tmp_path, detail=Detail.FULL)
    with monkeypatch.context() as patch:
        patch.setattr(export, "LARGEST_TRACE_BYTES", 10)
        with profiler.window(GraphKey.of("R", 4)):
            torch.ones(4)
        profiler.drain()
    with profiler.window(GraphKey.of("R", 2)):
        torch.ones(2)
    dropped, kept = rows(profiler)
    assert dropped.status is Status.FAILED and dropped.reason is not None and "above the cap" in dropped.reason
    assert kept.status is Status.OK
    assert [path.name for path in profiler.session.traces.iterdir()] == ["R_bs_2_rank0.json.gz"]


def test_a_recorded_warm_up_is_timed_without_what_recording_it_cost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    profiler = recorder(tmp_path, evidence=frozenset({Evidence.WARMUP, Evidence.CAPTURE}))
    start_window = Window.start

    def slowly(window: Window) -> bool:
        time.sleep(0.2)
        return start_window(window)

    monkeypatch.setattr(Window, "start", slowly)
    key = GraphKey.of("A", 2)
    for index in range(2):
        with profiler.warmup(key, index, 2):
            torch.ones(2).add_(1)
    with profiler.capture(key):
        torch.ones(2).add_(1)
    (captured,) = [row for row in rows(profiler) if row.evidence is Evidence.CAPTURE]
    assert len(captured.warmup_ns) == 2
    assert captured.warmup_ns[1] < 100_000_000
