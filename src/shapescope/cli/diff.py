"""`shapescope diff`: run against run."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

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

RULE_FAILED = 1


class By(StrEnum):
    """What is compared."""

    OP = "op"
    FAMILY = "family"
    CLASS = "class"


def diff(
    base: Annotated[
        Path, typer.Argument(metavar="BASE", help="The run to compare with.", parser=place, show_default=False)
    ],
    head: Annotated[Path, typer.Argument(metavar="HEAD", help="The run to judge.", parser=place, show_default=False)],
    by: Annotated[By, typer.Option("--by", help="What a row is; class compares engines or vendors.")] = By.OP,
    fail_on: Annotated[
        list[str] | None,
        typer.Option("--fail-on", help="Exit 1 on 'time>5%' or on a kernel 'switch'.", show_default=False),
    ] = None,
    allow_env_change: Annotated[
        bool, typer.Option("--allow-env-change", help="Compare runs of different devices or versions.")
    ] = False,
    format: FormatOption = Format.TABLE,
    top: TopOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
    no_color: NoColorOption = False,
    cache: CacheOption = True,
) -> None:
    """Run against run, per size and op: slower, faster, replaced, added, removed, or too few replays to tell.

    Example: shapescope diff runs/before runs/after --fail-on 'time>5%'
    """
    from shapescope.analyse import diff as diff_of
    from shapescope.errors import NotComparableError
    from shapescope.show import tables

    rules = [diff_of.Rule.parse(text) for text in fail_on or ()]
    asked = [rule.slower_than for rule in rules if rule.slower_than is not None]
    before, after = opened(base, cache=cache), opened(head, cache=cache)
    found = diff_of.diff(before, after, by=by.value, smallest=min([diff_of.SMALLEST, *asked]))
    broken = found.broken(rules)
    result = tables.diff(found, before, after, broken)
    shown = result if verbose or format is not Format.TABLE else tables.changes(result)
    code = emit(shown, format=format, top=top, quiet=quiet, verbose=verbose, no_color=no_color)
    if found.environment and not allow_env_change:
        sys.stdout.flush()
        fields = ", ".join(difference.field for difference in found.environment)
        raise NotComparableError(f"the runs' environments differ: {fields}")
    raise typer.Exit(RULE_FAILED if broken else code)
