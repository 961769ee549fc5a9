"""Interned regular expressions over bytes, and the constructors that keep them small.

A term is an int: two terms built the same way are the same int, so every result about a term can be remembered
by its id. The constructors apply only laws of languages (`x|x = x`, `x{a,b}x{c,d} = x{a+c,b+d}`, ...), enough
to keep the derivatives of the usual patterns few; they do not look for equivalence in general.

Besides the usual operators there are three for context, used by the regular expression front ends:

* ``AHEAD(r)`` is zero-width: everything from here to the end of the closed term must be in ``r``.
* ``BEHIND(i, yes)`` is zero-width: what has been read so far is (or is not) in the i-th watched language.
* ``CLOSED(x, watched)`` ends the reach of both: it is an ordinary language again.

A term that holds an AHEAD or BEHIND outside a CLOSED is *sensitive*; only ``CLOSED`` may wrap it before it is put
beside other terms. Nothing here knows about characters of a pattern, tokens, or grammars.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from radixrt.errors import UnsupportedConstraint
from radixrt.grammar.limits import Fuel
from radixrt.grammar.term_store import (
    AHEAD,
    ALT,
    AND,
    BEHIND,
    CLOSED,
    CONCAT,
    EMPTY,
    FULL_SET,
    INFINITE,
    MAX_TERMS,
    NONE,
    NOT,
    REPEAT,
    SET,
    Rx,
    TermStore,
)
from radixrt.grammar.utf8 import ALL_CHARACTERS, Range, byte_tree
from radixrt.grammar.zero_width import consuming, zero_width

__all__ = [
    "AHEAD",
    "ALT",
    "AND",
    "BEHIND",
    "CLOSED",
    "CONCAT",
    "EMPTY",
    "FULL_SET",
    "INFINITE",
    "MAX_TERMS",
    "NONE",
    "NOT",
    "REPEAT",
    "SET",
    "Rx",
    "Terms",
]


MAX_WATCHED = 64
"""Watched languages of one closed term: the native pool has a bit for each."""

_MOST_PAIRS: Final = 1024
"""Pairs of alternatives that are compared to find out which of them implies another."""


class Terms(TermStore):
    """A pool of terms with the constructors that simplify."""

    def __init__(self, fuel: Fuel, *, max_terms: int = MAX_TERMS) -> None:
        super().__init__(fuel, max_terms=max_terms)
        self._chars: dict[tuple[Range, ...], Rx] = {}
        self._singles: list[Rx] = [NONE] * 256
        self.any_byte = self.byte_set(FULL_SET)
        self.all = self._repeat(self.any_byte, 0, INFINITE)
        """Every string of bytes."""

    # --- leaves --------------------------------------------------------------------------------------------------

    def byte_set(self, mask: int) -> Rx:
        """One byte out of a set: bit ``b`` of ``mask`` stands for byte ``b``."""
        if mask == 0:
            return NONE
        return self._find(SET, (mask,)) or self._new(SET, (mask,), null=False, low=1, high=1)

    def literal(self, data: bytes) -> Rx:
        """Exactly these bytes."""
        self.fuel.spend(len(data))
        result = EMPTY
        for byte in reversed(data):
            head = self._single(byte)
            result = self._pair(head, result) if result != EMPTY else head
        return result

    def _single(self, byte: int) -> Rx:
        known = self._singles[byte]
        if known == NONE:
            known = self._singles[byte] = self.byte_set(1 << byte)
        return known

    def chars(self, ranges: Sequence[Range]) -> Rx:
        """One character out of inclusive ranges of code points, in UTF-8. Surrogates are left out."""
        key = tuple(ranges)
        if key not in self._chars:
            self._chars[key] = self._from_tree(byte_tree(key))
        return self._chars[key]

    @property
    def text(self) -> Rx:
        """Every valid UTF-8 text."""
        return self.star(self.chars(ALL_CHARACTERS))

    def _from_tree(self, tree: tuple[tuple[int, object], ...]) -> Rx:
        """Turn a byte tree (at most four levels deep) into a term."""
        parts = []
        for mask, rest in tree:
            tail = self._from_tree(rest) if isinstance(rest, tuple) else EMPTY
            parts.append(self.concat(self.byte_set(mask), tail))
        return self.alt(*parts)

    # --- operators -----------------------------------------------------------------------------------------------

    def concat(self, *terms: Rx) -> Rx:
        """One after the other."""
        if NONE in terms:
            return NONE
        spine: list[Rx] = []
        for term in terms[:-1]:
            while self.kind[term] == CONCAT:
                head, term = self.args[term]
                spine.append(head)
            spine.append(term)
        self.fuel.spend(2 * len(spine))
        result = terms[-1] if terms else EMPTY
        for head in reversed(spine):
            result = self._join(head, result)
        return result

    def _join(self, head: Rx, tail: Rx) -> Rx:
        """Put ``head``, which is no CONCAT, before ``tail``; neighbouring repetitions of one term become one."""
        kind = self.kind
        while head != EMPTY and tail != EMPTY:
            first, rest = self.args[tail] if kind[tail] == CONCAT else (tail, EMPTY)
            if (kind[head] != REPEAT and kind[first] != REPEAT) or self.sensitive[head]:
                return self._pair(head, tail)
            x, low, high = self._as_repeat(head)
            y, low2, high2 = self._as_repeat(first)
            if x != y:
                return self._pair(head, tail)
            self.spend(1)
            head, tail = self._repeat(x, low + low2, min(high + high2, INFINITE)), rest
        return head if tail == EMPTY else tail

    def _as_repeat(self, term: Rx) -> tuple[Rx, int, int]:
        if self.kind[term] == REPEAT:
            x, low, high = self.args[term]
            return x, low, high
        return term, 1, 1

    def alt(self, *terms: Rx) -> Rx:
        """Any of them."""
        members = self._flatten(ALT, terms)
        members.discard(NONE)
        if self.all in members:
            return self.all
        if len(members) > 1:
            self.fuel.spend(4 * len(members))
            members = self._merge_alternatives(members)
            if self.all in members:
                return self.all
            members = self._without_implied(members)
        if len(members) < 2:
            return members.pop() if members else NONE
        if EMPTY in members and any(self.null[x] and x != EMPTY for x in members):
            members.discard(EMPTY)
            if len(members) == 1:
                return members.pop()
        args = tuple(sorted(members))
        found = self._find(ALT, args)
        if found is not None:
            return found
        return self._new(
            ALT,
            args,
            null=any(self.null[x] for x in args),
            low=min(self.low[x] for x in args),
            high=max(self.high[x] for x in args),
        )

    def _flatten(self, kind: int, terms: Iterable[Rx]) -> set[Rx]:
        members: set[Rx] = set()
        for term in terms:
            if self.kind[term] == kind:
                members.update(self.args[term])
            else:
                members.add(term)
        self.fuel.spend(len(members))
        return members

    def _merge_alternatives(self, members: set[Rx]) -> set[Rx]:
        """Unite byte sets before one tail, and ranges of repetitions of one term before one tail."""
        sets: dict[Rx, int] = {}
        counts: dict[tuple[Rx, Rx], list[tuple[int, int]]] = {}
        merged: set[Rx] = set()
        for term in members:
            head, tail = self.args[term] if self.kind[term] == CONCAT else (term, EMPTY)
            if self.kind[head] == SET:
                sets[tail] = sets.get(tail, 0) | self.args[head][0]
            elif self.kind[head] == REPEAT and not self.sensitive[head]:
                x, low, high = self.args[head]
                counts.setdefault((x, tail), []).append((low, high))
            else:
                merged.add(term)
        for tail, mask in sets.items():
            merged.add(self._join(self.byte_set(mask), tail))
        for (x, tail), spans in counts.items():
            if tail == EMPTY and EMPTY in merged:
                spans.append((0, 0))
            if tail == EMPTY and x in merged:
                merged.discard(x)
                spans.append((1, 1))
            for low, high in _united(spans):
                merged.add(self._join(self._repeat(x, low, high), tail))
        return merged

    def _without_implied(self, members: set[Rx]) -> set[Rx]:
        """x or (x and y) is x. Without this, a search for an intersection has one for each order of its parts."""
        parts = {x: set(self.args[x]) for x in members if self.kind[x] == AND}
        pairs = len(parts) * len(members)
        if not pairs or pairs > _MOST_PAIRS:
            return members
        self.fuel.spend(pairs)
        return {
            x
            for x in members
            if x not in parts or not any(other != x and parts[x] >= parts.get(other, {other}) for other in members)
        }

    def and_(self, *terms: Rx) -> Rx:
        """All of them."""
        members = self._flatten(AND, terms)
        members.discard(self.all)
        if NONE in members:
            return NONE
        if len(members) < 2:
            return members.pop() if members else self.all
        if any(self.kind[x] == NOT and self.args[x][0] in members for x in members):
            return NONE
        masks = [x for x in members if self.kind[x] == SET]
        if len(masks) > 1:
            mask = FULL_SET
            for x in masks:
                mask &= self.args[x][0]
            return self.and_(*(members.difference(masks)), self.byte_set(mask))
        calm = [x for x in members if not self.sensitive[x]]
        if EMPTY in members:
            if not all(self.null[x] for x in calm):
                return NONE
            if len(calm) == len(members):
                return EMPTY
        low = max(self.low[x] for x in members)
        high = min(self.high[x] for x in members)
        if low > high:
            return NONE
        args = tuple(sorted(members))
        found = self._find(AND, args)
        if found is not None:
            return found
        return self._new(AND, args, null=all(self.null[x] for x in args), low=low, high=high)

    def not_(self, term: Rx) -> Rx:
        """Every string of *bytes* that is not in ``term``; ``and_(text, not_(x))`` stays within valid text."""
        if term == NONE:
            return self.all
        if term == EMPTY:
            return self._repeat(self.any_byte, 1, INFINITE)
        if self.kind[term] == NOT:
            inner: Rx = self.args[term][0]
            return inner
        x, low, high = self._as_repeat(term)
        if x == self.any_byte:
            below = self._repeat(x, 0, low - 1) if low else NONE
            above = self._repeat(x, high + 1, INFINITE) if high < INFINITE else NONE
            return self.alt(below, above)
        found = self._find(NOT, (term,))
        return found or self._new(NOT, (term,), null=not self.null[term], low=0, high=INFINITE)

    def repeat(self, term: Rx, low: int, high: int | None) -> Rx:
        """``term`` at least ``low`` and at most ``high`` times (None: no upper end)."""
        if low < 0 or (high is not None and high < low):
            raise ValueError(f"a repetition from {low} to {high} times")
        # No text is so long that a count beyond the end of the scale could matter.
        low, top = min(low, INFINITE - 1), INFINITE if high is None else min(high, INFINITE)
        if self.sensitive[term]:
            return self._repeat_sensitive(term, low, top)
        return self._repeat(term, low, top)

    def star(self, term: Rx) -> Rx:
        """Any number of times."""
        return self.repeat(term, 0, None)

    def plus(self, term: Rx) -> Rx:
        """At least once."""
        return self.repeat(term, 1, None)

    def opt(self, term: Rx) -> Rx:
        """Once or not at all."""
        return self.alt(EMPTY, term)

    def _repeat(self, x: Rx, low: int, high: int) -> Rx:
        while True:
            if high == 0 or x == EMPTY:
                return EMPTY
            if x == NONE:
                return NONE if low else EMPTY
            if self.kind[x] == ALT and EMPTY in self.args[x]:
                x, low = self.alt(*(y for y in self.args[x] if y != EMPTY)), 0
            if self.null[x]:
                low = 0
            if low == high == 1:
                return x
            if self.kind[x] != REPEAT:
                break
            y, a, b = self.args[x]
            # Whether the counts k*a..k*b for k = low..high leave no gap.
            if not (low == high or (a <= 1 if low == 0 else low * (b - a) + 1 >= a)):
                break
            self.spend(1)
            x, low, high = y, a * low, INFINITE if INFINITE in (b, high) else min(b * high, INFINITE)
        args = (x, low, high)
        found = self._find(REPEAT, args)
        if found is not None:
            return found
        return self._new(
            REPEAT,
            args,
            null=low == 0 or self.null[x],
            low=min(self.low[x] * low, INFINITE),
            high=min(self.high[x] * high, INFINITE) if self.high[x] else 0,
        )

    # --- context -------------------------------------------------------------------------------------------------

    def ahead(self, rest: Rx) -> Rx:
        """Zero-width: all that follows, up to the end of the closed term, is in ``rest``."""
        if rest in (NONE, self.all):
            return NONE if rest == NONE else EMPTY
        return self._find(AHEAD, (rest,)) or self._new(AHEAD, (rest,), null=False, low=0, high=0)

    def behind(self, index: int, yes: bool) -> Rx:
        """Zero-width: whether what was read since the closed term began is in watched language ``index``."""
        if index >= MAX_WATCHED:
            raise UnsupportedConstraint(f"more than {MAX_WATCHED} different lookbehinds", keyword="lookbehind")
        args = (index, yes)
        return self._find(BEHIND, args) or self._new(BEHIND, args, null=False, low=0, high=0)

    def zero_width(self, term: Rx) -> Rx:
        """The conditions under which ``term`` matches without reading anything (NONE: never)."""
        return zero_width(self, term)

    def consuming(self, term: Rx) -> Rx:
        """The part of ``term`` that reads at least one byte."""
        return consuming(self, term)

    def _repeat_sensitive(self, x: Rx, low: int, high: int) -> Rx:
        """Rounds that read nothing only add conditions, so beyond the ``low`` required ones they are left out."""
        if self.zero_width(x) == NONE:
            return self._repeat(x, low, high)
        more = INFINITE if high == INFINITE else high - low
        self.fuel.spend(low)
        return self.concat(*[x] * low, self._repeat(self.consuming(x), 0, more))


def _united(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Merge intervals of integers that overlap or touch."""
    result: list[tuple[int, int]] = []
    for low, high in sorted(spans):
        if result and low <= result[-1][1] + 1:
            result[-1] = (result[-1][0], max(high, result[-1][1]))
        else:
            result.append((low, high))
    return result
