"""The pages about constraints say what is so: the example runs, the tables name every module, keyword and format,
their examples are taken or refused as they say, and the figures are those of the ratchets."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from radixrt.api import Constraint
from radixrt.errors import UnsupportedConstraint
from radixrt.grammar import Compiler
from radixrt.grammar.json_schema.formats import FORMATS
from radixrt.grammar.json_schema.keywords import ANNOTATIONS, KEYWORDS

KINDS: dict[str, Any] = {"schema": "json_schema"}


@pytest.fixture(scope="module")
def page(project_root: Path) -> str:
    return (project_root / "docs" / "grammar.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def support(project_root: Path) -> str:
    return (project_root / "docs" / "grammar_support.md").read_text(encoding="utf-8")


def table(text: str, head: str) -> list[list[str]]:
    """The cells of the table with this first line, without the back-quotes around a whole cell."""
    lines = text[text.index(head + "\n") :].splitlines()[2:]
    rows = lines[: next((i for i, line in enumerate(lines) if not line.startswith("|")), len(lines))]
    return [
        [re.sub(r"^`(.*)`$", r"\1", cell.strip()).replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", row)[1:-1]]
        for row in rows
    ]


def named(cell: str) -> list[str]:
    return re.split("`, `|; `", cell)


def test_the_example_runs(page: str) -> None:
    (program,) = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    assert program.count("assert") > 5
    subprocess.run([sys.executable, "-P", "-c", program], check=True, timeout=60)


def test_the_passes_are_all_modules(page: str, project_root: Path) -> None:
    start = page.index("| pass | ")
    files = re.findall(r"`([\w/]+\.(?:py|cpp))`", page[start : page.index("\n\n", start)])
    assert [name for name, count in Counter(files).items() if count > 1] == []
    kernels = {name for name in files if name.startswith("kernels/")}
    assert [name for name in kernels if not (project_root / name).is_file()] == []
    room = project_root / "grammar"
    modules = {str(path.relative_to(room)) for path in room.rglob("*.py") if path.name != "__init__.py"}
    assert set(files) - kernels == modules


# --- what is taken ---


def test_every_keyword_has_a_row_and_its_example_is_so(support: str, bytes_compiler: Compiler) -> None:
    rows = table(support, "| keywords | how, and refused when | example | valid | invalid |")
    keywords = [keyword for row in rows for keyword in named(row[0])]
    assert sorted(keywords) == sorted(KEYWORDS.keys() | ANNOTATIONS)
    for keywords_of_row, _, schema, valid, invalid in rows:
        grammar = bytes_compiler.json_schema(schema)
        assert grammar.matches(valid), schema
        assert not grammar.matches(invalid), schema
        assert any(f'"{keyword}"' in schema for keyword in named(keywords_of_row)), schema


def test_every_format_has_a_row_and_its_example_is_so(support: str, bytes_compiler: Compiler) -> None:
    rows = table(support, "| format | how | valid | invalid |")
    assert sorted(name for row in rows for name in named(row[0])) == sorted(FORMATS)
    for names, _, valid, invalid in rows:
        grammar = bytes_compiler.json_schema({"format": named(names)[0], "type": "string"})
        assert grammar.matches(json.dumps(valid)), names
        assert not grammar.matches(json.dumps(invalid)), names


# --- what is refused ---


def test_what_is_listed_as_refused_is_refused_by_that_name_at_that_place(
    support: str, bytes_compiler: Compiler
) -> None:
    rows = table(support, "| kind | example | keyword | location | why |")
    assert {row[0] for row in rows} == {"schema", "regex", "ebnf", "lark", "structural_tag"}
    assert len(rows) > 25
    for kind, source, keyword, location, why in rows:
        with pytest.raises(UnsupportedConstraint) as caught:
            bytes_compiler.compile(Constraint(kind=KINDS.get(kind, kind), source=source))
        assert (caught.value.keyword, caught.value.location) == (keyword, location), source
        assert why


# --- figures ---


def test_the_figures_are_those_of_the_ratchets(page: str, project_root: Path) -> None:
    folder = project_root / "tests" / "grammar_json" / "ratchets"
    held = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*.json")}
    counts = {name: Counter({outcome: len(keys) for outcome, keys in of.items()}) for name, of in held.items()}
    required, optional = Counter[str](), Counter[str]()
    for outcome, keys in held["suite"].items():
        for key in keys:
            (optional if key.startswith("optional/") else required)[outcome.split(":")[0]] += 1
    documented = counts["sample"] - Counter(compiled=counts["sample"]["compiled"])
    rows = {row[0]: row[1:] for row in table(page, "| corpus | right | otherwise | invalid documents taken |")}
    for label, found in {
        "schemas with documents": documented,
        "required tests": required,
        "optional formats": optional,
        "regular expressions": counts["regex"],
        "public bug reports": counts["bugs"],
    }.items():
        (name,) = (name for name in rows if label in name)
        total, right = found.total(), found["right"]
        right_cell, others, taken = rows[name]
        assert int(name.split()[0]) == total, name
        assert right_cell in (f"{right}", f"{right} ({100 * right / total:.1f} %)"), name
        assert sum(int(part.split()[0]) for part in others.split(", ")) == total - right, name
        refused = sum(count for outcome, count in found.items() if outcome.startswith("refused"))
        assert [int(n) for n in re.findall(r"(\d+) refused", others)] == [refused] * bool(refused), name
        assert int(taken) == found["accepted"] == 0
