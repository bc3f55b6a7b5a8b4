"""Fixtures shared by every test: where the real traces are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

# Test processes run side by side: threads of torch that wait for each other's cores cost more than they give.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")


def _shared_folder() -> Path:
    """`shared/` lies beside the main checkout; from a linked worktree git knows where that is."""
    here = Path(__file__).resolve().parents[1]
    common = subprocess.run(
        ["git", "rev-parse", "--path-format=absolute", "--git-common-dir"],
        cwd=here, capture_output=True, text=True, check=False,
    ).stdout.strip()  # fmt: skip
    candidates = [here.parent / "shared", *([Path(common).parent.parent / "shared"] if common else [])]
    return next((folder for folder in candidates if folder.is_dir()), candidates[0])


SHARED = _shared_folder()


@pytest.fixture(autouse=True, scope="session")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Commands cache what they read: not in the user's own folder while they are tested."""
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(autouse=True)
def no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test judges times, and beside another worker a core is never calm for long."""
    if (measure := sys.modules.get("shapescope.record.measure")) is not None:
        monkeypatch.setattr(measure, "PATIENCE_SECONDS", 0.0)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of design papers, cases and real traces beside the checkout; tests that need it skip without it."""
    if not SHARED.is_dir():
        pytest.skip(f"no shared folder beside the checkout ({SHARED}): the real cases and traces are not at hand")
    return SHARED


@pytest.fixture(scope="session")
def traces(shared: Path) -> Path:
    """Real captures and replays with hand-proved joins."""
    return shared / "traces"


@pytest.fixture(scope="session")
def demo_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One run of the demo, as `shapescope demo` leaves it."""
    folder = tmp_path_factory.mktemp("runs")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SHAPESCOPE_")}
    command = [sys.executable, "-m", "shapescope", "demo", "--sizes", "1,2,4,8,16", "-o", str(folder), "-q"]
    subprocess.run(command, env=environment, check=True, capture_output=True, cwd=folder)
    (found,) = [path for path in folder.iterdir() if path.is_dir()]
    return found
