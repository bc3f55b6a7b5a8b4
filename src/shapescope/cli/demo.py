"""`shapescope demo`: the main job, self-contained."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shapescope.cli.options import NoColorOption, QuietOption, console

if TYPE_CHECKING:
    from shapescope.settings import RecordingSettings


def demo(
    model: Annotated[str, typer.Option(help="qwen3-tiny, llama-tiny, or the folder of a causal LM.")] = "qwen3-tiny",
    sizes: Annotated[str, typer.Option(help="Batch sizes to capture.")] = "1,2,4,8,16",
    context: Annotated[str, typer.Option(help="Context lengths to replay at; 1 stands for dummy inputs.")] = "1",
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:<n>.")] = "auto",
    backend: Annotated[
        str, typer.Option(help="auto, full (device graph), tape (CPU), segmented or compiled.")
    ] = "auto",
    detail: Annotated[str, typer.Option(help="full: shapes, stacks and memory; light: shapes.")] = "full",
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Where runs go.", show_default="./shapescope-runs")
    ] = None,
    quiet: QuietOption = False,
    no_color: NoColorOption = False,
) -> None:
    """Capture one decode graph per batch size, record each, replay each, and show the shapes.

    Example: shapescope demo --sizes 1,2,4,8,16 -o runs
    """
    from shapescope.graphs.runner import checked_sizes

    numbers, contexts = checked_sizes(_numbers(sizes, "--sizes")), _numbers(context, "--context")
    folder = _record(model, numbers, contexts, device, backend, _settings(output, detail), quiet)
    _show(folder, no_color)


def _numbers(text: str, option: str) -> list[int]:
    from shapescope.errors import UsageError

    try:
        return [int(word) for word in text.split(",")]
    except ValueError as error:
        raise UsageError(
            f"{option} {text!r} is no list of whole numbers", f"Pass numbers as in {option} 1,2,4."
        ) from error


def _settings(output: Path | None, detail: str) -> RecordingSettings:
    from shapescope.errors import UsageError
    from shapescope.settings import Detail, Mode, RecordingSettings

    if detail not in list(Detail):
        raise UsageError(f"unknown detail {detail!r}", f"Pass {' or '.join(Detail)}.")
    return RecordingSettings(Mode.PER_SHAPE, folder=str(output) if output else None, detail=Detail(detail))


def _record(
    model: str,
    sizes: list[int],
    contexts: list[int],
    device: str,
    backend: str,
    settings: RecordingSettings,
    quiet: bool,
) -> Path:
    from shapescope.errors import MissingDependencyError

    try:
        import torch

        from shapescope.device import open_device
        from shapescope.engines.decode.model import load_model
        from shapescope.engines.decode.record import record_decode
    except ImportError as error:
        raise MissingDependencyError(error.name or "torch", "record") from error
    where = open_device(device, keep_graphs=True)
    if where.kind == "cpu":
        torch.set_num_threads(1)  # so that two runs of the same code take the same time, whatever else the machine does
    if not quiet:
        print(f"Capturing {model} at {', '.join(map(str, sizes))} requests on {where.name} ..", file=sys.stderr)
    loaded = load_model(model, device=where.torch_device)
    return record_decode(
        loaded, sizes, settings, device=where, contexts=contexts, backend=backend, model_name=model
    )  # fmt: skip


def _show(folder: Path, no_color: bool) -> None:
    from shapescope.cli.options import opened
    from shapescope.show import tables
    from shapescope.show.console import show

    screen = console(no_color)
    show(screen, tables.shapes(opened(folder)), columns=tables.DEMO_SHOWN)
    where = str(folder.relative_to(Path.cwd())) if folder.is_relative_to(Path.cwd()) else str(folder)
    screen.print(f"\nThe run is in {where}", soft_wrap=True)
    screen.print("Next:", style="bold")
    for line in (
        f"shapescope kernels {where} --size 8 --by family",
        f"shapescope shapes {where} --format json",
        f"shapescope check {where}",
    ):
        screen.print(f"  {line}", soft_wrap=True)
