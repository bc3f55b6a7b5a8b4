"""Rooflines of made-up replays, and of the two real pairs whose join is proved by hand."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from test_analyses import command

from shapescope.analyse.devices import Device, device_named, find_device
from shapescope.analyse.roofline import SCHEMA, RooflineResult, roofline

MI300X = device_named("MI300X")
BF16 = json.dumps(["c10::BFloat16"] * 2)


def kernel(name: str = "gemm", time_ns: int = 100_000, **fields: Any) -> dict[str, Any]:
    row = {
        "kernel": name,
        "time_ns": time_ns,
        "op": "aten::mm",
        "dims": "[[128,4096],[4096,4096]]",
        "types": BF16,
        "class": "gemm",
        "size": 128,
        "real_size": 128,
        "status": "exact",
        "launch": 0,
    }
    return {**row, **fields}


def of(*rows: dict[str, Any], device: Device | None = MI300X) -> RooflineResult:
    return roofline(pl.DataFrame(list(rows), infer_schema_length=None), device)


def only(result: RooflineResult) -> dict[str, Any]:
    (row,) = result.rows.iter_rows(named=True)
    return row


def test_a_product_has_its_flops_bytes_bound_and_attainment() -> None:
    row = only(of(kernel()))
    flops, moved = 2 * 128 * 4096 * 4096, 2 * (2 * 128 * 4096 + 4096 * 4096)
    assert (row["flops"], row["bytes"], row["time_ns"], row["calls"]) == (flops, moved, 100_000, 1)
    assert row["tflops"] == pytest.approx(flops / 1e-4 / 1e12)
    assert row["gbps"] == pytest.approx(moved / 1e-4 / 1e9)
    assert row["bound"] == "memory"
    assert row["attainment"] == row["attainment_upper"] == pytest.approx(moved / 5.325e12 / 1e-4)
    assert (row["useful_share"], row["useful_flops"]) == (1.0, flops)
    assert (row["device"], row["problems"], row["basis"]) == (
        "MI300X",
        [],
        "per rank; each operand moved once",
    )


def test_the_columns_are_the_contract() -> None:
    assert of(kernel()).rows.schema == pl.Schema(SCHEMA)
    contract = [
        *("size", "op", "class", "dims", "types", "flops", "flops_upper", "bytes", "bytes_upper", "time_ns"),
        *(
            "tflops",
            "gbps",
            "bound",
            "attainment",
            "attainment_upper",
            "useful_share",
            "useful_flops",
            "basis",
        ),
        *("note", "calls", "device", "problems"),
    ]
    assert of(kernel()).rows.columns == contract


def test_above_the_peak_is_a_flag_and_never_a_result() -> None:
    result = of(kernel(time_ns=1_000))
    row = only(result)
    assert row["problems"] == ["above-peak"]
    assert row["attainment"] is None and row["attainment_upper"] is None
    assert [code for code, _ in result.warnings] == ["above-peak"]


def test_an_unknown_device_leaves_absolute_figures() -> None:
    result = of(kernel(), device=None)
    row = only(result)
    assert row["tflops"] is not None and row["gbps"] is not None
    assert row["attainment"] is None and row["bound"] is None and row["device"] is None
    assert [code for code, _ in result.warnings] == ["unknown-device"]


@pytest.mark.parametrize("types", [json.dumps(["double"] * 2), json.dumps([])])
def test_a_device_without_the_peak_gives_no_attainment(types: str) -> None:
    row = only(of(kernel(types=types)))
    assert row["flops"] is not None
    assert row["attainment"] is None
    assert row["problems"] == ["peak-unknown"]


def test_padding_is_executed_but_not_useful() -> None:
    row = only(of(kernel(real_size=96)))
    assert row["useful_share"] == 0.75
    assert row["useful_flops"] == row["flops"] * 3 // 4


@pytest.mark.parametrize("unknown", [{"real_size": None}, {"size": None}, {"size": 100, "real_size": 96}])
def test_useful_work_is_unknown_where_the_sizes_do_not_tell(unknown: dict[str, Any]) -> None:
    result = of(kernel(**unknown))
    assert only(result)["useful_flops"] is None
    assert [code for code, _ in result.warnings] == ["real-size-unknown"]


def test_kernels_of_one_call_are_summed_and_calls_are_averaged() -> None:
    rows = [kernel(name, time) for name, time in (("a", 70_000), ("b", 20_000), ("a", 90_000), ("b", 40_000))]
    row = only(of(*rows))
    assert (row["calls"], row["time_ns"]) == (2, 110_000)


@pytest.mark.parametrize(("ids", "calls"), [((1, 1, 1, 1), 1), ((1, 2, 3, 4), 4), ((1, 1, 2, 2), 2), (None, 4)])
def test_call_ids_outrank_the_repetition_of_names(ids: tuple[int, ...] | None, calls: int) -> None:
    rows = [kernel(op_call=ids[i]) if ids else kernel() for i in range(4)]
    row = only(of(*rows))
    assert (row["calls"], row["time_ns"]) == (calls, 400_000 // calls)


def test_launches_and_modules_separate_calls() -> None:
    assert only(of(kernel("a"), kernel("b", launch=1)))["calls"] == 2
    assert only(of(kernel("a", module="q"), kernel("b", module="k")))["calls"] == 2


def test_streams_that_interleave_do_not_tear_a_call_apart() -> None:
    rows = [kernel(name, stream=stream) for name in "ab" for stream in (7, 9)]
    row = only(of(*rows))
    assert (row["calls"], row["time_ns"]) == (2, 200_000)


def test_fp32_products_are_held_against_tf32_and_say_so() -> None:
    row = only(of(kernel(types=json.dumps(["float"] * 2), dims="[[4096,4096],[4096,4096]]", time_ns=1_000_000)))
    assert row["attainment"] == pytest.approx(2 * 4096**3 / 653.7e12 / 1e-3)
    assert "tf32" in row["note"]


def test_a_work_without_an_upper_bound_has_no_bound_and_no_upper_attainment() -> None:
    dims, types = "[[4,8,64],[4,2,64],[4,2,64],[4,8,64]]", json.dumps(["c10::BFloat16"] * 4)
    row = only(of(kernel(op="vllm::unified_attention_with_output", dims=dims, types=types, size=4, real_size=4)))
    assert row["flops"] == 4 * 4 * 8 * 64 and row["flops_upper"] is None
    assert row["attainment"] > 0 and row["attainment_upper"] is None and row["bound"] is None


@pytest.mark.parametrize("status", ["ambiguous", "conflict", "unverified"])
def test_a_doubtful_join_is_listed_by_kernel_and_never_priced(status: str) -> None:
    result = of(kernel(), kernel("mystery", 50_000, status=status), kernel("late", None, status="missing"))
    assert (result.kernel_time_ns, result.modelled_time_ns) == (150_000, 100_000)
    assert result.partial and not of(kernel()).partial
    (item,) = result.unmodelled
    assert (item.name, item.time_ns, item.reason) == ("mystery", 50_000, f"no op joined ({status})")
    row = result.rows.row(1, named=True)
    assert (row["op"], row["flops"], row["problems"], row["note"]) == (
        None,
        None,
        ["not-modelled"],
        "kernel mystery",
    )


def test_dummy_replays_are_no_serving_times_of_attention() -> None:
    dims, types = "[[4,8,64],[4,8,64],[4,8,64],[4,8,64]]", json.dumps(["c10::BFloat16"] * 4)
    fields = {"op": "vllm::unified_attention", "dims": dims, "types": types, "class": "attention", "size": 4}
    result = of(kernel(source="replay-dummy", context_len=1, real_size=4, **fields), kernel(source="replay-dummy"))
    attention = result.rows.filter(pl.col("class") == "attention").row(0, named=True)
    assert attention["problems"] == ["dummy-inputs"]
    assert attention["note"] == "context length 1"
    assert result.rows.filter(pl.col("class") == "gemm")["problems"].to_list() == [[]]


def test_a_collective_has_an_algorithm_bandwidth_and_no_roof() -> None:
    row = only(
        of(
            kernel(
                op="symm_mem::multimem_all_reduce_",
                dims="[[1000000],[],[]]",
                types=BF16,
                **{"class": "collective"},
            )
        )
    )
    assert row["gbps"] == pytest.approx(20.0)
    assert (row["attainment"], row["bound"], row["problems"]) == (None, None, [])
    assert "algorithm bandwidth" in row["basis"]


def test_no_rows_give_no_roofline() -> None:
    result = roofline(pl.DataFrame(schema={"kernel": pl.String, "time_ns": pl.Int64}), MI300X)
    assert (result.rows.height, result.kernel_time_ns, result.summary["modelled_share"]) == (0, 0, None)


def joined(pair: Path, span: str) -> tuple[pl.DataFrame, dict[str, Any]]:
    """The hand-proved join of a real pair as roofline rows; types and printed inputs from the capture."""
    (file,) = (pair / "capture").glob("*.json.gz")
    capture = json.loads(gzip.decompress(file.read_bytes()))
    seen = {}
    for event in capture["traceEvents"]:
        args = event.get("args", {})
        if event.get("cat") == "cpu_op" and "Input Dims" in args:
            key = event["name"], json.dumps(args["Input Dims"], separators=(",", ":"))
            seen[key] = json.dumps(args["Input type"]), json.dumps(args["Concrete Inputs"])
    truth = pl.read_csv(pair / "truth_join.csv.gz", schema_overrides={"dur_us": pl.String})
    rows = [
        {
            "kernel": row["kernel"],
            "time_ns": round(float(row["dur_us"]) * 1000),
            "op": row["innermost_cpu_op"],
            "dims": row["input_dims"],
            "types": seen[row["innermost_cpu_op"], row["input_dims"]][0],
            "concrete_inputs": seen[row["innermost_cpu_op"], row["input_dims"]][1],
            "module": row["nn_module"],
            "grid": row["grid"],
            "launch": row["launch"],
            "status": "exact",
            "step": span,
        }
        for row in truth.iter_rows(named=True)
    ]
    return pl.DataFrame(rows), capture["deviceProperties"][0]


DECODE = "execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk32785sqsq32sqsk32785)"
MIXED = "execute_8192_context_9(sq8155sk8430sqsq7475785sqsk7671310)_generation_37(sq37sk34489sqsq37sqsk34489)"
PAIRS = [
    ("sglang_qwen3_8b_mi300x_bs32", 32, DECODE, 9_656_404),
    ("vllm_gptoss_mi300x_piecewise", 8192, MIXED, 149_919_755),
]


@pytest.mark.parametrize(("pair", "size", "span", "total"), PAIRS, ids=["sglang", "vllm"])
def test_the_real_pairs_have_a_roofline_below_the_roof(
    traces: Path, pair: str, size: int, span: str, total: int
) -> None:
    rows, properties = joined(traces / pair, span)
    device = find_device(properties)
    assert device is MI300X
    result = roofline(rows.with_columns(size=pl.lit(size), real_size=pl.lit(size)), device)
    assert result.kernel_time_ns == total
    assert result.modelled_time_ns >= 0.9 * total
    listed = sum(item.time_ns for item in result.unmodelled)
    assert result.modelled_time_ns + listed == total
    priced = result.rows.filter(pl.col("bytes").is_not_null())
    assert priced["attainment"].is_between(0, 1).all()
    assert not any("above-peak" in problems for problems in result.rows["problems"])
    assert {item.name for item in result.unmodelled} <= {"TopK", "SortTokens"}


def test_the_decode_step_is_bound_by_memory_and_its_attention_by_the_step_span(traces: Path) -> None:
    pair, size, span, _ = PAIRS[0]
    rows, _ = joined(traces / pair, span)
    result = roofline(rows.with_columns(size=pl.lit(size), real_size=pl.lit(size)), MI300X)
    attention = result.rows.filter(pl.col("op").str.contains("paged_attention")).row(0, named=True)
    assert attention["calls"] == 36
    assert attention["flops"] == 4 * 32 * 128 * 32785
    assert attention["bytes"] == 2 * (2 * 32 * 32 * 128 + 2 * 32785 * 8 * 128)
    gemms = result.rows.filter(pl.col("op") == "aten::mm")
    assert gemms["bound"].to_list() == ["memory"] * 5
    assert gemms["calls"].sum() == 145


def test_the_expert_layers_are_bounded_from_their_launches(traces: Path) -> None:
    pair, size, span, _ = PAIRS[1]
    rows, _ = joined(traces / pair, span)
    result = roofline(rows.with_columns(size=pl.lit(size), real_size=pl.lit(size)), MI300X)
    layer = result.rows.row(0, named=True)
    # The capture shows [1, 32768, 2944] between the products: 8192 tokens to 4 experts, 5888 columns.
    truth = 2 * 8192 * 4 * 3072 * (5888 + 2944)
    assert layer["op"] == "vllm::moe_forward"
    assert layer["flops"] <= truth == layer["flops_upper"]
    assert layer["bound"] == "compute"
    assert layer["problems"] == ["routing-unknown"]


# Through the command, joined by the tool itself.


@pytest.mark.parametrize("pair", ["sglang_qwen3_8b_mi300x_bs32", "vllm_gptoss_mi300x_piecewise"])
def test_the_command_joins_the_real_pairs_and_puts_them_under_the_roof(
    traces: Path, capsys: pytest.CaptureFixture[str], pair: str
) -> None:
    code, result = command(capsys, "roofline", traces / pair)
    summary = result["summary"]
    assert code == 0 and summary["device"] == "MI300X"
    assert summary["modelled_share"] >= 0.9
    assert all(row["attainment"] is None or 0 < row["attainment"] <= 1 for row in result["rows"])
    unmodelled = sum(item["time_ns"] for item in summary["unmodelled"])
    assert summary["modelled_time_ns"] + unmodelled == summary["kernel_time_ns"]
