"""The page about constraints says what is so: its example runs, and what it lists as refused is refused."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from radixrt.api import Constraint
from radixrt.errors import UnsupportedConstraint
from radixrt.grammar import Compiler

KINDS: dict[str, Any] = {"schema": "json_schema"}


@pytest.fixture(scope="module")
def page(project_root: Path) -> str:
    return (project_root / "docs" / "grammar.md").read_text(encoding="utf-8")


def test_the_example_runs(page: str) -> None:
    (program,) = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    assert program.count("assert") > 5
    subprocess.run([sys.executable, "-P", "-c", program], check=True, timeout=60)


def test_what_is_listed_as_refused_is_refused_by_that_name(page: str, bytes_compiler: Compiler) -> None:
    rows = re.findall(r"^\| (\w+) \| `(.+?)` \| `(.+?)` \| \S.* \|$", page, re.MULTILINE)
    assert {kind for kind, _, _ in rows} == {"schema", "regex", "ebnf", "lark", "structural_tag"}
    assert len(rows) > 20
    for kind, source, keyword in rows:
        with pytest.raises(UnsupportedConstraint) as caught:
            bytes_compiler.compile(Constraint(kind=KINDS.get(kind, kind), source=source))
        assert caught.value.keyword == keyword, source
