"""The page about notations says what is so: its example runs, and it names every format and no other."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from radixrt.grammar import GrammarLimits, Vocabulary
from radixrt.grammar.cfg import GrammarBuilder
from radixrt.grammar.rx import Pool
from radixrt.grammar.structural_pieces import Pieces
from radixrt.grammar.structural_tag import TextFormats
from radixrt.grammar.structural_tags import TagFormats
from radixrt.grammar.structural_tokens import TokenFormats
from radixrt.grammar.token_symbols import TokenSymbols


@pytest.fixture(scope="module")
def page(project_root: Path) -> str:
    return (project_root / "docs" / "grammar_notations.md").read_text(encoding="utf-8")


def test_the_example_runs(page: str) -> None:
    (program,) = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    assert program.count("assert") > 5
    subprocess.run([sys.executable, "-P", "-c", program], check=True, timeout=60)


def test_the_formats_are_all_of_them(page: str, pool: Pool, byte_vocab: Vocabulary) -> None:
    pieces = Pieces(GrammarBuilder(pool), GrammarLimits(), TokenSymbols(pool, byte_vocab))
    TokenFormats(pieces, TagFormats(pieces))
    TextFormats(pieces)
    table = page[page.index("| format | fields |") :]
    named = {
        name for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)
    }
    assert named == pieces.formats.keys() - {"qwen_xml_parameter"}  # an older name of a style
