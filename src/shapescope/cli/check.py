"""`shapescope check`: what is here, what is missing, what is damaged, which names disagree with their content."""

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
    answer,
    emit,
)

RULE_FAILED = 1


def check(
    run: RunArgument,
    strict: Annotated[bool, typer.Option("--strict", help="Exit 1 where anything is worth a look.")] = False,
    format: FormatOption = Format.TABLE,
    top: TopOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
    no_color: NoColorOption = False,
    cache: CacheOption = True,
) -> None:
    """What is here, what is missing, what is damaged, which names disagree with their content.

    Example: shapescope check traces/ --strict
    """
    result = answer("check", run, cache=cache)
    code = emit(result, format=format, top=top, quiet=quiet, verbose=verbose, no_color=no_color)
    raise typer.Exit(code or (RULE_FAILED if strict and result.warnings else 0))
