"""Running a command with recording switched on in it and in all its children, and tidying up after it.

A child that knows nothing of us finds our `sitecustomize` first on PYTHONPATH. It reaches every Python below but one that
is started with -I, -E or -S, or by somebody who clears the environment.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from shapescope.errors import UsageError
from shapescope.settings import RecordingSettings, switches_of
from shapescope.store.finish import Finished, finish_run, wait_for_writers
from shapescope.store.layout import RUN_ID_VARIABLE, new_run_id, root_folder, run_folder

BOOTSTRAP = Path(__file__).parent / "bootstrap"
# What somebody may send to the command through us. The terminal's own reach it without us.
_FORWARDED = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2})

# The workers of a command that failed take a moment to die; those that mean to stay are not waited for.
_PATIENCE_S = 2.0


@dataclass(frozen=True, slots=True)
class Launched:
    """How the command ended (a signal as 128 + n), and what it recorded; None where it recorded nothing."""

    exit_code: int
    folder: Path
    finished: Finished | None


def launch(command: Sequence[str], settings: RecordingSettings, environment: Mapping[str, str]) -> Launched:
    """Run a command to its end. Raises UsageError where it cannot be started, and OSError where tidying up fails."""
    if not hasattr(signal, "sigwaitinfo"):
        raise UsageError(
            "shapescope record needs signals as Linux has them", "Set the variables and call shapescope.watch()."
        )
    root = root_folder(environment, settings.folder)
    run_id = environment.get(RUN_ID_VARIABLE) or new_run_id()
    variables = child_environment(replace(settings, folder=str(root)), run_id, environment)
    with _signals_held() as released:
        try:
            process = os.posix_spawnp(command[0], list(command), variables, setsigmask=released)
        except OSError as error:
            raise UsageError(f"cannot start {command[0]}: {error.strerror}", "Pass the command after --.") from error
        code = _wait(process)
        folder = run_folder(root, run_id)
        if code != 0:
            wait_for_writers(folder, _PATIENCE_S)
        finished = finish_run(folder, _ending(code)) if folder.is_dir() else None
    return Launched(128 - code if code < 0 else code, folder, finished)


def child_environment(settings: RecordingSettings, run_id: str, environment: Mapping[str, str]) -> dict[str, str]:
    """The environment that switches recording on: in this interpreter, and in every Python that inherits it."""
    paths = [str(BOOTSTRAP), *filter(None, [environment.get("PYTHONPATH")])]
    return {
        **environment,
        **switches_of(settings),
        RUN_ID_VARIABLE: run_id,
        "PYTHONPATH": os.pathsep.join(paths),
    }


@contextmanager
def _signals_held() -> Iterator[set[signal.Signals]]:
    """Hold back what is to be forwarded, so that nothing is lost between two looks; gives the mask as it was."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _FORWARDED | {signal.SIGCHLD})
    try:
        yield {signal.Signals(number) for number in before}
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _wait(process: int) -> int:
    """The exit code, negative for a signal. Meanwhile signals that a process sent to us go on to the command."""
    while True:
        told = signal.sigwaitinfo(_FORWARDED | {signal.SIGCHLD})
        if told.si_signo == signal.SIGCHLD:
            ended, status = os.waitpid(process, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status)
        elif told.si_code <= 0:  # from a process; the kernel's own, as of a terminal, went to the whole group
            os.kill(process, told.si_signo)


def _ending(code: int) -> str:
    return f"the command was killed by {signal.Signals(-code).name}" if code < 0 else f"the command exited with {code}"
