"""Labels of internationalized host names (RFC 5890 to 5893), as far as they are regular and certain.

Which characters a label may have is derived from ``unicodedata`` by the rules of RFC 5892, contextual rules
included; the bidirectional rule is that of RFC 5893. Left out, as it rests on tables that Python does not have or
is not regular: characters beyond the Basic Multilingual Plane, those that may compose with the one before them,
combining marks side by side, zero-width non-joiners between joining letters, labels already in their ASCII form
(``xn--``), names of more than four labels and labels whose ASCII form may be too long. All is said by what may come
next, without complements, so that the states stay few. Nothing here knows about schemas.
"""

from __future__ import annotations

import functools
import unicodedata
from typing import Final

from radixrt.grammar.rx import EMPTY, Pool, Rx
from radixrt.grammar.unicode_properties import general_category
from radixrt.grammar.utf8 import Range, complement, intersect, normalized, unite

__all__ = ["idn_hostname"]

_LABEL_BYTES: Final = 32  # short enough for an ASCII form of 59 bytes, whatever the characters are
_MORE_LABELS: Final = 3  # four of 59 are below the 253 of a name
_LETTERS: Final = ((0x61, 0x7A),)
_PLANE: Final = ((0x80, 0xFFFF),)
_ASCII: Final = ((0x30, 0x39), (0x61, 0x7A))
# RFC 5892, 2.6: valid whatever the rules say, valid in a context, and never valid.
_EXCEPTIONS: Final = ((0xDF, 0xDF), (0x3C2, 0x3C2), (0x6FD, 0x6FE), (0xF0B, 0xF0B), (0x3007, 0x3007))
_MIDDLE_DOT: Final = ((0xB7, 0xB7),)
_KERAIA: Final = ((0x375, 0x375),)
_GERESH: Final = ((0x5F3, 0x5F4),)
_JOINERS: Final = ((0x200C, 0x200D),)
_KATAKANA_DOT: Final = ((0x30FB, 0x30FB),)
_CONTEXT: Final = (*_MIDDLE_DOT, *_KERAIA, *_GERESH, *_JOINERS, *_KATAKANA_DOT)
_GREEK: Final = ((0x3B1, 0x3C9),)
_HEBREW: Final = ((0x5D0, 0x5EA),)
_NEVER: Final = ((0x640, 0x640), (0x7FA, 0x7FA), (0x302E, 0x302F), (0x3031, 0x3035), (0x303B, 0x303B))
# RFC 5892, 2.3, 2.4 and 2.9: ignorable characters that are letters or marks, marks for symbols, Hangul parts.
_IGNORED: Final = (
    (0x34F, 0x34F), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F), (0x20D0, 0x20FF), (0x3164, 0x3164),
    (0xFE00, 0xFE0F), (0xFFA0, 0xFFA0), (0x1100, 0x11FF), (0xA960, 0xA97F), (0xD7B0, 0xD7FF),
)  # fmt: skip
# Stable, never composing, of the bidirectional class L: taken as they are, as looking at each takes long.
_IDEOGRAPHS_AND_HANGUL: Final = ((0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3))
_KANA_OR_HAN: Final = ((0x3041, 0x3096), (0x30A1, 0x30FA), (0x3400, 0x4DBF), (0x4E00, 0x9FFF))


class _Sets:
    """The characters of labels by what the rules ask about them."""

    def __init__(self) -> None:
        valid = [code for first, last in _candidates() for code in range(first, last + 1) if _is_stable(chr(code))]
        valid += [code for first, last in (*_ASCII, *_EXCEPTIONS) for code in range(first, last + 1)]
        marks = general_category("M") or ()
        starters = _ranges([code for code in valid if not unicodedata.combining(chr(code))])
        self.left = unite(
            _of_classes(starters, "L", "EN"), intersect(_IDEOGRAPHS_AND_HANGUL, general_category("Lo") or ())
        )
        self.left_first = intersect(self.left, complement(marks))
        self.right = intersect(_of_classes(starters, "R", "AL"), complement(marks))
        self.digits = _of_classes(starters, "EN")
        self.arabic_digits = _of_classes(starters, "AN")
        self.combining = _ranges([code for code in valid if unicodedata.combining(chr(code)) not in (0, 9)])
        self.viramas = _ranges([code for code in valid if unicodedata.combining(chr(code)) == 9])


def _of_classes(ranges: tuple[Range, ...], *classes: str) -> tuple[Range, ...]:
    """The characters that have one of some bidirectional classes."""
    codes = (code for first, last in ranges for code in range(first, last + 1))
    return _ranges([code for code in codes if unicodedata.bidirectional(chr(code)) in classes])


def _candidates() -> tuple[Range, ...]:
    letters = unite(*(general_category(name) or () for name in ("Ll", "Lu", "Lo", "Nd", "Lm", "Mn", "Mc")))
    left_out = unite(_EXCEPTIONS, _CONTEXT, _NEVER, _IGNORED, _IDEOGRAPHS_AND_HANGUL, _composing())
    return intersect(intersect(letters, _PLANE), complement(left_out))


def _is_stable(char: str) -> bool:
    whole = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", char).casefold())
    return unicodedata.normalize("NFKC", whole) == char


def _composing() -> tuple[Range, ...]:
    """The characters that some other character before them may compose with."""
    pairs = (unicodedata.decomposition(chr(code)).split() for code in range(0xA0, 0x3400))
    return _ranges([int(pair[1], 16) for pair in pairs if len(pair) == 2 and pair[0][0] != "<"])


def _ranges(codes: list[int]) -> tuple[Range, ...]:
    return normalized((code, code) for code in codes)


@functools.cache
def _sets() -> _Sets:
    return _Sets()


def idn_hostname(pool: Pool, ascii_label: Rx) -> Rx:
    """Host names of labels in any script; ``ascii_label`` is the language of labels in ASCII."""
    dot = pool.chars(normalized((ord(char), ord(char)) for char in ".\u3002\uff0e\uff61"))

    def name(label: Rx, most: int | None) -> Rx:
        return pool.concat(label, pool.repeat(pool.concat(dot, label), 0, most))

    short = pool.repeat(pool.any_byte, 1, _LABEL_BYTES)
    to_the_right = pool.and_(pool.alt(_to_the_right(pool), ascii_label), short)
    # In a name with a right-to-left label the bidirectional rule holds for all: no digit first.
    letter_first = _hyphened(pool, pool.chars(_LETTERS), pool.chars(_ASCII))
    to_the_left = pool.and_(pool.alt(_to_the_left(pool), letter_first), short)
    in_ascii = pool.and_(name(ascii_label, None), pool.repeat(pool.any_byte, 1, 253))
    return pool.alt(in_ascii, name(to_the_right, _MORE_LABELS), name(to_the_left, _MORE_LABELS))


def _hyphened(pool: Pool, first: Rx, unit: Rx) -> Rx:
    """Units with single hyphens between them: two are reserved in the third and fourth place."""
    return pool.concat(first, pool.star(pool.concat(pool.opt(pool.literal(b"-")), unit)))


def _to_the_right(pool: Pool) -> Rx:
    """Labels without right-to-left characters: no bidirectional rule binds them among themselves."""
    sets = _sets()
    letter_l, kana = pool.literal(b"l"), pool.chars(_KANA_OR_HAN)
    katakana_dots = pool.repeat(pool.chars(_KATAKANA_DOT), 1, 2)
    marked = _marked(pool)
    contextual = (
        pool.concat(letter_l, pool.plus(pool.concat(pool.chars(_MIDDLE_DOT), letter_l))),
        pool.concat(pool.chars(_KERAIA), pool.chars(_GREEK)),
        pool.concat(kana, katakana_dots),
        pool.concat(katakana_dots, kana),
    )
    first = pool.alt(pool.concat(pool.chars(sets.left_first), marked), *contextual)
    unit = pool.alt(pool.concat(pool.chars(sets.left), marked), *contextual)
    return _hyphened(pool, first, unit)


def _to_the_left(pool: Pool) -> Rx:
    """Labels that begin with a right-to-left letter, with digits of one kind at most."""
    sets = _sets()
    hebrew = pool.concat(pool.chars(_HEBREW), pool.opt(pool.chars(_GERESH)))
    mark = pool.chars(_of_classes(sets.combining, "NSM"))
    letter = pool.alt(pool.concat(pool.chars(sets.right), pool.opt(mark)), hebrew)
    kinds = (sets.digits, sets.arabic_digits)
    return pool.alt(*(_hyphened(pool, letter, pool.alt(letter, pool.chars(digits))) for digits in kinds))


def _marked(pool: Pool) -> Rx:
    """What may follow a starter: one combining mark, or a virama and perhaps a joiner.

    Several marks would have to come in the order of their combining classes.
    """
    sets = _sets()
    joined = pool.concat(pool.chars(sets.viramas), pool.opt(pool.chars(_JOINERS)))
    return pool.alt(EMPTY, pool.chars(sets.combining), joined)
