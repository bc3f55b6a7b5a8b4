"""The command line. Each command is a file; what it needs is imported when it runs, so that `--help` stays quick."""

from __future__ import annotations

import os
import sys
import traceback

from shapescope.errors import ShapescopeError, UsageError

INTERRUPTED = 130


def main(arguments: list[str] | None = None) -> None:
    """Run one command and exit with the code of the contract. An error is two lines on stderr; -v adds the traceback."""
    import typer

    from shapescope.cli.app import app_for

    given = sys.argv[1:] if arguments is None else arguments
    try:
        code = app_for(given)(given, standalone_mode=False)
    except ShapescopeError as error:
        code = _report(error, verbose=bool({"-v", "--verbose"} & set(given)))
    except typer.TyperException as error:
        code = _report(UsageError(_words(error)))
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has gone, as `| head` does: not an error, but stdout must not be flushed again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    raise SystemExit(code or 0)


def _words(error: Exception) -> str:
    return str(getattr(error, "format_message", error.__str__)()) or "a command is needed"


def _report(error: ShapescopeError, *, verbose: bool = False) -> int:
    if verbose:
        traceback.print_exception(error, file=sys.stderr)
    print(f"error: {error}", file=sys.stderr)
    print(f"hint: {error.hint}", file=sys.stderr)
    return error.exit_code
