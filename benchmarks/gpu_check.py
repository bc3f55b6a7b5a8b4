"""What a GPU does when its graph captures are recorded: answers to TRACE_FORMAT sections 3 and 8, in under 6 minutes.

Each variant runs in a process of its own: never recorded; windows with CPU activities only; windows with CUDA activities
too. After each, a fresh profiler over 20 replays tells whether kernel records, names and node ids are still there, and
what replays and memory cost. The contract tests of the graphs run last. On a machine without a GPU the same code runs on
the tape. Traces stay in the output folder.

    python benchmarks/gpu_check.py -o gpu-check
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from shapescope.device import Device, open_device
from shapescope.engines.decode.engine import DecodeEngine
from shapescope.engines.decode.model import load_model
from shapescope.model import Evidence, Rank
from shapescope.record.start import start
from shapescope.settings import Detail, Mode, RecordingSettings

SIZES = [1, 2, 4, 8, 16, 32]
REPLAYS = 20
VARIANTS: dict[str, bool | None] = {"never recorded": None, "CPU windows": False, "CPU and CUDA windows": True}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, default=Path("gpu-check"))
    parser.add_argument("--variant", choices=VARIANTS)
    options = parser.parse_args()
    if options.variant:
        print(json.dumps(check(options.variant, options.output)))
        return
    begin = time.monotonic()
    found = {name: run_apart(name, options.output / name.replace(" ", "-")) for name in VARIANTS}
    found["contract"] = {"tests": contract_tests()}
    report(found)
    (options.output / "answers.json").write_text(json.dumps(found, indent=2))
    print(f"{time.monotonic() - begin:.0f} s; traces are in {options.output}")


def run_apart(variant: str, output: Path) -> dict[str, Any]:
    output.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "SHAPESCOPE_RUN_ID": "run"}
    command = [sys.executable, __file__, "--variant", variant, "-o", str(output)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
    if done.returncode != 0:
        return {"error": done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit {done.returncode}"}
    answers: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answers


def check(variant: str, output: Path) -> dict[str, Any]:
    torch.set_num_threads(1)
    recorded = VARIANTS[variant]
    device = open_device(keep_graphs=True)
    before = device.memory().device_free
    engine = DecodeEngine(load_model("qwen3-tiny", device=device.torch_device), SIZES, device=device)
    if recorded is not None:
        evidence = frozenset({Evidence.CAPTURE, Evidence.NODES} if device.kind == "cuda" else {Evidence.CAPTURE})
        settings = RecordingSettings(
            Mode.PER_SHAPE,
            str(output),
            Detail.FULL,
            evidence,
            device_activity=recorded if device.kind != "cpu" else None,
        )
        engine.runner.backend.observe(start(settings, engine="gpu-check", device=device, rank=Rank()))
    begin = time.perf_counter()
    engine.capture()
    capture = time.perf_counter() - begin
    after = device.memory().device_free
    answers: dict[str, Any] = {"capture ms": round(capture * 1e3), "device": device.name}
    answers["memory MiB"] = None if before is None or after is None else round((before - after) / (1 << 20))
    answers["replay us"] = round(statistics.median(replay_times(engine, device)) / 1e3, 1)
    answers |= replay_records(engine, device, output / "replays.json.gz")
    if recorded is not None:
        answers |= capture_records(output / "run" / "graph_capture_profile")
    return answers


def replay_times(engine: DecodeEngine, device: Device) -> list[int]:
    replay: Callable[[], object] = lambda: engine.runner.replay(SIZES[-1])  # noqa: E731
    for _ in range(3):
        replay()
    device.synchronize()
    return [device.time_ns(replay) for _ in range(REPLAYS)]


def replay_records(engine: DecodeEngine, device: Device, path: Path) -> dict[str, Any]:
    """A fresh profiler over replays of graphs that were captured before it: is anything missing?"""
    activities = [ProfilerActivity.CPU] if device.kind == "cpu" else [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    with profile(activities=activities) as profiler:
        for _ in range(REPLAYS):
            engine.runner.replay(SIZES[-1])
        device.synchronize()
    raw = path.with_suffix("")
    profiler.export_chrome_trace(str(raw))
    content = raw.read_bytes()
    path.write_bytes(gzip.compress(content, 1))
    raw.unlink()
    events = json.loads(content)["traceEvents"]
    kernels = [event for event in events if event.get("cat") == ("kernel" if device.kind != "cpu" else "cpu_op")]
    return {
        "kernels a replay": round(len(kernels) / REPLAYS, 2),
        "kernel names": len({event["name"] for event in kernels}),
        "graph node ids": any("graph node id" in event.get("args", {}) for event in kernels),
    }


def capture_records(folder: Path) -> dict[str, Any]:
    """What a capture's own trace holds (section 3), and what the graph's nodes add."""
    path = folder / f"DecodeRunner_bs_{SIZES[-1]}_rank0.json.gz"
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    launches = [e for e in events if str(e.get("cat")).startswith("cuda_") and "Launch" in e["name"]]
    nodes = path.with_name(path.name.replace(".json.gz", ".nodes.json"))
    listed = json.loads(nodes.read_text())["nodes"] if nodes.exists() else []
    return {
        "ops in the capture": sum(event.get("cat") == "cpu_op" for event in events),
        "launches in the capture": len(launches),
        "launches with a name": sum("kernel" in event.get("args", {}) for event in launches),
        "kernels in the capture": sum(event.get("cat") == "kernel" for event in events),
        "begin of capture seen": any("StreamBeginCapture" in str(event.get("name")) for event in events),
        "nodes": len(listed) or None,
        "nodes with a name": sum(bool(node["kernel"]) for node in listed) or None,
    }


def contract_tests() -> str:
    tests = Path(__file__).parents[1] / "tests" / "unit" / "test_graphs.py"
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-o",
        "addopts=",
        str(tests),
        "-k",
        "not compiled",
        "-p",
        "no:cacheprovider",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=180)
    return next(
        (line for line in reversed(done.stdout.splitlines()) if " passed" in line or " failed" in line), "none ran"
    )


def report(found: dict[str, dict[str, Any]]) -> None:
    names = [name for name in found if name != "contract"]
    questions = list(dict.fromkeys(question for name in names for question in found[name]))
    print(f"{'':26}" + "".join(f"{name:>22}" for name in names))
    for question in questions:
        cells = ("-" if found[name].get(question) is None else str(found[name][question]) for name in names)
        print(f"{question:26}" + "".join(f"{cell[:20]:>22}" for cell in cells))
    print(f"contract tests: {found['contract']['tests']}")


if __name__ == "__main__":
    main()
