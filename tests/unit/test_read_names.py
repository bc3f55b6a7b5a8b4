"""What names and spans say, in every dialect."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shapescope.model import Evidence, GraphKey, Phase, Rank, Unit
from shapescope.read.foreign import NameHint, name_hint
from shapescope.read.spans import Work, parse_capture_span, parse_step
from shapescope.store.layout import combined_name, trace_name

NAMES = {
    "cuda_graph_capture-DecodeCudaGraphRunner-TP-3.json.gz": ("DecodeCudaGraphRunner", None, (), {"tp": 3}),
    "1785.1-TP-3.trace.json.gz": (None, None, (), {"tp": 3}),
    "run-1785.1-TP-1-DP-2-PP-0-EP-4-DECODE.trace.json.gz": (None, None, (), {"tp": 1, "dp": 2, "pp": 0, "ep": 4}),
    "bs_8_rank0.json.gz": (None, 8, (), {"rank": 0}),
    "DecodeCudaGraphRunner_bs_8_rank12.json.gz": ("DecodeCudaGraphRunner", 8, (), {"rank": 12}),
    "EAGLEDraftCudaGraphRunner_bs_8_rank0.json.gz": ("EAGLEDraftCudaGraphRunner", 8, (), {"rank": 0}),
    "R_bs_8_dense_lora_stream_1_rank3.json.gz": ("R", 8, ("dense", "lora", "stream=1"), {"rank": 3}),
    "graph_capture_rank_0.1773709679453551615.pt.trace.json.gz": (None, None, (), {"rank": 0}),
    "dp0_pp1_tp2_dcp0_ep0_rank6.99.pt.trace.json.gz": (
        None, None, (), {"dp": 0, "pp": 1, "tp": 2, "dcp": 0, "ep": 0, "rank": 6},
    ),
    "host_1.async_llm.99.pt.trace.json.gz": (None, None, (), {}),
    "rank_3/host_42.99.pt.trace.json.gz": (None, None, (), {"rank": 3}),
    "my_crank3_notes.json": (None, None, (), {}),
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_names_hint_at_runner_size_variants_and_ranks(name: str) -> None:
    hint = name_hint(Path(name))
    assert (hint.runner, hint.size, hint.variants, dict(hint.ranks)) == NAMES[name]


def test_kinds_of_names() -> None:
    assert name_hint(Path("cuda_graph_capture-R-TP-0.json.gz")).combined
    assert name_hint(Path("R_tokens_8_rank0.replay-1024.json.gz")).evidence is Evidence.REPLAY
    assert name_hint(Path("R_tokens_8_rank0.json.gz")).unit is Unit.TOKENS
    assert name_hint(Path("EAGLEDraftExtendCudaGraphRunner_bs_8_rank0.json.gz")).key == GraphKey.of(
        "EAGLEDraftExtendCudaGraphRunner", 8, phase=Phase.DRAFT_EXTEND
    )
    assert name_hint(Path("anything.json")) == NameHint()


PLAIN = st.from_regex(r"[A-Za-z][A-Za-z0-9]{0,8}", fullmatch=True)
RANKS = st.sampled_from(
    [Rank(), Rank(3, 3, tp_size=8, world_size=8), Rank(6, 1, 1, 1, tp_size=2, pp_size=2, dp_size=2, world_size=8)]
)


@settings(deadline=None)
@given(
    PLAIN,
    st.integers(1, 1 << 20),
    st.lists(PLAIN | PLAIN.map("{}=1".format), max_size=3),
    st.sampled_from(Unit),
    st.sampled_from(Phase),
    RANKS,
    st.sampled_from([Evidence.CAPTURE, Evidence.WARMUP, Evidence.REPLAY]),
    st.integers(0, 2),
)
def test_our_own_names_are_read_back(
    runner: str,
    size: int,
    variants: list[str],
    unit: Unit,
    phase: Phase,
    rank: Rank,
    evidence: Evidence,
    duplicate: int,
) -> None:
    if any(word.lower().startswith(("rank", "tp", "pp", "dp", "ep", "bs", "tokens")) for word in (runner, *variants)):
        return
    key = GraphKey.of(runner, size, *variants, unit=unit, phase=phase)
    hint = name_hint(Path(trace_name(key, rank, evidence, duplicate=duplicate)))
    assert (hint.key, hint.evidence) == (key, evidence)
    assert hint.ranks["rank"] == rank.rank
    assert name_hint(Path(combined_name(runner, rank))).runner == runner


STEPS = {
    "step[DECODE bs=117]": (Phase.DECODE, 117, 117, None),
    "step[VERIFY bs=4]": (Phase.VERIFY, 4, None, None),
    "step[DRAFT bs=4]": (Phase.DRAFT, 4, None, None),
    "step[DRAFT_EXTEND bs=4]": (Phase.DRAFT_EXTEND, 4, None, None),
    "step[EXTEND bs=2 toks=14721]": (Phase.PREFILL, 2, 14721, None),
    "decode[bs=117/128 tok=117 d=117]": (Phase.DECODE, 117, 117, 128),
    "decode[bs=32 tok=128 d=32 spec=3]": (Phase.DECODE, 32, 128, None),
    "eager_decode[bs=32 tok=32 d=32]": (Phase.DECODE, 32, 32, None),
    "decode[bs=128 tok=384 p=2 d=126 sqsq=1 sqsk=2 sk=3 tbo=1]": (Phase.MIXED, 128, 384, None),
    "prefill[bs=6 tok=17408 ctx=[4096, 4096, 4096]...+3]": (Phase.PREFILL, 6, 17408, None),
    "execute_context_0(0)_generation_117(117)": (Phase.DECODE, 117, 117, None),
    "execute_context_0(0_0)_generation_117(117_1)": (Phase.DECODE, 117, 117, None),
    "execute_context_1(888_788544)_generation_0(0)": (Phase.PREFILL, 1, 888, None),
    "execute_context_2(6144)_generation_3(3)": (Phase.MIXED, 5, 6147, None),
    "execute_117_context_0(sq0sk0sqsq0sqsk0)_generation_117(sq117sk9sqsq117sqsk9)": (Phase.DECODE, 117, 117, None),
    "step[MIXED bs=66 c=2 g=64 c_sq=2048 c_sk=4096 g_sq=64 g_sk=9]": (Phase.MIXED, 66, 2112, None),
}


@pytest.mark.parametrize("text", STEPS)
def test_every_dialect_of_steps(text: str) -> None:
    step = parse_step(text)
    assert step is not None
    assert (step.mode, step.requests, step.tokens, step.padded_size) == STEPS[text]
    assert step.real_size == (step.tokens if step.mode in (Phase.PREFILL, Phase.MIXED) else step.requests)
    assert step.eager == text.startswith("eager")


def test_work_rides_in_steps() -> None:
    decode = parse_step("step[DECODE bs=64 g_sqsq=64 g_sqsk=100032 g_sk=100032]")
    extend = parse_step("step[EXTEND bs=1 toks=1025 c_sqsq=1050625 c_sqsk=1050625 c_sk=1025]")
    executed = parse_step(
        "execute_8192_context_9(sq8155sk8430sqsq7475785sqsk7671310)_generation_37(sq37sk34489sqsq37sqsk34489)"
    )
    atom = parse_step("decode[bs=64 tok=64 d=64 sqsq=64 sqsk=131072 sk=131072]")
    mixed = parse_step("decode[bs=128 tok=384 p=2 d=126 sqsq=132612 sqsk=1114112 sk=258048]")
    assert decode and extend and executed and atom and mixed
    assert decode.generation == Work(64, None, 100032, 64, 100032)
    assert extend.context == Work(1, None, 1025, 1050625, 1050625)
    assert executed.context == Work(9, 8155, 8430, 7475785, 7671310)
    assert executed.generation == Work(37, 37, 34489, 37, 34489)
    assert atom.generation == Work(64, None, 131072, 64, 131072)
    assert (mixed.context.sk, mixed.generation.sk) == (None, None)


@pytest.mark.parametrize(
    "text", ["ProfilerStep#3", "step[3/10]", "decode[x]", "step[IDLE]", "capture_8_FULL", "prefill", ""]
)
def test_other_spans_are_no_steps(text: str) -> None:
    assert parse_step(text) is None


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("capture_8_FULL", GraphKey.of("", 8, "full", unit=Unit.TOKENS, phase=Phase.MIXED)),
        ("capture_8192_PIECEWISE", GraphKey.of("", 8192, "piecewise", unit=Unit.TOKENS, phase=Phase.MIXED)),
        ("capture_32_DECODE", GraphKey.of("", 32)),
        ("capture_32_TARGET_VERIFY", GraphKey.of("", 32, phase=Phase.VERIFY)),
        ("graph_capture: batch=4 mode=FULL", GraphKey.of("", 4, "full", unit=Unit.TOKENS, phase=Phase.MIXED)),
        ("capture_model", None),
        ("capture_x_FULL", None),
    ],
)
def test_capture_spans(text: str, key: GraphKey | None) -> None:
    assert parse_capture_span(text) == key
