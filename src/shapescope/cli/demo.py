"""`shapescope demo`: the main job, self-contained."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shapescope.cli.options import NoColorOption, QuietOption, console

if TYPE_CHECKING:
    from shapescope.settings import RecordingSettings


@dataclass(frozen=True, slots=True)
class _Request:
    """What to capture."""

    model: str
    sizes: list[int]
    contexts: list[int]
    device: str
    backend: str
    tensor_parallel: int
    draft: bool


def demo(
    model: Annotated[
        str, typer.Option(help="qwen3-tiny, llama-tiny, smollm2, or the folder of a causal LM.")
    ] = "qwen3-tiny",
    sizes: Annotated[
        str, typer.Option(help="Batch sizes to capture: 1,2,4, or max=64 for dense sizes, then sparse ones.")
    ] = "1,2,4,8,16",
    context: Annotated[str, typer.Option(help="Context lengths to replay at; 1 stands for dummy inputs.")] = "1",
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:<n>.")] = "auto",
    backend: Annotated[
        str, typer.Option(help="auto, full (device graph), tape (CPU), segmented or compiled.")
    ] = "auto",
    detail: Annotated[str, typer.Option(help="full: shapes, stacks and memory; light: shapes.")] = "full",
    tp: Annotated[int, typer.Option("--tp", help="Tensor parallel ranks, under torchrun.")] = 1,
    draft: Annotated[bool, typer.Option("--draft", help="Capture a draft and a draft-extend runner, too.")] = False,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Where runs go.", show_default="./shapescope-runs")
    ] = None,
    quiet: QuietOption = False,
    no_color: NoColorOption = False,
) -> None:
    """Capture one decode graph per batch size, record each, replay each, and show the shapes.

    Example: shapescope demo --sizes 1,2,4,8,16 -o runs
    """
    request = _Request(model, _sizes(sizes), _numbers(context, "--context"), device, backend, tp, draft)
    folder = _record(request, _settings(output, detail), quiet)
    if folder is not None:
        _show(folder, no_color)


def _sizes(text: str) -> list[int]:
    """`1,2,4` as it stands; `max=64` as engines choose sizes up to a maximum."""
    from shapescope.graphs.sizes import checked_sizes, sizes_up_to

    if text.startswith("max="):
        return sizes_up_to(_numbers(text.removeprefix("max="), "--sizes max=")[0])
    return checked_sizes(_numbers(text, "--sizes"))


def _numbers(text: str, option: str) -> list[int]:
    from shapescope.errors import UsageError

    try:
        return [int(word) for word in text.split(",")]
    except ValueError as error:
        raise UsageError(
            f"{option} {text!r} is no list of whole numbers", f"Pass numbers as in {option} 1,2,4."
        ) from error


def _settings(output: Path | None, detail: str) -> RecordingSettings:
    from shapescope.settings import Mode, RecordingSettings, detail_named

    return RecordingSettings(Mode.PER_SHAPE, folder=str(output) if output else None, detail=detail_named(detail))


def _no_recording(error: ImportError) -> Exception:
    from shapescope.errors import MissingDependencyError

    return MissingDependencyError(error.name or "torch", "record")


def _record(request: _Request, settings: RecordingSettings, quiet: bool) -> Path | None:
    """The run's folder, on the rank that reports; None on the others."""
    try:
        import torch

        from shapescope.device import open_device
        from shapescope.engines.decode.demo import demo_engines
        from shapescope.engines.decode.parallel import join_world
        from shapescope.engines.decode.record import record_engines
    except ImportError as error:
        raise _no_recording(error) from error
    device = open_device(request.device, keep_graphs=True)
    if device.kind == "cpu":
        torch.set_num_threads(1)  # so that two runs of the same code take the same time, whatever else the machine does
    world = join_world(request.tensor_parallel, device)
    if not quiet and world.rank.rank == 0:
        sizes = ", ".join(map(str, request.sizes))
        print(f"Capturing {request.model} at {sizes} requests on {device.name} ..", file=sys.stderr)
    engines = demo_engines(
        request.model, request.sizes, device=device, backend=request.backend, contexts=request.contexts,
        draft=request.draft, world=world,
    )  # fmt: skip
    folder = record_engines(engines, settings, contexts=request.contexts, model=request.model, world=world)
    world.close()
    return folder if world.rank.rank == 0 else None


def _show(folder: Path, no_color: bool) -> None:
    from dataclasses import replace

    from shapescope.cli.options import draw, opened, write_output
    from shapescope.show import tables
    from shapescope.show.console import show
    from shapescope.show.gather import gather
    from shapescope.show.heatmap import sparklines
    from shapescope.show.html import report
    from shapescope.show.page import payload
    from shapescope.store.layout import REPORT_FILE

    screen = console(no_color)
    run = opened(folder)
    page = gather(run)
    show(screen, replace(page.tables["shapes"], shown=tables.DEMO_SHOWN))
    draw(sparklines(page.tables["shapes"]), no_color=no_color)
    findings = page.tables["findings"]
    if findings.rows:
        screen.print("\nFindings", style="bold")
        show(screen, findings, quiet=True)
    write_output(folder / REPORT_FILE, report(payload(page)).encode())
    where = str(folder.relative_to(Path.cwd())) if folder.is_relative_to(Path.cwd()) else str(folder)
    screen.print(f"\nThe run is in {where}, its page is {where}/{REPORT_FILE}", soft_wrap=True)
    screen.print("Next:", style="bold")
    for line in (
        f"shapescope kernels {where} --size 8 --by family",
        f"shapescope shapes {where} --format json",
        f"shapescope check {where}",
        f"shapescope view {where}",
    ):
        screen.print(f"  {line}", soft_wrap=True)
