"""The nine defects of SGLang's own capture traces: does each show with its own feature, and with ours?

Each is looked for by running SGLang 0.5.23's real capture code and looking at what it left on the disk. Run by
`make test-sglang`; exits 1 where one shows with ours, or where one does not show with SGLang's own: then this file looks
for the wrong thing.
"""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import scenarios
import tiny_engine as engine
from scenarios import OURS, SGLANG, Outcome, Side, traces

from shapescope.model import Evidence, ManifestRow, Status
from shapescope.store.manifest import read_manifests

# One run of the tiny model: each layer has two matrix products, the head a last one; embedding and body are modules too.
PRODUCTS = 2 * engine.LAYERS + 1
MODULE_CALLS = 3 * engine.LAYERS + 3


@dataclass(frozen=True, slots=True)
class Finding:
    """Whether a defect shows, and what was seen."""

    shows: bool
    seen: str


def breakable_start_up(side: Side, folder: Path) -> Finding:
    outcome = scenarios.run(side, scenarios.breakable_decode, folder)
    all_captured = outcome.segments == len(engine.SIZES) * (engine.LAYERS + 1)
    died = bool(outcome.error) and all_captured
    lost = len(traces(folder)) < len(engine.SIZES)
    return Finding(
        died or lost, f"captured all, then died: {outcome.error}" if died else f"started, {_files(folder, outcome)}"
    )


def colliding_names(side: Side, folder: Path) -> Finding:
    causes = ("rejection_sampling", "multi_layer_eagle", "tree_uno", "adaptive_speculation", "recapture")
    lost, seen = 0, []
    for cause in causes:
        outcome = scenarios.run(side, getattr(scenarios, cause), folder / cause)
        written = len(traces(folder / cause))
        lost += outcome.captures - written
        seen.append(f"{cause.replace('_', ' ')} {written} of {outcome.captures}")
    return Finding(lost > 0, "files of captures: " + ", ".join(seen))


def ranks_overwrite(side: Side, folder: Path) -> Finding:
    """Two pipeline stages, two replicas and a restart share a folder."""
    places: list[dict[str, int]] = [
        {"pp_rank": 0, "pp_size": 2},
        {"pp_rank": 1, "pp_size": 2},
        {"dp_rank": 0, "dp_size": 2},
        {"dp_rank": 1, "dp_size": 2},
        {},
    ]
    captures = sum(scenarios.run(side, scenarios.decode, folder, **place).captures for place in places)
    written = len(traces(folder))
    return Finding(written < captures, f"{written} files of {captures} captures by {len(places)} processes")


def one_memory_snapshot(side: Side, folder: Path) -> Finding:
    for tp_rank in (0, 1):
        scenarios.run(side, scenarios.decode_and_draft, folder, tp_rank=tp_rank, tp_size=2)
    outside = list(scenarios.working_folder(folder).rglob("*.pickle"))
    snapshots = [*folder.rglob("*.pickle"), *outside]
    return Finding(
        len(snapshots) < 4 or bool(outside),
        f"{len(snapshots)} snapshots of 2 runners on 2 ranks, {len(outside)} of them in the working directory",
    )


def failure_in_mid_capture(side: Side, folder: Path) -> Finding:
    outcome = scenarios.run(side, scenarios.failing_decode, folder)
    assert "illegal memory access" in outcome.error, "the engine's own exception must come through"
    partial = [path.name for path in traces(folder) if "_bs_2_" in path.name]
    history = "left on" if outcome.memory_history_left_on else "off again"
    return Finding(
        bool(partial) or outcome.memory_history_left_on,
        f"the failed shape has {partial[0] if partial else 'no trace'}, memory history {history}",
    )


def full_disk(side: Side, folder: Path) -> Finding:
    with _small_disk(folder):
        outcome = scenarios.run(side, scenarios.decode, folder)
        broken = [path.name for path in traces(folder) if not _readable(path)]
        whole = len(traces(folder)) - len(broken)
        named = sum(row.status is Status.FAILED for row in _captures(folder))
    died = f"start-up died: {outcome.error}" if outcome.error else f"started with {outcome.captures} graphs"
    return Finding(
        bool(outcome.error or broken), f"{died}; {whole} whole and {len(broken)} truncated files, {named} losses named"
    )


def no_summary(side: Side, folder: Path) -> Finding:
    """How many runs of the model the tables count: by its matrix products, or by its modules' calls where only those show."""
    outcome = scenarios.run(side, scenarios.decode, folder)
    tables = outcome.log + "".join(path.read_text() for path in folder.rglob("summary-*.txt"))
    products = re.search(r"(\d+)\s+aten::linear$", tables, re.MULTILINE)
    calls = re.search(r"_call_impl .*?(\d+)\s+\[\]", tables)
    runs = int(products[1]) // PRODUCTS if products else int(calls[1]) // MODULE_CALLS if calls else 0
    listed = {row.key.shape.size for row in _captures(folder) if row.key is not None and row.launches}
    return Finding(
        runs < outcome.captures or listed != set(engine.SIZES),
        f"tables over {runs} runs of the model for {outcome.captures} captures, manifest of {len(listed)}",
    )


def no_kernel_times(side: Side, folder: Path) -> Finding:
    """A capture executes nothing on a device. A shape has times only where a run of it, warm-up or replay, was recorded."""
    outcome = scenarios.run(side, scenarios.decode, folder)
    executed = [path for path in traces(folder, "warmup") if _products_with_time(path) == PRODUCTS]
    captured = [path for path in traces(folder) if _products_with_time(path) == PRODUCTS]
    assert len(captured) == outcome.captures == len(engine.SIZES)
    return Finding(
        len(executed) < outcome.captures,
        f"{len(executed)} of {outcome.captures} shapes have a trace of an executed run",
    )


def paths_without_traces(side: Side, folder: Path) -> Finding:
    lost, seen = 0, []
    for path in (
        "breakable_prefill",
        "full_prefill",
        "breakable_decode",
        "single_graph_eagle",
        "vision_encoder",
        "xpu_decode",
    ):
        outcome = scenarios.run(side, getattr(scenarios, path), folder / path)
        written = len(traces(folder / path))
        expected = outcome.captures or len(engine.SIZES)
        lost += expected - written
        seen.append(f"{path.replace('_', ' ')} {written} of {expected}")
    return Finding(lost > 0, "files of captures: " + ", ".join(seen))


DEFECTS: dict[str, Callable[[Side, Path], Finding]] = {
    "breakable backend: start-up dies after its captures": breakable_start_up,
    "file names collide, the last writer wins": colliding_names,
    "only the TP rank is in the name": ranks_overwrite,
    "one memory snapshot for all ranks and runners": one_memory_snapshot,
    "a failed capture leaves a partial trace, history on": failure_in_mid_capture,
    "a full disk aborts start-up, truncates a file": full_disk,
    "tables cover the last shape only, no manifest": no_summary,
    "no kernel durations": no_kernel_times,
    "paths without per-shape traces": paths_without_traces,
}


@contextmanager
def _small_disk(folder: Path) -> Iterator[None]:
    """A file system too small for all traces of a start-up."""
    folder.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=40k", "tmpfs", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def _files(folder: Path, outcome: Outcome) -> str:
    return f"{len(traces(folder))} files of {outcome.captures} captures"


def _captures(folder: Path) -> list[ManifestRow]:
    rows = [row for run in folder.glob("*/run.json") for _, row in read_manifests(run.parent)]
    return [row for row in rows if isinstance(row, ManifestRow) and row.evidence is Evidence.CAPTURE]


def _events(path: Path) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    return events


def _products_with_time(path: Path) -> int:
    """The matrix products in a trace, by the op that the CPU executes for them."""
    return sum(event.get("name") == "aten::linear" and event.get("dur", 0) > 0 for event in _events(path))


def _readable(path: Path) -> bool:
    try:
        return bool(_events(path))
    except (OSError, EOFError, ValueError):
        return False


def main() -> int:
    print(f"SGLang {engine.VERSION}: which of the nine defects of its capture traces show", flush=True)
    wrong = 0
    with tempfile.TemporaryDirectory() as scratch:
        for number, (title, look) in enumerate(DEFECTS.items(), start=1):
            print(f"{number}. {title}")
            for side, expected in ((SGLANG, True), (OURS, False)):
                finding = look(side, Path(scratch) / str(number) / side.folder_variable)
                wrong += finding.shows is not expected
                print(
                    f"     {side.name:<14} {'shows' if finding.shows else 'does not show':<14} {finding.seen}",
                    flush=True,
                )
    print(f"{2 * len(DEFECTS) - wrong} passed, {wrong} failed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
