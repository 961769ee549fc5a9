"""Sets of stacks: how a grammar goes on after a terminal.

A stack is a list of items, each the rest of an alternative; sets of stacks are interned as frames (item, set of
stacks below it), plus whether the input may end here. Sets are united only at the top, so stacks share their lower
parts, and ambiguity costs frames instead of copies of stacks. A rule whose last symbol is another rule leaves no
frame (tail call), hence lists do not grow the stack. Nothing here knows about bytes.
"""

from __future__ import annotations

import heapq

from radixrt.grammar.leftrec import left_corners
from radixrt.grammar.rules import Alternative, RuleTable, Symbol, is_terminal, term_of
from radixrt.grammar.rx import EMPTY, Rx

__all__ = ["END", "Configs", "Stacks"]

END = 0
"""The item after the last symbol of an alternative."""
_Frame = tuple[int, int]
"""(item, set of stacks below)."""
Configs = dict[Rx, int]
"""Open terminal -> set of stacks."""


class Stacks:
    """The sets of stacks of one grammar, and what may be read under each."""

    def __init__(self, table: RuleTable) -> None:
        self._table = table
        self._pool = table.pool
        self._ranks = self._make_ranks()
        # Items: the rests of alternatives as linked lists.
        self._items: dict[tuple[Symbol, int], int] = {}
        self._item_symbol: list[Symbol] = [0]
        self._item_next: list[int] = [END]
        self._first_items: dict[Alternative, int] = {}
        self._stars: dict[Symbol, bool] = {}
        # Sets of stacks: (may the input end here, frames).
        self._stack_ids: dict[tuple[bool, frozenset[_Frame]], int] = {}
        self._stacks: list[tuple[bool, frozenset[_Frame]]] = []
        self._follow: dict[int, tuple[Configs, bool]] = {}
        self.bottom = self.make(True, frozenset())
        """The empty stack alone: the input may end."""

    def __len__(self) -> int:
        return len(self._stacks)

    def after_terminal(self, stacks: int) -> tuple[Configs, bool]:
        """What may be read once a terminal is complete under ``stacks``, and whether the input may end."""
        known = self._follow.get(stacks)
        if known is None:
            accepting, frames = self._stacks[stacks]
            items: dict[int, set[int]] = {}
            for item, below in frames:
                items.setdefault(item, set()).add(below)
            configs, ends = self.close(items)
            known = self._follow[stacks] = configs, accepting or ends
        return known

    def close(self, items: dict[int, set[int]]) -> tuple[Configs, bool]:
        """All terminals that may be read at the start of ``items`` (item -> sets of stacks below).

        Rules are replaced by their alternatives in the order of their left corners, so that each is handled once
        with all its callers; a caller found late (behind a nullable rule) is handled by itself.
        """
        closure = _Closure(self)
        for item, below in items.items():
            for stacks in below:
                closure.enter(item, stacks)
        closure.run()
        return {term: self.unite(s) for term, s in closure.configs.items()}, closure.accepting

    def make(self, ends: bool, frames: frozenset[_Frame]) -> int:
        """The set of these frames, and of the empty stack if the input may end."""
        key = (ends, frames)
        known = self._stack_ids.get(key)
        if known is None:
            known = self._stack_ids[key] = len(self._stacks)
            self._stacks.append(key)
            self._pool.spend(1 + len(frames))
        return known

    def push(self, rest: int, stacks: int) -> int:
        """Stacks on which ``rest`` comes first. A star on top of the same star is that star once."""
        if rest == END:
            return stacks
        if self._item_next[rest] == END and self._is_star(self._item_symbol[rest]):
            ends, frames = self._stacks[stacks]
            if frames and not ends and all(item == rest for item, _ in frames):
                return stacks
        return self.make(False, frozenset({(rest, stacks)}))

    def _is_star(self, symbol: Symbol) -> bool:
        """Whether a rule R is visibly some X*: it may be empty, and its other alternatives end in R."""
        known = self._stars.get(symbol)
        if known is None:
            alternatives = () if is_terminal(symbol) else self._table.alternatives(symbol)
            known = () in alternatives and all(not a or a[-1] == symbol for a in alternatives)
            self._stars[symbol] = known
        return known

    def unite(self, stacks: set[int]) -> int:
        """The union of sets of stacks."""
        if len(stacks) == 1:
            return next(iter(stacks))
        self._pool.spend(sum(len(self._stacks[s][1]) for s in stacks))
        return self.make(
            any(self._stacks[s][0] for s in stacks), frozenset().union(*(self._stacks[s][1] for s in stacks))
        )

    def item(self, symbol: Symbol, following: int) -> int:
        """A symbol with the item that follows it."""
        key = (symbol, following)
        known = self._items.get(key)
        if known is None:
            known = self._items[key] = len(self._item_symbol)
            self._item_symbol.append(symbol)
            self._item_next.append(following)
            self._pool.spend(1)
        return known

    def first_item(self, alternative: Alternative) -> int:
        """The item at the beginning of an alternative."""
        known = self._first_items.get(alternative)
        if known is None:
            known = END
            for symbol in reversed(alternative):
                known = self.item(symbol, known)
            self._first_items[alternative] = known
        return known

    def _make_ranks(self) -> list[int]:
        """Rank of each rule: callers through left corners come first."""
        return [-2 * number for number in left_corners(self._table).group]

    def rank(self, symbol: Symbol) -> int:
        """Rules are called in ascending order of rank."""
        repeat = self._table.repeats.get(symbol)
        if repeat is None:
            return self._ranks[symbol]
        return self.rank(repeat.symbol) - 1 if not is_terminal(repeat.symbol) else 1


class _Closure:
    """One run of ``Stacks.close``."""

    def __init__(self, stacks: Stacks) -> None:
        self._m = stacks
        self.configs: dict[Rx, set[int]] = {}
        self.accepting = False
        self._entered: set[tuple[int, int]] = set()
        self._queue: list[tuple[int, Symbol]] = []
        self._callers: dict[Symbol, set[_Frame]] = {}
        self._ends: dict[Symbol, bool] = {}
        self._done: dict[Symbol, tuple[set[_Frame], bool]] = {}

    def enter(self, item: int, stacks: int) -> None:
        """Read ``item`` on top of ``stacks``; follow what may be empty."""
        m = self._m
        todo = [(item, stacks)]
        while todo:
            item, stacks = top = todo.pop()
            m._pool.spend(1)
            if top in self._entered:
                continue
            self._entered.add(top)
            if item == END:
                ends, frames = m._stacks[stacks]
                self.accepting = self.accepting or ends
                todo.extend(frames)
                continue
            symbol, rest = m._item_symbol[item], m._item_next[item]
            if not is_terminal(symbol):
                self._call(symbol, rest, stacks)
                continue
            term = term_of(symbol)
            below = m.push(rest, stacks)
            if term != EMPTY:
                self.configs.setdefault(term, set()).add(below)
            if m._pool.nullable(term):
                todo.append((rest, stacks))

    def _call(self, symbol: Symbol, rest: int, stacks: int) -> None:
        ends, frames = self._m._stacks[self._m.push(rest, stacks)]
        waiting = self._callers.setdefault(symbol, set())
        if not waiting and not self._ends.get(symbol, False):
            heapq.heappush(self._queue, (self._m.rank(symbol), symbol))
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
            stacks = m.make(ends, frozenset(frames))
            for alternative in m._table.alternatives(symbol):
                self.enter(m.first_item(alternative), stacks)
