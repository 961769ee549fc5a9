"""What README and docs name exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PATH = re.compile(r"`((?:radixrt|frontend|grammar|kernels|tests|examples|docs)/[\w./-]*)`")
LINK = re.compile(r"\]\(((?!https?:)[^)#]+)")


def _pages(root: Path) -> list[Path]:
    return [root / "README.md", *sorted((root / "docs").glob("*.md"))]


def test_every_path_named_in_a_page_exists(project_root: Path) -> None:
    missing = []
    for page in _pages(project_root):
        text = page.read_text(encoding="utf-8")
        missing += [f"{page.name}: {path}" for path in PATH.findall(text) if not (project_root / path).exists()]
        missing += [f"{page.name}: {link}" for link in LINK.findall(text) if not (page.parent / link).exists()]
    assert missing == []


def test_no_page_has_a_place_left_to_fill(project_root: Path) -> None:
    marks = re.compile(r"\b(TODO|FIXME|XXX|TBD|DEMO|FIGURES)\b")
    assert [page.name for page in _pages(project_root) if marks.search(page.read_text(encoding="utf-8"))] == []


def test_the_life_of_a_program_names_a_file_for_each_step(project_root: Path) -> None:
    text = (project_root / "docs" / "life_of_a_program.md").read_text(encoding="utf-8")
    steps = re.split(r"^\d+\. ", text, flags=re.M)[1:]
    assert len(steps) >= 6
    for step in steps:
        assert PATH.search(step), step[:60]


def test_every_flag_is_documented(project_root: Path) -> None:
    from radixrt.config import flag_table

    text = (project_root / "docs" / "flags.md").read_text(encoding="utf-8")
    assert [flag.option for flag in flag_table().values() if f"`{flag.option}`" not in text] == []


@pytest.mark.parametrize(
    "target", ["demo", "test", "test-clients", "lint", "types", "bench", "soak", "serve", "kernels"]
)
def test_make_targets_are_short(project_root: Path, target: str) -> None:
    text = (project_root / "Makefile").read_text(encoding="utf-8")
    match = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", text, flags=re.M)
    assert match
    assert len(match.group(1).splitlines()) <= 10
