"""One start-up of SGLang in a process of its own, with its own capture traces or with ours, and what became of it."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cuda_on_cpu
import msgspec
import tiny_engine as engine
import torch
from sglang.srt.plugins import load_plugins

from shapescope.device import AcceleratorDevice
from shapescope.record import start

Scenario = Callable[[], Iterable[Any]]

SPECULATIVE = {
    "speculative_algorithm": "EAGLE",
    "speculative_num_steps": engine.STEPS,
    "speculative_num_draft_tokens": engine.STEPS + 1,
    "speculative_eagle_topk": 1,
}


class Outcome(msgspec.Struct):
    """What one process saw: the graphs that it captured, what it died of, what it logged, what it left switched on."""

    captures: int = 0
    segments: int = 0
    error: str = ""
    log: str = ""
    memory_history_left_on: bool = False
    notes: dict[str, Any] = {}


# What a start-up has to say of itself beyond that, in its own process.
notes: dict[str, Any] = {}


class Side(msgspec.Struct, frozen=True):
    """Whose recording is on: its variables, and whether the engine starts with `--enable-profile-cuda-graph`."""

    name: str
    variables: dict[str, str]
    folder_variable: str
    engine_profiler: bool = False


SGLANG = Side("SGLang's own", {"SGLANG_GRAPH_BATCH_CAPTURE": "1"}, "SGLANG_TORCH_PROFILER_DIR", engine_profiler=True)
OURS = Side("shapescope", {"SHAPESCOPE_GRAPH_BATCH_CAPTURE": "1"}, "SHAPESCOPE_PROFILER_DIR")
NOBODY = Side("nobody", {}, "SHAPESCOPE_PROFILER_DIR")


def traces(folder: Path, evidence: str = "") -> list[Path]:
    """The per-shape traces below `folder`, by their final names: those of the captures, or another evidence's."""
    ending = f".{evidence}.json.gz" if evidence else ".json.gz"
    found = folder.rglob(f"graph_capture_profile/*{ending}")
    return sorted(path for path in found if "." not in path.name.removesuffix(ending))


def working_folder(folder: Path) -> Path:
    """Where the process of a scenario stands: beside the folder that it records into."""
    return folder.with_name(f"{folder.name}-cwd")


def run(side: Side, scenario: Scenario, folder: Path, **places: int) -> Outcome:
    """Run a scenario in a fork of this process. It yields runners as they are captured; `places` is the rank to be."""
    return _started(side, scenario, folder, places)()


def run_together(side: Side, scenario: Scenario, folder: Path, size: int) -> list[Outcome]:
    """Run a scenario as the ranks of one tensor parallel world, all at once."""
    meeting = Path(tempfile.mkdtemp()) / "rendezvous"
    children = [_started(side, scenario, folder, {"world": (rank, size, meeting)}) for rank in range(size)]
    return [finish() for finish in children]


def _started(side: Side, scenario: Scenario, folder: Path, options: Mapping[str, Any]) -> Callable[[], Outcome]:
    folder.mkdir(parents=True, exist_ok=True)
    reader, writer = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.get_context("fork").Process(
        target=_start_up, args=(side, scenario, folder, options, writer)
    )
    child.start()
    writer.close()

    def finish() -> Outcome:
        outcome = msgspec.json.decode(reader.recv_bytes(), type=Outcome)
        child.join()
        return outcome

    return finish


def _start_up(side: Side, scenario: Scenario, folder: Path, options: Mapping[str, Any], writer: Any) -> None:
    outcome = Outcome()
    os.environ.update(side.variables)
    os.environ[side.folder_variable] = str(folder)
    working_folder(folder).mkdir(exist_ok=True)
    os.chdir(working_folder(folder))
    # Our recorder is to see the stand-in as the device that it stands for.
    start.open_device = lambda: AcceleratorDevice(torch.cuda, torch.device("cpu"))  # type: ignore[attr-defined,assignment]
    with _kept_quiet(outcome), engine.running(profile=side.engine_profiler, **options):
        load_plugins()
        try:
            for runner in scenario():
                outcome.captures += len(runner.backend._graphs)
        except Exception as error:
            outcome.error = traceback.format_exception_only(error)[-1].splitlines()[0]
    outcome.notes = notes
    outcome.segments = cuda_on_cpu.log.segments
    outcome.memory_history_left_on = cuda_on_cpu.log.memory_history
    writer.send_bytes(msgspec.json.encode(outcome))


@contextlib.contextmanager
def _kept_quiet(outcome: Outcome) -> Iterator[None]:
    """Keep what is logged, and print nothing of it: progress bars and torch's own lines go nowhere."""

    class Keeper(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            outcome.log += f"{record.name}: {record.getMessage()}\n"

    logging.basicConfig(level=logging.INFO, handlers=[Keeper()], force=True)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)
    yield


# The start-ups.


def replayed_decode() -> Iterator[Any]:
    """Decode graphs, and what a replay of one gives and costs."""
    runner = engine.decode(plain_output=True)
    yield runner
    _note_replay(runner)


def debugged_decode() -> Iterator[Any]:
    """`--debug-cuda-graph`: a replay runs the eager forward that was handed to the capture. It holds no second break."""
    engine.attend = engine.attend.run_eager
    engine.configure(decode="breakable", debug_cuda_graph=True)
    runner = engine.decode(plain_output=True)
    yield runner
    _note_replay(runner)


def _note_replay(runner: Any) -> None:
    runner.buffers.input_ids[:4] = torch.tensor([3, 1, 4, 1])
    runner.backend.replay(engine.ShapeKey(4), None)  # the first one builds the tape's launches
    called: list[str] = []
    sys.setprofile(lambda frame, event, argument: called.append(frame.f_code.co_name) if event == "call" else None)
    output = runner.backend.replay(engine.ShapeKey(4), None)
    sys.setprofile(None)
    model = runner.model_runner.model
    ids, batch = runner.buffers.input_ids[:4], SimpleNamespace(batch_size=4, spec_info=None)
    notes["same as eager"] = bool(torch.equal(output, model(ids, ids, batch)))
    notes["calls"] = called


def decode() -> Iterator[Any]:
    yield engine.decode()


def breakable_decode() -> Iterator[Any]:
    engine.configure(decode="breakable")
    yield engine.decode(plain_output=True)


def failing_decode() -> Iterator[Any]:
    yield engine.decode(broken_at=2)


def decode_and_draft() -> Iterator[Any]:
    engine.configure(**SPECULATIVE)
    yield engine.decode(algorithm=engine.SpeculativeAlgorithm.EAGLE)
    yield engine.eagle_draft()


def rejection_sampling() -> Iterator[Any]:
    engine.configure(**SPECULATIVE, speculative_use_rejection_sampling=True)
    yield engine.eagle_draft()


def multi_layer_eagle() -> Iterator[Any]:
    engine.configure(**SPECULATIVE)
    yield from engine.multi_layer_eagle().runners


def tree_uno() -> Iterator[Any]:
    engine.configure(**{**SPECULATIVE, "speculative_algorithm": "UNO", "speculative_eagle_topk": 2})
    yield engine.tree_uno_verify()
    yield engine.tree_uno_draft()


def adaptive_speculation() -> Iterator[Any]:
    """Each tier is configured while it is built, as the worker does: the runners of all tiers are of the same classes."""
    for steps in (1, 3):
        tier = {"speculative_num_steps": steps, "speculative_num_draft_tokens": steps + 1}
        engine.configure(**{**SPECULATIVE, **tier}, speculative_adaptive=True)
        yield engine.decode(algorithm=engine.SpeculativeAlgorithm.EAGLE)
        yield engine.eagle_draft(steps)
        yield engine.eagle_draft_extend(steps)


def recapture() -> Iterator[Any]:
    """A weight update captures the decode graphs anew, in a new runner."""
    yield engine.decode()
    yield engine.decode()


def breakable_prefill() -> Iterator[Any]:
    yield engine.prefill()


def full_prefill() -> Iterator[Any]:
    engine.configure(prefill="full")
    yield engine.prefill()


def single_graph_eagle() -> Iterator[Any]:
    engine.configure(**SPECULATIVE)
    yield engine.single_graph_eagle().runners[0]


def xpu_decode() -> Iterator[Any]:
    yield engine.xpu_decode()


def vision_encoder() -> Iterator[Any]:
    """Two batches of as many patches, cut into images differently, and one that is seen again."""
    runner = engine.vision_encoder((8, 8), (4, 12), (8, 8))
    yield SimpleNamespace(backend=SimpleNamespace(_graphs=runner.block_graphs))
