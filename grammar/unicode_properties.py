"""Unicode properties of characters, as far as the running Python knows them exactly.

General categories come from ``unicodedata``; binary properties where the standard library has the property itself
(``str.islower`` is Lowercase, identifiers are XID_Start and XID_Continue), where Unicode defines one by those
(Cased, Changes_When_Lowercased), and where Unicode's stability policy fixes it for good (Pattern_White_Space,
Noncharacter_Code_Point). A property that would need another table, such as Script or Emoji, is unknown here, and
the caller refuses it. Results are sorted, disjoint ranges; everything is computed when first asked for.
"""

from __future__ import annotations

import bisect
import functools
import unicodedata
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import numpy as np

from radixrt.grammar.utf8 import Range, complement, normalized, unite

__all__ = ["assigned_text", "binary_property", "case_variants", "from_index", "general_category"]

# The planes that have characters: 0 to 3 and the first block of 14. Of the others, 15 and 16 are private use, which
# never changes, and 4 to 13 are empty. Scanning all would cost four times as much; a test compares the tables with
# ``unicodedata`` over every code point, so that a Unicode that fills another plane is noticed.
_LOW: Final = 0x40000
_HIGH: Final = (0xE0000, 0xE1000)
_PRIVATE: Final = ((0xF0000, 0xFFFFD), (0x100000, 0x10FFFD))
_SURROGATES: Final = (0xD800, 0xDFFF)

_LONG_CATEGORIES: Final = {
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
def assigned_text() -> str:
    """The code points of the planes that have characters, ascending; ``from_index`` says which is where."""
    codes = np.concatenate([np.arange(_LOW, dtype="<u4"), np.arange(*_HIGH, dtype="<u4")])
    return codes.tobytes().decode("utf-32-le", "surrogatepass")


def from_index(index: int) -> int:
    """The code point at a place of ``assigned_text``."""
    return index if index < _LOW else index - _LOW + _HIGH[0]


# --- general categories ---------------------------------------------------------------------------


def general_category(name: str) -> tuple[Range, ...] | None:
    """The characters of a Unicode general category by its short or long name; None for another name."""
    short = _LONG_CATEGORIES.get(name, name)
    table = _categories()
    if short == "LC":
        return unite(table["Lu"], table["Ll"], table["Lt"])
    members = [ranges for key, ranges in table.items() if key == short or (len(short) == 1 and key[0] == short)]
    return unite(*members) if members else None


@functools.cache
def _categories() -> Mapping[str, tuple[Range, ...]]:
    names = "".join(map(unicodedata.category, assigned_text()))
    codes = np.frombuffer(names.encode(), "<u2")
    ends = np.flatnonzero(codes[1:] != codes[:-1])
    breaks = sorted({*(ends + 1).tolist(), _LOW, len(codes)})
    spans: dict[str, list[Range]] = {"Co": list(_PRIVATE)}
    start = 0
    for stop in breaks:
        spans.setdefault(names[2 * start : 2 * start + 2], []).append((from_index(start), from_index(stop - 1)))
        start = stop
    spans["Cn"] += complement(unite(*spans.values(), ((_LOW, _LOW),)))
    spans["Cn"].append((_LOW, _LOW))
    return MappingProxyType({category: normalized(ranges) for category, ranges in spans.items()})


# --- binary properties ----------------------------------------------------------------------------


def binary_property(name: str) -> tuple[Range, ...] | None:
    """The characters that have a binary property, by its short or long name; None for one not known exactly."""
    make = _BINARY.get(_SHORT_NAMES.get(name, name))
    return None if make is None else _made(make)


@functools.cache
def _made(make: Callable[[], tuple[Range, ...]]) -> tuple[Range, ...]:
    return make()


def _where(holds: Callable[[str], bool]) -> tuple[Range, ...]:
    """The assigned characters of which something is true."""
    text = assigned_text()
    flags = np.fromiter(map(holds, text), np.bool_, len(text)).astype(np.int8)
    edges = np.flatnonzero(np.diff(flags, prepend=0, append=0)).tolist()
    pairs = zip(edges[::2], edges[1::2], strict=True)
    return normalized((from_index(start), from_index(stop - 1)) for start, stop in pairs)


def _changing(mapping: Callable[[str], str]) -> Callable[[], tuple[Range, ...]]:
    """Unicode's Changes_When_...: whether a mapping changes the canonical decomposition of a character."""

    def changes(char: str) -> bool:
        whole = unicodedata.normalize("NFD", char)
        return mapping(whole) != whole

    return lambda: _where(changes)


_WHITE_SPACE: Final = (
    (0x09, 0x0D), (0x20, 0x20), (0x85, 0x85), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A), (0x2028, 0x2029),
    (0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000),
)  # fmt: skip
_PATTERN_WHITE_SPACE: Final = ((0x09, 0x0D), (0x20, 0x20), (0x85, 0x85), (0x200E, 0x200F), (0x2028, 0x2029))
_NONCHARACTERS: Final = ((0xFDD0, 0xFDEF), *((p + 0xFFFE, p + 0xFFFF) for p in range(0, 0x110000, 0x10000)))
_ASCII_HEX: Final = ((0x30, 0x39), (0x41, 0x46), (0x61, 0x66))
_FULLWIDTH_HEX: Final = ((0xFF10, 0xFF19), (0xFF21, 0xFF26), (0xFF41, 0xFF46))

_BINARY: Final[Mapping[str, Callable[[], tuple[Range, ...]]]] = MappingProxyType(
    {
        "Any": lambda: ((0, 0x10FFFF),),
        "ASCII": lambda: ((0, 0x7F),),
        "ASCII_Hex_Digit": lambda: _ASCII_HEX,
        "Assigned": lambda: complement(_categories()["Cn"]),
        "Bidi_Mirrored": lambda: _where(lambda char: unicodedata.mirrored(char) == 1),
        "Cased": lambda: unite(_where(str.islower), _where(str.isupper), _categories()["Lt"]),
        "Changes_When_Casefolded": _changing(str.casefold),
        "Changes_When_Lowercased": _changing(str.lower),
        "Changes_When_Uppercased": _changing(str.upper),
        "Hex_Digit": lambda: unite(_ASCII_HEX, _FULLWIDTH_HEX),
        "Join_Control": lambda: ((0x200C, 0x200D),),
        "Lowercase": lambda: _where(str.islower),
        "Noncharacter_Code_Point": lambda: _NONCHARACTERS,
        "Pattern_White_Space": lambda: _PATTERN_WHITE_SPACE,
        "Regional_Indicator": lambda: ((0x1F1E6, 0x1F1FF),),
        "Uppercase": lambda: _where(str.isupper),
        "White_Space": lambda: _WHITE_SPACE,
        "XID_Continue": lambda: _where(lambda char: ("a" + char).isidentifier()),
        "XID_Start": lambda: _where(lambda char: char != "_" and char.isidentifier()),
    }
)
_SHORT_NAMES: Final = {
    "AHex": "ASCII_Hex_Digit", "Bidi_M": "Bidi_Mirrored", "CWCF": "Changes_When_Casefolded",
    "CWL": "Changes_When_Lowercased", "CWU": "Changes_When_Uppercased", "Hex": "Hex_Digit",
    "Join_C": "Join_Control", "Lower": "Lowercase", "NChar": "Noncharacter_Code_Point",
    "Pat_WS": "Pattern_White_Space", "RI": "Regional_Indicator", "Upper": "Uppercase", "space": "White_Space",
    "XIDC": "XID_Continue", "XIDS": "XID_Start",
}  # fmt: skip


# --- case -----------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=4096)
def case_variants(ranges: tuple[Range, ...]) -> tuple[Range, ...]:
    """The characters whose simple case folding is that of a character in ``ranges``."""
    folds = _folding_classes()
    more = [(ord(c), ord(c)) for same in folds if any(_inside(ranges, c) for c in same) for c in same]
    return unite(ranges, more)


def _inside(ranges: tuple[Range, ...], char: str) -> bool:
    place = bisect.bisect_right(ranges, (ord(char), 0x110000)) - 1
    return place >= 0 and ranges[place][1] >= ord(char)


@functools.cache
def _folding_classes() -> tuple[str, ...]:
    """The sets of two and more characters that have one simple case folding."""
    classes: dict[str, list[str]] = {}
    for char in assigned_text():
        folded = char.casefold()
        if len(folded) > 1:  # the full folding is longer: where there is a simple one, it is the lower case
            folded = char.lower() if len(char.lower()) == 1 else char
        if folded != char:
            classes.setdefault(folded, [folded]).append(char)
    return tuple("".join(same) for same in classes.values())
