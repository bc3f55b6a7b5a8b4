"""What `export --to perfetto` does: replay traces again, annotated by the join."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from shapescope.cli.options import PARTIAL, console, opened


def export_perfetto(
    run: Path,
    replays: Sequence[Path],
    output: Path | None,
    *,
    quiet: bool = False,
    no_color: bool = False,
    cache: bool = True,
) -> int:
    """Write the one replay of a run, or the one that is named, with its kernels annotated; returns the exit code.

    Raises UsageError where there is no output, or not one replay; InputError, OutputError.
    """
    from shapescope.analyse.join import join
    from shapescope.errors import UsageError
    from shapescope.show.perfetto import write_annotated

    if output is None:
        raise UsageError("a trace needs a place", "Say where to write it with -o FILE, compressed if it ends in .gz.")
    found = opened(run, replays=replays, cache=cache)
    joined = join(found)
    files = joined.kernels["file"].unique(maintain_order=True).to_list()
    if len(files) != 1:
        listed = ", ".join(files[:3]) or "none"
        raise UsageError(f"one replay is written at a time; here are {len(files)}: {listed}", "Name it with --replay.")
    count = write_annotated(found, joined.kernels, files[0], output)
    if not quiet:
        console(no_color).print(f"{output}: {count} kernels annotated", soft_wrap=True, markup=False)
        for warning in joined.warnings:
            console(no_color, stderr=True).print(f"{warning.code}: {warning.message}", soft_wrap=True, markup=False)
    return PARTIAL if joined.partial else 0
