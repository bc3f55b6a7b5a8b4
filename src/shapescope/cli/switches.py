"""`shapescope switches`: where the kernel choice changes from one size to the next."""

from __future__ import annotations

from typing import Annotated

import typer

from shapescope.cli.options import (
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


def switches(
    run: RunArgument,
    tiles: Annotated[bool, typer.Option("--tiles", help="Show changes of tile alone, too.")] = False,
    format: FormatOption = Format.TABLE,
    top: TopOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
    no_color: NoColorOption = False,
) -> None:
    """Where the kernel choice changes from one size to the next: cliffs, islands, steps, fallbacks.

    Example: shapescope switches shapescope-runs/<run id>
    """
    from shapescope.show import tables

    result = tables.switches(opened(run), tiles=tiles)
    raise typer.Exit(
        emit(
            result,
            format=format,
            top=top,
            quiet=quiet,
            verbose=verbose,
            no_color=no_color,
            columns=tables.SWITCHES_SHOWN,
        )
    )
