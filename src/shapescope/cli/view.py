"""`shapescope view`: the page live on 127.0.0.1."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Annotated

import typer

from shapescope.cli.options import (
    BaseOption,
    CacheOption,
    NoColorOption,
    QuietOption,
    RunArgument,
    VerboseOption,
    console,
    opened,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from shapescope.read.run import Run
    from shapescope.show.result import Result
    from shapescope.show.server import Answer, Site


def view(
    run: RunArgument,
    base: BaseOption = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")] = 0,
    open_browser: Annotated[bool, typer.Option("--open/--no-open", help="Open a browser.")] = True,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
    no_color: NoColorOption = False,
    cache: CacheOption = True,
) -> None:
    """The report's page live on this machine, with Perfetto one click away per shape.

    Example: shapescope view shapescope-runs/<run id> --no-open
    """
    from shapescope.errors import MissingDependencyError

    try:
        from shapescope.show.server import HOST, application, listen, server
    except ModuleNotFoundError as error:
        raise MissingDependencyError(error.name or "starlette", "view") from error

    site = site_of(opened(run, cache=cache), None if base is None else opened(base, cache=cache))
    token = secrets.token_urlsafe(24)
    with listen(port) as listening:
        address = f"http://{HOST}:{listening.getsockname()[1]}/?token={token}"
        console(no_color, stderr=quiet).print(f"{address}\nCtrl-C ends it.", soft_wrap=True, markup=False)
        if open_browser:
            import webbrowser

            webbrowser.open(address)
        server(application(site, token)).run(sockets=[listening])


def site_of(run: Run, base: Run | None = None) -> Site:
    """What the server serves of a run: its page, its commands, its traces."""
    from shapescope.show.gather import gather
    from shapescope.show.html import report
    from shapescope.show.page import payload
    from shapescope.show.server import Site

    page = gather(run, base)
    return Site(
        page=report(payload(page, live=True)),
        commands=_commands(run),
        folder=run.path if run.path.is_dir() else run.path.parent,
        files=frozenset(row["file"] for row in page.tables["check"].rows),
    )


def _commands(run: Run) -> Mapping[str, Answer]:
    """Every command that reads one run, by name: its JSON is what the command prints with `--format json`."""
    from shapescope.show.gather import TABLES

    def kernels(query: Mapping[str, Sequence[str]]) -> Result:
        from shapescope.errors import UsageError
        from shapescope.show import tables

        try:
            sizes = [int(text) for text in query.get("size", ())]
        except ValueError as error:
            raise UsageError("size is not a whole number") from error
        return tables.kernels(run, by=query.get("by", ["launch"])[-1], sizes=sizes or None)

    plain = {
        name: lambda _, build=build: build(run) for name, build in TABLES.items() if name not in ("kernels", "launches")
    }
    return {**plain, "kernels": kernels}
