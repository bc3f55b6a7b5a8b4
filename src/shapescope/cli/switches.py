"""`shapescope switches`: where the kernel choice changes from one size to the next."""

from __future__ import annotations

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
    console,
    draw,
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
    cache: CacheOption = True,
) -> None:
    """Where the kernel choice changes from one size to the next: cliffs, islands, steps, fallbacks.

    Example: shapescope switches shapescope-runs/<run id>
    """
    from shapescope.show import tables

    found = opened(run, cache=cache)
    result = tables.switches(found, tiles=tiles)
    code = emit(result, format=format, top=top, quiet=quiet, verbose=verbose, no_color=no_color)
    if format is Format.TABLE and not quiet:
        from shapescope.show.heatmap import heat_map

        by_family = tables.kernels(found, by="family")
        draw(heat_map(by_family, result, console(no_color).width), no_color=no_color)
    raise typer.Exit(code)
