"""What a later comparison needs to know of the machine, the driver and the versions that recorded a run."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from shapescope.device import Device

_PACKAGES = (
    "shapescope", "torch", "transformers", "triton", "sglang", "vllm", "flashinfer-python", "aiter", "deep-gemm", "sgl-kernel",
)  # fmt: skip
# Settings that change which kernels run or how long they take.
_PREFIXES = (
    "CUDA_",
    "HIP_",
    "ROCR_",
    "NCCL_",
    "RCCL_",
    "OMP_",
    "MKL_",
    "PYTORCH_",
    "TORCHINDUCTOR_",
    "VLLM_",
    "SGLANG_",
)
_SECRET = ("KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL")


def describe_environment(device: Device) -> dict[str, Any]:
    """Plain values only. What cannot be found out is absent."""
    found = {
        "device": device.kind,
        "device_name": device.name,
        "driver": _driver(device.kind),
        "cuda": torch.version.cuda,
        "hip": torch.version.hip,
        "host": platform.node(),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "packages": {name: version for name in _PACKAGES if (version := _version(name))},
        "variables": {
            name: value
            for name, value in sorted(os.environ.items())
            if name.startswith(_PREFIXES) and not any(word in name for word in _SECRET)
        },
        "command": Path(sys.argv[0]).name if sys.argv and sys.argv[0] else None,
        "git": _git_commit(),
    }
    return {name: value for name, value in found.items() if value not in (None, {})}


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _driver(kind: str) -> str | None:
    if kind == "cpu":
        return None
    version: int | None = getattr(torch._C, "_cuda_getDriverVersion", lambda: None)()
    return None if version is None else str(version)


def _git_commit() -> str | None:
    """The commit of the working directory, if that is a checkout and git is at hand."""
    try:
        found = subprocess.run(
            ["git", "rev-parse", "HEAD"],
            capture_output=True,
            text=True,
            check=False,
            timeout=5,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return found.stdout.strip() or None
