"""Hosts that start at once: one process has imported torch and the recorder, and forks a child for each program.

A start of Python with torch costs seconds. The parent never runs an op: a child of a process whose thread pools are
running might hang.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

_PARENT = """
import json, os, sys, threading, traceback
import torch, torch.profiler
import shapescope.record.start, shapescope.graphs.runner, shapescope.engines.any

def run(request):
    try:
        os.setpgid(0, 0)
        for number, name in enumerate(("stdout", "stderr"), start=1):
            os.dup2(os.open(os.path.join(request["folder"], name), os.O_WRONLY | os.O_CREAT), number)
        os.chdir(request["folder"])
        os.environ.update(request["environment"])
        torch.set_num_threads(1)
        exec(compile(request["code"], "host", "exec"), {"__name__": "__main__"})
        code = 0
    except SystemExit as exit:
        code = exit.code or 0
    except BaseException:
        traceback.print_exc()
        code = 1
    threading._shutdown()  # as the interpreter does at its end: whoever has threads may finish
    sys.stdout.flush(), sys.stderr.flush()
    os._exit(code)

for line in sys.stdin:
    request = json.loads(line)
    if "wait" in request:
        answer = os.waitstatus_to_exitcode(os.waitpid(request["wait"], 0)[1])
    else:
        answer = os.fork()
        if answer == 0:
            run(request)
    print(answer, flush=True)
"""


class Host:
    """One running program."""

    def __init__(self, forks: Forks, process: int, folder: Path) -> None:
        self._forks = forks
        self.process = process
        self.folder = folder

    def wait(self) -> int:
        """The exit code; negative for a signal."""
        return self._forks.ask({"wait": self.process})

    @property
    def stdout(self) -> str:
        return (self.folder / "stdout").read_text()

    @property
    def stderr(self) -> str:
        """Without the lines that torch itself prints for every profiler."""
        lines = (self.folder / "stderr").read_text().splitlines(keepends=True)
        return "".join(line for line in lines if not line.startswith("USDT:"))


class Forks:
    """The parent process."""

    def __init__(self) -> None:
        source = str(Path(__file__).resolve().parents[2] / "src")
        mine = {name: value for name, value in os.environ.items() if not name.startswith("SHAPESCOPE_")}
        self._parent = subprocess.Popen(
            [sys.executable, "-c", _PARENT], env={**mine, "PYTHONPATH": source},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self._count = 0

    def ask(self, request: dict[str, Any]) -> int:
        assert self._parent.stdin is not None and self._parent.stdout is not None
        self._parent.stdin.write(json.dumps(request) + "\n")
        self._parent.stdin.flush()
        return int(self._parent.stdout.readline())

    def start(self, code: str, folder: Path, **environment: str) -> Host:
        self._count += 1
        place = folder / f"host-{self._count}"
        place.mkdir()
        return Host(self, self.ask({"code": code, "folder": str(place), "environment": environment}), place)

    def close(self) -> None:
        self._parent.communicate()
