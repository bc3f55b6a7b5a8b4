"""`shapescope record`: run an engine, or any program, with recording switched on."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shapescope.cli.options import QuietOption

if TYPE_CHECKING:
    from shapescope.record.launch import Launched


def record(
    command: Annotated[list[str], typer.Argument(help="What to run, after --.", show_default=False)],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Where runs go.", show_default="./shapescope-runs")
    ] = None,
    mode: Annotated[
        str | None,
        typer.Option(
            help="per-shape, combined (one trace per runner) or summary (tables only).", show_default="per-shape"
        ),
    ] = None,
    detail: Annotated[
        str | None, typer.Option(help="full: shapes, stacks and memory; light: shapes.", show_default="full")
    ] = None,
    measure: Annotated[
        int | None, typer.Option(min=0, help="Time this many replays of each graph.", show_default=False)
    ] = None,
    quiet: QuietOption = False,
) -> None:
    """Run a command with recording switched on in it and in all its children. Its exit code is passed on.

    Example: shapescope record -o runs -- python -m sglang.launch_server --model-path ..
    """
    import os

    from shapescope.record.launch import launch
    from shapescope.settings import Mode, detail_named, mode_named, recording_settings

    settings = recording_settings()
    asked = Mode.PER_SHAPE if settings.mode is Mode.OFF else settings.mode
    settings = replace(
        settings,
        mode=mode_named(mode) if mode else asked,
        folder=str(output) if output else settings.folder,
        detail=detail_named(detail) if detail else settings.detail,
        measure=settings.measure if measure is None else measure,
    )
    launched = launch(command, settings, os.environ)
    if not quiet:
        print(f"shapescope: {_summary(launched)}", file=sys.stderr)
    raise typer.Exit(launched.exit_code)


def _summary(launched: Launched) -> str:
    if launched.finished is None:
        return "nothing was recorded: no process captured a graph, or none could load shapescope"
    counts = ", ".join(f"{count} {status}" for status, count in sorted(launched.finished.captures.items()))
    return f"captures: {counts or 'none'}. The run is in {launched.folder}"
