"""The pool of terms in Python: what the native one (``kernels/cpu/terms.py``) means, and what stands in for it.

``PythonPool`` has the constructors of ``Terms``, the questions of ``Derivatives`` (``arcs``, ``nullable``,
``is_empty``, ``closed``), and here what looks at whole terms: ``substitute``, ``clamped``, ``fingerprint``,
``byte_classes``. It does not know what a pattern, a grammar or a token is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from radixrt.errors import UnsupportedConstraint
from radixrt.grammar.derivatives import Derivatives
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
)
from radixrt.kernels.cpu.trie_walk import common_prefix

__all__ = ["PythonPool"]

_T = TypeVar("_T")


class PythonPool(Derivatives):
    """Interned terms over bytes. Not thread-safe: its owner holds a lock."""

    def __init__(self, fuel: Fuel, *, max_terms: int = MAX_TERMS) -> None:
        super().__init__(fuel, max_terms=max_terms)
        self._prints: dict[Rx, bytes] = {}
        self._clamped: dict[int, dict[Rx, Rx]] = {}

    def truncated(self, count: int) -> PythonPool:
        """A pool with the first ``count`` terms of this one, under the same ids, and its own fuel."""
        twin = PythonPool(Fuel(self.fuel.left, self.fuel.limit), max_terms=self._max_terms)
        for name in ("kind", "args", "null", "low", "high", "plain", "sensitive", "watches"):
            setattr(twin, name, getattr(self, name)[:count])
        twin._ids = {key: term for key, term in self._ids.items() if term < count}
        twin._empty = {term: known for term, known in self._empty.items() if term < count}
        return twin

    def each_byte(self) -> list[Rx]:
        """The 256 terms of single bytes."""
        return [self.byte_set(1 << byte) for byte in range(256)]

    def one_of(self, strings: Sequence[bytes]) -> Rx:
        """Exactly one of these strings, shaped like a trie, so that thousands cost no more than their bytes."""
        # Of the trie of the sorted strings only the path to the latest one is kept: for each of its nodes the terms
        # that lead away from it, first bytes included.
        path: list[list[Rx]] = [[]]
        previous = b""

        def close(depth: int) -> None:
            """Turn the nodes of the path below ``depth`` into terms of their parents."""
            self.spend(len(path) - depth)
            while len(path) > depth + 1:
                branches = path.pop()
                tail = branches[0] if len(branches) == 1 else self.alt(*branches)
                path[-1].append(self.concat(self.byte_set(1 << previous[len(path) - 1]), tail))

        for string in sorted(set(strings)):
            shared = common_prefix(previous, string)
            close(shared)
            previous = string
            path.extend([] for _ in range(len(string) - shared))
            path[-1].append(EMPTY)
        close(0)
        return self.alt(*path[0])

    def before_end(self, term: Rx, rest: Rx) -> Rx:
        """``term`` and then ``rest``, which reaches the end of the closed term: what is asked about what lies ahead
        of a factor of ``term`` becomes an intersection at once."""
        heads = [term]
        while self.kind[heads[-1]] == CONCAT and self.sensitive[heads[-1]]:
            heads[-1:] = self.args[heads[-1]]
        for head in reversed(heads):
            rest = self.and_(self.args[head][0], rest) if self.kind[head] == AHEAD else self.concat(head, rest)
        return rest

    def matches(self, term: Rx, data: bytes) -> bool:
        """Whether ``data`` is in ``term`` (not sensitive)."""
        for byte in data:
            self.spend(1)
            term = next((target for mask, target in self.arcs(term) if mask >> byte & 1), NONE)
            if term == NONE:
                return False
        return self.nullable(term)

    def proved_empty(self, term: Rx, amount: int) -> bool:
        """Whether ``term`` is shown to be empty with ``amount`` of the fuel; False if that does not suffice."""
        reserve = max(0, self.fuel.left - amount)
        self.fuel.left -= reserve
        try:
            return self.is_empty(term)
        except UnsupportedConstraint:
            if not reserve:
                raise
            self.fuel.left = 0
            return False
        finally:
            self.fuel.left += reserve

    def first_bytes(self, term: Rx) -> int:
        """How many different bytes may come next."""
        return sum(mask.bit_count() for mask, _ in self.arcs(term))

    def byte_classes(self, terms: Iterable[Rx]) -> list[int]:
        """The coarsest partition of the 256 bytes (as masks) that no derivative of ``terms`` can tell apart."""
        blocks = [FULL_SET]
        alone = 0  # bytes that some set holds by themselves, split off at the end
        seen, stack = set(terms), list(terms)
        while stack:
            term = stack.pop()
            self.spend(1)
            if self.kind[term] == SET:
                mask = self.args[term][0]
                if mask & (mask - 1) == 0:
                    alone |= mask
                elif len(blocks) < 256:
                    self.spend(len(blocks) // 8)
                    blocks = [part for block in blocks for part in (block & mask, block & ~mask) if part]
                continue
            for child in self._children(self.kind[term], self.args[term]):
                if child not in seen:
                    seen.add(child)
                    stack.append(child)
        result = [block & ~alone for block in blocks if block & ~alone]
        return result + [1 << byte for byte in range(256) if alone >> byte & 1]

    def fingerprint(self, term: Rx) -> bytes:
        """A digest of how a term is built: equal for equal terms of different pools."""

        def digest(x: Rx) -> bytes:
            kind, args = self.kind[x], self.args[x]
            parts = [self._prints[y] for y in self._children(kind, args)]
            if kind in (ALT, AND):
                parts.sort()
            numbers = {SET: args, REPEAT: args[1:], BEHIND: args}.get(kind, ())
            head = f"{kind} {numbers} {len(parts)} ".encode()
            return hashlib.blake2b(head + b"".join(parts), digest_size=16).digest()

        return self._fold(term, self._prints, digest)

    def clamped(self, term: Rx, depth: int) -> Rx:
        """A term that allows the same next ``depth`` bytes and is complete after the same of them.

        Upper counts beyond ``depth`` become endless, so there is nothing to count. Not inside intersections,
        complements and closed terms: there a count may decide far ahead whether anything can follow at all.
        """
        done = self._clamped.setdefault(depth, {})

        def cut(x: Rx) -> Rx:
            kind, args = self.kind[x], self.args[x]
            if kind == CONCAT:
                return self.concat(done[args[0]], done[args[1]])
            if kind == ALT:
                return self.alt(*(done[y] for y in args))
            if kind == REPEAT:
                high = args[2] if args[2] <= depth else INFINITE  # within depth bytes it is never used up
                return self._repeat(done[args[0]], min(args[1], depth + 1), high)
            return x

        return self._fold(term, done, cut)

    def substitute(self, term: Rx, images: Sequence[Rx]) -> Rx:
        """Replace every byte ``b`` of every string by the strings of ``images[b]``.

        Exact for all operators when the images are spellings: non-empty languages of which no string of one is a
        prefix of a string of the same or another. Complements stay within sequences of spellings.
        """
        valid = self.star(self.alt(*images))
        done: dict[Rx, Rx] = {NONE: NONE, EMPTY: EMPTY, self.all: valid}
        return self._fold(term, done, lambda x: self._image(self.kind[x], self.args[x], done, images, valid))

    def _image(self, kind: int, args: tuple, done: dict[Rx, Rx], images: Sequence[Rx], valid: Rx) -> Rx:  # type: ignore[type-arg]
        if kind == SET:
            plain, others = 0, []
            for byte in range(256):
                if args[0] >> byte & 1:
                    if self.kind[images[byte]] == SET:
                        plain |= self.args[images[byte]][0]
                    else:
                        others.append(images[byte])
            return self.alt(self.byte_set(plain), *others)
        if kind == CONCAT:
            return self.concat(done[args[0]], done[args[1]])
        if kind == ALT:
            return self.alt(*(done[x] for x in args))
        if kind == AND:
            return self.and_(*(done[x] for x in args))
        if kind == NOT:
            return self.and_(valid, self.not_(done[args[0]]))
        if kind == REPEAT:
            return self.repeat(done[args[0]], args[1], None if args[2] == INFINITE else args[2])
        if kind == AHEAD:
            return self.ahead(done[args[0]])
        if kind == CLOSED:
            return self.closed(done[args[0]], tuple(done[x] for x in args[1]))
        return self.behind(*args)

    def _fold(self, term: Rx, done: dict[Rx, _T], visit: Callable[[Rx], _T]) -> _T:
        """Compute ``done[x] = visit(x)`` for ``term`` and all its parts, parts first."""
        stack = [term]
        while stack:
            x = stack[-1]
            self.spend(1)
            missing = [] if x in done else [y for y in self._children(self.kind[x], self.args[x]) if y not in done]
            if missing:
                stack.extend(missing)
                continue
            stack.pop()
            if x not in done:
                done[x] = visit(x)
        return done[term]
