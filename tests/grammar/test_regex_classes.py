"""Sets of characters: Unicode properties against ``unicodedata``, classes under flags against ``re``."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterable

import pytest

from radixrt.grammar.charsets import ignoring_case, python_class
from radixrt.grammar.unicode_properties import binary_property, case_variants, general_category
from radixrt.grammar.utf8 import Range

CHARACTERS = [chr(code) for code in range(sys.maxunicode + 1)]
CASED_PLANES = CHARACTERS[:0x20000]


def members(ranges: Iterable[Range] | None) -> set[str]:
    assert ranges is not None
    return {char for first, last in ranges for char in CHARACTERS[first : last + 1]}


def test_general_categories_are_those_of_unicodedata() -> None:
    """Over every code point: only the planes that have characters are scanned."""
    expected: dict[str, set[str]] = {}
    for char, category in zip(CHARACTERS, map(unicodedata.category, CHARACTERS), strict=True):
        expected.setdefault(category, set()).add(char)
    for category, chars in expected.items():
        assert members(general_category(category)) == chars, category
    assert members(general_category("LC")) == expected["Lu"] | expected["Ll"] | expected["Lt"]
    assert members(general_category("Separator")) == expected["Zs"] | expected["Zl"] | expected["Zp"]
    assert general_category("Xx") is None


@pytest.mark.parametrize("flags", [re.NOFLAG, re.ASCII])
@pytest.mark.parametrize("letter", "dDwWsS")
def test_class_escapes_are_those_of_re(letter: str, flags: re.RegexFlag) -> None:
    expected = set(re.findall(f"\\{letter}", "".join(CHARACTERS), flags))
    assert members(python_class(letter, bool(flags))) == expected


@pytest.mark.parametrize("flags", [re.IGNORECASE, re.IGNORECASE | re.ASCII])
@pytest.mark.parametrize(
    ("source", "spans", "classes"),
    [
        (r"[\W]", [], ["W"]),
        (r"[\w]", [], ["w"]),
        (r"[\Sk]", [(107, 107)], ["S"]),
        (r"[\Dα-ω]", [(0x3B1, 0x3C9)], ["D"]),
        (r"[\WA-Zſ]", [(65, 90), (0x17F, 0x17F)], ["W"]),
        ("[ı-ĳ]", [(0x131, 0x133)], []),
    ],
)
def test_case_is_ignored_as_re_does_beside_class_escapes(
    source: str, spans: list[Range], classes: list[str], flags: re.RegexFlag
) -> None:
    """``(?i)\\W`` matches no iota, although a combining iota, which is no word character, folds to it."""
    expected = set(re.findall(source, "".join(CASED_PLANES), flags))
    found = members(ignoring_case(spans, classes, bool(flags & re.ASCII)))
    assert found & set(CASED_PLANES) == expected


@pytest.mark.parametrize(
    ("name", "some", "none"),
    [
        ("Lowercase", "aªⓐß", "AⒶ1"),
        ("Upper", "AⒶ", "aª"),
        ("Cased", "aAⒶǅª", "1ƻ日"),
        ("White_Space", " \x85\u2029", "\x1c\u200b"),
        ("Pattern_White_Space", "\u200e \x85", "\xa0\u3000"),
        ("XID_Start", "aé日℘", "_1-"),
        ("XIDC", "aé日_1·", "-$"),
        ("Hex_Digit", "09afAF" + "９ａＦ", "gG" + "ｇ"),
        ("AHex", "09afAF", "g" + "９"),
        ("Bidi_M", "()«", "a|"),
        ("Changes_When_Lowercased", "AÅǅ", "aß"),
        ("Changes_When_Uppercased", "aßŉ", "A1"),
        ("Changes_When_Casefolded", "Aßſ", "a1"),
        ("Noncharacter_Code_Point", "\ufffe\U0010ffff\ufdd0", "a\ufffd"),
        ("Regional_Indicator", "\U0001f1e6", "a"),
        ("Join_C", "\u200c\u200d", "\u200b"),
        ("Assigned", "a\ue000", "\u0378\uffff"),
    ],
)
def test_binary_properties(name: str, some: str, none: str) -> None:
    found = members(binary_property(name))
    assert set(some) <= found
    assert not found & set(none)


@pytest.mark.parametrize("name", ["Emoji", "Alphabetic", "Script", "lowercase", "IDS", "Math", ""])
def test_properties_that_need_other_tables_are_unknown(name: str) -> None:
    assert binary_property(name) is None


def test_simple_case_folding() -> None:
    for same in ("kK\u212a", "sS\u017f", "ßẞ", "åÅ\u212b", "σςΣ", "ᾳᾼ", "\u0345\u03b9\u0399\u1fbe", "\uab70\u13a0"):
        for char in same:
            assert members(case_variants(((ord(char), ord(char)),))) == set(same)
    for alone in "İıŉǰ1日":
        assert members(case_variants(((ord(alone), ord(alone)),))) == {alone}
