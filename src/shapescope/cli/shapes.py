"""`shapescope shapes`: one row a shape."""

from __future__ import annotations

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
    answer,
    draw,
    emit,
)


def shapes(
    run: RunArgument,
    format: FormatOption = Format.TABLE,
    top: TopOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
    no_color: NoColorOption = False,
    cache: CacheOption = True,
) -> None:
    """One row a shape: launches, time per replay and per token, capture time, memory, status.

    Example: shapescope shapes shapescope-runs/<run id>
    """
    result = answer("shapes", run, cache=cache)
    code = emit(result, format=format, top=top, quiet=quiet, verbose=verbose, no_color=no_color)
    if format is Format.TABLE and not quiet:
        from shapescope.show.heatmap import sparklines

        draw(sparklines(result), no_color=no_color)
    raise typer.Exit(code)
