"""`shapescope kernels`: what runs in each shape."""

from __future__ import annotations

from enum import StrEnum
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
    answer,
    emit,
)


class By(StrEnum):
    """What rows are grouped by."""

    LAUNCH = "launch"
    KERNEL = "kernel"
    FAMILY = "family"
    CLASS = "class"
    OP = "op"
    MODULE = "module"


def kernels(
    run: RunArgument,
    size: Annotated[list[int] | None, typer.Option("--size", help="Only these sizes.", show_default=False)] = None,
    by: Annotated[By, typer.Option("--by", help="What a row is.")] = By.LAUNCH,
    format: FormatOption = Format.TABLE,
    top: TopOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
    no_color: NoColorOption = False,
    cache: CacheOption = True,
) -> None:
    """What runs in each shape: kernel, op, dims, types, module, grid, time.

    Example: shapescope kernels shapescope-runs/<run id> --size 8 --by family
    """
    result = answer("kernels", run, cache=cache, by=by.value, sizes=size)
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
