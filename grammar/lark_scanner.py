"""The words of a grammar in Lark notation.

Comments are ``//`` and ``#`` to the end of a line. Line ends are words: a definition goes on in the next line only
inside brackets and before ``|``. A string or pattern is one word, flags included; so is the JSON text after
``%json``, ``%regex`` and ``%llguidance``. What words mean together is ``lark_parser.py``'s business.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from radixrt.grammar.grammar_text import GrammarText

__all__ = ["END", "Scanner", "Word", "described"]

END: Final = "end"
"""The kind of the last word."""
_WORD: Final = re.compile(
    r"""(?P<blank>[ \t\f]+|(?://|\#)[^\n]*)
    | (?P<newline>\r?\n)
    | (?P<rule>_?[a-z](?:[_a-z0-9]|-(?!>))*)
    | (?P<terminal>_?[A-Z](?:[_A-Z0-9]|-(?!>))*)
    | (?P<string>"(?:[^"\\\n]|\\.)*+"(?:i(?![a-zA-Z0-9_]))?)
    | (?P<regex>/(?:[^/\\\n]|\\.)++/[a-z]*)
    | (?P<number>[+-]?[0-9]+)
    | (?P<directive>%[a-z_]+)
    | (?P<symbol><\[[^\]\n]*\]>|<[^<>\s]+>)
    | (?P<reference>@[a-zA-Z0-9_-]*)
    | (?P<mark>\.\.|->|::|[:.,|()\[\]{}~&=*+?!])""",
    re.VERBOSE,
)
_WITH_JSON: Final = ("%json", "%regex", "%llguidance")
_JSON_PART: Final = re.compile(
    r"""(?P<comment>(?:\#|//)[^\n]*+) | "(?:[^"\\]|\\.)*+" | [{}\[\]] | [^"{}\[\]\#/]++ | /""",
    re.DOTALL | re.VERBOSE,
)
_BLANKS: Final = re.compile(r"\s*+")


class Word(NamedTuple):
    """``kind`` is a group of the pattern above; for a directive and a mark, the text itself."""

    kind: str
    text: str
    at: int


class Scanner:
    """Hands out the words of a grammar one after the other. ``word`` is the next one."""

    def __init__(self, source: GrammarText, spend: Callable[[int], None]) -> None:
        self.source = source
        self._spend = spend
        self._at = 0
        self._second: Word | None = None
        self.word = self._scan()

    def second(self) -> Word:
        """The word behind the next one."""
        if self._second is None:
            self._second = self._scan()
        return self._second

    def next(self) -> Word:
        """Take the next word."""
        word = self.word
        if self._second is None:
            self.word = self._scan()
        else:
            self.word, self._second = self._second, None
        return word

    def take(self, kind: str) -> Word | None:
        """Take the next word if it is of this kind."""
        return self.next() if self.word.kind == kind else None

    def expect(self, kind: str, what: str) -> Word:
        """Take the next word, which must be of this kind."""
        if self.word.kind != kind:
            self.source.fail(f"expected {what}, not {described(self.word)}", self.word.at)
        return self.next()

    def skip_lines(self) -> None:
        """Take all line ends that come next."""
        while self.word.kind == "newline":
            self.next()

    def _scan(self) -> Word:
        text = self.source.text
        self._spend(4)
        while True:
            at = self._at
            if at >= len(text):
                return Word(END, "", at)
            found = _WORD.match(text, at)
            if found is None:
                self.source.fail(_unfinished(text[at]), at)
            self._at = found.end()
            kind = found.lastgroup or ""
            if kind == "directive":
                return self._directive(found[0], at)
            if kind != "blank":
                return Word(found[0] if kind == "mark" else kind, found[0], at)

    def _directive(self, name: str, at: int) -> Word:
        return Word(name, self._json(at) if name in _WITH_JSON else name, at)

    def _json(self, at: int) -> str:
        """The JSON text that follows a directive, without comments: a value in braces, or true or false."""
        text = self.source.text
        blanks = _BLANKS.match(text, self._at)
        start = blanks.end() if blanks else self._at
        plain = re.compile(r"(?:true|false)\b").match(text, start)
        if plain:
            self._at = plain.end()
            return plain[0]
        depth, position = 0, start
        parts = []
        while position < len(text):
            part = _JSON_PART.match(text, position)
            if part is None or (depth == 0 and part[0] != "{"):
                break
            position = part.end()
            if part["comment"]:
                continue
            parts.append(part[0])
            depth += (part[0] in ("{", "[")) - (part[0] in ("}", "]"))
            if depth == 0:
                self._at = position
                return "".join(parts)
        self.source.fail("expected a JSON object in braces that are closed", at)


def described(word: Word) -> str:
    """A word as errors show it."""
    if word.kind == END:
        return "the end of the grammar"
    return "the end of the line" if word.kind == "newline" else repr(word.text[:40])


def _unfinished(char: str) -> str:
    if char == '"':
        return "a string that is not closed"
    return "a pattern that is not closed" if char == "/" else f"unexpected {char!r}"
