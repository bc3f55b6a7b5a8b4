"""Times to the nanosecond: sums and unions, stamps that are none, durations that cannot be. Cases 10 and 11."""

from __future__ import annotations

import json
from pathlib import Path

import mini
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shapescope.read.run import Run, open_run
from shapescope.read.times import IMPLAUSIBLE, INVALID, summed, with_flags

EPOCH = 1_672_924_880_617_000


def opened(tmp_path: Path, events: list[mini.Event], **metadata: object) -> Run:
    return open_run(mini.write(tmp_path / "trace.json", events, **metadata))


def streams(run: Run) -> dict[int, dict[str, int]]:
    return {row["stream"]: row for row in run.streams().iter_rows(named=True)}


def case_10_a() -> list[mini.Event]:
    long = [mini.kernel("a", 5.5 + 10 * k, 1.4, stream=7) for k in range(100)]
    return long + [mini.kernel("b", 10.2 + 10 * k, 0.5, stream=9) for k in range(50)]


@pytest.mark.parametrize("unit", ["ms", "ns"])
def test_case_10_a_and_c_sums_are_exact_whatever_the_display_unit(tmp_path: Path, unit: str) -> None:
    found = streams(opened(tmp_path, case_10_a(), displayTimeUnit=unit))
    assert {stream: (row["kernels"], row["sum_ns"]) for stream, row in found.items()} == {
        7: (100, 140_000),
        9: (50, 25_000),
    }
    assert found[7]["span_ns"] == 991_400


def test_case_10_b_a_gap_of_40_ns_at_epoch_size(tmp_path: Path) -> None:
    text = json.dumps(mini.document([mini.kernel("a", 0, 0.04), mini.kernel("a", 1, 0.04)]))
    text = text.replace('"ts": 0,', f'"ts": {EPOCH}.123,').replace('"ts": 1,', f'"ts": {EPOCH}.203,')
    path = tmp_path / "trace.json"
    path.write_text(text)
    (row,) = open_run(path).streams().iter_rows(named=True)
    assert (row["sum_ns"], row["busy_ns"], row["span_ns"]) == (80, 80, 120)


def test_case_10_d_invalid_stamps_are_counted_and_left_out(tmp_path: Path) -> None:
    events = [{**event, "ts": EPOCH + event["ts"]} for event in case_10_a()]
    broken = [mini.kernel("lost", 0, 0, stream=7) for _ in range(5)]
    run = opened(tmp_path, [*events, *broken])
    found = streams(run)
    assert (found[7]["kernels"], found[7]["sum_ns"], found[7]["span_ns"]) == (105, 140_000, 991_400)
    (warning,) = (w for w in run.warnings if w.code == INVALID)
    assert warning.message.startswith("5 ")
    assert run.launches().filter(pl.col("flag") == INVALID).select("kernel", "time_ns").rows() == [("lost", None)] * 5


def test_case_10_e_a_sibling_that_overlaps_by_a_hair_is_kept(tmp_path: Path) -> None:
    run = opened(
        tmp_path,
        [
            mini.op("aten::mm", 0, 10.3, [[1]]),
            mini.op("aten::add", 10, 10, [[2]]),
            mini.call("cudaLaunchKernel", 12, 2, correlation=1),
            mini.kernel("k", 30, 1, correlation=1),
        ],
    )
    assert run.launches().select("op", "dims").rows() == [("aten::add", "[[2]]")]


def test_case_11_overlap_is_real_and_annotations_are_no_kernels(tmp_path: Path) -> None:
    run = opened(
        tmp_path,
        [
            mini.kernel("k1", 0, 12),
            mini.kernel("k2", 10, 12),
            mini.kernel("k3", 22, 8),
            mini.kernel("a span", 0, 50, cat="gpu_user_annotation"),
        ],
    )
    (row,) = run.streams().iter_rows(named=True)
    assert (row["kernels"], row["sum_ns"], row["busy_ns"], row["idle"]) == (3, 32_000, 30_000, 0.0)
    assert run.launches()["flag"].null_count() == 3


def test_case_11_exactly_one_event_is_implausible(tmp_path: Path) -> None:
    one = [mini.kernel("x", 100, 1_600_000, stream=9)]
    after = [mini.kernel("k", 130 + 25 * k, 20, stream=9) for k in range(50)]
    dense = [mini.kernel("d", 2 * k, 3, stream=stream) for stream in (1, 2) for k in range(1000)]
    run = opened(tmp_path, [*one, *after, *dense])
    flagged = run.launches().filter(pl.col("flag").is_not_null())
    assert flagged.select("kernel", "flag", "time_ns").rows() == [("x", IMPLAUSIBLE, 30_000)]
    assert [w.message.split()[0] for w in run.warnings if w.code == IMPLAUSIBLE] == ["1"]
    assert run.kernels("kernel")["kernel"].to_list()[0] == "d"
    found = streams(run)
    assert found[9]["sum_ns"] == 30_000 + 50 * 20_000
    assert found[1]["busy_ns"] == 2_001_000


def test_problems_are_listed_in_one_order(tmp_path: Path) -> None:
    broken = mini.kernel("none", 5, -3, stream=9)
    long = [
        mini.kernel("x", 100, 1_600_000, stream=9),
        *(mini.kernel("k", 130 + 25 * k, 20, stream=9) for k in range(50)),
    ]
    run = opened(tmp_path, [broken, *long])
    assert [w.code for w in run.warnings if w.code in (INVALID, IMPLAUSIBLE)] == [IMPLAUSIBLE, INVALID]


def test_a_collective_beside_compute_is_plausible() -> None:
    rows = [("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 0, 10_000)] + [("k", 10 * k + 5, 5) for k in range(50)]
    frame = pl.DataFrame([(*row, 7) for row in rows], schema=["kernel", "ts", "dur", "stream"], orient="row")
    assert with_flags(frame, ["stream"])["flag"].null_count() == 51


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 500), st.integers(0, 60), st.integers(0, 2)), min_size=1, max_size=60))
def test_busy_is_the_union_of_intervals(rows: list[tuple[int, int, int]]) -> None:
    frame = pl.DataFrame(rows, schema={"ts": pl.Int64, "time_ns": pl.Int64, "stream": pl.Int64}, orient="row")
    for row in summed(frame, ["stream"]).iter_rows(named=True):
        mine = [(ts, ts + time) for ts, time, stream in rows if stream == row["stream"]]
        covered = {t for begin, end in mine for t in range(begin, end)}
        assert row["busy_ns"] == len(covered)
        assert row["sum_ns"] == sum(end - begin for begin, end in mine)
        assert row["span_ns"] == max(end for _, end in mine) - min(begin for begin, _ in mine)
        assert row["gap_ns"] == row["span_ns"] - row["busy_ns"] >= 0
