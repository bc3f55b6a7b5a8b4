"""All commands under one name."""

from __future__ import annotations

from typing import Annotated

import typer

from shapescope import __version__
from shapescope.cli import (
    check,
    coverage,
    demo,
    diff,
    findings,
    kernels,
    memory,
    ranks,
    roofline,
    shapes,
    switches,
)

app = typer.Typer(
    name="shapescope",
    help="Which kernels serve production at every batch size: record, read and judge graph captures of LLM servers.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

COMMANDS = (
    demo.demo,
    shapes.shapes,
    kernels.kernels,
    switches.switches,
    diff.diff,
    roofline.roofline,
    memory.memory,
    coverage.coverage,
    ranks.ranks,
    findings.findings,
    check.check,
)
for command in COMMANDS:
    app.command()(command)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"shapescope {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Which kernels serve production at every batch size: record, read and judge graph captures of LLM servers."""
