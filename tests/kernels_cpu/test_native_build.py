"""The optional native build: present here, absent without a compiler, one warning then."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from radixrt.grammar.rx import new_pool
from radixrt.kernels.cpu import build_info, library, native


def test_the_library_was_built() -> None:
    info = build_info()
    assert info["native"] is True, info
    assert str(info["built"]).startswith(("gcc", "clang"))
    assert native() is native()


def test_without_the_library_there_is_one_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "LIBRARY_NAME", "libmissing.so")
    native.cache_clear()
    try:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            assert new_pool(1000, "fuel").literal(b"a")  # the first of all that ask for the library
            assert native() is None
        assert [w.category for w in seen] == [RuntimeWarning]
        assert "compiler" in str(seen[0].message)
        assert seen[0].filename == __file__
        assert build_info()["native"] is False
    finally:
        monkeypatch.undo()
        native.cache_clear()


def test_a_damaged_library_is_reported_and_not_loaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "libdamaged.so").write_bytes(b"\x7fELF nothing")
    monkeypatch.setattr(library, "LIBRARY_NAME", str(tmp_path / "libdamaged.so"))
    assert "cannot be loaded" in str(build_info()["reason"])


def build(project_root: Path, target: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the build step into a folder of its own."""
    command = [
        sys.executable,
        "setup.py",
        "build_ext",
        "--build-lib",
        str(target),
        "--build-temp",
        str(target / "tmp"),
    ]
    env = {**os.environ, **environment}
    return subprocess.run(command, cwd=project_root, env=env, capture_output=True, text=True, check=False)


def test_the_build_makes_a_library_without_python_in_it(project_root: Path, tmp_path: Path) -> None:
    done = build(project_root, tmp_path, CXXFLAGS="-O0")  # quicker; what is tested is the same
    assert done.returncode == 0, done.stderr
    made = tmp_path / "radixrt" / "kernels" / "cpu" / library.LIBRARY_NAME
    assert made.is_file()
    assert b"PyObject" not in made.read_bytes()
    assert "warning:" not in done.stderr


@pytest.mark.parametrize("flags", [{"CXX": "false"}, {"CXXFLAGS": "-fno-such-flag-exists"}])
def test_a_compiler_that_fails_does_not_fail_the_installation(
    flags: dict[str, str], project_root: Path, tmp_path: Path
) -> None:
    done = build(project_root, tmp_path, **flags)
    assert done.returncode == 0, done.stderr
    assert not list(tmp_path.rglob("*.so"))


def test_a_compiler_that_is_asked_for_and_not_there_is_an_error(project_root: Path, tmp_path: Path) -> None:
    done = build(project_root, tmp_path, CXX="/nonexistent -O1")
    assert done.returncode != 0
    assert "CXX names is not there: /nonexistent" in done.stderr


def test_no_compiler_at_all_does_not_fail_the_installation(project_root: Path, tmp_path: Path) -> None:
    done = build(project_root, tmp_path, PATH="/nonexistent", CXX="")
    assert done.returncode == 0, done.stderr
    assert not list(tmp_path.rglob("*.so"))
