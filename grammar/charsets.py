"""Sets of code points that have names: the classes of Python's and ECMAScript's regular expressions.

Python's own are taken from ``re`` itself, by matching every code point once, so they are exact for the running
version, case-insensitive classes included. Results are sorted, disjoint ranges; pure functions, remembered.
"""

from __future__ import annotations

import functools
import re
import sys
import unicodedata
from collections.abc import Sequence

import numpy as np

from radixrt.grammar.utf8 import Range, complement, intersect, normalized, unite

__all__ = [
    "ECMA_NEWLINES",
    "ECMA_SPACES",
    "general_category",
    "ignoring_case",
    "python_class",
]

_CLASSES = {"d": r"\d+", "w": r"\w+", "s": r"\s+"}
ECMA_NEWLINES: tuple[Range, ...] = ((0x0A, 0x0A), (0x0D, 0x0D), (0x2028, 0x2029))
"""What ``.`` leaves out in ECMAScript."""
ECMA_SPACES: tuple[Range, ...] = (
    (0x09, 0x0D),
    (0x20, 0x20),
    (0xA0, 0xA0),
    (0x1680, 0x1680),
    (0x2000, 0x200A),
    (0x2028, 0x2029),
    (0x202F, 0x202F),
    (0x205F, 0x205F),
    (0x3000, 0x3000),
    (0xFEFF, 0xFEFF),
)
"""``\\s`` in ECMAScript: white space and line terminators."""

_LONG_CATEGORIES = {
    "Letter": "L", "Cased_Letter": "LC", "Uppercase_Letter": "Lu", "Lowercase_Letter": "Ll",
    "Titlecase_Letter": "Lt", "Modifier_Letter": "Lm", "Other_Letter": "Lo", "Mark": "M", "Nonspacing_Mark": "Mn",
    "Spacing_Mark": "Mc", "Enclosing_Mark": "Me", "Number": "N", "Decimal_Number": "Nd", "digit": "Nd",
    "Letter_Number": "Nl", "Other_Number": "No", "Punctuation": "P", "punct": "P", "Connector_Punctuation": "Pc",
    "Dash_Punctuation": "Pd", "Open_Punctuation": "Ps", "Close_Punctuation": "Pe", "Initial_Punctuation": "Pi",
    "Final_Punctuation": "Pf", "Other_Punctuation": "Po", "Symbol": "S", "Math_Symbol": "Sm",
    "Currency_Symbol": "Sc", "Modifier_Symbol": "Sk", "Other_Symbol": "So", "Separator": "Z",
    "Space_Separator": "Zs", "Line_Separator": "Zl", "Paragraph_Separator": "Zp", "Other": "C", "Control": "Cc",
    "cntrl": "Cc", "Format": "Cf", "Surrogate": "Cs", "Private_Use": "Co", "Unassigned": "Cn",
    "Combining_Mark": "M",
}  # fmt: skip


@functools.cache
def python_class(letter: str, ascii_only: bool) -> tuple[Range, ...]:
    """``\\d``, ``\\w`` or ``\\s`` of ``re`` for str patterns; ``ascii_only`` as under ``re.ASCII``."""
    flags = re.ASCII if ascii_only else 0
    return tuple((m.start(), m.end() - 1) for m in re.finditer(_CLASSES[letter], _every_character(), flags))


def ignoring_case(ranges: Sequence[Range], ascii_only: bool) -> tuple[Range, ...]:
    """See ``_ignoring_case``; a pattern asks for the same few letters again and again."""
    return _ignoring_case(tuple(ranges), ascii_only)


@functools.lru_cache(maxsize=4096)
def _ignoring_case(ranges: tuple[Range, ...], ascii_only: bool) -> tuple[Range, ...]:
    """The characters that ``re.IGNORECASE`` lets a class of these characters match.

    ``ranges`` as written: to ``re`` some ranges are more than the characters in them.
    """
    cased, ranges_of_cased = _cased()
    source = "".join(_escaped(a) if a == b else f"{_escaped(a)}-{_escaped(b)}" for a, b in ranges)
    if not source:
        return ()
    flags = re.IGNORECASE | (re.ASCII if ascii_only else 0)
    matched = [(ord(c), ord(c)) for c in re.findall(f"[{source}]", cased, flags)]
    return unite(intersect(normalized(ranges), complement(ranges_of_cased)), matched)


def _escaped(code: int) -> str:
    return f"\\U{code:08x}"


@functools.cache
def _every_character() -> str:
    """A text whose i-th character is code point i."""
    return np.arange(sys.maxunicode + 1, dtype="<u4").tobytes().decode("utf-32-le", "surrogatepass")


@functools.cache
def _cased() -> tuple[str, tuple[Range, ...]]:
    """All characters that some case mapping changes or leads to."""
    found: set[str] = set()
    for char in _every_character()[:0x20000]:
        low, up = char.lower(), char.upper()
        if low != char or up != char:
            found.update(c for c in (char, *low, *up))
    text = "".join(sorted(found))
    return text, normalized((ord(c), ord(c)) for c in text)


def general_category(name: str) -> tuple[Range, ...] | None:
    """The characters of a Unicode general category by its short or long name; None for another name."""
    short = _LONG_CATEGORIES.get(name, name)
    table = _categories()
    if short == "LC":
        return unite(table["Lu"], table["Ll"], table["Lt"])
    members = [ranges for key, ranges in table.items() if key == short or (len(short) == 1 and key[0] == short)]
    return unite(*members) if members else None


@functools.cache
def _categories() -> dict[str, tuple[Range, ...]]:
    spans: dict[str, list[Range]] = {}
    start, current = 0, unicodedata.category("\0")
    for code, char in enumerate(_every_character()):
        category = unicodedata.category(char)
        if category != current:
            spans.setdefault(current, []).append((start, code - 1))
            start, current = code, category
    spans.setdefault(current, []).append((start, sys.maxunicode))
    return {category: tuple(ranges) for category, ranges in spans.items()}
