"""`shapescope export`: one table as a file that other tools read."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shapescope.cli.options import (
    PARTIAL,
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
from shapescope.cli.perfetto import export_perfetto

if TYPE_CHECKING:
    from shapescope.show.result import Result


class To(StrEnum):
    """The formats of a table."""

    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"
    MARKDOWN = "markdown"
    XLSX = "xlsx"
    PERFETTO = "perfetto"


_BINARY = (To.PARQUET, To.XLSX)


def _write(result: Result, to: To) -> bytes:
    from shapescope.show import export as formats

    if to in _BINARY:
        return formats.to_parquet(result) if to is To.PARQUET else formats.to_xlsx(result)
    as_text = {To.CSV: formats.to_csv, To.JSON: formats.to_json, To.MARKDOWN: formats.to_markdown}[to]
    return as_text(result).encode()


def export(
    run: RunArgument,
    table: Annotated[str, typer.Option("--table", help="shapes, kernels, launches, check, ..")] = "shapes",
    to: Annotated[To, typer.Option("--to", help="The format.")] = To.CSV,
    replay: Annotated[
        list[Path] | None,
        typer.Option(
            "--replay", metavar="TRACE", help="For perfetto: the replay; else the one in RUN.", show_default=False
        ),
    ] = None,
    output: OutputOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
    no_color: NoColorOption = False,
    cache: CacheOption = True,
) -> None:
    """One table as CSV, JSON, Parquet, Markdown or a spreadsheet; or a replay whose kernels carry op, dims and module.

    Text goes to stdout without -o.

    Example: shapescope export shapescope-runs/<run id> --table kernels --to parquet -o kernels.parquet
    """
    if to is To.PERFETTO:
        raise typer.Exit(export_perfetto(run, replay or (), output, quiet=quiet, no_color=no_color, cache=cache))
    from shapescope.errors import UsageError
    from shapescope.show.gather import TABLES

    if table not in TABLES:
        raise UsageError(f"no table {table!r}", f"One of {', '.join(TABLES)}.")
    if to in _BINARY and output is None:
        raise UsageError(f"{to} is not text", "Say where to write it with -o FILE.")
    result = TABLES[table](opened(run, cache=cache))
    content = _write(result, to)
    if output is None:
        sys.stdout.write(content.decode().rstrip("\n") + "\n")
    else:
        write_output(output, content)
        if not quiet:
            console(no_color).print(f"{output}: {len(result.rows)} rows", soft_wrap=True, markup=False)
    raise typer.Exit(PARTIAL if result.partial else 0)
