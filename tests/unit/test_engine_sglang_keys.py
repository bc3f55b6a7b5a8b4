"""SGLang's captures by name: every one has a key of its own, which says what SGLang itself calls it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sglang_fakes import LaterShapeKey, ShapeKey, runner

from shapescope.engines.sglang_keys import RunnerIdentity, announced_keys, encoder_key, identity_of, key_of, rank_of
from shapescope.model import Evidence, GraphKey, Phase, Rank, Unit
from shapescope.store.layout import trace_name

UNO_DRAFT = SimpleNamespace(name="UNO_DRAFT")


def key(made: Any, shape: ShapeKey, generation: int = 0, *, steps: int | None = 3, adaptive: bool = False) -> GraphKey:
    identity = identity_of(made, configured_steps=steps, adaptive=adaptive)
    return key_of(made, identity, shape, lambda: None, generation)


def test_a_key_says_what_sglangs_own_name_says_in_the_same_order() -> None:
    found = key(runner(), ShapeKey(8, stream_idx=1, variant_label="nolora", attention_variant="dense"), generation=2)
    assert found == GraphKey.of("DecodeCudaGraphRunner", 8, "dense", "nolora", "stream=1", "generation=2")
    assert trace_name(key(runner(), ShapeKey(8, variant_label="lora")), Rank(), Evidence.CAPTURE) == (
        "DecodeCudaGraphRunner_bs_8_lora_rank0.json.gz"
    )


def test_a_field_of_a_later_version_is_kept() -> None:
    assert key(runner(), LaterShapeKey(8, beam_width=4)).shape.variants == ("beam_width=4",)


@pytest.mark.parametrize(
    ("made", "phase", "name"),
    [
        (runner(), Phase.DECODE, "DecodeCudaGraphRunner"),
        (runner(forward="TARGET_VERIFY"), Phase.VERIFY, "DecodeCudaGraphRunner"),
        (runner(forward="TARGET_VERIFY", draft=True), Phase.DRAFT, "DraftDecodeCudaGraphRunner"),
        (runner("EAGLEDraftCudaGraphRunner", draft=True), Phase.DRAFT, "EAGLEDraftCudaGraphRunner"),
        (
            runner("EAGLEDraftExtendCudaGraphRunner", draft=True, forward="DRAFT_EXTEND_V2"),
            Phase.DRAFT_EXTEND,
            "EAGLEDraftExtendCudaGraphRunner",
        ),
        (runner("PrefillCudaGraphRunner", forward="EXTEND"), Phase.PREFILL, "PrefillCudaGraphRunner"),
        (
            runner("PrefillCudaGraphRunner", forward="EXTEND", draft=True),
            Phase.PREFILL,
            "DraftPrefillCudaGraphRunner",
        ),
        (
            runner(
                "UnoDecodeCudaGraphRunner",
                forward="TARGET_VERIFY",
                _capture_spec_input_type=SimpleNamespace(name="UNO_DRAFT"),
            ),
            Phase.DRAFT,
            "UnoDecodeCudaGraphRunner",
        ),
        (runner(forward="DLLM_EXTEND"), Phase.DIFFUSION, "DecodeCudaGraphRunner"),
        (runner(forward="SPLIT_PREFILL"), Phase.OTHER, "DecodeCudaGraphRunner"),
    ],
)
def test_the_phase_comes_from_the_forward_mode_and_the_worker(made: Any, phase: Phase, name: str) -> None:
    found = key(made, ShapeKey(4))
    assert (found.phase, found.runner) == (phase, name)
    assert found.shape.unit is (Unit.TOKENS if phase is Phase.PREFILL else Unit.REQUESTS)


def test_ragged_verify_counts_tokens() -> None:
    assert key(runner(forward="TARGET_VERIFY", ragged_verify_mode=True), ShapeKey(12)).shape.unit is Unit.TOKENS


def test_steps_and_tiers_are_told_apart() -> None:
    assert key(runner(step=1, speculative_num_steps=3), ShapeKey(4)).shape.variants == ("step=1",)
    assert key(runner(speculative_num_steps=1), ShapeKey(4)).shape.variants == ("steps=1",)
    # While a tier is built, the server's own number of steps is the tier's.
    assert key(runner(speculative_num_steps=3), ShapeKey(4), adaptive=True).shape.variants == ("steps=3",)


def test_one_graph_of_all_steps_is_no_graph_of_its_first() -> None:
    def multi_step_fn() -> None: ...

    made = runner(step=0)
    identity = identity_of(made, configured_steps=None, adaptive=False)
    assert key_of(made, identity, ShapeKey(4), multi_step_fn, 0).shape.variants == ("all-steps",)


labels = st.none() | st.sampled_from(["lora", "nolora", "dense", "greedy", "stream=1", "1"])
small = st.none() | st.integers(0, 3)


@given(
    st.lists(
        st.tuples(st.integers(1, 64), small, labels, labels, st.integers(0, 2), small, small, st.booleans()),
        unique=True,
        max_size=20,
    )
)
def test_different_captures_never_share_a_file(captures: list[tuple[Any, ...]]) -> None:
    names = set()
    for size, stream, label, attention, generation, step, steps, draft in captures:
        fields = {
            name: value for name, value in (("step", step), ("speculative_num_steps", steps)) if value is not None
        }
        shape = ShapeKey(size, stream, f"v{label}" if label else None, f"a{attention}" if attention else None)
        found = key(runner(draft=draft, **fields), shape, generation, steps=None)
        names.add(trace_name(found, Rank(), Evidence.CAPTURE))
    assert len(names) == len(captures)


def test_an_encoders_key_counts_tokens_and_tells_layouts_apart() -> None:
    vit = type("ViTCudaGraphRunner", (), {})()
    one, other = encoder_key(vit, (16, ((0, 8, 16), None))), encoder_key(vit, (16, ((0, 4, 16), None)))
    assert (one.shape.size, one.shape.unit, one.phase) == (16, Unit.TOKENS, Phase.ENCODER)
    assert one.shape.variants != other.shape.variants
    assert encoder_key(vit, (3, 256)).shape.size == 768
    assert encoder_key(vit, ((1, 4, 4), (1, 2, 6))).shape.size == 28
    assert encoder_key(vit, ((1, 4, 4),)).shape.size == 16


def test_keys_are_announced_only_where_the_sizes_say_it_all() -> None:
    identity = RunnerIdentity("DecodeCudaGraphRunner")
    assert [found.shape.size for found in announced_keys(runner(capture_bs=[1, 2, 4]), identity, 0)] == [4, 2, 1]
    assert announced_keys(runner(capture_bs=[1, 2], record_nolora_graph=True), identity, 0) == []
    assert announced_keys(runner("NewRunner"), identity, 0) == []


class Parallel:
    """SGLang raises for what was never published."""

    def __init__(self, **places: int | None) -> None:
        self.places = places

    def __getattr__(self, name: str) -> int | None:
        try:
            return self.places[name]
        except KeyError:
            raise RuntimeError(f"parallel name {name!r} has not been written in this process") from None


def test_a_rank_has_every_dimension_and_a_place_in_the_world() -> None:
    assert rank_of(Parallel()) == Rank()
    assert rank_of(Parallel(tp_rank=1, tp_size=2, dp_rank=None)) == Rank(1, tp=1, tp_size=2, world_size=2)
    places = {"tp_rank": 1, "tp_size": 2, "pp_rank": 2, "pp_size": 4, "dp_rank": 1, "dp_size": 2}
    found = rank_of(Parallel(**places, moe_ep_rank=1, moe_ep_size=2))
    assert (found.rank, found.world_size, found.ep) == (13, 16, 1)
    everybody = {
        rank_of(Parallel(**{**places, "tp_rank": tp, "pp_rank": pp, "dp_rank": dp})).rank
        for tp in range(2) for pp in range(4) for dp in range(2)
    }  # fmt: skip
    assert everybody == set(range(16))
