"""`shapescope roofline`: what each op had to do, and how near it came to what the device can do."""

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


def roofline(
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
    """FLOPs, bytes, bound and attainment of each op; absolute figures only where the device is unknown.

    Example: shapescope roofline shapescope-runs/<run id> --device MI300X
    """
    from shapescope.analyse.devices import device_named
    from shapescope.analyse.roofline_rows import run_device
    from shapescope.show import tables

    named = device_named(device) if device else None
    found = opened(run, cache=cache)
    result = tables.roofline(found, named or run_device(found))
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
