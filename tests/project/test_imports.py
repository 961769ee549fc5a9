"""Imports point down only, and the public face is light."""

from __future__ import annotations

import ast
import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDERS = {
    "radixrt": "radixrt",
    "frontend": "radixrt.frontend",
    "grammar": "radixrt.grammar",
    "kernels": "radixrt.kernels",
}
# Shared vocabulary that every room may use.
SHARED = {"api", "errors", "config", "arguments", "output_types", "outputs", "python_types", "schema_source", ""}
# room -> rooms (or single modules) it may import; its own room goes without saying.
ALLOWED: dict[str, set[str]] = {
    "api": set(),
    "errors": set(),
    "config": set(),
    "arguments": set(),
    "output_types": set(),
    "outputs": set(),
    "python_types": set(),
    "schema_source": set(),
    "kernels": set(),
    "grammar": {"kernels.cpu"},
    "formats": set(),
    "cache": set(),
    "text": {"formats"},
    "model": {"kernels", "formats"},
    "scheduler": {"cache", "grammar", "model.batch", "model.scoring"},
    "worker": {"kernels", "grammar", "formats", "cache", "text", "model", "scheduler"},
    "client": {"worker.messages", "worker.ipc", "worker.supervisor"},
    "server": {"text", "client"},
    "frontend": {"client.protocol", "client.current"},
    "testing": {"kernels", "grammar", "cache", "text", "model", "scheduler", "worker", "client"},
    "bench": {
        "kernels",
        "grammar",
        "formats",
        "cache",
        "text",
        "model",
        "scheduler",
        "worker",
        "client",
        "frontend",
        "testing",
    },
    "doctor": {"kernels", "model"},
    "program_files": {"client.protocol", "frontend"},
    "cli": {"client", "model.sources", "bench", "doctor", "program_files"},
}
# package -> modules that alone may import it
ONLY_IN = {"zmq": {"radixrt.worker.ipc"}, "fastapi": {"radixrt.server"}, "multiprocessing": set(), "pickle": set()}
NO_TORCH = {
    "api",
    "errors",
    "config",
    "arguments",
    "grammar",
    "formats",
    "cache",
    "scheduler",
    "text",
    "client",
    "frontend",
    "cli",
}


def _modules(root: Path) -> list[tuple[str, Path]]:
    found = []
    for folder, package in FOLDERS.items():
        for path in sorted((root / folder).rglob("*.py")):
            parts = path.relative_to(root / folder).with_suffix("").parts
            name = ".".join((package, *(p for p in parts if p != "__init__")))
            found.append((name, path))
    return found


def _imports(path: Path, module: str) -> set[str]:
    """Every module named by an import in the file, also inside functions and TYPE_CHECKING blocks."""
    found: set[str] = set()
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                base = ".".join(
                    [*package.split(".")[: len(package.split(".")) - node.level + 1], *filter(None, [base])]
                )
            found.add(base)
            found.update(f"{base}.{alias.name}" for alias in node.names)
    return found


def _within(name: str, allowed: set[str]) -> bool:
    return any(name == rule or name.startswith(rule + ".") for rule in allowed)


def _violations(root: Path) -> list[str]:
    wrong = []
    known = {name for name, _ in _modules(root)}
    for module, path in _modules(root):
        room = module.removeprefix("radixrt").lstrip(".").split(".")[0]
        if room == "":
            continue  # the lazy face hands everything on
        for target in _imports(path, module):
            for package, homes in ONLY_IN.items():
                if target.split(".")[0] == package and not _within(module, homes):
                    wrong.append(f"{module} imports {target}")
            if target.split(".")[0] == "torch" and room in NO_TORCH:
                wrong.append(f"{module} imports {target}")
            if target not in known:
                continue
            inner = target.removeprefix("radixrt").lstrip(".")
            other = inner.split(".")[0]
            if other in SHARED or other == room or _within(inner, ALLOWED[room]):
                continue
            # a package named on the way to an allowed module of it
            if any(rule.startswith(inner + ".") for rule in ALLOWED[room]):
                continue
            wrong.append(f"{module} imports {target}")
    return wrong


def test_imports_point_down(project_root: Path) -> None:
    assert _violations(project_root) == []


def test_the_check_sees_an_upward_import(tmp_path: Path) -> None:
    for folder in FOLDERS:
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "__init__.py").write_text("")
    (tmp_path / "radixrt" / "worker").mkdir()
    (tmp_path / "radixrt" / "worker" / "__init__.py").write_text("")
    (tmp_path / "grammar" / "bad.py").write_text("def f():\n    from radixrt import worker\n    import zmq\n")
    assert len(_violations(tmp_path)) == 2


@pytest.mark.parametrize(
    "module", ["radixrt", "radixrt.grammar", "radixrt.api", "radixrt.config", "radixrt.arguments"]
)
def test_light_modules_load_no_heavy_one(module: str) -> None:
    check = (
        f"import sys, {module}\nprint([m for m in ('torch', 'transformers', 'zmq', 'fastapi') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", check],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONSAFEPATH": "1"},
    )
    assert done.stdout.strip() == "[]"


def test_every_public_name_of_the_face_resolves() -> None:
    face = importlib.import_module("radixrt")
    for name in face.__all__:
        assert getattr(face, name) is not None
    with pytest.raises(AttributeError):
        _ = face.no_such_name


def test_all_lists_only_what_exists(project_root: Path) -> None:
    for module, path in _modules(project_root):
        if "__main__" in module or "triton" in module or "__all__" not in path.read_text(encoding="utf-8"):
            continue
        loaded = importlib.import_module(module)
        missing = [name for name in loaded.__all__ if not hasattr(loaded, name)]
        assert not missing, (module, missing)
