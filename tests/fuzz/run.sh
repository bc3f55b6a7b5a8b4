#!/usr/bin/env bash
# Fuzz the scanner with libFuzzer under the address and undefined-behaviour sanitizers: tests/fuzz/run.sh [RUNS] [CORPUS]
# Needs clang with its runtime libraries (Debian: clang libclang-rt-dev). What it finds is left as crash-* beside the corpus.
set -euo pipefail
cd "$(dirname "$0")/../.."
runs=${1:-100000}
corpus=${2:-build/fuzz}
scanner=src/shapescope/read/scanner
mkdir -p "$corpus"
for simd in "" -DSHAPESCOPE_NO_SIMD; do
  clang -std=c99 -O1 -g -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all $simd \
    -DSHAPESCOPE_CHUNK_ROWS=64 -DSHAPESCOPE_FIRST_SLOTS=64 -I"$scanner" tests/fuzz/target.c \
    "$scanner"/{scanner,event,rows,text,number}.c -o "$corpus.target"
  "$corpus.target" "$corpus" -dict=tests/fuzz/words.dict -max_len=3000 -runs="$runs" -artifact_prefix="$corpus.crash-"
done
