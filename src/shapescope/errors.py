"""One error tree. Each class says with which code the command line exits and what the user can do about it."""

from __future__ import annotations


class ShapescopeError(Exception):
    """An error of ours: what is wrong (the message) and what to do about it (the hint)."""

    exit_code = 3
    default_hint = "Run with -v for details."

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint or self.default_hint


class UsageError(ShapescopeError):
    """The request itself is wrong: an option, a setting, a size."""

    exit_code = 2
    default_hint = "See --help for what is accepted."


class InputError(ShapescopeError):
    """A file or folder that was given cannot be read, or holds no trace."""

    exit_code = 3
    default_hint = "`shapescope check PATH` says what a folder holds."


class NotComparableError(ShapescopeError):
    """Two runs whose environments differ where it matters."""

    exit_code = 4
    default_hint = "Pass --allow-env-change to compare them all the same."


class OutputError(ShapescopeError):
    """A result cannot be written."""

    exit_code = 5
    default_hint = "Choose another place with -o."


class MissingDependencyError(ShapescopeError):
    """Something that this command needs is not installed."""

    exit_code = 5

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"{package} is not installed", f"pip install 'shapescope[{extra}]'")


class CaptureError(ShapescopeError):
    """A step function cannot be captured: it does something that a graph cannot hold."""

    default_hint = "Keep host reads and data-dependent shapes out of the captured step."
