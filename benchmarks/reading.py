"""How fast a trace becomes columns, and a table of what ran with which dims; and how much memory that takes.

python benchmarks/reading.py TRACE.. [--rounds 5] [--hta PYTHON] [--tracelens CHECKOUT] [--json]
python benchmarks/reading.py --generate 17,60,300,1100 --folder DIR      traces of that many MB of JSON

All contenders run on all files in one interleaved run, each time in a process of its own, warm: a first load counts for its
memory (the peak added over what the process held before), the next ones for the time (CPU seconds of the whole process;
medians, also over the rounds). json and orjson fill the same columns as shapescope with a Python loop.
HolisticTraceAnalysis 0.5.0 needs an interpreter of its own (pandas < 3): `--hta VENV/bin/python`. The table, an op with its
dims a row, is also that of TraceLens where a checkout of it is given; it runs in the interpreter of `--hta`.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

CONTENDERS = ("json", "orjson", "fallback", "compiled", "fallback-modules", "compiled-modules", "table")
WARM_LOADS = 3
LONG_S = 5  # so long a load does not care whether it is the first


def main() -> None:
    arguments = _arguments()
    if arguments.one:
        print(json.dumps(measure(arguments.one, arguments.files[0])))
        return
    files = list(arguments.files)
    if arguments.generate:
        arguments.folder.mkdir(parents=True, exist_ok=True)
        sizes = [int(size) for size in arguments.generate.split(",")]
        files += [generate(arguments.folder / f"generated_{size}mb.json.gz", size) for size in sizes]
    others = {"hta": arguments.hta} if arguments.hta else {}
    if arguments.tracelens:
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), arguments.tracelens]))
        others["tracelens"] = arguments.hta or sys.executable
    results = run(files, arguments.rounds, dict.fromkeys(arguments.contenders.split(","), sys.executable) | others)
    print(json.dumps(results, indent=1) if arguments.json else table(results))


def run(files: list[Path], rounds: int, contenders: dict[str, str]) -> list[dict[str, Any]]:
    """Interleaved: each round measures every contender, in its interpreter, on every file once."""
    samples: dict[tuple[Path, str], list[dict[str, float]]] = {}
    for _ in range(rounds):
        for path in files:
            for contender, python in contenders.items():
                command = [python, __file__, "--one", contender, str(path)]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                if done.returncode == 0:
                    samples.setdefault((path, contender), []).append(json.loads(done.stdout.splitlines()[-1]))
                else:
                    print(f"{contender} failed on {path.name}: {done.stderr.splitlines()[-1:]}", file=sys.stderr)
    return [_summary(path, contender, found) for (path, contender), found in samples.items()]


def _summary(path: Path, contender: str, samples: list[dict[str, float]]) -> dict[str, Any]:
    times = [sample["cpu_s"] for sample in samples]
    return {
        "file": path.name,
        "contender": contender,
        "rows": samples[0]["rows"],
        "megabytes": samples[0]["megabytes"],
        "cpu_s": statistics.median(times),
        "cpu_s_range": [min(times), max(times)],
        "wall_s": statistics.median(sample["wall_s"] for sample in samples),
        "added_mb": statistics.median(sample["added_mb"] for sample in samples),
    }


def table(results: list[dict[str, Any]]) -> str:
    """As Markdown, with how many times faster than json and than HTA each is."""
    by = {(row["file"], row["contender"]): row["cpu_s"] for row in results}
    lines = [
        "| file | MB | contender | rows | CPU s | MB/s | x json | x HTA | added MB |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in results:
        faster = [by.get((row["file"], other)) for other in ("json", "hta")]
        ratios = [f"{base / row['cpu_s']:.1f}" if base else "" for base in faster]
        lines.append(
            f"| {row['file']} | {row['megabytes']:.0f} | {row['contender']} | {row['rows']} | {row['cpu_s']:.3f} "
            f"| {row['megabytes'] / row['cpu_s']:.0f} | {ratios[0]} | {ratios[1]} | {row['added_mb']:.0f} |"
        )
    return "\n".join(lines)


def measure(contender: str, path: Path) -> dict[str, float]:
    """Loads in this process: the first for its memory, some more for the time."""
    load = loader(contender)
    with tempfile.TemporaryDirectory() as folder:
        load(generate(Path(folder) / "tiny.json.gz", 0))
    before = _resident_bytes(reset_peak=True)
    loads = [_loaded(load, path)]
    added = _peak_bytes() - before
    if loads[0].cpu_s < LONG_S:
        loads = [_loaded(load, path) for _ in range(WARM_LOADS)]
    megabytes = sum(len(block) for block in _blocks(path)) / 1e6
    return {
        "rows": loads[0].rows, "megabytes": megabytes, "added_mb": added / 1e6,
        "cpu_s": statistics.median(one.cpu_s for one in loads), "wall_s": statistics.median(one.wall_s for one in loads),
    }  # fmt: skip


class Load(NamedTuple):
    """What one load took."""

    rows: int
    cpu_s: float
    wall_s: float


def _loaded(load: Callable[[Path], int], path: Path) -> Load:
    cpu, wall = time.process_time(), time.perf_counter()
    rows = load(path)
    return Load(rows, time.process_time() - cpu, time.perf_counter() - wall)


def loader(contender: str) -> Callable[[Path], int]:
    """The function that loads a trace and says how many rows it has; imports happen here."""
    if contender == "hta":
        from hta.common.trace import parse_trace_file  # type: ignore[import-not-found]

        return lambda path: len(parse_trace_file(str(path))[1])
    if contender == "json":
        return lambda path: _loop(json.loads(gzip.decompress(path.read_bytes())))
    if contender == "orjson":
        import orjson

        return lambda path: _loop(orjson.loads(gzip.decompress(path.read_bytes())))
    if contender == "tracelens":
        from TraceLens import TreePerfAnalyzer  # type: ignore[import-not-found]

        return lambda path: len(_tracelens_table(TreePerfAnalyzer.from_file(str(path))))
    if contender == "table":
        from shapescope.analyse.names import name_frame
        from shapescope.read.run import open_run

        return lambda path: open_run(path, namer=name_frame).kernels("op").height
    from shapescope.read.chrome import decode_with
    from shapescope.read.compiled import CompiledReader
    from shapescope.read.fallback import FallbackReader

    reader = CompiledReader if contender.startswith("compiled") else FallbackReader
    python = "modules" if contender.endswith("modules") else "all"
    return lambda path: decode_with(reader, path, python)[0].events.height


def _tracelens_table(analyzer: Any) -> Any:
    return analyzer.get_df_kernel_launchers_unique_args(analyzer.get_df_kernel_launchers())


def _loop(trace: dict[str, Any]) -> int:
    """The same columns with a loop over the events: what one writes without a library for it."""
    from shapescope.read.columns import TIMES
    from shapescope.read.walker import ARGS_FIELDS, EVENT_FIELDS

    columns: dict[str, list[Any]] = {column: [] for column in (*EVENT_FIELDS.values(), *ARGS_FIELDS.values())}
    event_fields = [(key, columns[column].append) for key, column in EVENT_FIELDS.items() if key not in TIMES]
    args_fields = [(key, columns[column].append) for key, column in ARGS_FIELDS.items()]
    for event in trace["traceEvents"]:
        for key in TIMES:
            value = event.get(key)
            columns[key].append(None if value is None else round(value * 1000))
        for key, append in event_fields:
            append(event.get(key))
        args = event.get("args") or {}
        for key, append in args_fields:
            append(args.get(key))
    return len(columns["ph"])


def generate(path: Path, megabytes: int) -> Path:
    """A trace like those of a capture with stacks, in Kineto's order: ops with dims, then Python frames (nine events in
    ten), then launches and kernels."""
    if path.exists():
        return path
    step_bytes = sum(len("".join(group(0))) for group in _GROUPS)
    steps = max(1, megabytes * 1_000_000 // step_bytes)
    with gzip.open(path, "wt", compresslevel=1) as file:
        file.write('{"schemaVersion": 1, "distributedInfo": {"rank": 0, "world_size": 1}, "traceEvents": [\n')
        for group in _GROUPS:
            for step in range(steps):
                file.write("".join(group(step)))
        last = '{"name": "Record Window End", "ph": "i", "pid": "", "tid": "", "ts": 4909733372604.521}'
        file.write(last + '\n], "traceName": "generated", "baseTimeNanoseconds": 1719853884000000000}\n')
    return path


def _start(step: int) -> float:
    return 4909733314358.856 + step * 250


def _ops(step: int) -> Iterator[str]:
    for op in range(8):
        number = step * 8 + op
        yield (
            f'  {{\n    "ph": "X", "cat": "cpu_op", "name": "aten::op_{op}", "pid": 251, "tid": 251,\n'
            f'    "ts": {_start(step) + 100 + op:.3f}, "dur": 3.250,\n    "args": {{\n      "External id": {number},'
            f'"Record function id": 0, "Input Dims": [[{2 ** (op % 6)}, 4096], []], '
            f'"Input type": ["c10::BFloat16", "Scalar"], "Input Strides": [[4096, 1], []], '
            f'"Concrete Inputs": ["", "1"], "Ev Idx": {number}\n    }}\n  }},\n'
        )


def _frames(step: int) -> Iterator[str]:
    for frame in range(180):
        number = step * 180 + frame
        code = f"model/layers_{frame % 60}.py({frame}): forward_{frame % 97}"
        name = code if frame else f"nn.Module: Layer_{step % 36}"
        yield (
            f'  {{\n    "ph": "X", "cat": "python_function", "name": "{name}", "pid": 251, "tid": 251,\n'
            f'    "ts": {_start(step) + frame:.3f}, "dur": {frame % 50 + 0.125:.3f},\n    "args": {{\n      '
            f'"Python id": {number}, "Python parent id": {number - 1}, "Ev Idx": {number}\n    }}\n  }},\n'
        )


def _kernels(step: int) -> Iterator[str]:
    for op in range(8):
        number = step * 8 + op
        yield (
            f'  {{\n    "ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 251, "tid": 251,\n'
            f'    "ts": {_start(step) + 101 + op:.3f}, "dur": 1.500,\n    "args": {{\n'
            f'      "External id": {number}, "cbid": 211, "correlation": {number}\n    }}\n  }},\n'
            f'  {{\n    "ph": "X", "cat": "kernel", "name": "void kernel_{op}<float>(float*)", "pid": 0, "tid": 7,\n'
            f'    "ts": {_start(step) + 120 + op:.3f}, "dur": 2.048,\n    "args": {{\n'
            f'      "External id": {number}, "device": 0, "stream": 7, "correlation": {number}, "context": 1,\n'
            f'      "registers per thread": 32, "shared memory": 0, "grid": [{op + 1}, 1, 1], '
            f'"block": [256, 1, 1]\n    }}\n  }},\n'
        )


_GROUPS = (_ops, _frames, _kernels)


def _blocks(path: Path) -> Iterator[bytes]:
    with gzip.open(path) as file:
        while block := file.read(1 << 20):
            yield block


def _status(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise SystemExit(f"/proc/self/status has no {field}: memory can be measured on Linux only")


def _resident_bytes(reset_peak: bool) -> int:
    if reset_peak:
        Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def _peak_bytes() -> int:
    return _status("VmHWM")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--contenders", default=",".join(CONTENDERS))
    parser.add_argument("--hta", metavar="PYTHON")
    parser.add_argument("--tracelens", metavar="CHECKOUT")
    parser.add_argument("--generate", metavar="MB,..")
    parser.add_argument("--folder", type=Path, default=Path("generated"))
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
