"""What recording costs: off, the plain scheme, ours light, ours full; interleaved rounds, ratios within one run.

The plain scheme is what engines do today: one scheduled profiler (wait=2, warmup=0, active=1), every detail, torch's own
.json.gz. Between it and ours stands torch's floor: a profiler of our details started and stopped for each shape and its raw
trace saved, and nothing else; nobody who records these details with torch's profiler can be below it. Each scheme runs on
eager passes (what a warm-up is) and on the tape (what a capture is). The memory that a scheme adds is the peak of a process
of its own above what stood after `off`.

    python benchmarks/recording.py --rounds 5
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile, schedule

from shapescope.device import CpuDevice
from shapescope.engines.decode.engine import DecodeEngine
from shapescope.engines.decode.model import load_model
from shapescope.model import Evidence, GraphKey, Rank
from shapescope.record.start import start
from shapescope.settings import Detail, Mode, RecordingSettings

SIZES = [1, 2, 4, 8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64, 72, 80, 88, 96, 112, 128]
Step = Callable[[int], object]


def off(step: Step, _: Path) -> None:
    for size in reversed(SIZES):
        for _ in range(3):
            step(size)


def plain(step: Step, folder: Path) -> None:
    current = SIZES[-1]

    def save(profiler: profile) -> None:
        profiler.export_chrome_trace(str(folder / f"R_bs_{current}_rank0.json.gz"))

    with profile(
        activities=[ProfilerActivity.CPU], schedule=schedule(wait=2, warmup=0, active=1, repeat=0), on_trace_ready=save,
        record_shapes=True, with_stack=True, with_flops=True, profile_memory=True,
    ) as profiler:  # fmt: skip
        for size in reversed(SIZES):
            current = size
            for _ in range(3):
                step(size)
                profiler.step()


def floor(full: bool) -> Callable[[Step, Path], None]:
    def run(step: Step, folder: Path) -> None:
        for size in reversed(SIZES):
            step(size)
            step(size)
            with profile(
                activities=[ProfilerActivity.CPU], record_shapes=True, with_stack=full, profile_memory=full
            ) as profiler:  # fmt: skip
                step(size)
            profiler.export_chrome_trace(str(folder / f"R_bs_{size}_rank0.json"))

    return run


def ours(detail: Detail) -> Callable[[Step, Path], None]:
    def run(step: Step, folder: Path) -> None:
        os.environ["SHAPESCOPE_RUN_ID"] = "run"
        settings = RecordingSettings(Mode.PER_SHAPE, str(folder), detail, frozenset({Evidence.CAPTURE}))
        profiler = start(settings, engine="benchmark", device=CpuDevice(), rank=Rank())
        with profiler.runner("R", [GraphKey.of("R", size) for size in reversed(SIZES)]):
            for size in reversed(SIZES):
                step(size)
                step(size)
                with profiler.capture(GraphKey.of("R", size)):
                    step(size)

    return run


SCHEMES: dict[str, Callable[[Step, Path], None]] = {
    "off": off, "plain": plain, "floor light": floor(False), "ours light": ours(Detail.LIGHT),
    "floor full": floor(True), "ours full": ours(Detail.FULL),
}  # fmt: skip


def steps(layers: int) -> dict[str, Step]:
    """The third call of a size is the capture: on the tape it runs under the tape's mode."""
    engine = DecodeEngine(load_model("qwen3-tiny", device=torch.device("cpu"), layers=layers), SIZES)
    forward = {size: engine.runner._forward(size) for size in SIZES}
    calls = dict.fromkeys(SIZES, 0)

    def taped(size: int) -> object:
        calls[size] += 1
        if calls[size] % 3:
            return forward[size]()
        graph = CpuDevice().new_graph()
        with graph.capturing():
            forward[size]()
        return graph

    return {"eager": lambda size: forward[size](), "tape": taped}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--memory", nargs=2, metavar=("PASSES", "SCHEME"), help="only print the MB that one scheme adds"
    )
    parser.add_argument("--json", type=Path, help="write the figures here too")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.set_grad_enabled(False)
    if options.memory:
        print(added_memory(steps(options.layers)[options.memory[0]], options.memory[1]))
        return
    figures = {}
    for passes, step in steps(options.layers).items():
        figures[passes] = measure(step, options.rounds)
        for name, row in figures[passes].items():
            row["added_mb"] = _in_a_process(passes, name, options.layers)
        report(passes, figures[passes])
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2))


def added_memory(step: Step, scheme: str) -> float:
    """The peak of one scheme above what stood before it, in MB."""
    off(step, Path())
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from here
    before = _peak_mb()
    with tempfile.TemporaryDirectory() as folder:
        SCHEMES[scheme](step, Path(folder))
    return _peak_mb() - before


def _peak_mb() -> float:
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def _in_a_process(passes: str, scheme: str, layers: int) -> float:
    command = [sys.executable, "-W", "ignore", __file__, "--layers", str(layers), "--memory", passes, scheme]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1])


def measure(step: Step, rounds: int) -> dict[str, dict[str, float]]:
    walls: dict[str, list[float]] = {name: [] for name in SCHEMES}
    disk: dict[str, int] = {}
    off(step, Path())
    for _ in range(rounds):
        for name in random.sample(list(SCHEMES), len(SCHEMES)):
            folder = Path(tempfile.mkdtemp())
            begin = time.perf_counter()
            SCHEMES[name](step, folder)
            walls[name].append(time.perf_counter() - begin)
            disk[name] = sum(path.stat().st_size for path in folder.rglob("*.json*"))
            shutil.rmtree(folder)
    base = walls["off"]
    extra = {name: statistics.median(a - b for a, b in zip(times, base, strict=True)) for name, times in walls.items()}
    return {
        name: {
            "seconds": statistics.median(times),
            "ratio": statistics.median(a / b for a, b in zip(times, base, strict=True)),
            "extra_ms_a_shape": 1e3 * extra[name] / len(SIZES),
            "share_of_plain_extra": extra[name] / extra["plain"],
            "bytes_a_shape": disk[name] / len(SIZES),
        }
        for name, times in walls.items()
    }


def report(passes: str, figures: dict[str, dict[str, float]]) -> None:
    print(f"{passes} passes, {len(SIZES)} sizes")
    print(
        f"{'scheme':12} {'seconds':>8} {'ratio':>7} {'extra ms/shape':>15} {'of plain extra':>15} {'KB/shape':>9} {'added MB':>9}"
    )
    for name, row in figures.items():
        print(
            f"{name:12} {row['seconds']:8.3f} {row['ratio']:7.2f} {row['extra_ms_a_shape']:15.1f}"
            f" {row['share_of_plain_extra']:15.3f} {row['bytes_a_shape'] / 1e3:9.0f} {row['added_mb']:9.0f}"
        )


if __name__ == "__main__":
    main()
