"""`shapescope export`: data out, for other tools."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from shapescope.cli.options import NoColorOption, OutputOption, QuietOption, RunArgument
from shapescope.cli.perfetto import export_perfetto


class To(StrEnum):
    """What to write."""

    PERFETTO = "perfetto"


def export(
    run: RunArgument,
    to: Annotated[To, typer.Option("--to", help="The format.")] = To.PERFETTO,
    replay: Annotated[
        list[Path] | None,
        typer.Option(
            "--replay", metavar="TRACE", help="The replay to annotate; else the one in RUN.", show_default=False
        ),
    ] = None,
    output: OutputOption = None,
    quiet: QuietOption = False,
    no_color: NoColorOption = False,
) -> None:
    """A replay trace again, each graph kernel with op, dims, module and status in its args.

    Example: shapescope export shapescope-runs/<run id> --to perfetto --replay serving.trace.json.gz -o joined.json.gz
    """
    raise typer.Exit(export_perfetto(run, replay or (), output, quiet=quiet, no_color=no_color))
