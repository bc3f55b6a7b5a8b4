"""`shapescope doctor`: what this machine can record, and a smoke test of the real path."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shapescope.cli.options import Format, FormatOption, NoColorOption, QuietOption, VerboseOption, emit, opened

if TYPE_CHECKING:
    from shapescope.record.capability import Capability

RULE_FAILED = 1
_SIZES = (1, 4)


def doctor(
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:<n>.")] = "auto",
    format: FormatOption = Format.TABLE,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
    no_color: NoColorOption = False,
) -> None:
    """What can be recorded here, what not and why, and a smoke test: capture, record, read back, replay against eager.

    Example: shapescope doctor
    """
    from shapescope.errors import MissingDependencyError
    from shapescope.show.result import Result

    try:
        from shapescope.device import open_device
        from shapescope.record.capability import capabilities
    except ImportError as error:
        raise MissingDependencyError(error.name or "torch", "record") from error
    from shapescope.store.layout import root_folder

    where = open_device(device, keep_graphs=True)
    found = [*capabilities(where, root_folder(os.environ)), *_smoke_test(device)]
    rows = [
        {"check": one.name, "status": {True: "ok", False: "failed", None: "-"}[one.works], "detail": one.detail}
        for one in found
    ]
    result = Result("doctor", "", ("check", "status", "detail"), rows)
    code = emit(result, format=format, quiet=quiet, verbose=verbose, no_color=no_color)
    raise typer.Exit(code or (RULE_FAILED if any(one.works is False for one in found) else 0))


def _smoke_test(name: str) -> Iterator[Capability]:
    """Two sizes through the real path, in a folder that goes away again."""
    import torch

    from shapescope.device import open_device
    from shapescope.graphs.runner import GraphRunner
    from shapescope.record.capability import Capability
    from shapescope.record.measure import measure_replays
    from shapescope.record.start import start
    from shapescope.settings import Detail, Mode, RecordingSettings

    device = open_device(name, keep_graphs=True)
    weight = torch.randn(64, 64, device=device.torch_device)

    def step(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x @ weight)

    with tempfile.TemporaryDirectory() as folder:
        settings = RecordingSettings(Mode.PER_SHAPE, folder, Detail.FULL, measure=3)
        profiler = start(settings, engine="doctor", device=device, environment={})
        buffers = {"x": torch.zeros(_SIZES[-1], 64, device=device.torch_device)}
        runner = GraphRunner(step, buffers, _SIZES, name="Doctor", device=device, observer=profiler)
        runner.capture()
        yield Capability("capture", True, f"{len(_SIZES)} sizes captured and recorded")
        batch = torch.randn(_SIZES[-1], 64, device=device.torch_device)
        yield Capability("replay", torch.equal(runner(x=batch).output, step(batch)), "a replay equals eager to the bit")
        replays = {key: partial(runner.backend.replay, key) for key in runner.keys}
        measure_replays(profiler, replays, context_len=1)
        yield _read_back(profiler.session.folder)


def _read_back(folder: Path) -> Capability:
    from shapescope.record.capability import Capability

    shapes = opened(folder).shapes()
    launched, seen = shapes["launches"].to_list(), shapes["completeness"].to_list()
    whole = shapes["status"].to_list() == ["ok"] * len(_SIZES) and seen == [1.0] * len(_SIZES)
    detail = f"{launched} launches captured; replays show {', '.join('none' if s is None else f'{s:.0%}' for s in seen)} of them"
    return Capability("read back", whole, detail)
