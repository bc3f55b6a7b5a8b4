"""`shapescope findings`: everything worth a look."""

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
    emit,
    opened,
)


def findings(
    run: RunArgument,
    device: Annotated[
        str | None,
        typer.Option("--device", help="The device's name, where the traces do not tell.", show_default=False),
    ] = None,
    format: FormatOption = Format.TABLE,
    top: TopOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
    no_color: NoColorOption = False,
    cache: CacheOption = True,
) -> None:
    """The short list of what costs time, memory or trust, most costly first, each with its evidence.

    Example: shapescope findings shapescope-runs/<run id>
    """
    from shapescope.analyse.devices import device_named
    from shapescope.analyse.roofline_rows import run_device
    from shapescope.show import tables

    named = device_named(device) if device else None
    found = opened(run, cache=cache)
    result = tables.findings(found, device=named or run_device(found))
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
