"""Serving is left alone: the same requests served with shapescope never imported, off, and after a recorded start-up.

A round loads a model and forks into five servers: one that never imports the recorder, one that imports it and leaves it
off, one that records its start-up with light details, one with full details, and one that never imports the recorder but
captures each shape under torch's own profiler with full details: what no recorder can do better than. All serve the same
requests --passes times, a step of each in turn and in random order, so that they share the model's memory and whatever else
the machine does: two processes by themselves differ by more than any effect. Ratios of CPU time are taken step by step and
pass by pass, to the server that never imported the recorder and to torch's; the interval is a bootstrap over rounds. A
profile hook counts the Python calls of serving: those into the recorder, and all.

    python benchmarks/serving.py --rounds 15
"""

from __future__ import annotations

import argparse
import gc
import json
import multiprocessing
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from multiprocessing.connection import Connection
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shapescope.engines.decode.engine import DecodeEngine, Request
    from shapescope.engines.decode.scheduler import Scheduler
    from shapescope.model import GraphKey

VARIANTS = ("absent", "off", "light", "full", "torch")
SIZES = [1, 2, 4, 8, 16]
REQUESTS = 48


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--passes", type=int, default=5)
    parser.add_argument("--round", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.round:
        print(json.dumps(one_round(options.passes)))
        return
    rounds: list[dict[str, dict[str, float]]] = []
    for number in range(1, options.rounds + 1):
        rounds.append(round_apart(options.passes))
        print(f"round {number}: {[round(rounds[-1][name]['throughput'], 3) for name in VARIANTS]}", flush=True)
    report(rounds, options.passes)


def round_apart(passes: int) -> dict[str, dict[str, float]]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, __file__, "--round", "--passes", str(passes)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    figures: dict[str, dict[str, float]] = json.loads(done.stdout.splitlines()[-1])
    return figures


def one_round(passes: int) -> dict[str, dict[str, float]]:
    import torch

    from shapescope.engines.decode.model import load_model

    torch.set_num_threads(1)
    model = load_model("qwen3-tiny", device=torch.device("cpu"))
    fork = multiprocessing.get_context("fork")
    servers: dict[str, Connection] = {}
    for variant in random.sample(VARIANTS, len(VARIANTS)):  # who starts last finds another memory than who starts first
        servers[variant], theirs = fork.Pipe()
        fork.Process(target=server, args=(variant, model, theirs), daemon=True).start()
    calls = {variant: asked(pipe, "calls") for variant, pipe in servers.items()}
    served = [one_pass(servers) for _ in range(passes)]
    tokens = asked(servers["absent"], "tokens")
    return {
        variant: figures(served, variant, tokens) | {"to_torch": throughput(served, variant, "torch"), **calls[variant]}
        for variant in VARIANTS
    }


def one_pass(servers: Mapping[str, Connection]) -> dict[str, list[float]]:
    """The CPU seconds of each step of each variant."""
    steps: dict[str, list[float]] = {variant: [] for variant in servers}
    for pipe in servers.values():
        asked(pipe, "submit")
    idle: set[bool] = {False}
    while idle == {False}:
        idle = set()
        for variant in random.sample(VARIANTS, len(VARIANTS)):
            seconds, done = asked(servers[variant], "step")
            steps[variant].append(seconds)
            idle.add(done)
    if idle != {True}:
        raise SystemExit("the same requests took other steps")
    return steps


def asked(server: Connection, what: str) -> Any:
    server.send(what)
    return server.recv()


def figures(served: list[dict[str, list[float]]], variant: str, tokens: float) -> dict[str, float]:
    """Time and throughput of the typical pass, and their ratios to those of a process that never imported the recorder."""
    slower = [mine / other for steps in served for mine, other in zip(steps[variant], steps["absent"], strict=True)]
    return {
        "tokens_per_second": tokens / statistics.median(sum(steps[variant]) for steps in served),
        "ms_per_output_token": 1e3 * statistics.median(step for steps in served for step in steps[variant]),
        "throughput": throughput(served, variant, "absent"),
        "time_per_token": statistics.median(slower),
    }


def throughput(served: list[dict[str, list[float]]], variant: str, other: str) -> float:
    """That of one variant to that of another."""
    return statistics.median(sum(steps[other]) / sum(steps[variant]) for steps in served)


def server(variant: str, model: object, pipe: Connection) -> None:
    """Start up as the variant says, then do as one is asked."""
    from shapescope.engines.decode.engine import DecodeEngine
    from shapescope.engines.decode.scheduler import Scheduler

    with tempfile.TemporaryDirectory() as folder:
        engine = DecodeEngine(model, SIZES, max_length=128)
        if variant in ("off", "light", "full"):
            record(engine, variant, folder)
        if variant == "torch":
            engine.runner.backend.observe(TorchAlone(folder))
        engine.capture()
        if any(name.startswith("shapescope.record") for name in sys.modules) == (variant in ("absent", "torch")):
            raise SystemExit(f"{variant}: the recorder is imported, or it is not")
        gc.collect()  # writes to every object's page: no server goes on sharing them with the process that it was forked from
        scheduler = Scheduler(engine)
        requests: list[Request] = []
        while True:
            match pipe.recv():
                case "calls":
                    pipe.send(counted_calls(scheduler))
                case "submit":
                    requests = some_requests()
                    scheduler.submit(requests)
                    pipe.send(None)
                case "step":
                    begin = time.process_time()
                    scheduler.step()
                    pipe.send((time.process_time() - begin, scheduler.idle))
                case "tokens":
                    pipe.send(sum(len(request.output) for request in requests))


class TorchAlone:
    """Torch's own profiler around each capture, and its trace on disk."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    @contextmanager
    def capture(self, key: GraphKey) -> Iterator[None]:
        from torch.profiler import ProfilerActivity, profile

        details = {"record_shapes": True, "profile_memory": True, "with_stack": True, "with_modules": True}
        with profile(activities=[ProfilerActivity.CPU], **details) as profiler:
            yield
        profiler.export_chrome_trace(f"{self._folder}/{key.shape.size}.json")

    def runner(self, *_: object) -> AbstractContextManager[object]:
        return nullcontext()

    warmup = segment = runner

    def captured(self, *_: object) -> None:
        """Nothing to note."""


def record(engine: DecodeEngine, variant: str, folder: str) -> None:
    from shapescope.device import CpuDevice
    from shapescope.model import Evidence, Rank
    from shapescope.record.start import start
    from shapescope.settings import Detail, Mode, RecordingSettings

    if variant == "off":
        return
    settings = RecordingSettings(Mode.PER_SHAPE, folder, Detail(variant), frozenset({Evidence.CAPTURE}))
    engine.runner.backend.observe(start(settings, engine="benchmark", device=CpuDevice(), rank=Rank()))


def some_requests() -> list[Request]:
    from shapescope.engines.decode.engine import Request

    source = random.Random(0)
    return [
        Request([source.randrange(3, 8000) for _ in range(source.randrange(1, 32))], source.randrange(8, 48))
        for _ in range(REQUESTS)
    ]


def counted_calls(scheduler: Scheduler) -> dict[str, int]:
    """Serve a few requests more under a profile hook."""
    counts = {"recorder_calls": 0, "calls": 0}

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            counts["calls"] += 1
            counts["recorder_calls"] += str(frame.f_globals.get("__name__", "")).startswith("shapescope.record")

    scheduler.submit(some_requests()[:4])
    sys.setprofile(note)
    try:
        scheduler.run()
    finally:
        sys.setprofile(None)
    return counts


def report(rounds: list[dict[str, dict[str, float]]], passes: int) -> None:
    print(
        f"{len(rounds)} rounds of {passes} passes, {REQUESTS} requests; CPU time of the serving process; ratios to a"
        " process that never imported the recorder"
    )
    ratio = "  95% interval  "
    print(f"variant   tokens/s  to absent{ratio}  to torch{ratio}  ms/token to absent{ratio}  recorder   calls")
    for name in VARIANTS:
        rate, wait = (
            statistics.median(one[name][figure] for one in rounds)
            for figure in ("tokens_per_second", "ms_per_output_token")
        )
        to_absent, to_torch, slower = (
            interval([one[name][ratio] for one in rounds]) for ratio in ("throughput", "to_torch", "time_per_token")
        )
        into, calls = (max(one[name][count] for one in rounds) for count in ("recorder_calls", "calls"))
        print(f"{name:8} {rate:9.2f} {to_absent} {to_torch} {wait:9.2f} {slower} {into:10.0f} {calls:7.0f}")


def interval(ratios: list[float]) -> str:
    """The median ratio, and its 95% bootstrap interval."""
    source = random.Random(0)
    medians = sorted(statistics.median(source.choices(ratios, k=len(ratios))) for _ in range(2000))
    return f"{statistics.median(ratios):10.3f} [{medians[50]:.3f}, {medians[1949]:.3f}]"


if __name__ == "__main__":
    main()
