"""Names are injective, metadata is exact, files appear whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shapescope.errors import InputError, OutputError
from shapescope.model import (
    Evidence,
    GraphKey,
    ManifestRow,
    Memory,
    Phase,
    Rank,
    RunManifest,
    Shape,
    Status,
    Timing,
    TraceIdentity,
    Unit,
    from_plain,
    to_plain,
)
from shapescope.store import layout, manifest, spans

# Few letters, so that hypothesis finds names that look like parts of other names.
words = st.one_of(
    st.text(alphabet="bs_rank01=%~.-", max_size=8),
    st.sampled_from(["Decode", "bs", "stream=1", "stream", "rank0", "dup1", "phase=draft", "tp1", "lora", "1"]),
    st.text(max_size=12).filter(lambda text: text.isprintable()),
)
shapes = st.builds(
    Shape, st.integers(0, 99), st.sampled_from(Unit), st.lists(words, max_size=3).map(tuple)
)  # fmt: skip
keys = st.builds(GraphKey, words, shapes, st.sampled_from(Phase))
ranks = st.builds(Rank, *[st.integers(0, 9)] * 5, *[st.integers(1, 4)] * 5)
timings = st.builds(
    Timing,
    st.lists(st.integers(0, 2**40), max_size=4).map(tuple),
    st.none() | st.integers(1, 9),
    st.booleans(),
)
identities = st.builds(
    TraceIdentity,
    st.none() | keys,
    ranks,
    st.sampled_from(Evidence),
    st.text(max_size=5),
    st.integers(0, 9),
    st.none() | timings,
)
memories = st.builds(Memory, st.integers(0, 9), st.none() | st.integers(), st.none() | st.integers(), st.booleans())
rows = st.builds(
    ManifestRow, st.none() | keys, ranks, st.sampled_from(Evidence), st.integers(0, 9), st.sampled_from(Status),
    memory=st.none() | memories, timing=st.none() | timings,
)  # fmt: skip


traced = st.sampled_from([kind for kind in Evidence if kind is not Evidence.MEMORY])  # that one is of a runner


@given(keys, keys, traced, traced)
def test_a_name_belongs_to_one_key_and_evidence(
    one: GraphKey, other: GraphKey, first: Evidence, second: Evidence
) -> None:
    names = {layout.trace_name(one, Rank(), first), layout.trace_name(other, Rank(), second)}
    assert len(names) == len({(one, first), (other, second)})


@given(keys, st.integers(0, 3), st.integers(0, 3), st.integers(0, 3), st.integers(0, 3))
def test_a_name_belongs_to_one_place_in_the_world(
    key: GraphKey, tp: int, dp: int, other_tp: int, other_dp: int
) -> None:
    def name(tp: int, dp: int) -> str:
        return layout.trace_name(key, Rank(dp * 4 + tp, tp, 0, dp, 0, 4, 1, 4, 1, 16), Evidence.CAPTURE)

    assert (name(tp, dp) == name(other_tp, other_dp)) == ((tp, dp) == (other_tp, other_dp))


@given(keys, ranks)
def test_a_name_fits_every_file_system(key: GraphKey, rank: Rank) -> None:
    name = layout.trace_name(key, rank, Evidence.REPLAY, duplicate=10)
    assert len(name.encode()) < 250
    assert "/" not in name and "\0" not in name and not name.startswith(".")


def test_long_variants_keep_their_names_apart() -> None:
    one, other = (GraphKey.of("R", 1, "x" * 400 + end) for end in "ab")
    assert layout.trace_name(one, Rank(), Evidence.CAPTURE) != layout.trace_name(other, Rank(), Evidence.CAPTURE)


@pytest.mark.parametrize(
    ("key", "rank", "evidence", "name"),
    [
        (
            GraphKey.of("DecodeCudaGraphRunner", 8),
            Rank(),
            Evidence.CAPTURE,
            "DecodeCudaGraphRunner_bs_8_rank0.json.gz",
        ),
        (
            GraphKey.of("DecodeCudaGraphRunner", 8, "dense", "lora", "stream=1"),
            Rank(rank=3, tp=3, tp_size=4, world_size=4),
            Evidence.CAPTURE,
            "DecodeCudaGraphRunner_bs_8_dense_lora_stream_1_rank3.json.gz",
        ),
        (
            GraphKey.of("PrefillRunner", 512, unit=Unit.TOKENS, phase=Phase.PREFILL),
            Rank(rank=6, tp=1, pp=1, dp=0, tp_size=2, pp_size=2, dp_size=2, world_size=8),
            Evidence.REPLAY,
            "PrefillRunner_tokens_512_tp1_pp1_dp0_rank6.replay.json.gz",
        ),
        (
            GraphKey.of("EagleDraft", 4, phase=Phase.DRAFT),
            Rank(),
            Evidence.NODES,
            "EagleDraft_bs_4_rank0.nodes.json",
        ),
        (
            GraphKey.of("Decode", 4, phase=Phase.VERIFY),
            Rank(),
            Evidence.WARMUP,
            "Decode_bs_4_phase=verify_rank0.warmup.json.gz",
        ),
        (None, Rank(), Evidence.CAPTURE, "unlabelled-0_rank0.json.gz"),
    ],
)
def test_names_are_those_of_the_ecosystem(key: GraphKey | None, rank: Rank, evidence: Evidence, name: str) -> None:
    assert layout.trace_name(key, rank, evidence) == name


def test_combined_names_say_all_that_is_parallel() -> None:
    assert layout.combined_name("Decode", Rank(tp=3, tp_size=4)) == "cuda_graph_capture-Decode-TP-3.json.gz"
    assert (
        layout.combined_name("Decode", Rank(5, 1, 0, 2, 0, 2, 1, 4))
        == "cuda_graph_capture-Decode-tp1_dp2_rank5.json.gz"
    )


@given(identities)
def test_an_identity_comes_back_exactly(identity: TraceIdentity) -> None:
    assert from_plain(TraceIdentity, to_plain(identity)) == identity


@given(rows)
def test_a_manifest_row_comes_back_exactly(row: ManifestRow) -> None:
    assert from_plain(ManifestRow, to_plain(row)) == row


@given(st.sampled_from([spans.Mark.CAPTURE, spans.Mark.REPLAY, spans.Mark.WARMUP]), keys)
def test_a_span_comes_back_exactly(mark: spans.Mark, key: GraphKey) -> None:
    text = spans.span_name(mark, key)
    assert spans.parse_span(text) == (mark, key)
    assert not set('"\\\n\r\t') & set(text)


@pytest.mark.parametrize(
    "text", ["decode", "shapescope.other x", "shapescope.capture size=8", "shapescope.capture %%%"]
)
def test_other_spans_are_not_ours(text: str) -> None:
    assert spans.parse_span(text) is None


def test_a_newer_schema_is_refused() -> None:
    with pytest.raises(InputError, match="schema 2"):
        from_plain(Rank, {"rank": 0, "schema": 2})


def test_publish_never_overwrites(tmp_path: Path) -> None:
    def put(text: str) -> tuple[Path, int]:
        return layout.publish(
            tmp_path, lambda n: f"a_dup{n}" if n else "a", lambda path: path.write_text(text) and None
        )

    assert put("first") == (tmp_path / "a", 0)
    assert put("second") == (tmp_path / "a_dup1", 1)
    assert (tmp_path / "a").read_text() == "first"


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    def full_disk(path: Path) -> None:
        path.write_text("half")
        raise OSError(28, "No space left on device")

    with pytest.raises(OutputError, match="No space left"):
        layout.publish(tmp_path, lambda n: "a", full_disk)
    assert list(tmp_path.iterdir()) == []


def test_run_json_is_written_once(tmp_path: Path) -> None:
    first = RunManifest(
        "id",
        "2026-11-30T00:00:00Z",
        "demo",
        None,
        (GraphKey.of("R", 1, "lora"),),
        environment={"torch": "2.13"},
    )
    manifest.write_run(tmp_path, first)
    manifest.write_run(tmp_path, RunManifest("other", "", "demo", None, ()))
    assert manifest.read_run(tmp_path) == first
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


def test_a_torn_manifest_line_costs_only_itself(tmp_path: Path) -> None:
    writer = manifest.ManifestWriter(tmp_path, Rank(), "host", os.getpid())
    row = ManifestRow(GraphKey.of("R", 1), Rank(), Evidence.CAPTURE, 0, Status.OK)
    writer.append(row)
    with writer.path.open("ab") as file:
        file.write(b'{"key": {"runn')
    read = [entry for _, entry in manifest.read_manifests(tmp_path)]
    assert read[0] == row
    assert isinstance(read[1], InputError)
