"""Serving is left alone: the same requests served with shapescope never imported, off, and after a recorded start-up.

Each measurement is a process of its own: the recorder never imported; imported and off; recorded at start-up with light
details, with full details. It serves the same requests --passes times; they take the same steps each time, and of each step
the lowest CPU time of all passes counts: a core that others use too is half as fast for a second or so at a time. Rounds
are paired: every round runs each variant once, in random order, and ratios are taken within the round. The interval is a
bootstrap over rounds. A profile hook counts Python calls into the recorder while serving.

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
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shapescope.engines.decode.engine import DecodeEngine, Request
    from shapescope.engines.decode.scheduler import Scheduler

VARIANTS = ("absent", "off", "light", "full")
SIZES = [1, 2, 4, 8, 16]
REQUESTS = 48


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--passes", type=int, default=8)
    parser.add_argument("--variant", choices=VARIANTS)
    options = parser.parse_args()
    if options.variant:
        print(json.dumps(serve(options.variant, options.passes)))
        return
    rounds: list[dict[str, dict[str, float]]] = []
    for number in range(1, options.rounds + 1):
        rounds.append(one_round(options.passes))
        print(f"round {number}: {[round(rounds[-1][name]['tokens_per_second'], 1) for name in VARIANTS]}", flush=True)
    report(rounds, options.passes)


def one_round(passes: int) -> dict[str, dict[str, float]]:
    return {name: run_apart(name, passes) for name in random.sample(VARIANTS, len(VARIANTS))}


def run_apart(variant: str, passes: int) -> dict[str, float]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, __file__, "--variant", variant, "--passes", str(passes)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def serve(variant: str, passes: int) -> dict[str, float]:
    import torch

    from shapescope.engines.decode.engine import DecodeEngine
    from shapescope.engines.decode.model import load_model
    from shapescope.engines.decode.scheduler import Scheduler

    torch.set_num_threads(1)
    engine = DecodeEngine(load_model("qwen3-tiny", device=torch.device("cpu")), SIZES, max_length=128)
    with tempfile.TemporaryDirectory() as folder:
        if variant != "absent":
            record(engine, variant, Path(folder))
        engine.capture()
        imported = any(name.startswith("shapescope.record") for name in sys.modules)
        if imported == (variant == "absent"):
            raise SystemExit(f"{variant}: the recorder is {'' if imported else 'not '}imported")
        return measure(Scheduler(engine), passes)


def record(engine: DecodeEngine, variant: str, folder: Path) -> None:
    from shapescope.device import CpuDevice
    from shapescope.model import Evidence, Rank
    from shapescope.record.start import start
    from shapescope.settings import Detail, Mode, RecordingSettings

    if variant == "off":
        return
    settings = RecordingSettings(Mode.PER_SHAPE, str(folder), Detail(variant), frozenset({Evidence.CAPTURE}))
    engine.runner.backend.observe(start(settings, engine="benchmark", device=CpuDevice(), rank=Rank()))


def measure(scheduler: Scheduler, passes: int) -> dict[str, float]:
    served = [one_pass(scheduler) for _ in range(passes)]
    if len({(tokens, len(steps)) for tokens, steps in served}) > 1:
        raise SystemExit("the same requests took other steps")
    tokens, _ = served[0]
    lowest = [min(of_step) for of_step in zip(*(steps for _, steps in served), strict=True)]
    return {
        "tokens_per_second": tokens / sum(lowest),
        "ms_per_output_token": 1e3 * statistics.median(lowest),
        "recorder_calls": calls_into_the_recorder(scheduler),
    }


def one_pass(scheduler: Scheduler) -> tuple[int, list[float]]:
    """How many tokens the requests got, and the CPU seconds of each step."""
    requests, steps = some_requests(), []
    scheduler.submit(requests)
    while not scheduler.idle:
        start = time.process_time()
        scheduler.step()
        steps.append(time.process_time() - start)
    return sum(len(request.output) for request in requests), steps


def some_requests() -> list[Request]:
    from shapescope.engines.decode.engine import Request

    source = random.Random(0)
    return [
        Request([source.randrange(3, 8000) for _ in range(source.randrange(1, 32))], source.randrange(8, 48))
        for _ in range(REQUESTS)
    ]


def calls_into_the_recorder(scheduler: Scheduler) -> int:
    """Serve a few requests more under a profile hook."""
    called = 0

    def note(frame: FrameType, event: str, _: object) -> None:
        nonlocal called
        called += event == "call" and str(frame.f_globals.get("__name__", "")).startswith("shapescope.record")

    scheduler.submit(some_requests()[:4])
    sys.setprofile(note)
    try:
        scheduler.run()
    finally:
        sys.setprofile(None)
    return called


def report(rounds: list[dict[str, dict[str, float]]], passes: int) -> None:
    print(
        f"{len(rounds)} paired rounds, {REQUESTS} requests, the lowest CPU time of each step in {passes} passes;"
        " ratios to a process that never imported the recorder"
    )
    print("variant   tokens/s   ratio     95% interval  ms/token   ratio     95% interval  calls")
    for name in VARIANTS:
        cells = []
        for figure in ("tokens_per_second", "ms_per_output_token"):
            ratios = [one[name][figure] / one["absent"][figure] for one in rounds]
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
