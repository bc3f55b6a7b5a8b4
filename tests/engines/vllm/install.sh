#!/bin/sh
# Makes .venv-vllm in the repository's root: the real vLLM on a CPU, pinned, and shapescope beside it. Safe to run again.
set -eu
cd "$(dirname "$0")/../../.."
venv=.venv-vllm

[ -x $venv/bin/pip ] || "${PYTHON:-python3.11}" -m venv $venv
$venv/bin/pip install --quiet --no-deps --requirement tests/engines/vllm/requirements.txt
$venv/bin/pip install --quiet --no-deps --editable .

# The Python sources of the next vLLM, for the signature guard: 47 MB as an sdist, where the wheel has 336 MB. pip runs
# the sdist's metadata hook, which wants its build tools (in the requirements), no device and no version of its own.
next=0.33.0
if [ ! -d $venv/vllm-$next ]; then
    download=$(mktemp -d)
    VLLM_TARGET_DEVICE=empty VLLM_VERSION_OVERRIDE=$next $venv/bin/pip download --quiet --no-deps \
        --no-binary vllm --no-build-isolation --dest "$download" vllm==$next
    mkdir "$download/sources"
    tar -xzf "$download/vllm-$next.tar.gz" -C "$download/sources" --strip-components 1 \
        --wildcards "vllm-$next/vllm/*.py" "vllm-$next/vllm/*.json"
    mv "$download/sources" $venv/vllm-$next
    rm -r "$download"
fi
