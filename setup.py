"""Builds the native CPU kernels; everything else is in pyproject.toml.

All of kernels/cpu/*.cpp becomes one shared library beside the package's modules: plain C ABI, no Python headers.
The step is optional: without a working C++17 compiler the installation succeeds and radixrt says so when it runs.
``CXX`` and ``CXXFLAGS`` are respected. A ``CXX`` that is not there is an error: who sets it wants no other one.
"""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError

SOURCES = sorted(str(path) for path in Path("kernels/cpu").glob("*.cpp"))
HEADERS = sorted(str(path) for path in Path("kernels/cpu").glob("*.h"))
# No compiler may fuse products and sums where the source does not say so: results must not depend on how a loop was
# unrolled.
FLAGS = ["-std=c++17", "-O3", "-fPIC", "-Wall", "-Wextra", "-ffp-contract=off"]
# A source that is written for one instruction set says so at the end of its name and gets its flags here; on other
# machines it compiles to nothing.
X86 = platform.machine().lower() in ("x86_64", "amd64")
INSTRUCTION_SETS = {
    "_avx2.cpp": ["-mavx2", "-mfma", "-mf16c"],
    "_avx512.cpp": ["-mavx2", "-mfma", "-mf16c", *(f"-mavx512{part}" for part in ("f", "bw", "dq", "vl", "vnni"))],
}
SOURCE_FLAGS: dict[str, list[str]] = {
    Path(source).name: flags
    for source in SOURCES
    for suffix, flags in INSTRUCTION_SETS.items()
    if X86 and source.endswith(suffix)
}
NAME = "radixrt.kernels.cpu.libradixrt_cpu"


def _compiler() -> list[str]:
    wanted = shlex.split(os.environ.get("CXX", ""))
    if wanted:
        if not shutil.which(wanted[0]):
            raise SystemExit(f"the C++ compiler that CXX names is not there: {wanted[0]}")
        return wanted
    for command in (sysconfig.get_config_var("CXX"), "c++", "g++", "clang++"):
        words = shlex.split(command or "")
        if words and shutil.which(words[0]):
            return words
    raise CompileError("no C++ compiler found")


def _run(command: list[str]) -> None:
    try:
        subprocess.run(command, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise CompileError(f"building the native kernels failed: {error}") from error


class BuildLibrary(build_ext):
    """Compiles a plain shared library where setuptools would build an extension module."""

    def get_ext_filename(self, fullname: str) -> str:
        return str(Path(*fullname.split("."))) + ".so"

    def build_extension(self, ext: Extension) -> None:
        target = Path(self.get_ext_fullpath(ext.name))
        objects = []
        compiler = _compiler()
        flags = [*FLAGS, *shlex.split(os.environ.get("CXXFLAGS", ""))]
        folder = Path(self.build_temp)
        folder.mkdir(parents=True, exist_ok=True)
        target.parent.mkdir(parents=True, exist_ok=True)
        commands = []
        for source in ext.sources:
            objects.append(str(folder / (Path(source).stem + ".o")))
            own = SOURCE_FLAGS.get(Path(source).name, [])
            commands.append([*compiler, *flags, *own, "-c", source, "-o", objects[-1]])
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for _ in pool.map(_run, commands):
                pass  # the first failure is raised here
        # Linked under another name and moved, so that a process that has the old library open keeps it.
        fresh = target.with_suffix(".new")
        _run([*compiler, "-shared", *objects, "-o", str(fresh)])
        fresh.replace(target)


setup(
    ext_modules=[Extension(NAME, SOURCES, depends=HEADERS, optional=True)],
    cmdclass={"build_ext": BuildLibrary},
)
