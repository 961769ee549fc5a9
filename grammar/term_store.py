"""Where terms live: ints that are interned, with the facts known about each from its birth.

Knows the kinds of terms and what their arguments are, but no law about them; see ``terms.py``.
"""

from __future__ import annotations

from radixrt.errors import UnsupportedConstraint
from radixrt.grammar.limits import Fuel
from radixrt.kernels.cpu.terms import MAX_TERMS

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
    "Args",
    "Rx",
    "TermStore",
]

Rx = int
"""The id of a term in its pool."""

# Kinds of terms, with the type of their arguments.
_NONE, _EMPTY, SET, CONCAT, ALT, AND, NOT, REPEAT, AHEAD, BEHIND, CLOSED = range(11)
# ()    ()      mask (a, b) (x..) (x..) (x,) (x,lo,hi) (r,) (i,yes) (x,(w..))

NONE: Rx = 0
"""No string at all."""
EMPTY: Rx = 1
"""The empty string alone."""
FULL_SET = (1 << 256) - 1
"""All 256 bytes, as a set."""
INFINITE = 1 << 62
"""The upper end of an unbounded repetition, and the length of unbounded strings."""

Args = tuple[object, ...]
"""The arguments of a term; their types depend on the kind."""


class TermStore:
    """A pool of terms. Facts about term ``x``, known from its birth:

    ``kind[x]``, ``args[x]``; ``null[x]``: has the empty string (False for sensitive terms: ask ``nullable``);
    ``low[x]``/``high[x]``: bounds on the length of its strings in bytes; ``plain[x]``: built without and, not or
    context, hence not the empty language unless it is ``NONE``; ``sensitive[x]``; ``watches[x]``: bit set of the
    BEHIND indices in it.
    """

    def __init__(self, fuel: Fuel, *, max_terms: int = MAX_TERMS) -> None:
        self.fuel = fuel
        self._max_terms = max_terms
        self.kind: list[int] = []
        self.args: list[tuple] = []  # type: ignore[type-arg]  # its shape depends on the kind, see above
        self.null: list[bool] = []
        self.low: list[int] = []
        self.high: list[int] = []
        self.plain: list[bool] = []
        self.sensitive: list[bool] = []
        self.watches: list[int] = []
        self._ids: dict[tuple[int, Args], Rx] = {}
        self._new(_NONE, (), null=False, low=0, high=0)
        self._new(_EMPTY, (), null=True, low=0, high=0)

    def __len__(self) -> int:
        return len(self.kind)

    def spend(self, amount: int) -> None:
        """Take fuel; raises ``UnsupportedConstraint`` (keyword: the limit) when nothing is left."""
        self.fuel.spend(amount)

    def refill(self, amount: int, limit: str) -> None:
        """Allow ``amount`` operations from now on; ``limit`` is the name that a refusal gives."""
        self.fuel.refill(amount, limit)

    def shortest(self, term: Rx) -> int:
        """A lower bound on the length of its strings in bytes."""
        return self.low[term]

    def longest(self, term: Rx) -> int:
        """An upper bound on the length of its strings in bytes."""
        return self.high[term]

    def is_sensitive(self, term: Rx) -> bool:
        """Whether what it matches depends on what stands around it."""
        return self.sensitive[term]

    def _next(self) -> Rx:
        """The id of a term that is about to be made."""
        self.fuel.spend(1)
        if len(self.kind) >= self._max_terms:
            raise UnsupportedConstraint(f"the constraint needs more than {self._max_terms} terms", keyword="terms")
        return len(self.kind)

    def _pair(self, head: Rx, tail: Rx) -> Rx:
        """The CONCAT of two terms that nothing simplifies: by far the commonest term, hence without detours."""
        args = (head, tail)
        found = self._ids.get((CONCAT, args))
        if found is not None:
            return found
        term = self._next()
        sensitive = self.sensitive[head] or self.sensitive[tail]
        self.kind.append(CONCAT)
        self.args.append(args)
        self.null.append(self.null[head] and self.null[tail])
        self.low.append(min(self.low[head] + self.low[tail], INFINITE))
        self.high.append(min(self.high[head] + self.high[tail], INFINITE))
        self.plain.append(self.plain[head] and self.plain[tail])
        self.sensitive.append(sensitive)
        self.watches.append(self.watches[head] | self.watches[tail])
        self._ids[CONCAT, args] = term
        return term

    def _find(self, kind: int, args: Args) -> Rx | None:
        return self._ids.get((kind, args))

    def _new(self, kind: int, args: Args, *, null: bool, low: int, high: int) -> Rx:
        term = self._next()
        sensitive, watches, plain = False, 0, kind not in (AND, NOT, CLOSED)
        if kind == BEHIND:
            sensitive, watches, plain = True, 1 << args[0], False  # type: ignore[operator]
        elif kind != CLOSED:
            sensitive = kind == AHEAD
            for child in self._children(kind, args):
                sensitive = sensitive or self.sensitive[child]
                watches |= self.watches[child]
                plain = plain and self.plain[child]
        self.kind.append(kind)
        self.args.append(args)
        self.null.append(null and not sensitive)
        self.low.append(low)
        self.high.append(high)
        self.plain.append(plain and not sensitive)
        self.sensitive.append(sensitive)
        self.watches.append(watches)
        self._ids[kind, args] = term
        return term

    def _children(self, kind: int, args: tuple) -> tuple[Rx, ...]:  # type: ignore[type-arg]
        if kind == REPEAT:
            return args[:1]
        if kind == CLOSED:
            return args[0], *args[1]
        return args if kind in (CONCAT, ALT, AND, NOT, AHEAD) else ()
