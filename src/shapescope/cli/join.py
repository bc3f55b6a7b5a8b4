"""`shapescope join`: replayed kernels with their op, shapes and module."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from shapescope.cli.options import (
    CacheOption,
    Format,
    FormatOption,
    NoColorOption,
    QuietOption,
    RunArgument,
    TopOption,
    VerboseOption,
    emit,
    opened,
)


def join(
    run: RunArgument,
    more: Annotated[
        list[Path] | None, typer.Argument(metavar="[TRACE]...", help="More traces after --replay.", show_default=False)
    ] = None,
    replay: Annotated[
        list[Path] | None,
        typer.Option("--replay", metavar="TRACE..", help="Join these; else the replays in RUN.", show_default=False),
    ] = None,
    stacks: Annotated[bool, typer.Option("--stacks", help="Read the Python stack of each launch, too.")] = False,
    format: FormatOption = Format.TABLE,
    top: TopOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
    no_color: NoColorOption = False,
    cache: CacheOption = True,
) -> None:
    """Replayed kernels with op, dims and module of the launch they came from, and how sure that is.

    Example: shapescope join shapescope-runs/<run id> --replay serving-TP-0.trace.json.gz
    """
    from shapescope.errors import UsageError
    from shapescope.show import tables

    if more and not replay:
        raise UsageError(f"{more[0]}: what is it?", "Name replays with --replay TRACE..")
    result = tables.join(opened(run, replays=[*(replay or ()), *(more or ())], stacks=stacks, cache=cache))
    raise typer.Exit(emit(result, format=format, top=top, quiet=quiet, verbose=verbose, no_color=no_color))
