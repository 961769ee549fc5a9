"""The wheel and the editable install hold the same packages, under radixrt alone."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

MAPPING = {
    "radixrt": "radixrt",
    "radixrt.frontend": "frontend",
    "radixrt.grammar": "grammar",
    "radixrt.kernels": "kernels",
}
BARE = ("frontend", "grammar", "kernels")


def _project(root: Path) -> dict[str, object]:
    return tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]  # type: ignore[no-any-return]


def _packages_on_disk(root: Path) -> set[str]:
    found = set()
    for name, folder in MAPPING.items():
        for init in (root / folder).rglob("__init__.py"):
            inner = init.parent.relative_to(root / folder).parts
            found.add(".".join((name, *inner)))
    return found


def test_every_package_on_disk_is_listed(project_root: Path) -> None:
    listed: list[str] = _project(project_root)["packages"]  # type: ignore[assignment]
    assert sorted(listed) == sorted(_packages_on_disk(project_root))


def test_the_mapping_is_the_four_rooms(project_root: Path) -> None:
    assert _project(project_root)["package-dir"] == MAPPING


@pytest.mark.slow
def test_wheel_holds_all_of_it_and_no_bare_room(project_root: Path, tmp_path: Path) -> None:
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "--quiet",
            "--no-deps",
            "--no-build-isolation",
            "--wheel-dir",
            str(tmp_path),
            str(project_root),
        ],
        check=True,
        capture_output=True,
        env={**os.environ, "CXXFLAGS": "-O0"},  # quicker; what is tested is the same
    )
    (wheel,) = tmp_path.glob("radixrt-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names if "dist-info" not in name} == {"radixrt"}
    assert "radixrt/py.typed" in names
    for package in _packages_on_disk(project_root):
        assert package.replace(".", "/") + "/__init__.py" in names
    assert any(name.startswith("radixrt/kernels/cpu/") and name.endswith(".so") for name in names), (
        "no native kernels"
    )
    target = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(target)
    check = (
        "import radixrt.frontend, radixrt.grammar, radixrt.kernels.cpu as cpu\n"
        "print(radixrt.__file__, cpu.native() is not None)"
    )
    done = subprocess.run(
        [sys.executable, "-c", check],
        check=True,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(target), "PYTHONSAFEPATH": "1"},
    )
    assert done.stdout.split() == [str(target / "radixrt" / "__init__.py"), "True"]


@pytest.mark.parametrize("where", ["root", "elsewhere"])
def test_installed_names_from_any_folder(project_root: Path, tmp_path: Path, where: str) -> None:
    check = (
        "import importlib.util as u, radixrt.frontend, radixrt.grammar, radixrt.kernels\n"
        f"print([n for n in {BARE!r} if u.find_spec(n)])"
    )
    done = subprocess.run(
        [sys.executable, "-c", check],
        check=True,
        capture_output=True,
        text=True,
        cwd=project_root if where == "root" else tmp_path,
        env={**os.environ, "PYTHONSAFEPATH": "1"},
    )
    assert done.stdout.strip() == "[]"
