"""`shapescope ranks`: rank against rank."""

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


def ranks(
    run: RunArgument,
    format: FormatOption = Format.TABLE,
    top: TopOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
    no_color: NoColorOption = False,
    cache: CacheOption = True,
) -> None:
    """Rank against rank: who is late, who waits, what the transfer takes, which kernels differ.

    Example: shapescope ranks traces/
    """
    result = answer("ranks", run, cache=cache)
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
