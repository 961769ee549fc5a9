"""Every example runs on the real model and prints what it promises."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest

import radixrt as rx

pytestmark = pytest.mark.model

PROMISED = {
    "agent_loop": r"(lamp|heater|none) (on|off):",
    "character_cards": r"Hermione: name='.*courage [1-5], wit [1-5]",
    "chat": r"turn: [1-9]\d* tokens from the cache",
    "classify": r"(sport|weather|cooking|money) +Snow closes mountain roads",
    "extraction": r"orchard\.txt: .*(euro|pound|dollar)",
    "judge": r"(?s)clarity: [1-5] of 5.*verdict: \S+",
    "react": r"answer: (\d+|None)",
    "tree_of_thought": r"votes: -?\d+ \(\d\)",
}


def _load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_all_examples_are_listed(project_root: Path) -> None:
    assert {path.stem for path in (project_root / "examples").glob("*.py")} == set(PROMISED)


@pytest.mark.parametrize("name", sorted(PROMISED))
def test_example(name: str, engine: rx.Engine, project_root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    module = _load(project_root / "examples" / f"{name}.py")
    started = time.monotonic()
    module.main(engine)
    assert time.monotonic() - started < 60
    assert re.search(PROMISED[name], capsys.readouterr().out)


@pytest.mark.slow
def test_the_demo_shows_what_was_shared(project_root: Path, model_file: Path) -> None:
    command = [sys.executable, "-m", "radixrt.cli", "run", "examples/character_cards.py:card", "--arg", "name=Ada"]
    done = subprocess.run(
        [*command, "--model", str(model_file), "--temperature", "0"],
        check=True,
        capture_output=True,
        text=True,
        cwd=project_root,
        env={**os.environ, "PYTHONSAFEPATH": "1", "COLUMNS": "120"},
    )
    assert re.search(r"taken from the cache\s*│\s*[1-9]\d+", done.stdout), done.stdout
    assert "score: " in done.stdout
