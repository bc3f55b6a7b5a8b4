"""The real SGLang captures, and every capture has its file and key. Run by `make test-sglang`, beside the nine defects."""

from __future__ import annotations

import gzip
import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
import pytest

if find_spec("sglang") is None:
    pytest.skip("SGLang is not installed here: `make test-sglang` runs these", allow_module_level=True)

import scenarios
from scenarios import NOBODY, OURS, SGLANG, Side, traces

from shapescope.model import (
    METADATA_FIELD,
    Evidence,
    GraphKey,
    ManifestRow,
    Phase,
    Status,
    TraceIdentity,
    Unit,
    from_plain,
)
from shapescope.store.layout import trace_name
from shapescope.store.manifest import read_manifests, read_run
from shapescope.store.spans import Mark, parse_span

pytestmark = [pytest.mark.engines, pytest.mark.timeout(300)]


def document(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    return loaded


def identity(path: Path) -> TraceIdentity:
    return from_plain(TraceIdentity, document(path)[METADATA_FIELD])


def run_folder(folder: Path) -> Path:
    (found,) = [path.parent for path in folder.glob("*/run.json")]
    return found


def rows(folder: Path, evidence: Evidence = Evidence.CAPTURE) -> list[ManifestRow]:
    found = [row for _, row in read_manifests(run_folder(folder)) if isinstance(row, ManifestRow)]
    return [row for row in found if row.evidence is evidence and row.status is not Status.MISSING]


@pytest.mark.parametrize(
    ("scenario", "keys"),
    [
        (
            "rejection_sampling",
            {
                GraphKey.of("EAGLEDraftCudaGraphRunner", size, *variant, phase=Phase.DRAFT)
                for size in (1, 2, 4)
                for variant in ((), ("greedy",))
            },
        ),
        (
            "multi_layer_eagle",
            {
                GraphKey.of("MultiLayerEagleDraftExtendCudaGraphRunner", size, f"step={step}", phase=Phase.DRAFT_EXTEND)
                for size in (1, 2, 4)
                for step in (0, 1)
            },
        ),
        (
            "tree_uno",
            {GraphKey.of("UnoDecodeCudaGraphRunner", size, phase=Phase.VERIFY) for size in (1, 2, 4)}
            | {GraphKey.of("UnoDecodeCudaGraphRunner", size, "steps=1", phase=Phase.DRAFT) for size in (1, 2, 4)},
        ),
        (
            "adaptive_speculation",
            {
                GraphKey.of(runner, size, f"steps={steps}", phase=phase)
                for runner, phase in (
                    ("DecodeCudaGraphRunner", Phase.VERIFY),
                    ("EAGLEDraftCudaGraphRunner", Phase.DRAFT),
                    ("EAGLEDraftExtendCudaGraphRunner", Phase.DRAFT_EXTEND),
                )
                for size in (1, 2, 4)
                for steps in (1, 3)
            },
        ),
        (
            "recapture",
            {
                GraphKey.of("DecodeCudaGraphRunner", size, *variant)
                for size in (1, 2, 4)
                for variant in ((), ("generation=1",))
            },
        ),
        (
            "breakable_prefill",
            {GraphKey.of("PrefillCudaGraphRunner", size, unit=Unit.TOKENS, phase=Phase.PREFILL) for size in (8, 16)},
        ),
        (
            "single_graph_eagle",
            {
                GraphKey.of("MultiLayerEagleDraftExtendCudaGraphRunner", size, "all-steps", phase=Phase.DRAFT_EXTEND)
                for size in (1, 2, 4)
            },
        ),
    ],
)
def test_every_capture_has_a_file_that_knows_its_key(scenario: str, keys: set[GraphKey], tmp_path: Path) -> None:
    outcome = scenarios.run(OURS, getattr(scenarios, scenario), tmp_path)
    assert outcome.error == ""
    for evidence, found in ((Evidence.CAPTURE, traces(tmp_path)), (Evidence.WARMUP, traces(tmp_path, "warmup"))):
        identities = {path: identity(path) for path in found}
        assert {each.key for each in identities.values()} == keys
        assert len(found) == len(keys) == outcome.captures
        for path, each in identities.items():
            assert each.evidence is evidence
            assert path.name == trace_name(each.key, each.rank, evidence)
    assert {row.key for row in rows(tmp_path)} == keys
    assert all(row.status is Status.OK and row.launches and len(row.warmup_ns) == 2 for row in rows(tmp_path))


def test_a_breakable_capture_shows_its_segments(tmp_path: Path) -> None:
    scenarios.run(OURS, scenarios.breakable_prefill, tmp_path)
    for path in traces(tmp_path):
        spans = [parse_span(str(event["name"])) for event in document(path)["traceEvents"] if "name" in event]
        marks = [span[0] for span in spans if span is not None]
        assert marks.count(Mark.CAPTURE) == 1
        assert marks.count(Mark.SEGMENT) == scenarios.engine.LAYERS + 1


@pytest.mark.parametrize("scenario", [scenarios.replayed_decode, scenarios.debugged_decode])
def test_recording_changes_no_token_and_no_call_of_a_replay(scenario: scenarios.Scenario, tmp_path: Path) -> None:
    plain = scenarios.run(NOBODY, scenario, tmp_path / "off")
    recorded = scenarios.run(OURS, scenario, tmp_path / "on")
    assert (plain.error, recorded.error) == ("", "")
    assert recorded.notes["same as eager"] and plain.notes["same as eager"]
    assert plain.notes["calls"]
    # --debug-cuda-graph keeps the function that was captured: there our wrapper is one call, which does nothing else.
    ours = [name for name in recorded.notes["calls"] if name not in plain.notes["calls"] or name == "forward"]
    assert len(recorded.notes["calls"]) - len(plain.notes["calls"]) == (1 if "debugged" in scenario.__name__ else 0), (
        ours
    )
    assert len(rows(tmp_path / "on")) == recorded.captures


def test_switched_off_it_leaves_no_trace(tmp_path: Path) -> None:
    outcome = scenarios.run(NOBODY, scenarios.decode, tmp_path)
    assert outcome.captures == 3
    assert "Executed general plugin: shapescope" in outcome.log
    assert "Applied" not in outcome.log
    assert list(tmp_path.iterdir()) == []


def test_beside_its_own_profiler_we_stand_back_and_say_so(tmp_path: Path) -> None:
    both = Side(
        "both",
        {**SGLANG.variables, **OURS.variables, "SGLANG_TORCH_PROFILER_DIR": str(tmp_path / "theirs")},
        "SHAPESCOPE_PROFILER_DIR",
        engine_profiler=True,
    )
    outcome = scenarios.run(both, scenarios.decode, tmp_path / "ours")
    assert outcome.error == ""
    assert outcome.log.count("shapescope stands back") == 1
    assert len(traces(tmp_path / "theirs")) == 3
    assert list((tmp_path / "ours").iterdir()) == []


def test_its_own_switches_are_honoured_without_its_profiler(tmp_path: Path) -> None:
    per_shape = msgspec.structs.replace(SGLANG, engine_profiler=False)
    assert scenarios.run(per_shape, scenarios.decode, tmp_path / "shapes").error == ""
    assert len(traces(run_folder(tmp_path / "shapes"))) == 3
    both = {**SGLANG.variables, "SGLANG_ENABLE_CUDA_GRAPH_CAPTURE_TRACE": "1"}
    combined = msgspec.structs.replace(per_shape, variables=both)
    scenarios.run(combined, scenarios.decode_and_draft, tmp_path / "combined")
    assert {path.name for path in traces(tmp_path / "combined")} == {
        "cuda_graph_capture-DecodeCudaGraphRunner-TP-0.json.gz",
        "cuda_graph_capture-EAGLEDraftCudaGraphRunner-TP-0.json.gz",
    }


def test_two_ranks_of_one_start_share_a_run(tmp_path: Path) -> None:
    """Two tensor parallel processes, with SGLang's own groups between them, under the id that their launcher set."""
    variables = {**OURS.variables, "SHAPESCOPE_RUN_ID": "start", "SHAPESCOPE_MEASURE": "3"}
    outcomes = scenarios.run_together(msgspec.structs.replace(OURS, variables=variables), scenarios.decode, tmp_path, 2)
    assert [(outcome.error, outcome.captures) for outcome in outcomes] == [("", 3), ("", 3)]
    assert run_folder(tmp_path).name == "start"
    assert [identity(path).rank.tp for path in traces(tmp_path)] == [0, 1, 0, 1, 0, 1]
    assert len(traces(tmp_path, "replay")) == 6
    run = read_run(run_folder(tmp_path))
    assert run is not None
    assert (run.engine, run.model, run.world_size) == ("sglang", "dummy", 2)


def test_a_failed_capture_is_named_and_what_came_after_it_is_missing(tmp_path: Path) -> None:
    outcome = scenarios.run(OURS, scenarios.failing_decode, tmp_path)
    assert "illegal memory access" in outcome.error
    found = {row.key.shape.size: row for row in rows(tmp_path) if row.key is not None}
    assert found[4].status is Status.OK
    assert found[2].status is Status.FAILED
    assert "illegal memory access" in (found[2].reason or "")
    assert 1 not in found


def test_replays_are_timed_when_asked_for(tmp_path: Path) -> None:
    measured = msgspec.structs.replace(OURS, variables={**OURS.variables, "SHAPESCOPE_MEASURE": "5"})
    scenarios.run(measured, scenarios.decode, tmp_path)
    found = rows(tmp_path, Evidence.REPLAY)
    assert [row.key.shape.size for row in found if row.key is not None] == [4, 2, 1]
    assert all(row.timing is not None and len(row.timing.samples_ns) == 5 and row.timing.dummy_inputs for row in found)
    assert len(traces(tmp_path, "replay")) == 3
