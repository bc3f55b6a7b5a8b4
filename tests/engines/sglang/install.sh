#!/usr/bin/env bash
# Build .venv-sglang in the repository's root, from nothing: SGLang 0.5.23 beside torch's CPU build (1.5 GB).
# torch comes as a CPU build only where pip finds one first, as `pip install torch==2.13.0` does on this project's machines.
set -euo pipefail
cd "$(dirname "$0")/../../.."

python=${PYTHON:-python3.11}
venv=.venv-sglang
"$python" -m venv "$venv"
"$venv/bin/pip" install --quiet --no-deps --requirement tests/engines/sglang/requirements.txt
"$venv/bin/pip" install --quiet --no-deps --no-build-isolation --editable .
"$venv/bin/python" - <<'PYTHON'
import torch

assert torch.version.cuda is None, f"torch {torch.__version__} is a CUDA build; install the CPU build of it first"
PYTHON
