"""The replay trace again, annotated: nothing else in it changes, and the original stays."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import mini
import pytest

from shapescope.analyse.join import join
from shapescope.cli import main
from shapescope.errors import InputError, OutputError
from shapescope.read import blocks
from shapescope.read.run import open_run
from shapescope.show.perfetto import write_annotated

ADDED = {"op", "dims", "types", "module", "status", "captured size", "real size"}
NAMES = ["k0", "k1", "k2", "k3"]


def read(path: Path) -> dict[str, Any]:
    """Numbers as they are spelled."""
    text = path.read_bytes()
    content: dict[str, Any] = json.loads(gzip.decompress(text) if text[:2] == b"\x1f\x8b" else text, parse_float=str)
    return content


def changed(before: dict[str, Any], after: dict[str, Any]) -> list[dict[str, Any]]:
    """The events that differ, which may do so in new args only."""
    assert {**before, "traceEvents": None} == {**after, "traceEvents": None}
    found = []
    for old, new in zip(before["traceEvents"], after["traceEvents"], strict=True):
        if old != new:
            kept = {name: value for name, value in new["args"].items() if name not in ADDED}
            assert {**new, "args": kept} == {"args": {}, **old}
            found.append(new)
    return found


@pytest.mark.parametrize(
    ("folder", "kernels"), [("sglang_qwen3_8b_mi300x_bs32", 544), ("vllm_gptoss_mi300x_piecewise", 361)]
)
def test_each_graph_kernel_of_a_real_replay_says_where_it_came_from(
    traces: Path, tmp_path: Path, folder: str, kernels: int
) -> None:
    source = traces / folder / "replay.json.gz"
    original = source.read_bytes()
    run = open_run(traces / folder / "capture", replays=[source])
    output = tmp_path / "joined.json.gz"
    joined = join(run)
    assert write_annotated(run, joined.kernels, joined.kernels["file"][0], output) == kernels
    events = changed(read(source), read(output))
    assert len(events) == kernels
    assert {event["args"]["status"] for event in events} == {"aligned"}
    told = joined.kernels.sort("ts").select("op", "module").rows()
    events.sort(key=lambda event: float(event["ts"]))
    assert [(event["args"].get("op"), event["args"].get("module")) for event in events] == told
    assert source.read_bytes() == original
    assert [path.name for path in tmp_path.iterdir()] == ["joined.json.gz"]


def pair(folder: Path, replay: str = "x-TP-0.trace.json", **more: Any) -> Path:
    mini.write(folder / "capture" / "R_bs_8_rank0.json.gz", mini.capture(0, 4, dims=[[8, 64]], name="k{}"))
    steps = [mini.span("step[DECODE bs=8]", 0, 50), *mini.replay(5, NAMES, correlation=1)]
    return mini.write(folder / replay, steps, **more)


def annotated(folder: Path, output: Path) -> int:
    run = open_run(folder)
    kernels = join(run).kernels
    return write_annotated(run, kernels, kernels["file"][0], output)


@pytest.mark.parametrize("size", [1, 7, 100, 1 << 20])
def test_events_may_lie_across_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    source = pair(tmp_path, bystander='"cat": "kernel"')
    monkeypatch.setattr(blocks.Blocks.__init__, "__defaults__", (size,))
    assert annotated(tmp_path, tmp_path / "out.json") == 4
    assert len(changed(read(source), read(tmp_path / "out.json"))) == 4


def test_any_order_of_fields_and_kernels_without_args(tmp_path: Path) -> None:
    source = pair(tmp_path)
    content = read(source)
    content["traceEvents"] = [dict(reversed(event.items())) for event in json.loads(source.read_text())["traceEvents"]]
    source.write_text(json.dumps(content, separators=(",", ":")))
    assert annotated(tmp_path, tmp_path / "out.json") == 4
    assert len(changed(read(source), read(tmp_path / "out.json"))) == 4


def test_what_is_not_sure_has_a_status_and_nothing_else(tmp_path: Path) -> None:
    pair(tmp_path)
    steps = [mini.span("step[DECODE bs=8]", 0, 50), *mini.replay(5, ["k0", "other", "k2", "k3"], correlation=1)]
    source = mini.write(tmp_path / "x-TP-0.trace.json", steps)
    annotated(tmp_path, tmp_path / "out.json")
    by_name = {event["name"]: event["args"] for event in changed(read(source), read(tmp_path / "out.json"))}
    assert by_name["other"]["status"] == "conflict"
    assert not {"op", "dims", "module"} & by_name["other"].keys()
    assert by_name["k2"]["dims"] == [[8, 64]]


def test_a_trace_is_never_written_over_itself(tmp_path: Path) -> None:
    source = pair(tmp_path)
    with pytest.raises(OutputError):
        annotated(tmp_path, source)
    with pytest.raises(InputError):
        write_annotated(open_run(tmp_path), join(open_run(tmp_path)).kernels, "nothing.json", tmp_path / "out.json")


def test_the_command_names_what_it_wrote(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pair(tmp_path)
    output = tmp_path / "out" / "joined.json.gz"
    with pytest.raises(SystemExit) as stopped:
        main(["export", str(tmp_path), "--to", "perfetto", "-o", str(output)])
    assert stopped.value.code == 0
    assert "4 kernels annotated" in capfd.readouterr().out
    assert len(read(output)["traceEvents"]) == 6


def test_the_command_asks_for_a_place_and_for_one_replay(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pair(tmp_path)
    with pytest.raises(SystemExit) as stopped:
        main(["export", str(tmp_path), "--to", "perfetto"])
    assert stopped.value.code == 2
    pair(tmp_path, "y-TP-0.trace.json")
    with pytest.raises(SystemExit) as stopped:
        main(["export", str(tmp_path), "--to", "perfetto", "-o", str(tmp_path / "out.json")])
    assert stopped.value.code == 2
    assert "--replay" in capfd.readouterr().err
