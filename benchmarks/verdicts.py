"""How often `diff` is right on a CPU: fresh demo runs of the same code, and of one op that is 60% slower at one size.

Every try records three demo runs, each in a process of its own with one thread. In all of them a kernel of our own stands in
for `mm.out`: it calls torch's `addmm.out`, and in the slower runs it spins for 0.6 of the time that took, where the size is
--slow-size.

    python benchmarks/verdicts.py --tries 20
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SLOWER_BY = 0.6
RULE = "time>20%"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tries", type=int, default=20)
    parser.add_argument("--slow-size", type=int, default=16)
    parser.add_argument("--record", nargs=2, metavar=("FOLDER", "WHICH"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.record:
        record(options.record[0], options.slow_size if options.record[1] == "slower" else None)
        return
    same = named = 0
    for number in range(1, options.tries + 1):
        with tempfile.TemporaryDirectory() as folder:
            base, again, slower = (
                run_apart(Path(folder) / name, name, options.slow_size) for name in ("base", "again", "slower")
            )
            same += nothing_changed(*diff(base, again))
            named += names_only(options.slow_size, *diff(base, slower))
        print(f"{number} tries: same {same}, slower op named {named}", flush=True)


def run_apart(folder: Path, which: str, slow_size: int) -> Path:
    command = [sys.executable, __file__, "--slow-size", str(slow_size), "--record", str(folder), which]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    (run,) = folder.iterdir()
    return run


def record(folder: str, slow_size: int | None) -> None:
    import torch

    from shapescope.cli import main as shapescope

    def mm_out(left: torch.Tensor, right: torch.Tensor, *, out: torch.Tensor) -> torch.Tensor:
        begin = time.perf_counter_ns()
        torch.addmm(out, left, right, beta=0, out=out)  # the same gemm into the same memory
        if left.shape[0] == slow_size:
            end = time.perf_counter_ns()
            while time.perf_counter_ns() < end + SLOWER_BY * (end - begin):
                pass
        return out

    library = torch.library.Library("aten", "IMPL")
    library.impl("mm.out", mm_out, "CPU")
    shapescope(["demo", "-q", "-o", folder])


def diff(base: Path, head: Path) -> tuple[int, list[tuple[object, ...]]]:
    """The exit code of the rule; and size, op, verdict and ratio of each row that has changed."""
    command = [sys.executable, "-m", "shapescope", "diff", str(base), str(head), "--fail-on", RULE, "--format", "json"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if not done.stdout:
        raise SystemExit(done.stderr)
    rows = json.loads(done.stdout)["rows"]
    changed = [row for row in rows if row["verdict"] not in ("same", "unsure")]
    return done.returncode, [(row["size"], row["op"], row["verdict"], row["ratio"]) for row in changed]


def nothing_changed(code: int, changed: list[tuple[object, ...]]) -> bool:
    if code or changed:
        print("  not the same:", code, changed)
    return code == 0 and not changed


def names_only(size: int, code: int, changed: list[tuple[object, ...]]) -> bool:
    """Whole replays of that size, which have no op, may be slower, too."""
    found = {(of, op, verdict) for of, op, verdict, _ in changed}
    right = code == 1 and (size, "aten::mm", "slower") in found <= {
        (size, "aten::mm", "slower"),
        (size, None, "slower"),
    }
    if not right:
        print("  not only the slower op:", code, changed)
    return right


if __name__ == "__main__":
    main()
