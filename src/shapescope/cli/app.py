"""All commands under one name."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated

import typer

from shapescope import __version__

# A command is a file of this folder, with a function of its name. Help lists them in this order.
COMMANDS = (
    "demo",
    "record",
    "ingest",
    "shapes",
    "kernels",
    "switches",
    "join",
    "diff",
    "roofline",
    "memory",
    "coverage",
    "ranks",
    "findings",
    "check",
    "report",
    "view",
    "export",
    "doctor",
)

# What follows the name of a program that is to be run is that program's own, after -- or not.
_RUNS_A_PROGRAM = {"record": {"allow_interspersed_args": False}}


def app_for(arguments: list[str]) -> typer.Typer:
    """The commands; where the arguments begin with one, that alone, as the others take longer to import than it."""
    app = typer.Typer(
        name="shapescope",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,  # help would spend half its time on importing what draws it
        context_settings={"help_option_names": ["-h", "--help"]},
        callback=_main,
    )
    asked = [command for command in COMMANDS if [command] == arguments[:1]]
    for command in asked or COMMANDS:
        function = getattr(import_module(f"shapescope.cli.{command}"), command)
        first_line = (function.__doc__ or "").partition("\n")[0]  # in full: left alone, help cuts it short
        app.command(context_settings=_RUNS_A_PROGRAM.get(command), short_help=first_line)(function)
    return app


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"shapescope {__version__}")
        raise typer.Exit


def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Which kernels serve production at every batch size: record, read and judge graph captures of LLM servers."""
