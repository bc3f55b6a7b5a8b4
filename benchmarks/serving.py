"""Serving is left alone: the same requests served with shapescope off, and after a start-up that was recorded.

Each measurement is a process of its own: recording off (no recorder module is imported), recorded at start-up with light
details, with full details. Rounds are paired: every round runs each variant once, in random order, and ratios are taken
within the round. The interval is a bootstrap over rounds. A profile hook counts Python calls into the recorder while serving.

    python benchmarks/serving.py --rounds 15
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import FrameType

VARIANTS = ("off", "light", "full")
SIZES = [1, 2, 4, 8, 16]
REQUESTS = 48


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--variant", choices=VARIANTS)
    options = parser.parse_args()
    if options.variant:
        print(json.dumps(serve(options.variant)))
        return
    rounds = [one_round() for _ in range(options.rounds)]
    report(rounds)


def one_round() -> dict[str, dict[str, float]]:
    return {name: run_apart(name) for name in random.sample(VARIANTS, len(VARIANTS))}


def run_apart(variant: str) -> dict[str, float]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, __file__, "--variant", variant]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def serve(variant: str) -> dict[str, float]:
    import torch

    from shapescope.engines.decode.engine import DecodeEngine, Request
    from shapescope.engines.decode.model import load_model
    from shapescope.engines.decode.scheduler import Scheduler

    torch.set_num_threads(1)
    engine = DecodeEngine(load_model("qwen3-tiny", device=torch.device("cpu")), SIZES, max_length=128)
    with tempfile.TemporaryDirectory() as folder:
        if variant != "off":
            record(engine, variant, Path(folder))
        engine.capture()
        source = random.Random(0)
        requests = [
            Request([source.randrange(3, 8000) for _ in range(source.randrange(1, 32))], source.randrange(8, 48))
            for _ in range(REQUESTS)
        ]
        return measure(Scheduler(engine), requests)


def record(engine: object, detail: str, folder: Path) -> None:
    from shapescope.device import CpuDevice
    from shapescope.model import Evidence, Rank
    from shapescope.record.start import start
    from shapescope.settings import Detail, Mode, RecordingSettings

    settings = RecordingSettings(Mode.PER_SHAPE, str(folder), Detail(detail), frozenset({Evidence.CAPTURE}))
    engine.runner.backend.observe(start(settings, engine="benchmark", device=CpuDevice(), rank=Rank()))  # type: ignore[attr-defined]


def measure(scheduler: object, requests: list[object]) -> dict[str, float]:
    scheduler.submit(requests[:4])  # type: ignore[attr-defined]
    scheduler.run()  # type: ignore[attr-defined]
    rest, steps = requests[4:], []
    scheduler.submit(rest)  # type: ignore[attr-defined]
    begin = time.process_time()
    while not scheduler.idle:  # type: ignore[attr-defined]
        start = time.process_time()
        scheduler.step()  # type: ignore[attr-defined]
        steps.append(time.process_time() - start)
    seconds = time.process_time() - begin
    tokens = sum(len(request.output) for request in rest)  # type: ignore[attr-defined]
    return {
        "tokens_per_second": tokens / seconds,
        "ms_per_output_token": 1e3 * statistics.median(steps),
        "recorder_calls": calls_into_the_recorder(scheduler, requests),
    }


def calls_into_the_recorder(scheduler: object, requests: list[object]) -> int:
    """Serve one more request under a profile hook."""
    called = 0

    def note(frame: FrameType, event: str, _: object) -> None:
        nonlocal called
        called += event == "call" and str(frame.f_globals.get("__name__", "")).startswith("shapescope.record")

    again = type(requests[0])(requests[0].prompt, 8)  # type: ignore[attr-defined, call-arg]
    scheduler.submit([again])  # type: ignore[attr-defined]
    sys.setprofile(note)
    try:
        scheduler.run()  # type: ignore[attr-defined]
    finally:
        sys.setprofile(None)
    return called


def report(rounds: list[dict[str, dict[str, float]]]) -> None:
    print(f"{len(rounds)} paired rounds, {REQUESTS} requests, CPU time of the serving process; ratios to recording off")
    print("variant   tokens/s   ratio     95% interval  ms/token   ratio     95% interval  calls")
    for name in VARIANTS:
        cells = []
        for figure in ("tokens_per_second", "ms_per_output_token"):
            ratios = [one[name][figure] / one["off"][figure] for one in rounds]
            low, high = interval(ratios)
            cells.append(
                f"{statistics.median(one[name][figure] for one in rounds):9.2f} {statistics.median(ratios):7.3f}"
                f"   [{low:.3f}, {high:.3f}]"
            )
        print(f"{name:8} {' '.join(cells)} {max(one[name]['recorder_calls'] for one in rounds):6.0f}")


def interval(ratios: list[float]) -> tuple[float, float]:
    """95% bootstrap interval of the median ratio."""
    source = random.Random(0)
    medians = sorted(statistics.median(source.choices(ratios, k=len(ratios))) for _ in range(2000))
    return medians[50], medians[1949]


if __name__ == "__main__":
    main()
