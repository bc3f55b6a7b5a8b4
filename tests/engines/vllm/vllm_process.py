"""The real vLLM in a process of its own, with its own temporary folder and cache, and what it leaves behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path

from shapescope.model import ManifestRow, Status
from shapescope.store.manifest import read_manifests

HERE = Path(__file__).resolve().parent
# Fifteen seconds on an idle machine.
TIMEOUT_S = 400

# What each kind of engine needs to run on a CPU.
V1 = {"VLLM_USE_V2_MODEL_RUNNER": "0", "VLLM_ENABLE_V1_MULTIPROCESSING": "0"}
V2 = {"VLLM_USE_V2_MODEL_RUNNER": "1", "VLLM_ENABLE_V1_MULTIPROCESSING": "0", "TRITON_INTERPRET": "1"}
TWO_RANKS = {"VLLM_USE_V2_MODEL_RUNNER": "0", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
FULL = {"STAND_IN_MODE": "FULL_DECODE_ONLY"}
BREAKABLE = {"STAND_IN_MODE": "FULL_AND_PIECEWISE", "VLLM_USE_BREAKABLE_CUDAGRAPH": "1"}
COMPILED = {"STAND_IN_MODE": "FULL_AND_PIECEWISE", "STAND_IN_COMPILED": "1"}
RECORDED = {"SHAPESCOPE_GRAPH_BATCH_CAPTURE": "1"}


@dataclass(frozen=True)
class Served:
    """What one start of the engine left. `tokens` is None where it died; `calls` are those into shapescope while serving."""

    folder: Path
    log: str
    exit_code: int
    tokens: list[list[int]] | None = None
    calls: list[str] = field(default_factory=list)
    all_calls: int = 0
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
        tokens = folder / "tokens.json"
        served = self.run(folder, environment, "serve.py", str(self.model), str(tokens), *arguments)
        return replace(served, **json.loads(tokens.read_text())) if tokens.exists() else served

    def run(self, folder: Path, environment: dict[str, str], script: str, *arguments: str) -> Served:
        """Run one of the scripts beside this file."""
        for name in ("tmp", "reports"):
            (folder / name).mkdir()
        run = subprocess.run(
            [sys.executable, HERE / script, *arguments],
            env=self._environment(folder, environment),
            cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT_S, check=False,
        )  # fmt: skip
        reports = sorted((folder / "reports").iterdir())
        counts = {report.stem: json.loads(report.read_text()) for report in reports}
        return Served(folder, run.stdout, run.returncode, counts=counts)

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
