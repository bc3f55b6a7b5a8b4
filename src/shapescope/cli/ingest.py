"""`shapescope ingest`: read everything once, with all cores or a cluster, so that every other command is quick."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from shapescope.cli.check import RULE_FAILED
from shapescope.cli.options import (
    CacheOption,
    Format,
    FormatOption,
    NoColorOption,
    QuietOption,
    TopOption,
    VerboseOption,
    emit,
    opened,
    place,
)


class On(StrEnum):
    """Where files are read."""

    LOCAL = "local"
    RAY = "ray"
    DASK = "dask"


def ingest(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN..", help="Run folders, folders of traces, trace files.", parser=place, show_default=False
        ),
    ],
    jobs: Annotated[
        int | None, typer.Option("-j", "--jobs", min=1, help="Workers; else one a core.", show_default=False)
    ] = None,
    on: Annotated[On, typer.Option("--on", help="Where files are read.")] = On.LOCAL,
    stacks: Annotated[bool, typer.Option("--stacks", help="Read the Python stack of each launch, too.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit 1 where anything is worth a look.")] = False,
    format: FormatOption = Format.TABLE,
    top: TopOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
    no_color: NoColorOption = False,
    cache: CacheOption = True,
) -> None:
    """Decode and cache every file; one bad file never stops the others.

    Example: shapescope ingest traces/ -j 8
    """
    from shapescope.errors import InputError
    from shapescope.show import tables

    read, errors = [], []
    for path in runs:
        try:
            read.append(opened(path, stacks=stacks, cache=cache, jobs=jobs, where=on))
        except InputError as error:
            errors.append((path, error))
    if not read:
        raise errors[0][1]
    result = tables.ingest(read, errors)
    code = emit(result, format=format, top=top, quiet=quiet, verbose=verbose, no_color=no_color)
    raise typer.Exit(code or (RULE_FAILED if strict and result.warnings else 0))
