"""The tokens of a vocabulary by what they can do to a JSON text: which hold a whole string, or the rest of one.

A repeated name or item spoils few tokens of a mask, and they are found from the side of what was seen: given a
string, which tokens begin with its rest and a closing quote, which hold it between quotes. What is found is a list
of suspects, too long rather than too short; whether one is guilty is for the tracker and the automaton to say.

Strings have more than one spelling (see ``languages.py``: control characters and ``/``), and every spelling counts.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from radixrt.grammar.row_set import MaskRow
from radixrt.grammar.seen_keys import Ranges, by_next_byte
from radixrt.grammar.vocab import Vocabulary

__all__ = ["JsonTokens", "spellings_of"]

_PRIVATE = re.compile(rb"[\xfe\xff]")
_BLANKS: Final = b" \t\n\r"
_DELIMITERS: Final = b" \t\n\r,]}"
_WHOLE_VALUE = re.compile(rb"[\[{].*[\]}]|[0-9][ \t\n\r,\]}]|true|false|null", re.DOTALL)
_INNER_END = re.compile(rb"[\]}]|[0-9][ \t\n\r,\]}]|true|false|null")  # where what is no string may end
_SCALAR_LAST = re.compile(rb"[\[,: \t\n\r](?:-?[0-9][0-9.eE+\-]*|-|t(?:ru?)?|f(?:a(?:ls?)?)?|n(?:ul?)?)$")
_QUOTE_LAST = re.compile(rb'[\[{,: \t\n\r]"$')
_OPENING = re.compile(rb"[\[{][^\]}]*$")
_BLANK_LAST = re.compile(rb'(?:^|["\]}0-9a-z])[ \t\n\r]+$')
_REOPENING = re.compile(rb"[\]}].*[\[{][^\]}]*$", re.DOTALL)
_MAX_KNOWN: Final = 65_536  # rows and kinds whose tokens are remembered
_HIGHEST = b"\xff"  # above any byte of a text
_SHORT_ESCAPES: Final = {8: b"b", 9: b"t", 10: b"n", 12: b"f", 13: b"r"}


def _escapes() -> dict[int, tuple[bytes, ...]]:
    found: dict[int, tuple[bytes, ...]] = {34: (b'\\"',), 92: (b"\\\\",), 47: (b"/", b"\\/")}
    for byte in range(0x20):
        lower = b"\\u%04x" % byte
        forms = {lower, b"\\u%04X" % byte}
        if byte in _SHORT_ESCAPES:
            forms.add(b"\\" + _SHORT_ESCAPES[byte])
        found[byte] = tuple(sorted(forms))
    return found


_ESCAPES: Final = _escapes()


def spellings_of(byte: int) -> tuple[bytes, ...]:
    """How one byte of a string's UTF-8 may stand in JSON text."""
    return _ESCAPES.get(byte) or (bytes((byte,)),)


class _Sorted:
    """Byte strings with the tokens they stand for, in order."""

    def __init__(self, pairs: Sequence[tuple[bytes, int]]) -> None:
        ordered = sorted(pairs)
        self.keys = [key for key, _ in ordered]
        self.tokens = [token for _, token in ordered]

    def beginning(self, prefix: bytes) -> list[int]:
        """The tokens whose string begins with ``prefix``."""
        low = bisect_left(self.keys, prefix)
        if low == len(self.keys) or not self.keys[low].startswith(prefix):
            return []
        return self.tokens[low : bisect_left(self.keys, prefix + _HIGHEST, low)]

    def along(self, texts: Ranges, done: int, tail: bytes, *, tight: bool) -> list[int]:
        """The tokens whose string begins with a quote behind the rest of one of ``texts``, in any spelling.

        ``done`` bytes of those are there, and the part ``tail`` of the spelling of the next one. ``tight``: also
        the tokens whose string is a beginning of such a rest.
        """
        found: list[int] = []
        todo = [(texts, done, tail, b"")]
        while todo:
            ranges, depth, begun, spelled = todo.pop()
            low = bisect_left(self.keys, spelled)
            if low == len(self.keys) or not self.keys[low].startswith(spelled):
                continue
            if tight and spelled:
                found += self.exactly(spelled, low)
            following, ended = by_next_byte(ranges, depth)
            if ended and not begun:
                found += self.beginning(spelled + b'"')
            for byte, rest in following.items():
                for form in spellings_of(byte):
                    if form.startswith(begun):
                        left = form[len(begun) :]
                        todo.append((rest, depth + 1, b"", spelled + left))
                        if tight:
                            for cut in range(1, len(left)):
                                found += self.exactly(spelled + left[:cut], low)
        return found

    def exactly(self, key: bytes, low: int = 0) -> list[int]:
        """The tokens whose string is ``key``; none of them stands before ``low``."""
        low = bisect_left(self.keys, key, low)
        high = low
        while high < len(self.keys) and self.keys[high] == key:
            high += 1
        return self.tokens[low:high]


class JsonTokens:
    """One per vocabulary; shared between threads.

    ``repeating``: tokens in which one string stands between quotes twice. ``closing``: tokens that end a string and
    hold another one whole. ``ending``: tokens in which an array or object may end. ``whole``: tokens that hold one
    of those, a literal or the end of a number. ``several``: tokens in which several such values may end.
    ``numeric``: those made of nothing but characters of numbers. Tokens that end in something that begins in them:
    ``scalar_last`` in a number or the beginning of a literal, ``quote_last`` with a quote that may open a string,
    ``opening`` somewhere in an array or object, ``reopening`` likewise where one may have ended before.
    ``blank_last``: those that end in a blank behind a value, ``opening_blank``: and in one that they began.
    ``delimiting``: bits (uint32 words) of the tokens that begin with
    what may follow a number. ``firsts``: the first byte of each token that is no blank (uint8).
    """

    def __init__(self, vocab: Vocabulary) -> None:
        texts = [(data, i) for i, data in enumerate(vocab.tokens) if data and _PRIVATE.search(data) is None]
        self._texts = _Sorted(texts)
        quoted = [(data, i) for data, i in texts if b'"' in data]
        self._quoted = _Sorted(quoted)
        self._behind_quotes = _Sorted(
            [(data[m.end() :], i) for data, i in quoted for m in re.finditer(b'"', data) if m.end() < len(data)]
        )
        self.repeating = tuple(i for data, i in quoted if _repeats(data))
        self.closing = tuple(i for data, i in quoted if data.count(b'"') >= 3)
        self.ending = tuple(i for data, i in texts if b"]" in data or b"}" in data)
        self.whole = tuple(i for data, i in texts if _WHOLE_VALUE.search(data) is not None)
        self.numeric = tuple(i for data, i in texts if not data.strip(b"+-.0123456789eE"))
        self.several = tuple(i for data, i in texts if len(_INNER_END.findall(data)) > 1)
        self.scalar_last = tuple(i for data, i in texts if _SCALAR_LAST.search(data) is not None)
        self.quote_last = tuple(i for data, i in texts if _QUOTE_LAST.search(data) is not None)
        self.opening = tuple(i for data, i in texts if _OPENING.search(data) is not None)
        self.reopening = tuple(i for data, i in texts if _REOPENING.search(data) is not None)
        self.blank_last = tuple(i for data, i in texts if _BLANK_LAST.search(data) is not None)
        opening = frozenset(self.opening)
        self.opening_blank = tuple(i for i in self.blank_last if i in opening)
        self.firsts: npt.NDArray[np.uint8] = np.zeros(vocab.words * 32, np.uint8)
        for data, i in texts:
            self.firsts[i] = (data.lstrip(_BLANKS) or b" ")[0]
        self.delimiting: npt.NDArray[np.uint32] = np.zeros(vocab.words, np.uint32)
        for data, i in texts:
            if data[0] in _DELIMITERS:
                self.delimiting[i >> 5] |= np.uint32(1 << (i & 31))
        self.delimiting.flags.writeable = False
        self._vocab = vocab
        self._inside: dict[str, tuple[int, ...]] = {}
        self._alive: dict[tuple[bytes, str, bool], tuple[int, ...]] = {}

    def listed(self, kind: str, *, inside: bool) -> tuple[int, ...]:
        """The tokens of the attribute ``kind``; ``inside`` a string only those with a quote (none else leaves)."""
        every: tuple[int, ...] = getattr(self, kind)
        if not inside:
            return every
        known = self._inside.get(kind)
        if known is None:
            least = 2 if kind == "quote_last" else 1  # the first one ends the string
            quoted = (token for token in every if (self._vocab.token_bytes(token) or b"").count(b'"') >= least)
            known = self._inside[kind] = tuple(quoted)
        return known

    def alive(self, kind: str, row: MaskRow, *, inside: bool) -> tuple[int, ...]:
        """Those of ``listed`` that a row allows. Remembered by row, which many states of many grammars share."""
        key = (row.digest, kind, inside)
        known = self._alive.get(key)
        if known is None:
            bits = row.bits
            known = tuple([i for i in self.listed(kind, inside=inside) if bits.item(i >> 5) >> (i & 31) & 1])
            if len(self._alive) >= _MAX_KNOWN:
                self._alive = {}
            self._alive[key] = known
        return known

    def holding(self, text: bytes, *, tight: bool = False) -> frozenset[int]:
        """The tokens in which a quote, ``text`` and a quote may stand (``tight``: or a quote and its beginning)."""
        return frozenset(self._behind_quotes.along((((text,), 0, 1),), 0, b"", tight=tight))

    def finishing(self, texts: Ranges, done: int, tail: bytes = b"", *, tight: bool = False) -> list[int]:
        """The tokens that begin with the rest of one of ``texts`` and a quote; see ``_Sorted.along``."""
        return (self._texts if tight else self._quoted).along(texts, done, tail, tight=tight)

    def beginning(self, prefix: bytes) -> list[int]:
        """The tokens that begin so."""
        return self._texts.beginning(prefix)

    def exactly(self, text: bytes) -> list[int]:
        """The tokens that are ``text``."""
        return self._texts.exactly(text)


def _repeats(data: bytes) -> bool:
    """Whether some string could stand between quotes twice; which quotes open one is not looked at."""
    inner = data.split(b'"')[1:-1]
    return len(set(inner)) < len(inner) or (len(inner) > 1 and b"\\" in data)
