"""The options that every command shares, and how a result leaves a command."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from shapescope.read.run import Run
    from shapescope.show.result import Result

PARTIAL = 3


class Format(StrEnum):
    """How a result is printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    MARKDOWN = "markdown"


def place(text: str) -> Path:
    """Where a run lies: a path, or an address such as `s3://bucket/run`, which is fetched. Raises InputError."""
    if "://" not in text:
        return Path(text)
    from shapescope.read.remote import fetched

    return fetched(text)


RunArgument = Annotated[
    Path,
    typer.Argument(
        metavar="RUN",
        help="A run folder, a folder of anybody's traces, or one trace file; or the address of one (s3://..).",
        parser=place,
        show_default=False,
    ),
]
FormatOption = Annotated[Format, typer.Option("--format", help="How to print the result.")]
TopOption = Annotated[
    int | None, typer.Option("--top", min=0, help="Rows of a table; other formats hold all.", show_default=False)
]
QuietOption = Annotated[bool, typer.Option("-q", "--quiet", help="Print the result and errors only.")]
VerboseOption = Annotated[bool, typer.Option("-v", "--verbose", help="Print every column, and tracebacks of errors.")]
NoColorOption = Annotated[bool, typer.Option("--no-color", help="Print without colour.")]
CacheOption = Annotated[bool, typer.Option(" /--no-cache", help="Read every file anew.", show_default=False)]
BaseOption = Annotated[
    Path | None, typer.Option("--base", help="A run to compare with.", parser=place, show_default=False)
]
OutputOption = Annotated[Path | None, typer.Option("-o", "--output", help="Where to write.", show_default=False)]


def console(no_color: bool = False, *, stderr: bool = False) -> Console:
    from rich.console import Console

    return Console(no_color=no_color or None, stderr=stderr, highlight=False, soft_wrap=False)


def opened(
    path: Path,
    *,
    replays: Sequence[Path] = (),
    stacks: bool = False,
    cache: bool = True,
    jobs: int | None = None,
    where: str = "local",
) -> Run:
    """Open a run, kernels named, and with it replays of what it captured. Raises InputError."""
    from shapescope.analyse.names import name_frame
    from shapescope.cli.progress import reading_bar
    from shapescope.read.run import open_run
    from shapescope.read.workers import Where, Workers

    with reading_bar() as progress:
        workers = Workers(jobs, Where(where), progress)
        return open_run(path, replays=replays, stacks=stacks, namer=name_frame, cache=cache, workers=workers)


def answer(table: str, run: Path, *, cache: bool, **options: object) -> Result:
    """The table of that name (`show.tables`) of a run, kept for the next time. Raises InputError."""
    from shapescope.show.kept import kept

    def made() -> Result:
        from shapescope.show import tables

        result: Result = getattr(tables, table)(opened(run, cache=cache), **options)
        return result

    return kept(run, made, table, options) if cache else made()


def draw(lines: Sequence[Text], *, no_color: bool = False) -> None:
    """Print what is drawn rather than written, after a table and an empty line."""
    screen = console(no_color)
    if lines:
        screen.print()
    for line in lines:
        screen.print(line, soft_wrap=True)


def write_output(path: Path, content: bytes) -> None:
    """Write a file that was asked for. Raises OutputError."""
    from shapescope.errors import OutputError

    try:
        path.write_bytes(content)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}") from error


def emit(
    result: Result,
    *,
    format: Format = Format.TABLE,
    top: int | None = None,
    quiet: bool = False,
    verbose: bool = False,
    no_color: bool = False,
) -> int:
    """Print a result; returns the exit code."""
    if format is Format.TABLE:
        from shapescope.show.console import show

        show(console(no_color), result, top=top, every_column=verbose, quiet=quiet)
    else:
        from shapescope.show import export

        write = {Format.JSON: export.to_json, Format.CSV: export.to_csv, Format.MARKDOWN: export.to_markdown}[format]
        sys.stdout.write(write(result).rstrip("\n") + "\n")
    return PARTIAL if result.partial else 0
