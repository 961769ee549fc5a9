"""The lazy pushdown automaton over bytes that runs a grammar.

A *configuration* is a terminal that is being read (the term that is left of it) with the set of stacks it may be
read under; a *state* is a set of configurations, interned, so that states are ints and the rows of the transition
table (state x byte class -> state) can be walked by native code. Rows are made when first asked for.

Stacks (``stacks.py``) say how to go on after the terminal.

Every state is alive: rules that produce nothing are gone from a normalised grammar, and a configuration whose
terminal can no longer be finished is dropped. Nothing here knows about tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from radixrt.errors import UnsupportedConstraint
from radixrt.grammar.limits import GrammarLimits
from radixrt.grammar.rules import Grammar, is_terminal, term_of
from radixrt.grammar.rx import EMPTY, Rx
from radixrt.grammar.stacks import END, Configs, Stacks
from radixrt.grammar.terms import FULL_SET
from radixrt.kernels.cpu.trie_walk import Tables

__all__ = ["DEAD", "UNKNOWN", "Machine"]

DEAD = -1
"""Transition that leads nowhere."""
UNKNOWN = -2
"""Transition not computed yet."""
_HARD = 4
"""How many times the limit of states one text may use before it is refused."""


class Machine:
    """Runs one grammar. Not thread-safe: its owner holds a lock.

    ``table`` is int32 [capacity, classes] (entries ``DEAD``, ``UNKNOWN`` or a state), ``class_of`` uint8 [256],
    ``start`` the initial state. A larger table is a new array: an old one stays valid, with unknown entries.
    """

    def __init__(self, grammar: Grammar, limits: GrammarLimits) -> None:
        self._grammar = grammar
        self._pool = grammar.pool
        self._table = grammar.table
        self._limits = limits
        self._sizes = (len(self._pool), len(self._table.rules))
        self._stacks = Stacks(grammar.table)
        self._state_ids: dict[tuple[frozenset[tuple[Rx, int]], bool], int] = {}
        self._configs: list[tuple[tuple[Rx, int], ...]] = []
        self._singles: dict[tuple[Rx, int], int] = {}
        self._class_masks: dict[int, tuple[int, ...]] = {}
        self._make_classes()
        self.table: npt.NDArray[np.int32] = np.full((64, len(self._blocks)), UNKNOWN, np.int32)
        self._accepting: npt.NDArray[np.uint8] = np.zeros(64, np.uint8)
        self.tables = Tables(self.table, self.class_of, self._accepting)
        """The automaton as native code reads it."""
        root = self._stacks.item(grammar.root, END)
        configs, accepting = self._stacks.close({root: {self._stacks.bottom}})
        self.start = self._state(configs, accepting)
        self.expand(self.start)  # so that what is too hard from the start is refused when it is compiled

    # --- what the owner asks -------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._configs)

    def is_accepting(self, state: int) -> bool:
        """Whether what was read so far is a complete text."""
        return bool(self._accepting[state])

    def step(self, state: int, byte: int) -> int:
        """The state after one more byte, or ``DEAD``."""
        target = int(self.table[state, self.class_of[byte]])
        if target == UNKNOWN:
            self.expand(state)
            target = int(self.table[state, self.class_of[byte]])
        return target

    def run(self, state: int, data: bytes) -> int:
        """The state after ``data``, or ``DEAD``."""
        for byte in data:
            state = self.step(state, byte)
            if state == DEAD:
                break
        return state

    def exits(self, state: int) -> int:
        """The bytes on which ``state`` leads somewhere, as a 256-bit mask."""
        if self.table[state, 0] == UNKNOWN:
            self.expand(state)
        return sum(self._blocks[number] for number in np.flatnonzero(self.table[state] >= 0).tolist())

    def parts(self, state: int) -> tuple[tuple[Rx, int], ...]:
        """The configurations of a state: pairs of an open terminal and a set of stacks."""
        return self._configs[state]

    def state_of(self, parts: Iterable[tuple[Rx, int]]) -> int:
        """The state of some configurations, as if nothing else were open."""
        return self._state(dict(parts), False)

    def terminal_state(self, term: Rx) -> int:
        """The state in which ``term`` alone is read; accepting means that the terminal can be complete."""
        return self._state({term: self._stacks.bottom}, self._pool.nullable(term))

    def first_bytes(self, term: Rx) -> int:
        """How many different bytes may come next in a terminal."""
        return sum(mask.bit_count() for mask, _ in self._pool.arcs(term))

    def fingerprint(self, term: Rx, depth: int) -> tuple[Rx, bytes]:
        """A term that reads the same within ``depth`` bytes, with counts no larger than needed, and its print."""
        short = self._pool.clamped(term, depth)
        return short, self._pool.fingerprint(short)

    def refuel(self, amount: int, limit: str) -> None:
        """Allow so much work from now on."""
        self._pool.refill(amount, limit)

    @property
    def nbytes(self) -> int:
        """Memory held, about."""
        return self.table.nbytes + 600 * (len(self._pool) + len(self._configs)) + 200 * len(self._stacks)

    def fresh(self) -> Machine:
        """A machine for the same grammar that has not read anything yet; shares nothing that grows."""
        terms, rules = self._sizes
        pool = self._pool.truncated(terms)
        table = self._table.truncated(pool, rules)
        return Machine(Grammar(table, self._grammar.root), self._limits)

    # --- rows of the table ---------------------------------------------------------------------------------------

    def expand(self, state: int) -> None:
        """Compute the row of a state."""
        if self.table[state, 0] != UNKNOWN:
            return
        pool = self._pool
        configs = self._configs[state]
        if len(configs) == 1:
            self._expand_one(state, *configs[0])
            return
        targets: list[list[tuple[Rx, int]]] = [[] for _ in self._blocks]
        for term, stacks in configs:
            for mask, rest in pool.arcs(term):
                if pool.is_empty(rest):
                    continue
                classes = self._classes_in(mask)
                pool.spend(len(classes))
                for number in classes:
                    targets[number].append((rest, stacks))
        row = [DEAD] * len(self._blocks)
        known: dict[tuple[tuple[Rx, int], ...], int] = {}
        for number, reached in enumerate(targets):
            if reached:
                key = tuple(reached)
                if key not in known:
                    known[key] = self._after(key)
                row[number] = known[key]
        self.table[state] = row

    def _expand_one(self, state: int, term: Rx, stacks: int) -> None:
        """The same for one configuration, the usual case: its arcs are the groups of classes."""
        pool = self._pool
        found: list[tuple[tuple[int, ...], int]] = []
        for mask, rest in pool.arcs(term):
            if pool.is_empty(rest):
                continue
            key = (rest, stacks)
            target = self._singles.get(key)
            if target is None:
                target = self._singles[key] = self._after((key,))
            classes = self._classes_in(mask)
            pool.spend(len(classes))
            found.append((classes, target))
        row = self.table[state]
        row[:] = DEAD
        for classes, target in found:
            row[classes if len(classes) == 1 else list(classes)] = target

    def _after(self, configs: Sequence[tuple[Rx, int]]) -> int:
        """The state for configurations some of whose terminals may be complete."""
        if len(configs) == 1 and not self._pool.nullable(configs[0][0]):
            return self._state(dict(configs), False)
        ended: set[int] = set()
        open_: dict[Rx, set[int]] = {}
        for term, stacks in configs:
            if term != EMPTY:
                open_.setdefault(term, set()).add(stacks)
            if self._pool.nullable(term):
                ended.add(stacks)
        accepting = False
        if ended:
            follow, accepting = self._stacks.after_terminal(self._stacks.unite(ended))
            for term, stacks in follow.items():
                open_.setdefault(term, set()).add(stacks)
        return self._state({term: self._stacks.unite(stacks) for term, stacks in open_.items()}, accepting)

    def _state(self, configs: Configs, accepting: bool) -> int:
        key = (frozenset(configs.items()), accepting)
        known = self._state_ids.get(key)
        if known is not None:
            return known
        if len(configs) > self._limits.configurations:
            raise UnsupportedConstraint(
                f"more than {self._limits.configurations} terminals can be open at once", keyword="configurations"
            )
        state = len(self._configs)
        if state == len(self.table):
            self._grow()
        self._configs.append(tuple(sorted(configs.items())))
        self._accepting[state] = accepting
        self._state_ids[key] = state
        self._pool.spend(1 + len(configs))
        return state

    def _grow(self) -> None:
        rows, classes = self.table.shape
        most = _HARD * self._limits.states
        if 8 * rows * classes > self._limits.table_bytes or rows > most or len(self._stacks) > 2 * most:
            raise UnsupportedConstraint("the constraint needs too many states", keyword="states")
        table = np.full((2 * rows, classes), UNKNOWN, np.int32)
        table[:rows] = self.table
        self.table = table
        self._accepting = np.concatenate([self._accepting, np.zeros(rows, np.uint8)])
        self.tables = Tables(self.table, self.class_of, self._accepting)

    # --- preparation ---------------------------------------------------------------------------------------------

    def _make_classes(self) -> None:
        terms = {term_of(self._grammar.root)} if is_terminal(self._grammar.root) else set()
        for alternatives in self._table.rules:
            terms.update(term_of(s) for a in alternatives for s in a if is_terminal(s))
        self._blocks = self._pool.byte_classes(terms)
        self.class_of: npt.NDArray[np.uint8] = np.zeros(256, np.uint8)
        for number, mask in enumerate(self._blocks):
            bits = np.frombuffer(mask.to_bytes(32, "little"), np.uint8)
            self.class_of[np.unpackbits(bits, bitorder="little") == 1] = number

    def _classes_in(self, mask: int) -> tuple[int, ...]:
        """The byte classes that make up a set of bytes."""
        known = self._class_masks.get(mask)
        if known is None:
            known = tuple(n for n, block in enumerate(self._blocks) if block & mask)
            if mask != FULL_SET and any(self._blocks[n] & ~mask for n in known):
                raise ValueError("a derivative tells apart bytes of one class")
            self._class_masks[mask] = known
        return known
