"""Starts the real vLLM in processes of its own, each with its own temporary folder and cache."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from shapescope.model import ManifestRow, Status
from shapescope.store.manifest import read_manifests

HERE = Path(__file__).resolve().parent
TIMEOUT_S = 240

# What each kind of engine needs to run on a CPU.
V1 = {"VLLM_USE_V2_MODEL_RUNNER": "0", "VLLM_ENABLE_V1_MULTIPROCESSING": "0"}
V2 = {"VLLM_USE_V2_MODEL_RUNNER": "1", "VLLM_ENABLE_V1_MULTIPROCESSING": "0", "TRITON_INTERPRET": "1"}
TWO_RANKS = {"VLLM_USE_V2_MODEL_RUNNER": "0", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
FULL = {"STAND_IN_MODE": "FULL_DECODE_ONLY"}
BREAKABLE = {"STAND_IN_MODE": "FULL_AND_PIECEWISE", "VLLM_USE_BREAKABLE_CUDAGRAPH": "1"}
RECORDED = {"SHAPESCOPE_GRAPH_BATCH_CAPTURE": "1"}


@dataclass(frozen=True)
class Served:
    """What one start of the engine left. `tokens` is None where it died."""

    folder: Path
    log: str
    tokens: list[list[int]] | None = None
    counts: dict[str, dict[str, int]] = field(default_factory=dict)

    @property
    def runs(self) -> list[Path]:
        folder = self.folder / "runs"
        return sorted(folder.iterdir()) if folder.is_dir() else []

    @property
    def run(self) -> Path:
        (run,) = self.runs
        return run

    def rows(self, *statuses: Status) -> list[ManifestRow]:
        rows = [row for _, row in read_manifests(self.run)]
        assert all(isinstance(row, ManifestRow) for row in rows), rows
        return [row for row in rows if isinstance(row, ManifestRow) and row.key and row.status in statuses]


@dataclass(frozen=True)
class Engine:
    """Serves the tiny model. Without `STAND_IN_MODE` it is vllm-cpu as it comes, which captures nothing."""

    model: Path
    plugins: Path

    def serve(self, folder: Path, environment: dict[str, str], *arguments: str) -> Served:
        for name in ("tmp", "reports"):
            (folder / name).mkdir()
        tokens = folder / "tokens.json"
        run = subprocess.run(
            [sys.executable, HERE / "serve.py", self.model, tokens, *arguments],
            env=self._environment(folder, environment),
            cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT_S, check=False,
        )  # fmt: skip
        reports = sorted((folder / "reports").iterdir())
        counts = {report.stem: json.loads(report.read_text()) for report in reports}
        return Served(folder, run.stdout, json.loads(tokens.read_text()) if run.returncode == 0 else None, counts)

    def _environment(self, folder: Path, asked: dict[str, str]) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("SHAPESCOPE_", "VLLM_"))}
        path = [str(self.plugins), str(HERE)] if "STAND_IN_MODE" in asked else []
        return {
            **inherited,
            "PYTHONPATH": os.pathsep.join(path),
            "TMPDIR": str(folder / "tmp"),
            "STAND_IN_REPORTS": str(folder / "reports"),
            "SHAPESCOPE_PROFILER_DIR": str(folder / "runs"),
            "VLLM_CACHE_ROOT": str(folder / "cache"),
            "TRITON_CACHE_DIR": str(folder / "cache" / "triton"),
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "HF_HUB_OFFLINE": "1",
            **asked,
        }


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """The engine, with the worker that captures announced as a plugin would be: by an installed distribution."""
    import tiny_model

    model, plugins = tmp_path_factory.mktemp("tiny"), tmp_path_factory.mktemp("plugins")
    tiny_model.write(model)
    distribution = plugins / "stand_in-0.dist-info"
    distribution.mkdir()
    (distribution / "METADATA").write_text("Metadata-Version: 2.1\nName: stand-in\nVersion: 0\n")
    (distribution / "entry_points.txt").write_text("[vllm.general_plugins]\nstand_in = capturing_worker:register\n")
    return Engine(model, plugins)


@pytest.fixture(scope="session")
def eager(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Served:
    """vllm-cpu as it comes: no graphs, no stand-in."""
    return engine.serve(tmp_path_factory.mktemp("eager"), V1)
