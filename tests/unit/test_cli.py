"""The face of shapescope: what commands print, with which code they exit, and what they do not import."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shapescope.cli import main
from shapescope.cli.app import COMMANDS

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stopped:
            main([str(argument) for argument in arguments])
        out, err = capfd.readouterr()
        return int(stopped.value.code or 0), out, "\n".join(line for line in err.splitlines() if "USDT" not in line)

    return call


def test_the_demo_leaves_one_run_in_which_every_file_knows_its_key(demo_run: Path) -> None:
    files = sorted((demo_run / "graph_capture_profile").iterdir())
    assert len(files) == 10
    keys = {json.loads(gzip.decompress(path.read_bytes()))["shapescope"]["key"]["shape"]["size"] for path in files}
    assert keys == {1, 2, 4, 8, 16}
    assert json.loads((demo_run / "run.json").read_text())["engine"] == "shapescope"


def test_shapes_of_the_demo(demo_run: Path, run: Run) -> None:
    code, out, _ = run("shapes", demo_run, "--format", "json")
    result = json.loads(out)
    rows = {row["size"]: row for row in result["rows"]}
    assert code == 0
    assert result["command"] == "shapes" and result["partial"] is False
    assert list(rows) == [1, 2, 4, 8, 16]
    assert {row["status"] for row in rows.values()} == {"ok"}
    assert len({row["launches"] for row in rows.values()}) == 1
    assert {row["time_source"] for row in rows.values()} == {"replay-dummy"}
    assert {row["replays"] for row in rows.values()} == {20}
    # The fastest tenth of the replays: what else the machine does in between makes replays slower, never faster.
    assert rows[16]["time_p10_ns"] > rows[1]["time_p10_ns"]
    assert all(len(row["files"]) == 2 for row in rows.values())


def test_kernels_of_the_demo_have_op_dims_and_module(demo_run: Path, run: Run) -> None:
    code, out, _ = run("kernels", demo_run, "--size", "8", "--format", "json")
    rows = json.loads(out)["rows"]
    captured = [row for row in rows if row["source"] == "capture"]
    assert code == 0
    assert {row["size"] for row in rows} == {8}
    assert all(row["op"] and row["dims"] is not None and row["module"] for row in captured)
    assert [row["kernel"] for row in captured] == [row["kernel"] for row in rows if row["source"] == "replay"]
    products = [row["dims"] for row in captured if row["op"] == "aten::mm"]
    assert products and all(dims[0][0] == 8 for dims in products)


def test_check_of_the_demo_is_clean(demo_run: Path, run: Run) -> None:
    code, out, _ = run("check", demo_run, "--format", "json")
    rows = json.loads(out)["rows"]
    assert code == 0
    assert {(row["role"], row["key_source"], row["status"]) for row in rows} == {
        ("capture", "metadata", "ok"),
        ("replay", "metadata", "ok"),
    }


@pytest.mark.parametrize("command", ["shapes", "kernels", "check"])
def test_every_format_shows_the_same_rows(command: str, demo_run: Path, run: Run) -> None:
    rows = json.loads(run(command, demo_run, "--format", "json")[1])["rows"]
    table = list(csv.DictReader(io.StringIO(run(command, demo_run, "--format", "csv")[1])))
    markdown = [
        line for line in run(command, demo_run, "--format", "markdown")[1].splitlines() if line.startswith("| ")
    ]
    assert len(table) == len(rows) == len(markdown) - 2  # a heading, and the line under it
    assert list(table[0]) == list(rows[0])
    assert [row["size"] for row in table if "size" in row] == [str(row["size"]) for row in rows if "size" in row]


def test_a_table_fits_80_columns_without_colour(demo_run: Path, run: Run) -> None:
    _, out, _ = run("shapes", demo_run, "--no-color", "-q")
    assert max(map(len, out.splitlines())) <= 80
    assert "\x1b" not in out


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _not_a_trace(path: Path) -> None:
    path.write_text('{"nodes": []}')


def _header_only(path: Path) -> None:
    path.write_bytes(gzip.compress(b"{}")[:10])


@pytest.mark.parametrize("make", [None, _empty, _not_a_trace, _header_only])
@pytest.mark.parametrize("command", ["shapes", "kernels", "check"])
def test_input_that_holds_nothing_is_two_lines_and_code_3(
    command: str, make: Callable[[Path], None] | None, run: Run, tmp_path: Path
) -> None:
    path = tmp_path / "trace.json.gz"
    if make is not None:
        make(path)
    code, out, err = run(command, path)
    assert code == 3
    assert out == ""
    assert [line.split(":")[0] for line in err.splitlines()] == ["error", "hint"]
    assert "trace.json.gz" in err


def test_a_truncated_trace_still_shows_what_it_holds(run: Run, demo_run: Path, tmp_path: Path) -> None:
    whole = demo_run / "graph_capture_profile" / "DecodeRunner_bs_8_rank0.json.gz"
    cut = tmp_path / whole.name
    cut.write_bytes(whole.read_bytes()[: whole.stat().st_size * 7 // 10])
    code, out, err = run("check", cut, "--format", "json")
    result = json.loads(out)
    assert (code, err) == (3, "")
    assert result["partial"] is True
    assert result["rows"][0]["status"] == "partial"
    assert result["warnings"][0]["code"] == "truncated"
    assert result["rows"][0]["events"] > 500


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["demo", "--sizes", "0"], 2, "size 0"),
        (["demo", "--sizes", "4,4"], 2, "size 4 is asked for twice"),
        (["demo", "--sizes", "four"], 2, "no list of whole numbers"),
        (["demo", "--model", "gpt-7"], 2, "unknown model 'gpt-7'"),
        (["demo", "--backend", "quantum"], 2, "unknown backend"),
        (["demo", "--device", "cuda:7"], 2, "device 'cuda:7'"),
        (["demo", "--detail", "most"], 2, "--detail 'most'"),
        (["demo", "--context", "0"], 2, "context 0"),
        (["demo", "-o", "/proc/nothing"], 5, "cannot write"),
        (["shapes"], 2, "RUN"),
        (["shapes", ".", "--format", "yaml"], 2, "yaml"),
        (["kernels", ".", "--by", "colour"], 2, "colour"),
        (["nothing"], 2, "nothing"),
    ],
)
def test_requests_that_make_no_sense(arguments: list[str], code: int, words: str, run: Run, tmp_path: Path) -> None:
    os.chdir(tmp_path)
    got, _, err = run(*arguments)
    assert got == code
    assert words in err
    lines = [line for line in err.splitlines() if not line.startswith("Capturing")]
    assert [line.split(":")[0] for line in lines] == ["error", "hint"]
    assert list(tmp_path.iterdir()) == [], "something was left half-written"


def test_the_doctor_walks_the_real_path(run: Run) -> None:
    code, out, _ = run("doctor", "--format", "json")
    found = {row["check"]: row["status"] for row in _rows(out)}
    assert code == 0
    assert (found["capture"], found["replay"], found["read back"]) == ("ok", "ok", "ok")
    assert "failed" not in found.values()


def test_no_traceback_without_v(run: Run, tmp_path: Path) -> None:
    assert "Traceback" not in run("shapes", tmp_path / "missing")[2]
    assert "Traceback" in run("shapes", tmp_path / "missing", "-v")[2]


def _modules(code: str) -> set[str]:
    text = f"import sys\n{code}\nprint(' '.join(sys.modules))"
    out = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True).stdout
    return set(out.splitlines()[-1].split())


READING = ["shapes", "kernels", "check"]


@pytest.mark.parametrize("command", READING)
def test_reading_imports_no_torch(command: str, demo_run: Path) -> None:
    call = f"from shapescope.cli import main\ntry: main([{command!r}, {str(demo_run)!r}, '--no-cache'])\nexcept SystemExit: pass"
    loaded = _modules(call)
    assert not {"torch", "transformers"} & loaded
    assert "shapescope.read.run" in loaded


def test_recording_imports_nothing_heavy() -> None:
    loaded = _modules("import shapescope.record.start, shapescope.graphs.runner")
    assert not {"polars", "rich", "typer", "starlette", "shapescope.read", "shapescope.show", "shapescope.cli"} & loaded


def test_help_imports_next_to_nothing() -> None:
    loaded = _modules("from shapescope.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass")
    assert not {"torch", "polars", "numpy", "msgspec", "shapescope.read.run"} & loaded


def test_a_command_imports_no_other() -> None:
    loaded = _modules("from shapescope.cli import main\ntry: main(['shapes', '--help'])\nexcept SystemExit: pass")
    assert "shapescope.cli.shapes" in loaded
    assert not {f"shapescope.cli.{command}" for command in COMMANDS if command != "shapes"} & loaded


def test_every_command_has_help_with_an_example(run: Run) -> None:
    for command in COMMANDS:
        code, out, _ = run(command, "--help")
        assert code == 0
        assert "Example" in out, command


def _rows(out: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(out)["rows"]
    return rows


def test_the_real_sglang_capture(traces: Path, run: Run) -> None:
    code, out, _ = run("kernels", traces / "sglang_qwen3_8b_mi300x_bs32" / "capture", "--format", "json")
    rows = _rows(out)
    assert code == 0
    assert len(rows) == 544
    assert {(row["size"], row["rank"]) for row in rows} == {(32, 0)}
    assert all(row["op"] and row["dims"] is not None for row in rows)


def test_the_real_vllm_capture(traces: Path, run: Run) -> None:
    code, out, _ = run("shapes", traces / "vllm_gptoss_mi300x_piecewise" / "capture", "--format", "json")
    (row,) = _rows(out)
    assert code == 0
    assert (row["size"], row["unit"], row["segments"], row["launches"]) == (8192, "tokens", 25, 361)
