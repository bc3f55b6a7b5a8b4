"""How long the join takes after reading: 64 copies of the real decode step, as they are, and with kernels dropped.

    python benchmarks/joining.py [--traces ../shared/traces]

Three variants: 64 launches of the captured graph; the same, each launch lacking another kernel; one launch of a graph that
is 64 times as long, one kernel lacking. Times are the best of three, after a first one that warms caches.
"""

from __future__ import annotations

import argparse
import gzip
import json
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

from shapescope.analyse.join import join
from shapescope.analyse.names import name_frame
from shapescope.read.run import open_run

COPIES = 64
STEP = 1_000_000  # microseconds between two copies
PAIR = "sglang_qwen3_8b_mi300x_bs32"
Event = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=Path, default=Path("../shared/traces"))
    pair = parser.parse_args().traces / PAIR
    capture, replay = read(pair / "capture" / "bs_32_rank0.json.gz"), read(pair / "replay.json.gz")
    with tempfile.TemporaryDirectory() as folder:
        for name, captured, replayed in (
            ("64 launches", capture, launches(replay, drop=False)),
            ("64 launches, each lacking a kernel", capture, launches(replay, drop=True)),
            ("one graph 64 times as long, lacking a kernel", longer(capture), one_launch(replay)),
        ):
            measure(name, write(Path(folder, name), captured, replayed))


def read(path: Path) -> Event:
    content: Event = json.loads(gzip.decompress(path.read_bytes()))
    return content


def write(folder: Path, capture: Event, replay: Event) -> Path:
    for name, trace in (("capture/bs_32_rank0.json.gz", capture), ("replay.json.gz", replay)):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(json.dumps(trace).encode(), 1))
    return folder


def graph(replay: Event) -> tuple[Event, Event, list[Event]]:
    """The step's span, its graph launch, and the kernels of that."""
    events = replay["traceEvents"]
    (launch,) = [event for event in events if event.get("name") == "hipGraphLaunch"]
    (span,) = [event for event in events if event.get("cat") == "user_annotation" and "execute_32" in event["name"]]
    correlation = launch["args"]["correlation"]
    kernels = [
        event for event in events if event.get("cat") == "kernel" and event["args"].get("correlation") == correlation
    ]
    return span, launch, sorted(kernels, key=lambda event: event["ts"])


def launches(replay: Event, drop: bool) -> Event:
    span, launch, kernels = graph(replay)
    events = []
    for copy in range(COPIES):
        shown = [kernel for at, kernel in enumerate(kernels) if not drop or at != 8 * copy + 3]
        events += [moved(event, copy, copy) for event in (span, launch, *shown)]
    return {**replay, "traceEvents": events}


def one_launch(replay: Event) -> Event:
    span, launch, kernels = graph(replay)
    copies = [moved(kernel, copy, 0) for copy in range(COPIES) for kernel in kernels]
    del copies[20_000]
    return {**replay, "traceEvents": [span, moved(launch, 0, 0), *copies]}


def longer(capture: Event) -> Event:
    """The captured segment again and again, within one begin and end of a stream capture."""
    events = [event for event in capture["traceEvents"] if event.get("ph") == "X"]
    begin, end = (next(e for e in events if f"Stream{word}Capture" in e["name"]) for word in ("Begin", "End"))
    inside = [event for event in events if begin["ts"] < event["ts"] < end["ts"]]
    spans = [event for event in events if event["name"].startswith("capture_")]
    last = moved(end, COPIES - 1, None)
    around = [{**span, "dur": span["dur"] + STEP * COPIES} for span in spans]
    copies = [
        moved(event, copy, None) for copy in range(COPIES) for event in inside if event["cat"] != "python_function"
    ]
    return {**capture, "traceEvents": [*around, begin, *copies, last]}


def moved(event: Event, copy: int, correlation: int | None) -> Event:
    args = dict(event.get("args", {}))
    if correlation is not None and "correlation" in args:
        args["correlation"] = 10_000_000 + correlation
    return {**event, "ts": event["ts"] + copy * STEP, "args": args}


def measure(name: str, folder: Path) -> None:
    run = open_run(folder, namer=name_frame)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    times = []
    for _ in range(4):
        begin = time.perf_counter()
        summary = join(run).summary
        times.append(time.perf_counter() - begin)
    more = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    shown = ", ".join(f"{status} {summary[status]:,}" for status in ("aligned", "ambiguous", "missing"))
    print(f"{name}: {min(times[1:]):.3f} s (first {times[0]:.3f} s), {more / 1024:.0f} MB more; {shown}")


if __name__ == "__main__":
    main()
