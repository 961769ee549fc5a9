"""What a term may match without reading anything, and what it matches otherwise.

Both follow a term down to the factors that always read something, parts first, so no depth of a term costs stack.
Used where repetitions of sensitive terms are unrolled and where left recursion is removed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from radixrt.grammar.term_store import AHEAD, ALT, BEHIND, CONCAT, EMPTY, INFINITE, NONE, REPEAT, Rx

if TYPE_CHECKING:
    from radixrt.grammar.terms import Terms

__all__ = ["consuming", "zero_width"]


def zero_width(pool: Terms, term: Rx) -> Rx:
    """The conditions under which ``term`` matches without reading anything (``NONE``: never)."""
    if not pool.sensitive[term]:
        return EMPTY if pool.null[term] else NONE
    zero: dict[Rx, Rx] = {}
    for x in _opened(pool, term):
        kind = pool.kind[x]
        if not pool.sensitive[x]:
            zero[x] = EMPTY if pool.null[x] else NONE
        elif kind == CONCAT:
            zero[x] = pool.concat(*(zero[y] for y in _factors(pool, x)))
        elif kind == ALT:
            zero[x] = pool.alt(*(zero[y] for y in pool.args[x]))
        elif kind == REPEAT:
            zero[x] = EMPTY if pool.args[x][1] == 0 else zero[pool.args[x][0]]
        else:
            zero[x] = x
    return zero[term]


def consuming(pool: Terms, term: Rx) -> Rx:
    """The part of ``term`` that reads at least one byte."""
    reads: dict[Rx, Rx] = {}
    for x in _opened(pool, term):
        kind, args = pool.kind[x], pool.args[x]
        if pool.low[x] > 0:
            reads[x] = x
        elif x in (NONE, EMPTY) or kind in (AHEAD, BEHIND):
            reads[x] = NONE
        elif kind == ALT:
            reads[x] = pool.alt(*(reads[y] for y in args))
        elif kind == CONCAT:
            reads[x] = _first_that_reads(pool, x, reads)
        elif kind == REPEAT and args[1] == 0:
            rest = pool.repeat(args[0], 0, None if args[2] == INFINITE else args[2] - 1)
            reads[x] = pool.concat(reads[args[0]], rest)
        else:
            reads[x] = x if zero_width(pool, x) == NONE else pool.and_(x, pool.not_(EMPTY))
    return reads[term]


def _first_that_reads(pool: Terms, term: Rx, reads: dict[Rx, Rx]) -> Rx:
    """Some factor of a CONCAT is the first that reads; those before it only add conditions."""
    options, before = [], EMPTY
    rest = term
    while before != NONE and rest != EMPTY:
        first, rest = pool.args[rest] if pool.kind[rest] == CONCAT else (rest, EMPTY)
        options.append(pool.concat(before, reads[first], rest))
        if rest != EMPTY:
            before = pool.concat(before, zero_width(pool, first))
    return pool.alt(*options)


def _opened(pool: Terms, term: Rx) -> list[Rx]:
    """``term`` and the parts that have a say in how it begins; parts first, as their ids are less."""
    seen, stack = {term}, [term]
    while stack:
        x = stack.pop()
        pool.spend(1)
        if pool.kind[x] not in (CONCAT, ALT, REPEAT) or not (pool.sensitive[x] or pool.low[x] == 0):
            continue
        parts = _factors(pool, x)
        pool.spend(len(parts))
        fresh = [y for y in parts if y not in seen]
        seen.update(fresh)
        stack.extend(fresh)
    return sorted(seen)


def _factors(pool: Terms, term: Rx) -> list[Rx]:
    """The factors of a CONCAT, the members of an ALT, what a REPEAT repeats."""
    if pool.kind[term] == ALT:
        return list(pool.args[term])
    if pool.kind[term] == REPEAT:
        return [pool.args[term][0]]
    spine = []
    while pool.kind[term] == CONCAT:
        head, term = pool.args[term]
        spine.append(head)
    return [*spine, term]
