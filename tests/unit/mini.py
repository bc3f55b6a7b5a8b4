"""Small traces written by code, in the form that Kineto writes them. Times are microseconds, as in the files."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

Event = dict[str, Any]
CPU = 100


def event(cat: str, name: str, ts: float, dur: float, pid: int | str = CPU, tid: int | str = 1, **args: Any) -> Event:
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


def op(name: str, ts: float, dur: float, dims: Any = None, *, types: Any = None, **more: Any) -> Event:
    args = {} if dims is None else {"Input Dims": dims}
    if types is not None:
        args["Input type"] = types
    where = {key: more.pop(key) for key in ("pid", "tid") if key in more}
    return event("cpu_op", name, ts, dur, **where, **args, **more)


def call(
    name: str, ts: float, dur: float = 1, *, correlation: int | None = None, cat: str = "cuda_runtime", **more: Any
) -> Event:
    known = {} if correlation is None else {"correlation": correlation}
    return event(cat, name, ts, dur, **known, **more)


def kernel(
    name: str, ts: float, dur: float, *, correlation: int | None = None, device: int = 0, stream: int = 7, **more: Any
) -> Event:
    known = {} if correlation is None else {"correlation": correlation}
    pid = more.pop("pid", device)
    cat = more.pop("cat", "kernel")
    return event(cat, name, ts, dur, pid, stream, device=device, stream=stream, **known, **more)


def span(name: str, ts: float, dur: float, **more: Any) -> Event:
    return event("user_annotation", name, ts, dur, **more)


def capture(
    ts: float, launches: int, *, dims: Any = None, name: str = "gemm_{}", begin: str = "hipStreamBeginCapture"
) -> list[Event]:
    """One segment of ROCm-like launches, each in an op of its own, from `ts` on; 10 us a launch."""
    inside: list[Event] = []
    for number in range(launches):
        at = ts + 10 * (number + 1)
        inside.append(op("aten::mm", at, 8, dims))
        inside.append(
            call(
                "hipLaunchKernel",
                at + 2,
                2,
                kernel=name.format(number),
                grid=[8, 1, 1],
                block=[256, 1, 1],
                correlation=number,
            )
        )
    return [call(begin, ts), *inside, call("hipStreamEndCapture", ts + 10 * (launches + 1))]


def replay(
    ts: float, kernels: list[str], *, correlation: int, start: float | None = None, dur: float = 2, **more: Any
) -> list[Event]:
    """One graph launch and its kernels, which start when the launch has returned."""
    start = ts + 5 if start is None else start
    where = {key: more.pop(key) for key in ("pid", "tid") if key in more}
    rows = [kernel(name, start + 3 * n, dur, correlation=correlation, **more) for n, name in enumerate(kernels)]
    return [call("cudaGraphLaunch", ts, 2, correlation=correlation, **where), *rows]


def document(events: list[Event], **metadata: Any) -> dict[str, Any]:
    return {"schemaVersion": 1, "deviceProperties": [], "displayTimeUnit": "ms", "traceEvents": events} | metadata


def write(path: Path, events: list[Event], **metadata: Any) -> Path:
    """Write a trace, gzipped where the name ends in .gz."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = json.dumps(document(events, **metadata)).encode()
    path.write_bytes(gzip.compress(content, 1) if path.suffix == ".gz" else content)
    return path


def world(rank: int, size: int) -> dict[str, Any]:
    return {"distributedInfo": {"backend": "nccl", "rank": rank, "world_size": size}}
