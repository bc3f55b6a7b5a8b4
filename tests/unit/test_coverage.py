"""Case 18: captured sizes against real traffic."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shapescope.analyse.coverage import SCHEMA, CoverageResult, coverage

CAPTURED = [1, 2, 4, 8, 16, 24, 32, 40]
TRAFFIC = [(42, 100, True), (5, 50, False), (9, 50, False), (32, 200, False)]


def sizes(*captured: int, unit: str = "requests", **measured: Any) -> pl.DataFrame:
    return pl.DataFrame(
        {"size": captured, "unit": [unit] * len(captured), **measured}, schema_overrides={"size": pl.Int64}
    )


def steps(*traffic: tuple[int | None, int, bool], unit: str = "requests") -> pl.DataFrame:
    rows = [{"real_size": real, "unit": unit, "eager": eager} for real, count, eager in traffic for _ in range(count)]
    return pl.DataFrame(rows, schema={"real_size": pl.Int64, "unit": pl.String, "eager": pl.Boolean})


def codes(result: CoverageResult) -> list[str]:
    return [code for code, _ in result.warnings]


def test_case_18_figures_and_order() -> None:
    result = coverage(sizes(*CAPTURED), steps(*TRAFFIC), requested=[42])
    assert (result.steps, result.eager_steps) == (400, 100)
    assert (result.padded_slots, result.slots) == (500, 7600)
    assert result.summary["padding_share"] == pytest.approx(500 / 7600)
    assert [add.size for add in result.additions] == [42, 9, 5]
    assert [(add.saved_eager_steps, add.saved_slots) for add in result.additions] == [
        (100, 0),
        (0, 350),
        (0, 150),
    ]
    by_size = {row["real_size"]: row for row in result.rows.filter(kind="step").iter_rows(named=True)}
    assert (by_size[5]["size"], by_size[5]["padding"]) == (8, 0.375)
    assert (by_size[9]["size"], by_size[9]["padding"]) == (16, 0.4375)
    assert (by_size[42]["size"], by_size[42]["eager_steps"]) == (None, 100)
    assert by_size[32]["padding"] == 0
    assert codes(result) == ["above-largest-size"]
    assert "42" in result.warnings[0][1] and "40" in result.warnings[0][1]
    assert not result.partial
    assert result.rows.schema == pl.Schema(SCHEMA)
    assert result.rows.filter(kind="add")["order"].to_list() == [1, 2, 3]


def test_case_18_speculative_decoding_counts_tokens() -> None:
    result = coverage(sizes(*CAPTURED, unit="tokens"), steps((6 * 7, 30, True), unit="tokens"))
    assert result.unit == "tokens"
    assert result.summary["eager_share"] == 1.0
    assert [add.size for add in result.additions] == [42]


def test_requests_are_never_compared_with_tokens() -> None:
    result = coverage(sizes(*CAPTURED), steps((5, 30, False), unit="tokens"))
    assert codes(result) == ["unit-mismatch"]
    assert result.partial
    assert result.rows.is_empty()
    assert result.padded_slots is None and result.additions == ()


def test_case_18_unknown_real_sizes_are_not_guessed() -> None:
    result = coverage(sizes(*CAPTURED), steps((None, 300, False), (None, 100, True)))
    assert codes(result) == ["real-size-unknown"]
    assert result.partial
    assert result.summary["padding_share"] is None
    assert result.summary["eager_share"] == 0.25
    assert result.additions == ()


def test_an_addition_carries_the_measured_cost_of_its_neighbour() -> None:
    captured = sizes(*CAPTURED, memory_bytes=[s << 20 for s in CAPTURED], capture_ns=[s * 1000 for s in CAPTURED])
    result = coverage(captured, steps(*TRAFFIC))
    assert [(add.size, add.memory_bytes, add.capture_ns, add.cost_of) for add in result.additions] == [
        (42, 40 << 20, 40_000, 40),
        (9, 16 << 20, 16_000, 16),
        (5, 8 << 20, 8_000, 8),
    ]
    unmeasured = coverage(sizes(*CAPTURED), steps(*TRAFFIC)).additions[0]
    assert (unmeasured.memory_bytes, unmeasured.capture_ns, unmeasured.cost_of) == (None, None, None)


def test_a_stated_replayed_size_outranks_the_smallest_fit() -> None:
    traffic = steps((5, 10, False)).with_columns(size=pl.lit(16, pl.Int64))
    result = coverage(sizes(*CAPTURED), traffic)
    assert (result.padded_slots, result.slots) == (110, 160)


def test_nothing_captured_or_no_steps_is_said() -> None:
    nothing = coverage(sizes(), steps(*TRAFFIC))
    assert "no-data" in codes(nothing) and nothing.partial
    silent = coverage(sizes(*CAPTURED), steps())
    assert codes(silent) == ["no-data"] and silent.partial
    assert silent.summary["eager_share"] is None


@given(
    st.lists(st.integers(1, 60), min_size=1, max_size=6, unique=True),
    st.lists(st.tuples(st.integers(1, 70), st.integers(1, 5)), min_size=1, max_size=8),
)
def test_an_addition_saves_exactly_what_it_promises(captured: list[int], seen: list[tuple[int, int]]) -> None:
    traffic = [(real, count, real > max(captured)) for real, count in seen]
    before = coverage(sizes(*captured), steps(*traffic), additions=1)
    if not before.additions:
        assert before.padded_slots == 0 and before.eager_steps == 0
        return
    (add,) = before.additions
    largest = max(*captured, add.size)
    after = coverage(sizes(*captured, add.size), steps(*((real, n, real > largest) for real, n, _ in traffic)))
    assert (before.eager_steps or 0) - (after.eager_steps or 0) == add.saved_eager_steps
    extra = sum(n * (add.size - real) for real, n, eager in traffic if eager and real <= add.size)
    assert (before.padded_slots or 0) + extra - (after.padded_slots or 0) == add.saved_slots
