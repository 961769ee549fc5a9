"""The lazy pushdown automaton over bytes that runs a grammar.

A *configuration* is a terminal that is being read (the term that is left of it) with the set of stacks it may be
read under; a *state* is a set of configurations, interned, so that states are ints and the rows of the transition
table (state x byte class -> state) can be walked by native code. Rows are made when first asked for.

*Stacks* say how to go on after the terminal. A set of stacks is interned too: frames (what is left of a rule's
alternative, set of stacks below it), plus whether the input may end here. Sets are united only at the top, so
stacks share their lower parts, and ambiguity costs frames instead of copies of stacks. A rule whose last symbol is
another rule leaves no frame (tail call), hence lists do not grow the stack.

Every state is alive: rules that produce nothing are gone from a normalised grammar, and a configuration whose
terminal can no longer be finished is dropped. Nothing here knows about tokens.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from radixrt.errors import UnsupportedConstraint
from radixrt.grammar.leftrec import left_corners
from radixrt.grammar.limits import GrammarLimits
from radixrt.grammar.rules import Alternative, Grammar, Symbol, is_terminal, term_of
from radixrt.grammar.rx import EMPTY, Rx
from radixrt.grammar.terms import FULL_SET
from radixrt.kernels.cpu.trie_walk import Tables

__all__ = ["DEAD", "UNKNOWN", "Machine"]

DEAD = -1
"""Transition that leads nowhere."""
UNKNOWN = -2
"""Transition not computed yet."""

_END = 0
_Frame = tuple[int, int]
"""(item: the rest of an alternative, set of stacks below)."""
_Configs = dict[Rx, int]
"""Term that is left of a terminal -> set of stacks."""


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
        self._ranks = self._make_ranks()
        # Items: the rests of alternatives as linked lists; item 0 is the end.
        self._items: dict[tuple[Symbol, int], int] = {}
        self._item_symbol: list[Symbol] = [0]
        self._item_next: list[int] = [_END]
        self._stars: dict[Symbol, bool] = {}
        self._first_items: dict[Alternative, int] = {}
        # Sets of stacks: (may the input end here, frames).
        self._stack_ids: dict[tuple[bool, frozenset[_Frame]], int] = {}
        self._stacks: list[tuple[bool, frozenset[_Frame]]] = []
        self._follow: dict[int, tuple[_Configs, bool]] = {}
        # States.
        self._state_ids: dict[tuple[frozenset[tuple[Rx, int]], bool], int] = {}
        self._configs: list[tuple[tuple[Rx, int], ...]] = []
        self._singles: dict[tuple[Rx, int], int] = {}
        self._class_masks: dict[int, tuple[int, ...]] = {}
        self._make_classes()
        self.table: npt.NDArray[np.int32] = np.full((64, len(self._blocks)), UNKNOWN, np.int32)
        self._accepting: npt.NDArray[np.uint8] = np.zeros(64, np.uint8)
        self.tables = Tables(self.table, self.class_of, self._accepting)
        """The automaton as native code reads it."""
        self._bottom = self._stack(True, frozenset())
        configs, accepting = self._close({self._item(grammar.root, _END): {self._bottom}})
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

    def exits(self, state: int) -> tuple[int, ...]:
        """The byte classes on which ``state`` leads somewhere."""
        if self.table[state, 0] == UNKNOWN:
            self.expand(state)
        return tuple(np.flatnonzero(self.table[state] >= 0).tolist())

    def sole_byte(self, state: int) -> int | None:
        """The only byte that may follow, if there is exactly one."""
        exits = self.exits(state)
        if len(exits) == 1 and self._blocks[exits[0]].bit_count() == 1:
            return self._blocks[exits[0]].bit_length() - 1
        return None

    def parts(self, state: int) -> tuple[tuple[Rx, int], ...]:
        """The configurations of a state: pairs of an open terminal and a set of stacks."""
        return self._configs[state]

    def state_of(self, parts: Iterable[tuple[Rx, int]]) -> int:
        """The state of some configurations, as if nothing else were open."""
        return self._state(dict(parts), False)

    def terminal_state(self, term: Rx) -> int:
        """The state in which ``term`` alone is read; accepting means that the terminal can be complete."""
        return self._state({term: self._bottom}, self._pool.null[term])

    def first_bytes(self, term: Rx) -> int:
        """How many different bytes may come next in a terminal."""
        return sum(mask.bit_count() for mask, _ in self._pool.arcs(term))

    def fingerprint(self, term: Rx, depth: int) -> tuple[Rx, bytes]:
        """A term that reads the same within ``depth`` bytes, with counts no larger than needed, and its print."""
        short = self._pool.clamped(term, depth)
        return short, self._pool.fingerprint(short)

    def refuel(self, amount: int, limit: str) -> None:
        """Allow so much work from now on."""
        self._pool.fuel.refill(amount, limit)

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
                pool.fuel.spend(len(classes))
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
        row = [DEAD] * len(self._blocks)
        for mask, rest in pool.arcs(term):
            if pool.is_empty(rest):
                continue
            key = (rest, stacks)
            target = self._singles.get(key)
            if target is None:
                target = self._singles[key] = self._after((key,))
            classes = self._classes_in(mask)
            pool.fuel.spend(len(classes))
            for number in classes:
                row[number] = target
        self.table[state] = row

    def _after(self, configs: Iterable[tuple[Rx, int]]) -> int:
        """The state for configurations some of whose terminals may be complete."""
        ended: set[int] = set()
        open_: dict[Rx, set[int]] = {}
        for term, stacks in configs:
            if term != EMPTY:
                open_.setdefault(term, set()).add(stacks)
            if self._pool.null[term]:
                ended.add(stacks)
        accepting = False
        if ended:
            follow, accepting = self._after_terminal(self._unite(ended))
            for term, stacks in follow.items():
                open_.setdefault(term, set()).add(stacks)
        return self._state({term: self._unite(stacks) for term, stacks in open_.items()}, accepting)

    def _state(self, configs: _Configs, accepting: bool) -> int:
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
        self._pool.fuel.spend(1 + len(configs))
        return state

    def _grow(self) -> None:
        rows, classes = self.table.shape
        if 8 * rows * classes > self._limits.table_bytes or rows > 8 * self._limits.states:
            raise UnsupportedConstraint("the constraint needs too many states", keyword="states")
        table = np.full((2 * rows, classes), UNKNOWN, np.int32)
        table[:rows] = self.table
        self.table = table
        self._accepting = np.concatenate([self._accepting, np.zeros(rows, np.uint8)])
        self.tables = Tables(self.table, self.class_of, self._accepting)

    # --- closures ------------------------------------------------------------------------------------------------

    def _after_terminal(self, stacks: int) -> tuple[_Configs, bool]:
        """What may be read once a terminal is complete under ``stacks``, and whether the input may end."""
        known = self._follow.get(stacks)
        if known is None:
            accepting, frames = self._stacks[stacks]
            items: dict[int, set[int]] = {}
            for item, below in frames:
                items.setdefault(item, set()).add(below)
            configs, ends = self._close(items)
            known = self._follow[stacks] = configs, accepting or ends
        return known

    def _close(self, items: dict[int, set[int]]) -> tuple[_Configs, bool]:
        """All terminals that may be read at the start of ``items`` (item -> sets of stacks below).

        Rules are replaced by their alternatives in the order of their left corners, so that each is handled once
        with all its callers; a caller found late (behind a nullable rule) is handled by itself.
        """
        closure = _Closure(self)
        for item, below in items.items():
            for stacks in below:
                closure.enter(item, stacks)
        closure.run()
        return {term: self._unite(s) for term, s in closure.configs.items()}, closure.accepting

    def _stack(self, ends: bool, frames: frozenset[_Frame]) -> int:
        key = (ends, frames)
        known = self._stack_ids.get(key)
        if known is None:
            known = self._stack_ids[key] = len(self._stacks)
            self._stacks.append(key)
            self._pool.fuel.spend(1 + len(frames))
        return known

    def _push(self, rest: int, stacks: int) -> int:
        """Stacks on which ``rest`` comes first. A star on top of the same star is that star once."""
        if rest == _END:
            return stacks
        if self._item_next[rest] == _END and self._is_star(self._item_symbol[rest]):
            ends, frames = self._stacks[stacks]
            if frames and not ends and all(item == rest for item, _ in frames):
                return stacks
        return self._stack(False, frozenset({(rest, stacks)}))

    def _is_star(self, symbol: Symbol) -> bool:
        """Whether a rule R is visibly some X*: it may be empty, and its other alternatives end in R."""
        known = self._stars.get(symbol)
        if known is None:
            alternatives = () if is_terminal(symbol) else self._table.alternatives(symbol)
            known = () in alternatives and all(not a or a[-1] == symbol for a in alternatives)
            self._stars[symbol] = known
        return known

    def _unite(self, stacks: set[int]) -> int:
        """The union of sets of stacks."""
        if len(stacks) == 1:
            return next(iter(stacks))
        self._pool.fuel.spend(sum(len(self._stacks[s][1]) for s in stacks))
        return self._stack(
            any(self._stacks[s][0] for s in stacks), frozenset().union(*(self._stacks[s][1] for s in stacks))
        )

    def _item(self, symbol: Symbol, following: int) -> int:
        key = (symbol, following)
        known = self._items.get(key)
        if known is None:
            known = self._items[key] = len(self._item_symbol)
            self._item_symbol.append(symbol)
            self._item_next.append(following)
            self._pool.fuel.spend(1)
        return known

    def _first_item(self, alternative: Alternative) -> int:
        known = self._first_items.get(alternative)
        if known is None:
            known = _END
            for symbol in reversed(alternative):
                known = self._item(symbol, known)
            self._first_items[alternative] = known
        return known

    # --- preparation ---------------------------------------------------------------------------------------------

    def _make_ranks(self) -> list[int]:
        """Rank of each rule: callers through left corners come first."""
        return [-2 * number for number in left_corners(self._table).group]

    def _rank(self, symbol: Symbol) -> int:
        repeat = self._table.repeats.get(symbol)
        if repeat is None:
            return self._ranks[symbol]
        return self._rank(repeat.symbol) - 1 if not is_terminal(repeat.symbol) else 1

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


class _Closure:
    """One run of ``Machine._close``."""

    def __init__(self, machine: Machine) -> None:
        self._m = machine
        self.configs: dict[Rx, set[int]] = {}
        self.accepting = False
        self._queue: list[tuple[int, Symbol]] = []
        self._callers: dict[Symbol, set[_Frame]] = {}
        self._ends: dict[Symbol, bool] = {}
        self._done: dict[Symbol, tuple[set[_Frame], bool]] = {}

    def enter(self, item: int, stacks: int) -> None:
        """Read ``item`` on top of ``stacks``; follow what may be empty."""
        m = self._m
        todo = [(item, stacks)]
        while todo:
            item, stacks = todo.pop()
            m._pool.fuel.spend(1)
            if item == _END:
                ends, frames = m._stacks[stacks]
                self.accepting = self.accepting or ends
                todo.extend(frames)
                continue
            symbol, rest = m._item_symbol[item], m._item_next[item]
            if not is_terminal(symbol):
                self._call(symbol, rest, stacks)
                continue
            term = term_of(symbol)
            below = m._push(rest, stacks)
            if term != EMPTY:
                known = self.configs.setdefault(term, set())
                if below in known:
                    continue
                known.add(below)
            if m._pool.null[term]:
                todo.append((rest, stacks))

    def _call(self, symbol: Symbol, rest: int, stacks: int) -> None:
        ends, frames = self._m._stacks[self._m._push(rest, stacks)]
        waiting = self._callers.setdefault(symbol, set())
        if not waiting and not self._ends.get(symbol, False):
            heapq.heappush(self._queue, (self._m._rank(symbol), symbol))
        waiting |= frames
        self._ends[symbol] = self._ends.get(symbol, False) or ends

    def run(self) -> None:
        """Replace the called rules by their alternatives until only terminals are left."""
        m = self._m
        while self._queue:
            _, symbol = heapq.heappop(self._queue)
            frames, ends = self._callers.pop(symbol, set()), self._ends.pop(symbol, False)
            old_frames, old_ends = self._done.setdefault(symbol, (set(), False))
            frames -= old_frames
            if not frames and (old_ends or not ends):
                continue
            self._done[symbol] = (old_frames | frames, old_ends or ends)
            stacks = m._stack(ends, frozenset(frames))
            for alternative in m._table.alternatives(symbol):
                self.enter(m._first_item(alternative), stacks)
