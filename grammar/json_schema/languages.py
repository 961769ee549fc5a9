"""Languages of string values, and how a value is spelled in JSON text.

A language is a term over the UTF-8 bytes of the *value*; ``spelled`` carries it over to the escaped text
between the quotes. Patterns and formats are languages; conjunction, complement and emptiness are those of the
pool. Nothing here knows about schemas.

Spelling policy: every character stands for itself, except ``"``, ``\\`` and control characters, which are
escaped in any of their short or ``\\u00xx`` forms; ``/`` may be escaped. Other characters are never written as
``\\u`` escapes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from radixrt.errors import InvalidRequest, UnsupportedConstraint
from radixrt.grammar.json_schema.formats import FORMATS, format_language
from radixrt.grammar.regex import ecma_search
from radixrt.grammar.rx import NONE, Pool, Rx
from radixrt.grammar.utf8 import ALL_CHARACTERS

__all__ = ["Languages"]

MAX_LISTED_BYTES: Final = 100  # of a value of a language that is listed
EMPTINESS_FUEL: Final = (
    100_000  # what one proof of emptiness may cost; without a proof a language counts as not empty
)
_NEEDS_SPELLING: Final = re.compile(r'["\\\\/\x00-\x1f]')
_spell: Final = json.JSONEncoder(ensure_ascii=False).encode
_SHORT_ESCAPES: Final = {0x08: ord("b"), 0x09: ord("t"), 0x0A: ord("n"), 0x0C: ord("f"), 0x0D: ord("r")}


class Languages:
    """Args: pool: where terms live. unknown_format: ``"ignore"`` or ``"refuse"``."""

    def __init__(self, pool: Pool, unknown_format: str) -> None:
        self.pool = pool
        self.text = pool.text
        self._refuse_unknown = unknown_format == "refuse"
        self._images_of_bytes: list[Rx] = []
        self._patterns: dict[str, Rx] = {}
        self._members: dict[tuple[Rx, str], bool] = {}
        self._formats: dict[str, Rx] = {}
        self._texts: set[Rx] = {self.text}  # languages without malformed UTF-8 in them
        self._spelled: dict[Rx, Rx] = {}
        self._spellings: dict[Rx, Callable[[], Rx]] = {}  # ways to carry over what was put together here

    def prepared(self, formats: Iterable[str]) -> None:
        """Make now what nearly every schema needs, and these formats, with their spellings."""
        for language in (self.text, *(self._format(name) for name in formats)):
            self.spelled(language)

    def copied(self, unknown_format: str) -> Languages:
        """The same languages in a copy of the pool, for one compilation. Of a prepared instance only."""
        twin = Languages(self.pool.truncated(len(self.pool)), unknown_format)
        twin._images_of_bytes = self._images_of_bytes
        twin._formats = dict(self._formats)
        twin._texts = set(self._texts)
        twin._spelled = dict(self._spelled)
        return twin

    # --- sources --------------------------------------------------------------------------------------------

    def search(self, pattern: str, location: str) -> Rx:
        """The values in which an ECMA-262 pattern is found somewhere; ``location`` is for errors."""
        known = self._patterns.get(pattern)
        if known is None:
            try:
                known = ecma_search(self.pool, pattern)
            except UnsupportedConstraint as error:
                raise UnsupportedConstraint(
                    f"the pattern at {location} is not supported: {error.message}",
                    keyword=error.keyword or "pattern",
                    location=location,
                    param="schema",
                ) from None
            except InvalidRequest as error:
                raise InvalidRequest(
                    f"the schema is wrong at {location}: {error.message}", param="schema"
                ) from None
            self._patterns[pattern] = known
            self._texts.add(known)  # whatever a pattern asks about, what it reads are whole characters
        return known

    def format(self, name: str, pointer: str) -> Rx | None:
        """The language of a format; None for one that is unknown and ignored."""
        if name not in FORMATS:
            if self._refuse_unknown:
                raise UnsupportedConstraint(
                    f"format at {pointer}/format is not supported: {name!r} is unknown",
                    keyword="format",
                    location=f"{pointer}/format",
                    param="schema",
                )
            return None
        return self._format(name)

    def _format(self, name: str) -> Rx:
        known = self._formats.get(name)
        if known is None:
            known = self._formats[name] = format_language(self.pool, name)
            self._texts.add(known)
        return known

    def length(self, low: int, high: int | None) -> Rx:
        """Values of so many code points."""
        if high is not None and low > high:
            return NONE
        found = self.pool.repeat(self.pool.chars(ALL_CHARACTERS), low, high)
        self._texts.add(found)
        return found

    def any_of(self, texts: Sequence[str]) -> Rx:
        """Exactly these values."""
        found = self.pool.one_of([text.encode() for text in texts])
        self._texts.add(found)
        self._spellings[found] = lambda: self._any_spelling(texts)
        return found

    def _any_spelling(self, texts: Sequence[str]) -> Rx:
        escaped = [text for text in texts if _NEEDS_SPELLING.search(text) is not None]
        plain = [text.encode() for text in texts if _NEEDS_SPELLING.search(text) is None]
        pool = self.pool
        images = (pool.concat(*map(self._images.__getitem__, text.encode())) for text in escaped)
        return pool.alt(pool.one_of(plain), *images)

    # --- algebra --------------------------------------------------------------------------------------------

    def union(self, languages: Sequence[Rx]) -> Rx:
        found = self.pool.alt(*languages)
        self._spellings.setdefault(found, lambda: self.pool.alt(*map(self.spelled, languages)))
        return found

    def all_of(self, languages: Iterable[Rx]) -> Rx:
        """Values in every language."""
        parts = tuple(languages)
        if not any(part in self._texts for part in parts):
            parts = (self.text, *parts)
        found = self.pool.and_(*parts)
        self._spellings.setdefault(found, lambda: self.pool.and_(*map(self.spelled, parts)))
        return found

    def complement(self, language: Rx) -> Rx:
        """Values outside a language (to be met with others by ``all_of``)."""
        found = self.pool.not_(language)
        self._spellings.setdefault(found, lambda: self.pool.not_(self.spelled(language)))
        return found

    def other_names(self, names: Sequence[str], languages: Sequence[Rx]) -> Rx:
        """Values that are none of ``names`` and in none of ``languages``."""
        outside = [self.complement(language) for language in languages]
        if names:
            outside.append(self.complement(self.any_of(names)))
        return self.all_of(outside)

    # --- questions ------------------------------------------------------------------------------------------

    def has(self, language: Rx, text: str) -> bool:
        known = self._members.get((language, text))
        if known is None:
            known = self._members[language, text] = self._walk(language, text)
        return known

    def _walk(self, language: Rx, text: str) -> bool:
        return self.pool.matches(language, text.encode())

    def few(self, language: Rx, most: int) -> list[str] | None:
        """All values of a language if they are short and at most ``most``, else None."""
        pool = self.pool
        if pool.longest(language) > MAX_LISTED_BYTES:
            return None
        found: list[bytes] = []
        todo = [(b"", language)]
        for _ in range(most * MAX_LISTED_BYTES):
            if not todo:
                return sorted(word.decode() for word in found)
            word, term = todo.pop()
            if pool.nullable(term):
                found.append(word)
            for mask, target in pool.arcs(term):
                if mask.bit_count() + len(found) + len(todo) > 2 * most:
                    return None
                todo.extend((word + bytes([byte]), target) for byte in range(256) if mask >> byte & 1)
            if len(found) > most:
                return None
        return None

    def is_empty(self, language: Rx) -> bool:
        """Whether no value is inside, as far as can be proved at bounded cost."""
        return self.pool.proved_empty(language, EMPTINESS_FUEL)

    # --- spelling -------------------------------------------------------------------------------------------

    def spelled(self, language: Rx) -> Rx:
        """The JSON text between the quotes of the values of a language (of a complement: within any valid text)."""
        known = self._spelled.get(language)
        if known is None:
            make = self._spellings.pop(language, None)
            known = make() if make else self.pool.substitute(language, self._images)
            self._spelled[language] = known
        return known

    def quoted(self, language: Rx) -> Rx:
        quote = self.pool.literal(b'"')
        return self.pool.concat(quote, self.spelled(language), quote)

    def exactly(self, text: str) -> Rx:
        """The canonical JSON text of one string, quotes included."""
        return self.pool.literal(_spell(text).encode())

    def after_quote(self, text: str, tail: Rx) -> Rx:
        """The same without the opening quote, and then ``tail``."""
        pool = self.pool
        return pool.concat(pool.literal(_spell(text)[1:].encode()), tail)

    @property
    def _images(self) -> list[Rx]:
        """The spellings of each byte of a value."""
        if not self._images_of_bytes:
            self._images_of_bytes = self._spellings_of_bytes()
        return self._images_of_bytes

    def _spellings_of_bytes(self) -> list[Rx]:
        pool = self.pool
        alone = pool.each_byte()
        images = list(alone)
        hexadecimal = [pool.byte_set(_mask({d, d.upper()})) for d in "0123456789abcdef"]
        prefix = [images[byte] for byte in rb"\u00"]
        backslash = images[ord("\\")]
        for byte in range(0x20):
            images[byte] = pool.concat(*prefix, hexadecimal[byte >> 4], hexadecimal[byte & 15])
            if byte in _SHORT_ESCAPES:
                images[byte] = pool.alt(pool.concat(backslash, alone[_SHORT_ESCAPES[byte]]), images[byte])
        for byte in b'"\\':
            images[byte] = pool.literal(b"\\" + bytes([byte]))
        slash = ord("/")
        images[slash] = pool.alt(images[slash], pool.literal(b"\\/"))
        return images


def _mask(characters: Iterable[str]) -> int:
    return sum(1 << ord(character) for character in set(characters))
