"""Builds of the scanner with and without SIMD, with and without its memory of stretches, under sanitizers: same results."""

from __future__ import annotations

import gzip
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCANNER = ROOT / "src/shapescope/read/scanner"
TARGET = ROOT / "tests/fuzz/target.c"
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-O1", "-g")
SMALL = ("-DSHAPESCOPE_CHUNK_ROWS=64", "-DSHAPESCOPE_FIRST_SLOTS=64")
VARIANTS = {
    "with SIMD": SMALL,
    "without SIMD": ("-DSHAPESCOPE_NO_SIMD", *SMALL),
    "without memory": ("-DSHAPESCOPE_NO_MEMORY", *SMALL),
}
STARVING = (*SMALL, "-DSTARVE", "-Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc")


def build(folder: Path, *flags: str) -> Path:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    program = folder / "target"
    sources = [path for path in SCANNER.glob("*.c") if path.name not in ("module.c", "arrow.c")]
    command = [
        compiler,
        "-std=c99",
        *SANITIZERS,
        *flags,
        "-DSTANDALONE",
        f"-I{SCANNER}",
        TARGET,
        *sources,
        "-o",
        program,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode and "sanitize" in done.stderr:
        pytest.skip("the compiler has no sanitizers")
    assert done.returncode == 0, done.stderr
    return program


def run(program: Path, *words: str | Path) -> str:
    done = subprocess.run([program, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def texts(traces: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The events of small real traces, as the scanner is given them."""
    folder = tmp_path_factory.mktemp("texts")
    files = []
    for name in ("eager/triton_example", "eager/mi250_minitoy", "nvidia_old/cpu_only"):
        text = gzip.decompress((traces / f"{name}.json.gz").read_bytes())
        files.append(folder / f"{Path(name).name}.txt")
        files[-1].write_bytes(text[text.index(b"[", text.index(b'"traceEvents"')) + 1 :])
    return files


def test_all_builds_agree_and_none_trips_a_sanitizer(tmp_path: Path, texts: list[Path]) -> None:
    digests = set()
    for flags in VARIANTS.values():
        program = build(tmp_path, *flags)
        digests.add(run(program, "digest", *texts))
        run(program, "mutate", "300", "7", *texts)
    assert len(digests) == 1


def test_a_failed_allocation_is_an_error_and_no_leak(tmp_path: Path, texts: list[Path]) -> None:
    program = build(tmp_path, *STARVING)
    assert "allocations failed" in run(program, "starve", texts[0])
