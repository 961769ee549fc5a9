"""Special tokens as symbols of a grammar, spelled in bytes that no text holds.

A special token stands for no text, so a grammar can only name it. The automaton reads bytes alone; it is given
``symbol_bytes(id)`` for such a token: 0xFF, which occurs in no UTF-8 text, and four bytes for the id. Masks,
acceptance and rollback need to know nothing of it, and a special token is allowed only where a symbol names it.

``TokenSymbols`` gives symbols their terms. Three rules, the same in every notation:

* An ordinary token named in a grammar stands for its text, however that is tokenized.
* A token that ends texts cannot be named: it is allowed where the text is complete, and nowhere else.
* "Any token but these" is a run of text and other special tokens. How many tokens a text makes is not known here,
  so it can be repeated any number of times or at least once, and nothing in between.

``TokenSymbols.read`` reads the spelling that GBNF and Lark grammars share: ``<name>``, where the brackets are part
of the name, ``<[3,7-9]>`` for ids, ``<[^3,7-9]>`` for any but these, ``<[*]>`` for any.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from radixrt.grammar.rx import Pool, Rx
from radixrt.grammar.utf8 import ALL_CHARACTERS

if TYPE_CHECKING:
    from radixrt.grammar.vocab import Vocabulary

__all__ = ["PRIVATE_BYTES", "SYMBOL_MARK", "BadSymbol", "TokenSymbol", "TokenSymbols", "symbol_bytes"]

SYMBOL_MARK: Final = 0xFF
"""The byte that opens a token symbol."""
PRIVATE_BYTES: Final = re.compile(rb"[\xfe\xff]")
"""Bytes with a meaning of their own inside the engine; UTF-8 has neither."""
MAX_RANGES: Final = 10_000

_SYMBOL = re.compile(r"<\[([^\]\n]*)\]>|(<[^<>\s]+>)")
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")


class BadSymbol(Exception):
    """A symbol that cannot be given a term. ``keyword`` None: malformed, else beyond the engine."""

    def __init__(self, problem: str, keyword: str | None = None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.keyword = keyword


def symbol_bytes(token: int) -> bytes:
    """What the automaton reads for a special token: 0xFF and four bytes from 0x80 to 0xBF, six bits in each."""
    return bytes((SYMBOL_MARK, *(0x80 | token >> shift & 0x3F for shift in (18, 12, 6, 0))))


def _id_ranges(text: str) -> list[tuple[int, int]]:
    """Read ``3,7-9`` as inclusive ranges of ids; raises ``BadSymbol``."""
    ranges = []
    for part in text.split(","):
        found = _RANGE.fullmatch(part.strip())
        if not found:
            raise BadSymbol(f"{part.strip()!r} is neither a token id nor a range of them")
        first, last = int(found[1]), int(found[2] or found[1])
        if last < first:
            raise BadSymbol(f"the range of token ids {first}-{last} is out of order")
        ranges.append((first, last))
        if len(ranges) > MAX_RANGES:
            raise BadSymbol(f"more than {MAX_RANGES} ranges of token ids")
    return ranges


class TokenSymbol(NamedTuple):
    """A symbol that was read. ``is_run``: its term is a part of a run and must be repeated without upper bound."""

    term: Rx
    is_run: bool
    end: int
    """Where its spelling ends."""


class TokenSymbols:
    """The token symbols of one vocabulary as terms of one pool."""

    def __init__(self, pool: Pool, vocab: Vocabulary) -> None:
        self._pool = pool
        self._vocab = vocab
        self._ends = frozenset(vocab.eos_ids)
        self._special: Callable[[int], bool] = vocab.special_ids.__contains__

    def read(self, text: str, at: int, negated: bool = False) -> TokenSymbol:
        """The symbol spelled at ``text[at:]``, or any token but it; raises ``BadSymbol``."""
        found = _SYMBOL.match(text, at)
        if not found:
            raise BadSymbol("expected a token symbol: <name>, <[id]>, <[id-id]>, <[^id]> or <[*]>")
        ids = found[1]
        if ids is None:
            token = self.find(found[2])
            ranges = [(token, token)]
        elif ids == "*":
            negated, ranges = not negated, []
            if not negated:
                raise BadSymbol("no token is none of all tokens")
        else:
            negated ^= ids.startswith("^")
            ranges = _id_ranges(ids.removeprefix("^"))
        term = self.none_of(ranges) if negated else self.any_of(ranges)
        return TokenSymbol(term, negated, found.end())

    def find(self, name: str) -> int:
        """The id of the token that is spelled ``name``; raises ``BadSymbol``."""
        found = self._vocab.find(name)
        if found is None:
            raise BadSymbol(f"the vocabulary has no token {name!r}")
        return found

    def one(self, token: int) -> Rx:
        """Exactly this token; raises ``BadSymbol``."""
        if not 0 <= token < self._vocab.size:
            raise BadSymbol(f"{token} is not a token id below {self._vocab.size}")
        if token in self._ends:
            raise BadSymbol(
                f"token {token} ends the text: it is allowed where the text is complete, a grammar leaves it out",
                "token symbol",
            )
        if self._special(token):
            return self._pool.literal(symbol_bytes(token))
        text = self._text(token)
        if text is None:
            raise BadSymbol(f"token {token} stands for no text and is not among the special tokens", "token symbol")
        return self._pool.literal(text)

    def any_of(self, ranges: Sequence[tuple[int, int]]) -> Rx:
        """One of the tokens in some ranges of ids, those that end texts or stand for nothing left out."""
        if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
            return self.one(ranges[0][0])
        last = max(high for _, high in ranges)
        if last >= self._vocab.size:
            raise BadSymbol(f"{last} is not a token id below {self._vocab.size}")
        terms = {}
        for low, high in ranges:
            self._pool.spend(high - low + 1)
            for token in range(low, high + 1):
                if token in self._ends:
                    continue
                if self._special(token):
                    terms[token] = self._pool.literal(symbol_bytes(token))
                elif (text := self._text(token)) is not None:
                    terms[token] = self._pool.literal(text)
        return self._pool.alt(*terms.values())

    def none_of(self, ranges: Iterable[tuple[int, int]]) -> Rx:
        """One character, or a special token outside ``ranges``: to be repeated, without an upper bound.

        Raises ``BadSymbol`` for ordinary tokens in ``ranges``: their text can be spelled by other tokens.
        """
        spans = tuple(ranges)
        for low, high in spans:
            for token in range(low, min(high, self._vocab.size - 1) + 1):
                self.check_special(token)
        others = (
            self._pool.literal(symbol_bytes(token))
            for token in sorted(self._vocab.special_ids - self._ends)
            if not any(low <= token <= high for low, high in spans)
        )
        return self._pool.alt(self._pool.chars(ALL_CHARACTERS), *others)

    def check_special(self, token: int) -> None:
        """Raise ``BadSymbol`` for an ordinary token: its text can be spelled by other tokens."""
        if not self._special(token) and self._text(token) is not None:
            raise BadSymbol(
                f"token {token} is ordinary text, which other tokens spell too: it cannot be left out",
                "token symbol",
            )

    def is_end(self, token: int) -> bool:
        """Whether the token ends texts."""
        return token in self._ends

    def _text(self, token: int) -> bytes | None:
        """The text of an ordinary token; None for one that is none, or only part of a character."""
        data = self._vocab.token_bytes(token)
        if data is None:
            return None
        try:
            data.decode()
        except UnicodeDecodeError:
            return None
        return data
