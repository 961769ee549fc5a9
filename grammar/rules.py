"""Rules of a grammar as plain data: symbols, alternatives, counters.

A symbol is an int: ``~term`` for a terminal (negative), else the number of a rule. A rule is either a tuple of
alternatives or a counted repetition, whose alternatives are made on demand: repeat(x, 2, 9) is x repeat(x, 1, 8).
Nothing here knows how rules come about or how they are run.
"""

from __future__ import annotations

from typing import NamedTuple

from radixrt.grammar.rx import Pool, Rx
from radixrt.grammar.terms import INFINITE
from radixrt.kernels.cpu.machine import NativeRules

__all__ = ["Alternative", "Grammar", "Repeat", "RuleTable", "Symbol", "Tracks", "is_terminal", "term_of"]

Symbol = int
Alternative = tuple[Symbol, ...]


class Repeat(NamedTuple):
    """``symbol`` from ``low`` to ``high`` times; ``high`` may be ``INFINITE``."""

    symbol: Symbol
    low: int
    high: int


def is_terminal(symbol: Symbol) -> bool:
    """Whether a symbol is a terminal."""
    return symbol < 0


def term_of(terminal: Symbol) -> Rx:
    """The term that a terminal stands for."""
    return ~terminal


class RuleTable:
    """Rules by number. ``repeats`` holds the counted ones, whose entry in ``rules`` is unused."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.rules: list[tuple[Alternative, ...]] = []
        self.repeats: dict[Symbol, Repeat] = {}
        self._repeat_ids: dict[Repeat, Symbol] = {}

    def add(self, alternatives: tuple[Alternative, ...]) -> Symbol:
        """A new rule."""
        self.pool.spend(1)
        self.rules.append(alternatives)
        return len(self.rules) - 1

    def repeat(self, repeat: Repeat) -> Symbol:
        """The rule of a counted repetition, made once."""
        known = self._repeat_ids.get(repeat)
        if known is None:
            known = self.add(())
            self.set_repeat(known, repeat)
        return known

    def set_repeat(self, symbol: Symbol, repeat: Repeat) -> None:
        """Make a rule a counted repetition."""
        self.repeats[symbol] = repeat
        self._repeat_ids[repeat] = symbol

    def alternatives(self, symbol: Symbol) -> tuple[Alternative, ...]:
        """What a rule may be replaced by; unrolls one round of a repetition."""
        repeat = self.repeats.get(symbol)
        if repeat is None:
            return self.rules[symbol]
        x, low, _ = repeat
        rest = self.after_one(repeat)
        once: Alternative = (x,) if rest is None else (x, rest)
        return (once, ()) if low == 0 else (once,)

    def after_one(self, repeat: Repeat) -> Symbol | None:
        """What is left of a repetition after one round; None: nothing."""
        x, low, high = repeat
        if high == 1:
            return None
        if low == 0 and high == INFINITE:
            return self._repeat_ids[repeat]
        return self.repeat(Repeat(x, max(low - 1, 0), high if high == INFINITE else high - 1))

    def truncated(self, pool: Pool, count: int) -> RuleTable:
        """The first ``count`` rules over another pool with the same terms."""
        twin = RuleTable(pool)
        twin.rules = self.rules[:count]
        for symbol, repeat in self.repeats.items():
            if symbol < count:
                twin.set_repeat(symbol, repeat)
        return twin


class Tracks(NamedTuple):
    """What a grammar of JSON texts leaves to a tracker of names and items (``json_tracker``).

    ``items``: arrays say by a byte where an item may be a duplicate. ``tight``: names or unique items come from
    so few that a text could run out of them in mid-word. ``demands``: some array must hold a duplicate.
    """

    items: bool = False
    tight: bool = False
    demands: bool = False


class Grammar(NamedTuple):
    """A normalised grammar: its rules and the symbol it starts from (a terminal for a regular language).

    ``native`` holds the normalised rules where the pool is native; ``table`` is then as it was built. ``tracks`` is
    set where the texts are those of the rules in which no object repeats a name, and so on.
    """

    table: RuleTable
    root: Symbol
    tracks: Tracks | None = None
    native: NativeRules | None = None

    @property
    def pool(self) -> Pool:
        """The pool of the terminals."""
        return self.table.pool
