"""`shapescope report`: one HTML file, or a comment for a pull request."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from shapescope.cli.options import (
    PARTIAL,
    BaseOption,
    CacheOption,
    NoColorOption,
    OutputOption,
    QuietOption,
    RunArgument,
    VerboseOption,
    console,
    opened,
    write_output,
)


class ReportFormat(StrEnum):
    """What a report is."""

    HTML = "html"
    MARKDOWN = "markdown"


def report(
    run: RunArgument,
    base: BaseOption = None,
    format: Annotated[
        ReportFormat, typer.Option("--format", help="A page, or a comment for a pull request.")
    ] = ReportFormat.HTML,
    output: OutputOption = None,
    hide_paths: Annotated[
        bool, typer.Option("--hide-paths", help="Keep only the last part of absolute paths.")
    ] = False,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
    no_color: NoColorOption = False,
    cache: CacheOption = True,
) -> None:
    """One HTML file that opens anywhere, offline; or Markdown that fits a pull request comment.

    Example: shapescope report shapescope-runs/<run id> --base shapescope-runs/<other> -o report.html
    """
    from shapescope.show.gather import gather

    read = opened(run, cache=cache)
    page = gather(read, None if base is None else opened(base, cache=cache))
    code = PARTIAL if read.partial else 0
    if format is ReportFormat.MARKDOWN:
        from shapescope.show.review import review

        text = review(page, hide_paths=hide_paths)
        if output is None:
            sys.stdout.write(text)
            raise typer.Exit(code)
    else:
        from shapescope.show import html
        from shapescope.show.page import payload

        text = html.report(payload(page, hide_paths=hide_paths))
    path = output or Path("report.html")
    write_output(path, text.encode())
    if not quiet:
        console(no_color).print(f"{path} ({len(text) / 1e6:.1f} MB)", soft_wrap=True, markup=False)
    raise typer.Exit(code)
