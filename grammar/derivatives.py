"""Derivatives of terms: which byte leads from which language to which, and which languages are empty.

Everything is lazy, remembered by term, counted in fuel, and iterative: the depth of a term costs memory, never the
interpreter's stack. Nothing here knows what a pattern, a character class or a token is.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence

from radixrt.grammar.limits import Fuel
from radixrt.grammar.terms import (
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
    Terms,
)

__all__ = ["Arc", "Derivatives"]

Arc = tuple[int, Rx]
"""A set of bytes (256-bit mask) and the term that remains after any of them. Never ``NONE``."""
_Key = tuple[Rx, int]
_Arcs = tuple[Arc, ...]


class Derivatives(Terms):
    """A pool of terms that knows where each byte leads."""

    def __init__(self, fuel: Fuel, *, max_terms: int = MAX_TERMS) -> None:
        super().__init__(fuel, max_terms=max_terms)
        self._arcs: dict[_Key, _Arcs] = {}
        self._nullable: dict[_Key, bool] = {}
        self._empty: dict[Rx, bool] = {}

    # --- questions about a term ----------------------------------------------------------------------------------

    def arcs(self, term: Rx, flags: int = 0) -> _Arcs:
        """The derivatives of ``term``: arcs with disjoint sets of bytes; bytes in no arc lead nowhere.

        ``flags``: bit i says whether what was read so far is in watched language i (sensitive terms only).
        """
        asked = self._key(term, flags)
        known = self._arcs.get(asked)
        if known is not None:
            return known
        stack = [asked]
        while stack:
            key = stack[-1]
            if key in self._arcs:
                stack.pop()
                continue
            self.fuel.spend(1)
            missing = [k for k in self._needed_arcs(*key) if k not in self._arcs]
            if missing:
                stack.extend(missing)
            else:
                self._arcs[key] = self._derive(*key)
                stack.pop()
        return self._arcs[asked]

    def nullable(self, term: Rx, flags: int = 0) -> bool:
        """Whether ``term`` matches when nothing more is read."""
        if not self.sensitive[term]:
            return self.null[term]
        stack = [self._key(term, flags)]
        while stack:
            key = stack[-1]
            x, bits = key
            if key in self._nullable:
                stack.pop()
                continue
            self.fuel.spend(1)
            parts = [self._key(y, bits) for y in self._children(self.kind[x], self.args[x])]
            missing = [k for k in parts if self.sensitive[k[0]] and k not in self._nullable]
            if missing:
                stack.extend(missing)
            else:
                self._nullable[key] = self._is_null(x, bits)
                stack.pop()
        return self._nullable[self._key(term, flags)]

    def is_empty(self, term: Rx) -> bool:
        """Whether no string at all is in ``term`` (not sensitive). Searches derivatives, most promising first."""
        if self.plain[term]:
            return term == NONE
        if term in self._empty:
            return self._empty[term]
        came_from = {term: term}
        queue = [(self._distance(term), term)]
        while queue:
            self.fuel.spend(1)
            _, x = heapq.heappop(queue)
            if self.null[x] or (self.plain[x] and x != NONE) or self._empty.get(x) is False:
                while x != term:
                    self._empty[x] = False
                    x = came_from[x]
                self._empty[term] = False
                return False
            for _, y in self.arcs(x):
                if y not in came_from and not self._empty.get(y, False):
                    came_from[y] = x
                    heapq.heappush(queue, (self._distance(y), y))
        self._empty.update((x, True) for x in came_from)
        return True

    def _distance(self, term: Rx) -> int:
        """A guess of how far the end of a shortest string is: intersections need all their parts."""
        kind, args = self.kind[term], self.args[term]
        if kind == CLOSED:
            return self._distance(args[0])
        return sum(self.low[x] for x in args) if kind == AND else self.low[term]

    def closed(self, term: Rx, watched: Sequence[Rx] = ()) -> Rx:
        """Make a sensitive term an ordinary one; ``watched[i]`` is what ``behind(i, ...)`` in it speaks of.

        A watched language may itself be sensitive, but only to watched languages before it.
        """
        if not self.sensitive[term]:
            return term
        needed = self.watches[term]
        for i in range(len(watched) - 1, -1, -1):
            if needed >> i & 1:
                needed |= self.watches[watched[i]]
        kept = tuple(x if needed >> i & 1 else NONE for i, x in enumerate(watched))
        while kept and kept[-1] == NONE and not needed >> (len(kept) - 1) & 1:
            kept = kept[:-1]
        args = (term, kept)
        found = self._find(CLOSED, args)
        if found is not None:
            return found
        null = self.nullable(term, self._flags(kept))
        return self._new(CLOSED, args, null=null, low=self.low[term], high=self.high[term])

    # --- one step of a derivative --------------------------------------------------------------------------------

    def _key(self, term: Rx, flags: int) -> _Key:
        return term, flags & self.watches[term] if self.sensitive[term] else 0

    def _flags(self, watched: Sequence[Rx]) -> int:
        flags = 0
        for i, x in enumerate(watched):
            if self.nullable(x, flags):
                flags |= 1 << i
        return flags

    def _needed_arcs(self, term: Rx, flags: int) -> list[_Key]:
        """The keys whose arcs ``_derive`` will ask for."""
        kind, args = self.kind[term], self.args[term]
        if kind in (ALT, AND, NOT):
            return [self._key(x, flags) for x in args]
        if kind == CLOSED:
            inner = self._flags(args[1])
            return [self._key(args[0], inner), *(self._key(x, inner) for x in args[1])]
        if kind in (CONCAT, REPEAT) and self.sensitive[args[0]]:
            return [self._key(self._unfold(term, flags), flags)]
        if kind == CONCAT:
            if self.kind[args[0]] == SET:
                return []
            tail = [self._key(args[1], flags)] if self.null[args[0]] else []
            return [self._key(args[0], 0), *tail]
        if kind == REPEAT:
            return [self._key(args[0], flags)]
        return []

    def _derive(self, term: Rx, flags: int) -> _Arcs:
        kind, args = self.kind[term], self.args[term]
        if kind == SET:
            return ((args[0], EMPTY),)
        if kind in (CONCAT, REPEAT) and self.sensitive[args[0]]:
            return self._arcs[self._key(self._unfold(term, flags), flags)]
        if kind == CONCAT:
            head, tail = args
            if self.kind[head] == SET:
                return ((self.args[head][0], tail),)
            arcs = tuple((mask, self.concat(x, tail)) for mask, x in self._arcs[head, 0])
            return self._union([arcs, self._arcs[self._key(tail, flags)]]) if self.null[head] else _joined(arcs)
        if kind == REPEAT:
            x, low, high = args
            rest = self._repeat(x, max(low - 1, 0), high if high == INFINITE else high - 1)
            return _joined((mask, self.concat(y, rest)) for mask, y in self._arcs[x, 0])
        if kind == ALT:
            return self._union([self._arcs[self._key(x, flags)] for x in args])
        if kind == AND:
            return self._intersection([self._arcs[self._key(x, flags)] for x in args])
        if kind == NOT:
            return self._complement(self._arcs[self._key(args[0], flags)])
        if kind == CLOSED:
            return self._derive_closed(args[0], args[1])
        return ()

    def _unfold(self, term: Rx, flags: int) -> Rx:
        """Resolve the first factor of a sensitive term, whose rest is known to reach the end of the closed term."""
        head, tail = self.args[term] if self.kind[term] == CONCAT else (term, EMPTY)
        kind, args = self.kind[head], self.args[head]
        if kind == AHEAD:
            return self.and_(args[0], tail)
        if kind == BEHIND:
            return tail if bool(flags >> args[0] & 1) == args[1] else NONE
        if kind == ALT:
            return self.alt(*(self.concat(x, tail) for x in args))
        if kind == REPEAT:
            x, low, high = args
            rest = self._repeat(x, max(low - 1, 0), high if high == INFINITE else high - 1)
            return self.alt(tail if low == 0 else NONE, self.concat(x, rest, tail))
        raise ValueError("a sensitive term was used as an ordinary one before it was closed")

    def _derive_closed(self, term: Rx, watched: tuple[Rx, ...]) -> _Arcs:
        flags = self._flags(watched)
        blocks: list[tuple[int, tuple[Rx, ...]]] = [(m, (x,)) for m, x in self._arcs[self._key(term, flags)]]
        for x in watched:
            arcs = self._arcs[self._key(x, flags)]
            dead = FULL_SET
            for mask, _ in arcs:
                dead &= ~mask
            total = [*arcs, (dead, NONE)]
            self.fuel.spend(len(blocks) * len(total))
            blocks = [(a & b, (*xs, y)) for a, xs in blocks for b, y in total if a & b]
        return _joined((mask, self.closed(x, rest)) for mask, (x, *rest) in blocks)

    def _is_null(self, term: Rx, flags: int) -> bool:
        kind, args = self.kind[term], self.args[term]
        if kind == BEHIND:
            return bool(flags >> args[0] & 1) == bool(args[1])
        parts = [self._null_part(x, flags) for x in self._children(kind, args)]
        if kind == ALT:
            return any(parts)
        if kind == NOT:
            return not parts[0]
        if kind == REPEAT:
            return bool(args[1] == 0 or parts[0])
        return all(parts)

    def _null_part(self, term: Rx, flags: int) -> bool:
        return self._nullable[self._key(term, flags)] if self.sensitive[term] else self.null[term]

    # --- sets of arcs --------------------------------------------------------------------------------------------

    def _union(self, lists: Sequence[_Arcs]) -> _Arcs:
        """Arcs of a union: split the bytes where the lists overlap, unite the targets."""
        by_mask: dict[int, set[Rx]] = {}
        for arcs in lists:
            for mask, target in arcs:
                by_mask.setdefault(mask, set()).add(target)
        blocks: list[tuple[int, set[Rx]]] = []
        covered = 0
        for mask, targets in by_mask.items():
            if not mask & covered:
                blocks.append((mask, targets))
            else:
                self.fuel.spend(len(blocks))
                split = []
                fresh = mask
                for other, known in blocks:
                    both = other & mask
                    if both:
                        split.append((both, known | targets))
                        fresh &= ~other
                    if other & ~mask:
                        split.append((other & ~mask, known))
                if fresh:
                    split.append((fresh, targets))
                blocks = split
            covered |= mask
        return _joined((mask, self.alt(*targets)) for mask, targets in blocks)

    def _intersection(self, lists: Sequence[_Arcs]) -> _Arcs:
        blocks: list[tuple[int, tuple[Rx, ...]]] = [(FULL_SET, ())]
        for arcs in sorted(lists, key=len):
            self.fuel.spend(len(blocks) * len(arcs))
            blocks = [(a & b, (*xs, y)) for a, xs in blocks for b, y in arcs if a & b]
        return _joined((mask, self.and_(*xs)) for mask, xs in blocks)

    def _complement(self, arcs: _Arcs) -> _Arcs:
        rest = FULL_SET
        for mask, _ in arcs:
            rest &= ~mask
        return _joined([*((mask, self.not_(x)) for mask, x in arcs), (rest, self.all)])


def _joined(arcs: Iterable[Arc]) -> _Arcs:
    """Drop what leads nowhere and unite arcs that lead to the same place."""
    masks: dict[Rx, int] = {}
    for mask, target in arcs:
        if target != NONE and mask:
            masks[target] = masks.get(target, 0) | mask
    return tuple((mask, target) for target, mask in masks.items())
