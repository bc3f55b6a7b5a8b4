"""The command line. Each command is a file; what it needs is imported when it runs, so that `--help` stays quick."""

from __future__ import annotations

import sys

from shapescope.errors import ShapescopeError, UsageError

INTERRUPTED = 130


def main(arguments: list[str] | None = None) -> None:
    """Run one command and exit with the code of the contract. An error is two lines on stderr; -v adds the traceback."""
    from shapescope.cli.app import app

    given = sys.argv[1:] if arguments is None else arguments
    try:
        code = app(given, standalone_mode=False)
    except ShapescopeError as error:
        code = _report(error, given)
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has gone, as `| head` does: not an error, but stdout must not be flushed again.
        sys.stderr.close()
        code = 0
    except Exception as error:
        code = _usage(error)
    raise SystemExit(code or 0)


def _report(error: ShapescopeError, given: list[str]) -> int:
    if {"-v", "--verbose"} & set(given):
        import traceback

        traceback.print_exception(error, file=sys.stderr)
    print(f"error: {error}", file=sys.stderr)
    print(f"hint: {error.hint}", file=sys.stderr)
    return error.exit_code


def _usage(error: Exception) -> int:
    """Typer's own usage errors in the same two lines; anything else is a bug of ours and stays a traceback."""
    show = getattr(error, "format_message", None)
    if show is None:
        raise error
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "shapescope"
    return _report(UsageError(show(), f"`{command} --help` shows what is accepted."), [])
