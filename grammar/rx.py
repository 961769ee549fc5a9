"""The pool of terms as the rest of the package sees it: front ends build terms, the machine asks about them.

``Pool`` is the interface. ``new_pool`` makes one: native where there is a library of native kernels, else in Python
(``python_pool.py``, which says what everything means). It does not know what a pattern, a grammar or a token is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from radixrt.grammar.derivatives import Arc
from radixrt.grammar.limits import Fuel
from radixrt.grammar.python_pool import PythonPool
from radixrt.grammar.terms import EMPTY, NONE, Rx
from radixrt.grammar.utf8 import Range
from radixrt.kernels.cpu.library import native
from radixrt.kernels.cpu.terms import OPERATIONS, NativePool

__all__ = ["EMPTY", "NONE", "Arc", "Pool", "PythonPool", "Rx", "new_pool"]


class Pool(Protocol):
    """Interned terms over bytes. Not thread-safe: its owner holds a lock.

    A term (``Rx``) is an int and means something in its own pool only. Sets of bytes are 256-bit masks. Every
    operation spends fuel and may raise ``UnsupportedConstraint``; the keyword is the limit that ran out.
    """

    @property
    def any_byte(self) -> Rx:
        """One byte, whichever."""

    @property
    def all(self) -> Rx:
        """Every string of bytes."""

    @property
    def text(self) -> Rx:
        """Every valid UTF-8 text."""

    # --- work ---

    def spend(self, amount: int) -> None:
        """Take fuel for work done outside of the pool."""

    def refill(self, amount: int, limit: str) -> None:
        """Allow ``amount`` operations from now on; ``limit`` is the name that a refusal gives."""

    # --- constructors ---

    def byte_set(self, mask: int) -> Rx:
        """One byte out of a set."""

    def each_byte(self) -> list[Rx]:
        """The 256 terms of single bytes."""

    def literal(self, data: bytes) -> Rx:
        """Exactly these bytes."""

    def one_of(self, strings: Sequence[bytes]) -> Rx:
        """Exactly one of these strings, shaped like a trie, so that thousands cost no more than their bytes."""

    def chars(self, ranges: Sequence[Range]) -> Rx:
        """One character out of inclusive ranges of code points, in UTF-8. Surrogates are left out."""

    def concat(self, *terms: Rx) -> Rx:
        """One after the other."""

    def alt(self, *terms: Rx) -> Rx:
        """Any of them."""

    def and_(self, *terms: Rx) -> Rx:
        """All of them."""

    def not_(self, term: Rx) -> Rx:
        """Every string of *bytes* that is not in ``term``; ``and_(text, not_(x))`` stays within valid text."""

    def repeat(self, term: Rx, low: int, high: int | None) -> Rx:
        """``term`` at least ``low`` and at most ``high`` times (None: no upper end)."""

    def star(self, term: Rx) -> Rx:
        """Any number of times."""

    def plus(self, term: Rx) -> Rx:
        """At least once."""

    def opt(self, term: Rx) -> Rx:
        """Once or not at all."""

    def ahead(self, rest: Rx) -> Rx:
        """Zero-width: all that follows, up to the end of the closed term, is in ``rest``."""

    def behind(self, index: int, yes: bool) -> Rx:
        """Zero-width: whether what was read since the closed term began is in watched language ``index``."""

    def closed(self, term: Rx, watched: Sequence[Rx] = ()) -> Rx:
        """Make a sensitive term an ordinary one; ``watched[i]`` is what ``behind(i, ...)`` in it speaks of."""

    def before_end(self, term: Rx, rest: Rx) -> Rx:
        """``term`` and then ``rest``, which reaches the end of the closed term."""

    def consuming(self, term: Rx) -> Rx:
        """The part of ``term`` that reads at least one byte."""

    def substitute(self, term: Rx, images: Sequence[Rx]) -> Rx:
        """Replace every byte ``b`` of every string by the strings of ``images[b]``, which are spellings."""

    # --- questions ---

    def __len__(self) -> int: ...

    def truncated(self, count: int) -> Pool:
        """A pool with the first ``count`` terms of this one, under the same ids, and its own fuel."""

    def nullable(self, term: Rx, flags: int = 0) -> bool:
        """Whether ``term`` matches when nothing more is read."""

    def shortest(self, term: Rx) -> int:
        """A lower bound on the length of its strings in bytes."""

    def longest(self, term: Rx) -> int:
        """An upper bound on the length of its strings in bytes."""

    def is_sensitive(self, term: Rx) -> bool:
        """Whether what it matches depends on what stands around it; ``closed`` makes it ordinary."""

    def arcs(self, term: Rx, flags: int = 0) -> Sequence[Arc]:
        """The derivatives of ``term``: disjoint sets of bytes, each with the term that remains."""

    def matches(self, term: Rx, data: bytes) -> bool:
        """Whether ``data`` is in ``term``."""

    def is_empty(self, term: Rx) -> bool:
        """Whether no string at all is in ``term``."""

    def proved_empty(self, term: Rx, amount: int) -> bool:
        """Whether ``term`` is shown to be empty with ``amount`` of the fuel; False if that does not suffice."""

    def first_bytes(self, term: Rx) -> int:
        """How many different bytes may come next."""

    def byte_classes(self, terms: Iterable[Rx]) -> list[int]:
        """The coarsest partition of the 256 bytes (as masks) that no derivative of ``terms`` can tell apart."""

    def clamped(self, term: Rx, depth: int) -> Rx:
        """A term that allows the same next ``depth`` bytes and is complete after the same of them."""

    def fingerprint(self, term: Rx) -> bytes:
        """A digest of how a term is built: equal for equal terms of different pools of one kind."""


def new_pool(amount: int, limit: str) -> Pool:
    """An empty pool with ``amount`` of fuel; ``limit`` is the name that a refusal gives."""
    if native() is None:
        return PythonPool(Fuel(amount, limit))
    return NativePool(amount, limit, operations=OPERATIONS)
