"""`shapescope memory`: what each captured size cost."""

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
    emit,
)


def memory(
    run: RunArgument,
    format: FormatOption = Format.TABLE,
    top: TopOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
    no_color: NoColorOption = False,
    cache: CacheOption = True,
) -> None:
    """What each captured size cost: memory by where it was taken, time by phase.

    Example: shapescope memory shapescope-runs/<run id>
    """
    result = answer("memory", run, cache=cache)
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
