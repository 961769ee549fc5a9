"""Terminals of Lark grammars as terms: strings, patterns, ranges, and the library ``common``.

A terminal is a set of strings. There is no lexer that would cut the text into them, so none of the artefacts of
one: of two terminals that begin alike neither shadows the other, and none is longer than the grammar wants it to
be. What a terminal says is said of its own text: its anchors and assertions see nothing beyond it.

A pattern whose repetitions are lazy means its shortest matches, as a scanner would find them: those strings of it
that do not begin with another of them. Lazy beside greedy ones are refused, that mixture depends on the scanner.
"""

from __future__ import annotations

import json
import re
from types import MappingProxyType
from typing import Final

from radixrt.errors import RadixrtError
from radixrt.grammar.charsets import ignoring_case
from radixrt.grammar.grammar_text import GrammarText
from radixrt.grammar.lark_scanner import Word
from radixrt.grammar.limits import GrammarLimits
from radixrt.grammar.regex import regex_term
from radixrt.grammar.rx import EMPTY, Pool, Rx

__all__ = ["COMMON", "LAZY", "Terminals", "shortest"]

_FLOAT = r"(?:[0-9]+[eE][+-]?[0-9]+|(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
COMMON: Final = MappingProxyType(
    {
        "DIGIT": "[0-9]",
        "HEXDIGIT": "[0-9A-Fa-f]",
        "INT": "[0-9]+",
        "_EXP": "[eE][+-]?[0-9]+",
        "SIGNED_INT": "[+-]?[0-9]+",
        "DECIMAL": r"[0-9]+\.[0-9]*|\.[0-9]+",
        "FLOAT": _FLOAT,
        "SIGNED_FLOAT": f"[+-]?{_FLOAT}",
        "NUMBER": f"{_FLOAT}|[0-9]+",
        "SIGNED_NUMBER": f"[+-]?(?:{_FLOAT}|[0-9]+)",
        "ESCAPED_STRING": r'"(?:[^"\\\n]|\\[^\n])*"',
        "LCASE_LETTER": "[a-z]",
        "UCASE_LETTER": "[A-Z]",
        "LETTER": "[A-Za-z]",
        "WORD": "[A-Za-z]+",
        "CNAME": "[A-Za-z_][A-Za-z_0-9]*",
        "WS_INLINE": r"[ \t]+",
        "WS": r"[ \t\f\r\n]+",
        "CR": r"\r",
        "LF": r"\n",
        "NEWLINE": r"(?:\r?\n)+",
        "SH_COMMENT": r"#[^\n]*",
        "CPP_COMMENT": r"//[^\n]*",
        "SQL_COMMENT": r"--[^\n]*",
        "C_COMMENT": r"/\*(?:[^*]|\*+[^*/])*\*+/",
    }
)
"""The terminals of Lark's own library, as patterns."""
LAZY: Final = ("_STRING_INNER", "_STRING_ESC_INNER")
"""The terminals of that library that mean nothing by themselves: as much as is needed for what follows to match."""

_ESCAPES: Final = MappingProxyType(
    {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "b": "\b", "v": "\v", **{c: c for c in "\\\"'/"}}
)
_HEX_ESCAPES: Final = MappingProxyType({"x": 2, "u": 4, "U": 8})
_ESCAPE: Final = re.compile(r"\\(x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|[^xuU])|([^\\]+)|(\\)", re.DOTALL)
_PAIR: Final = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_PATTERN_PART: Final = re.compile(
    r"\\.|\[\^?\]?(?:[^\]\\]|\\.)*+\]|\(\?#[^)]*\)|\(\?|([*+?]|\{[0-9]*,?[0-9]*\})([?+]?)|(#[^\n]*)|.", re.DOTALL
)
_FLAGS: Final = re.compile(r"\(\?([aLimsux]+)\)")
_POSIX_CLASS: Final = re.compile(r"\[:\^?[a-z]+:\]")


class Terminals:
    """Reads the literals of one grammar as terms of a pool."""

    def __init__(self, pool: Pool, source: GrammarText, limits: GrammarLimits) -> None:
        self._pool = pool
        self._source = source
        self._limits = limits

    def string(self, word: Word) -> Rx:
        """``"text"`` or ``"text"i``, which ignores case character by character."""
        text = self.plain_string(word)
        if not word.text.endswith("i"):
            return self._pool.literal(text.encode())
        return self._pool.concat(
            *(self._pool.chars(ignoring_case([(ord(c), ord(c))], (), ascii_only=False)) for c in text)
        )

    def range(self, first: Word, last: Word) -> Rx:
        """``"a".."z"``."""
        ends = []
        for word in (first, last):
            text = self.plain_string(word)
            if len(text) != 1 or word.text.endswith("i"):
                self._source.fail("a range goes from one character to another, without flags", word.at)
            ends.append(ord(text))
        if ends[1] < ends[0]:
            self._source.fail("a character range out of order", first.at)
        return self._pool.chars([(ends[0], ends[1])])

    def pattern(self, word: Word) -> Rx:
        """``/pattern/flags`` in Python's dialect, flags ``i m s u x a``."""
        body, _, flags = word.text[1:].rpartition("/")
        for flag in flags:
            if flag not in "imsuxa":
                self._source.fail(f"the flag {flag!r} of a pattern is not known", word.at)
        inline = _FLAGS.match(body)
        if inline:  # flags for the whole pattern stand at its very beginning
            flags, body = flags + inline[1], body[inline.end() :]
        if flags:
            body = f"(?{''.join(dict.fromkeys(flags))}){body}"
        try:
            term = regex_term(self._pool, body, self._limits)
        except RadixrtError as error:
            self._source.blame(error, word.at)
        if any(part[0][0] == "[" and _POSIX_CLASS.search(part[0]) for part in _PATTERN_PART.finditer(body)):
            why = "some dialects know such classes, Python's takes them for single characters"
            self._source.refuse("POSIX class", why, word.at)
        laziness = _laziness(body, "x" in flags)
        if laziness == {True, False}:
            self._source.refuse("lazy repetition", "a pattern mixes lazy and greedy repetitions", word.at)
        return shortest(self._pool, term) if True in laziness else term

    def common(self, name: str) -> Rx:
        """The terminal of the library ``common`` with this name, one of ``COMMON``."""
        return regex_term(self._pool, COMMON[name], self._limits)

    def structured(self, word: Word) -> Rx:
        """``%regex``: a substring of given text, cut at the borders of its characters, words or chunks."""
        try:
            given = json.loads(word.text)
        except (ValueError, RecursionError) as error:
            self._source.fail(f"%regex takes a JSON object: {error}", word.at)
        kind, value = next(iter(given.items())) if isinstance(given, dict) and len(given) == 1 else ("", None)
        if kind == "substring_chunks" and isinstance(value, list) and all(isinstance(v, str) for v in value):
            chunks = value
        elif kind in ("substring_words", "substring_chars") and isinstance(value, str):
            chunks = re.findall(r"\w+|\W", value) if kind == "substring_words" else list(value)
        elif kind in ("substring_chunks", "substring_words", "substring_chars"):
            self._source.fail(f"{kind} takes {'strings' if kind == 'substring_chunks' else 'a string'}", word.at)
        else:
            self._source.refuse(
                "%regex", "%regex knows substring_chunks, substring_words, substring_chars", word.at
            )
        for char in "".join(chunks):
            self._source.checked(char, word.at)
        tails = [EMPTY]
        for chunk in reversed(chunks):
            tails.append(self._pool.concat(self._pool.literal(chunk.encode()), self._pool.opt(tails[-1])))
        return self._pool.alt(*tails)

    def complement(self, term: Rx) -> Rx:
        """All text but ``term``."""
        return self._pool.and_(self._pool.text, self._pool.not_(term))

    def plain_string(self, word: Word) -> str:
        """The text that a string stands for. The escapes are those of Python and JSON."""
        chars = []
        for found in _ESCAPE.finditer(word.text[1 : word.text.rindex('"')]):
            escape, plain, _ = found.groups()
            at = word.at + 1 + found.start()
            if plain is not None:
                chars.append(plain)
            elif escape is None or (escape[0] not in _HEX_ESCAPES and escape not in _ESCAPES):
                self._source.fail(f"the escape {found[0]!r} is not known or not complete", at)
            elif escape[0] in _HEX_ESCAPES:
                code = int(escape[1:], 16)
                if code > 0x10FFFF:
                    self._source.fail("a code point above 10FFFF", at)
                chars.append(chr(code))
            else:
                chars.append(_ESCAPES[escape])
        pairs = _PAIR.sub(lambda pair: pair[0].encode("utf-16", "surrogatepass").decode("utf-16"), "".join(chars))
        for char in pairs:
            self._source.checked(char, word.at)
        return pairs


def shortest(pool: Pool, term: Rx) -> Rx:
    """The strings of ``term`` that do not begin with another one of them."""
    return pool.and_(term, pool.not_(pool.concat(term, pool.plus(pool.any_byte))))


def _laziness(pattern: str, verbose: bool) -> set[bool]:
    """Whether the repetitions in a valid pattern are lazy; those of a fixed count do not matter."""
    found: set[bool] = set()
    for part in _PATTERN_PART.finditer(pattern):
        count, mark, comment = part.groups()
        if comment and not verbose:
            found |= _laziness(comment[1:], verbose)
        elif count and not re.fullmatch(r"\{([0-9]*)(,\1)?\}", count):
            found.add(mark == "?")
    return found
