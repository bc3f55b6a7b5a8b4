"""The real vLLM captures the tiny model, and every capture has its file and key on every rank. Run by `make test-vllm`."""

from __future__ import annotations

import gzip
import json
from importlib.util import find_spec
from pathlib import Path

import pytest

if find_spec("vllm") is None:
    pytest.skip("vLLM is not installed here: `make test-vllm` runs these", allow_module_level=True)

from vllm_process import BREAKABLE, COMPILED, FULL, RECORDED, TWO_RANKS, V1, V2, Engine, Served

from shapescope.model import METADATA_FIELD, Evidence, GraphKey, Phase, Rank, Status, TraceIdentity, Unit, from_plain
from shapescope.store.layout import trace_name
from shapescope.store.spans import Mark, parse_span

pytestmark = [pytest.mark.engines, pytest.mark.timeout(900)]

SIZES = (8, 4, 2, 1)
LAYERS = 2
DECODES = {GraphKey.of("decode", size, "full") for size in SIZES}
MIXED = {GraphKey.of("mixed", size, "piecewise", unit=Unit.TOKENS, phase=Phase.MIXED) for size in SIZES}
# Attention breaks a breakable capture once a layer.
SEGMENTS = {key: 1 if key in DECODES else LAYERS + 1 for key in DECODES | MIXED}


def again(keys: set[GraphKey]) -> set[GraphKey]:
    return {GraphKey.of("decode", key.shape.size, "full", "generation=2") for key in keys}


def document(path: Path) -> dict[str, object]:
    with gzip.open(path) as file:
        loaded: dict[str, object] = json.load(file)
    return loaded


def check_files(
    served: Served,
    keys: set[GraphKey],
    ranks: list[Rank],
    kinds: tuple[Evidence, ...] = (Evidence.CAPTURE, Evidence.WARMUP),
) -> None:
    """One whole file a key, rank and kind, by its name and by what it says inside, and a row of the manifest for each."""
    wanted = [(key, rank, kind) for key in keys for rank in ranks for kind in kinds]
    expected = {trace_name(*one): one for one in wanted}
    folder = served.run / "graph_capture_profile"
    assert {path.name for path in folder.iterdir()} == set(expected)
    for name, (key, rank, kind) in expected.items():
        identity = from_plain(TraceIdentity, document(folder / name)[METADATA_FIELD])
        assert (identity.key, identity.rank, identity.evidence) == (key, rank, kind)
    recorded = [(row.key, row.rank, row.evidence) for row in served.rows(Status.OK)]
    assert sorted(recorded, key=repr) == sorted(wanted, key=repr)
    assert not served.rows(Status.FAILED, Status.PARTIAL, Status.UNLABELLED)


def segments(path: Path) -> int:
    events = document(path)["traceEvents"]
    assert isinstance(events, list)
    marks = [parse_span(event.get("name", "")) for event in events if event.get("ph") == "X"]
    return sum(mark is not None and mark[0] is Mark.SEGMENT for mark in marks)


def check_segments(served: Served) -> None:
    folder = served.run / "graph_capture_profile"
    found = {key: segments(folder / trace_name(key, Rank(), Evidence.CAPTURE)) for key in SEGMENTS}
    assert found == SEGMENTS


def test_v1_full_and_breakable(engine: Engine, eager: Served, tmp_path: Path) -> None:
    (tmp_path / "off").mkdir()
    (tmp_path / "on").mkdir()
    off = engine.serve(tmp_path / "off", {**V1, **BREAKABLE})
    on = engine.serve(tmp_path / "on", {**V1, **BREAKABLE, **RECORDED})
    assert eager.tokens and eager.tokens == off.tokens == on.tokens, on.log
    assert off.counts == on.counts
    # Two shapes of each mode are captured once more, for the estimate of memory, and thrown away.
    assert on.counts["rank0"]["captures"] == sum(SEGMENTS.values()) + 2 * 1 + 2 * (LAYERS + 1)
    assert on.counts["rank0"]["replays"] > 0
    assert on.all_calls > 0 and on.calls == []
    assert off.runs == []
    assert not list((tmp_path / "off").rglob("*.json.gz"))
    check_files(on, DECODES | MIXED, [Rank()])
    check_segments(on)


def test_v1_compiled_in_pieces(engine: Engine, eager: Served, tmp_path: Path) -> None:
    served = engine.serve(tmp_path, {**V1, **COMPILED, **RECORDED})
    assert served.tokens == eager.tokens, served.log
    check_files(served, DECODES | MIXED, [Rank()])
    check_segments(served)


def test_v1_on_two_ranks(engine: Engine, eager: Served, tmp_path: Path) -> None:
    served = engine.serve(tmp_path, {**TWO_RANKS, **FULL, **RECORDED}, "--tensor-parallel", "2")
    assert served.tokens == eager.tokens, served.log
    ranks = [Rank(rank=place, tp=place, tp_size=2, world_size=2) for place in range(2)]
    check_files(served, DECODES, ranks)
    assert set(served.counts) == {"rank0", "rank1"}


def test_v1_captured_twice_keeps_both(engine: Engine, eager: Served, tmp_path: Path) -> None:
    served = engine.serve(tmp_path, {**V1, **FULL, **RECORDED, "STAND_IN_CAPTURES": "2"})
    assert served.tokens == eager.tokens, served.log
    check_files(served, DECODES | again(DECODES), [Rank()])


def test_v1_in_one_trace(engine: Engine, eager: Served, tmp_path: Path) -> None:
    served = engine.serve(tmp_path, {**V1, **FULL, "SHAPESCOPE_GRAPH_CAPTURE_TRACE": "1"})
    assert served.tokens == eager.tokens, served.log
    (trace,) = (served.run / "graph_capture_profile").iterdir()
    assert trace.name == "cuda_graph_capture-model-TP-0.json.gz"
    assert segments(trace) == len(SIZES)


def test_the_engines_own_switch_wins(engine: Engine, eager: Served, tmp_path: Path) -> None:
    own = tmp_path / "own"
    served = engine.serve(tmp_path, {**V1, **FULL, **RECORDED}, "--own-switch", str(own))
    assert served.tokens == eager.tokens, served.log
    assert "shapescope stands back" in served.log
    assert len(list((own / "capture_traces").iterdir())) == len(SIZES)
    assert served.runs == []


def test_an_engine_that_is_killed_leaves_whole_files(engine: Engine, tmp_path: Path) -> None:
    served = engine.serve(
        tmp_path, {**V1, **FULL, **RECORDED, "SHAPESCOPE_EVIDENCE": "capture", "STAND_IN_DIE_AT": "4"}
    )
    assert served.tokens is None
    captured, missing = SIZES[:1], SIZES[1:]
    folder = served.run / "graph_capture_profile"
    assert {path.name for path in folder.iterdir()} == {f"decode_bs_{size}_full_rank0.json.gz" for size in captured}
    assert [row.key.shape.size for row in served.rows(Status.OK) if row.key] == list(captured)
    announced = {row.key.shape.size for row in served.rows(Status.MISSING) if row.key}
    assert announced == {*captured, *missing}
    for path in folder.iterdir():
        assert document(path)[METADATA_FIELD]


def test_v2_full_and_breakable(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "off").mkdir()
    (tmp_path / "on").mkdir()
    off = engine.serve(tmp_path / "off", {**V2, **BREAKABLE})
    on = engine.serve(tmp_path / "on", {**V2, **BREAKABLE, **RECORDED})
    assert on.tokens and on.tokens == off.tokens, on.log
    assert off.counts == on.counts
    # All breakable shapes and two full ones are captured once more, for the estimate of memory, and thrown away.
    assert on.counts["rank0"]["captures"] == sum(SEGMENTS.values()) + 2 + len(MIXED) * (LAYERS + 1)
    assert off.runs == []
    check_files(on, DECODES | MIXED, [Rank()])
    check_segments(on)


def test_v2_speculator(engine: Engine, eagle: Path, tmp_path: Path) -> None:
    served = engine.serve(tmp_path, {**V2, **BREAKABLE, **RECORDED}, "--eagle", str(eagle))
    assert served.tokens, served.log
    check_files(served, MIXED | drafting_keys(), [Rank()])


def drafting_keys() -> set[GraphKey]:
    """With two drafted tokens a step, a full graph of the model verifies three a request; the largest size is 8 tokens."""
    verifying = [(6, "full", "requests=2", "uniform=3"), (3, "full", "requests=1", "uniform=3")]
    drafts = {GraphKey.of("draft", size, "full", phase=Phase.DRAFT) for size in SIZES}
    verify = {GraphKey.of("verify", *shape, unit=Unit.TOKENS, phase=Phase.VERIFY) for shape in verifying}
    extended = [*verifying, *((size, "piecewise") for size in SIZES)]
    return (
        drafts
        | verify
        | {GraphKey.of("draft-extend", *shape, unit=Unit.TOKENS, phase=Phase.DRAFT_EXTEND) for shape in extended}
    )


def test_the_encoder(engine: Engine, tmp_path: Path) -> None:
    served = engine.run(tmp_path, {**FULL, **RECORDED}, "capture_encoder.py")
    assert served.exit_code == 0, served.log
    budgets = {GraphKey.of("encoder", size, unit=Unit.TOKENS, phase=Phase.ENCODER) for size in (16, 8)}
    check_files(served, budgets, [Rank()], (Evidence.CAPTURE,))
