"""The compiled scanner, for setuptools; everything else about the package is in pyproject.toml.

Where no compiler is, the build goes on without it and shapescope reads through msgspec. A release build must not:
SHAPESCOPE_REQUIRE_SCANNER=1 makes a failure an error. SHAPESCOPE_SCANNER_CFLAGS adds flags (sanitizers, no SIMD).
"""

import os
import sys
import sysconfig
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

FOLDER = "src/shapescope/read/scanner"
STABLE_ABI = sys.implementation.name == "cpython" and not sysconfig.get_config_var("Py_GIL_DISABLED")


class BuildScanner(build_ext):
    """Optimised whatever the interpreter was built with."""

    def build_extension(self, ext: Extension) -> None:
        if self.compiler.compiler_type == "unix":
            ext.extra_compile_args = ["-std=c99", "-O3", "-fvisibility=hidden"]
        ext.extra_compile_args += os.environ.get("SHAPESCOPE_SCANNER_CFLAGS", "").split()
        ext.extra_link_args += os.environ.get("SHAPESCOPE_SCANNER_LDFLAGS", "").split()
        super().build_extension(ext)


scanner = Extension(
    "shapescope.read._scanner",
    sources=sorted(path.as_posix() for path in Path(FOLDER).glob("*.c")),
    depends=sorted(path.as_posix() for path in Path(FOLDER).glob("*.h")),
    include_dirs=[FOLDER],
    define_macros=[("Py_LIMITED_API", "0x030B0000")] if STABLE_ABI else [],
    py_limited_api=STABLE_ABI,
    optional=os.environ.get("SHAPESCOPE_REQUIRE_SCANNER") != "1",
)

setup(
    ext_modules=[scanner],
    cmdclass={"build_ext": BuildScanner},
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if STABLE_ABI else {},
)
