"""What recording costs: off, the plain scheme, ours light, ours full; interleaved rounds, ratios within one run.

The plain scheme is what engines do today: one scheduled profiler (wait=2, warmup=0, active=1), every detail, torch's own
.json.gz. Each scheme runs on eager passes (what a warm-up is) and on the tape (what a capture is).

    python benchmarks/recording.py --rounds 5
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import statistics
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
    "off": off, "plain": plain, "ours light": ours(Detail.LIGHT), "ours full": ours(Detail.FULL),
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
    parser.add_argument("--json", type=Path, help="write the figures here too")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.set_grad_enabled(False)
    figures = {}
    for passes, step in steps(options.layers).items():
        figures[passes] = measure(step, options.rounds)
        report(passes, figures[passes])
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2))


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
            disk[name] = sum(path.stat().st_size for path in folder.rglob("*.json.gz"))
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
    print(f"{'scheme':12} {'seconds':>8} {'ratio':>7} {'extra ms/shape':>15} {'of plain extra':>15} {'KB/shape':>9}")
    for name, row in figures.items():
        print(
            f"{name:12} {row['seconds']:8.3f} {row['ratio']:7.2f} {row['extra_ms_a_shape']:15.1f}"
            f" {row['share_of_plain_extra']:15.3f} {row['bytes_a_shape'] / 1e3:9.0f}"
        )
    print(f"peak resident memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB\n")


if __name__ == "__main__":
    main()
