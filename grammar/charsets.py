"""Sets of code points that have names: the classes of Python's and ECMAScript's regular expressions.

Python's own are taken from ``re`` itself, by matching characters once, so they are exact for the running version,
case-insensitive classes included. Results are sorted, disjoint ranges; pure functions, remembered. Unicode
properties are in ``unicode_properties.py``; how a pattern spells a class is not known here.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

from radixrt.grammar.unicode_properties import assigned_text, from_index
from radixrt.grammar.utf8 import Range, complement, intersect, normalized, unite

__all__ = ["ECMA_NEWLINES", "ECMA_SPACES", "ignoring_case", "python_class"]

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


@functools.cache
def python_class(letter: str, ascii_only: bool) -> tuple[Range, ...]:
    """The class escape ``\\d``, ``\\D``, ``\\w``, ``\\W``, ``\\s`` or ``\\S`` of ``re`` for str patterns.

    ``ascii_only`` as under ``re.ASCII``.
    """
    if letter.isupper():
        return complement(python_class(letter.lower(), ascii_only))
    runs = re.finditer(rf"\{letter}+", assigned_text(), re.ASCII if ascii_only else 0)
    return normalized((from_index(run.start()), from_index(run.end() - 1)) for run in runs)


def ignoring_case(spans: Sequence[Range], classes: Sequence[str], ascii_only: bool) -> tuple[Range, ...]:
    """The characters that ``re.IGNORECASE`` lets a class of these ranges and class escapes (letters) match.

    ``spans`` as written: to ``re`` a range is more than the characters in it, and so is it than a class escape.
    """
    return _ignoring_case(tuple(spans), tuple(classes), ascii_only)


@functools.lru_cache(maxsize=4096)
def _ignoring_case(spans: tuple[Range, ...], classes: tuple[str, ...], ascii_only: bool) -> tuple[Range, ...]:
    """A pattern asks for the same few letters again and again."""
    source = "".join(_escaped(a) if a == b else f"{_escaped(a)}-{_escaped(b)}" for a, b in spans)
    source += "".join(f"\\{letter}" for letter in classes)
    if not source:
        return ()
    cased, ranges_of_cased = _cased()
    flags = re.IGNORECASE | (re.ASCII if ascii_only else 0)
    matched = [(ord(c), ord(c)) for c in re.findall(f"[{source}]", cased, flags)]
    written = unite(spans, *(python_class(letter, ascii_only) for letter in classes))
    return unite(intersect(written, complement(ranges_of_cased)), matched)


def _escaped(code: int) -> str:
    return f"\\U{code:08x}"


@functools.cache
def _cased() -> tuple[str, tuple[Range, ...]]:
    """All characters that some case mapping changes or leads to."""
    found: set[str] = set()
    for char in assigned_text():
        low, up = char.lower(), char.upper()
        if low != char or up != char:
            found.update(char, low, up)
    text = "".join(sorted(found))
    return text, normalized((ord(c), ord(c)) for c in text)
