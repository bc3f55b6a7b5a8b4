"""`shapescope coverage`: captured sizes against real traffic."""

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
    place,
)


def coverage(
    run: RunArgument,
    traffic: Annotated[
        list[Path] | None,
        typer.Option(
            "--traffic",
            help="A trace of serving, or a folder of them; RUN's own steps if left out.",
            parser=place,
            show_default=False,
        ),
    ] = None,
    format: FormatOption = Format.TABLE,
    top: TopOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
    no_color: NoColorOption = False,
    cache: CacheOption = True,
) -> None:
    """Captured sizes against real traffic: steps without a graph, padding, and the sizes that would help most.

    Example: shapescope coverage shapescope-runs/<run id> --traffic serving.trace.json.gz
    """
    from shapescope.show import tables

    result = tables.coverage(opened(run, cache=cache), [opened(path, cache=cache) for path in traffic or ()])
    raise typer.Exit(
        emit(
            result,
            format=format,
            top=top,
            quiet=quiet,
            verbose=verbose,
            no_color=no_color,
        )
    )
