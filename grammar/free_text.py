"""Text that goes on freely until one of some strings is complete: what stands around the constrained parts.

The strings that matter (triggers, ends, exclusions) are *stops*. Where they overlap, begin alike or contain one
another, the one that is complete first counts, as for a program that reads the text from left to right and looks at
its end after every character. Nothing here knows what the stops are for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from radixrt.grammar.rx import NONE, Pool, Rx
from radixrt.grammar.utf8 import ALL_CHARACTERS

__all__ = ["FreeText"]


class FreeText:
    """Text among some stops, none of which is empty.

    ``max_chars`` bounds the characters before the stop that ends it.
    """

    def __init__(self, pool: Pool, stops: Iterable[str], max_chars: int | None = None) -> None:
        self._pool = pool
        self._stops = tuple(dict.fromkeys(stops))
        self._text = pool.repeat(pool.chars(ALL_CHARACTERS), 0, max_chars)
        self._any_stop = pool.one_of([stop.encode() for stop in self._stops]) if self._stops else None

    @property
    def rest(self) -> Rx:
        """Texts in which no stop occurs."""
        pool = self._pool
        if self._any_stop is None:
            return self._text
        return pool.and_(self._text, pool.not_(pool.concat(pool.all, self._any_stop, pool.all)))

    def up_to(self, stops: Sequence[str]) -> Rx:
        """Texts that end with one of ``stops`` (of those of this text), at whose end the first stop is complete."""
        pool = self._pool
        wanted = pool.one_of([stop.encode() for stop in stops])
        if self._any_stop is None:
            raise ValueError("a text without stops does not end with one")
        too_late = pool.concat(pool.all, self._any_stop, pool.plus(pool.any_byte))
        return pool.and_(pool.concat(self._text, wanted), pool.not_(too_late))

    def before(self, stop: str) -> Rx:
        """Texts behind which ``stop`` (one of this text) is the first stop to be complete."""
        pool = self._pool
        if not self.comes_first(stop):
            return NONE
        heads = {
            other[:cut]  # what a text must not end with, because ``stop`` would make it ``other`` too early
            for other in self._stops
            for cut in range(1, len(other))
            if len(other) - cut < len(stop) and stop.startswith(other[cut:])
        }
        too_early = pool.concat(pool.all, pool.one_of([head.encode() for head in sorted(heads)]))
        return pool.and_(self.rest, pool.not_(too_early)) if heads else self.rest

    def comes_first(self, stop: str) -> bool:
        """Whether text can end with ``stop`` and no other stop be complete before."""
        self._pool.spend(len(self._stops))
        return not any(other in stop[:-1] for other in self._stops)
