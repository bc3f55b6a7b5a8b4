#!/usr/bin/env bash
# All tests with the scanner built under the address and undefined-behaviour sanitizers, with and without SIMD:
# tests/sanitized.sh [PYTEST ARGUMENTS]
set -euo pipefail
cd "$(dirname "$0")/.."
python=$PWD/.venv/bin/python
sanitizers="-fsanitize=address,undefined"
runtime="$(cc -print-file-name=libasan.so):$(cc -print-file-name=libubsan.so)"
for simd in "" -DSHAPESCOPE_NO_SIMD; do
  copy=build/sanitized$simd
  rm -rf "$copy" && mkdir -p "$copy"
  git ls-files -z src setup.py pyproject.toml README.md | tar -c --null -T - | tar -x -C "$copy"
  (cd "$copy" && SHAPESCOPE_REQUIRE_SCANNER=1 SHAPESCOPE_SCANNER_LDFLAGS="$sanitizers" \
    SHAPESCOPE_SCANNER_CFLAGS="$sanitizers -fno-sanitize-recover=all -fno-omit-frame-pointer -O1 $simd" \
    "$python" setup.py -q build_ext --inplace)
  LD_PRELOAD="$runtime" ASAN_OPTIONS=detect_leaks=0 PYTHONPATH="$PWD/$copy/src" \
    "$python" -m pytest -m "not browser and not cluster and not slow and not engines" "$@"
done
