"""Flags of groups inside groups, each against ``re``: what an inner group takes back of an outer one."""

from __future__ import annotations

import itertools
import re

import pytest

from radixrt.errors import UnsatisfiableConstraint
from radixrt.grammar import Compiler

OUTER = ("", "(?a)", "(?i)", "(?ai)", "(?s)", "(?m)")
GROUPS = ("(?a:{})", "(?u:{})", "(?i:{})", "(?ai:{})", "(?ui:{})", "(?-i:{})", "(?u-i:{})", "(?s-i:{})")
PARTS = (
    *(
        r"\w",
        r"\W",
        r"[^\w]",
        r"[^\W]",
        r"\d",
        r"\D",
        r"\s",
        r"[^\S]",
        r"\b{}",
        r"\B{}",
        "ß",
        "[^ß]",
        "[k-s]",
        "[^ſ]",
    ),
    *(".", "^{}$"),
)
TEXTS = ("é", "ẞ", "ß", "K", "k", "K", "ſ", "s", "٣", "\u00a0", " ", "\n", "-", "")


@pytest.mark.parametrize("first", OUTER)
@pytest.mark.parametrize("outer", ["{}", *GROUPS])
def test_nested_flags_mean_what_they_mean_to_re(first: str, outer: str, bytes_compiler: Compiler) -> None:
    for inner, part in itertools.product(GROUPS, PARTS):
        pattern = first + outer.format(inner.format(part.replace("{}", "[é-]")))
        expected = [re.fullmatch(pattern, text) is not None for text in TEXTS]
        try:
            grammar = bytes_compiler.regex(pattern)
        except UnsatisfiableConstraint:
            assert not any(expected), pattern
            continue
        assert [grammar.matches(text) for text in TEXTS] == expected, pattern


def test_flags_end_with_their_group(bytes_compiler: Compiler) -> None:
    pattern = r"(?a)\w(?u:\w(?a:\w)\w)\w"
    grammar = bytes_compiler.regex(pattern)
    for text in map("".join, itertools.product("aé", repeat=5)):
        assert grammar.matches(text) == (re.fullmatch(pattern, text) is not None), text
