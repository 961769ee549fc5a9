"""The one intermediate form: a context-free grammar whose terminals are terms of a pool.

A ``GrammarBuilder`` collects rules; every front end (regular expressions, choices, JSON Schema, EBNF) ends in
``build``, which returns a ``Grammar`` that the machine can run:

* every rule it keeps can produce something and can be reached; a root that cannot is ``UnsatisfiableConstraint``;
* no rule can reach itself without reading a byte (direct, mutual, hidden and nullable left recursion are gone,
  see ``leftrec.py``), so that the machine's closures are finite.

Bounded repetition stays a counter, ``repeat(x, 3, 5000)`` is one symbol however large the bounds are. Neighbouring
terminals are joined into one term while they are short. Nothing here
knows about tokens or how a grammar was spelled.

    builder = GrammarBuilder(pool)
    value = builder.declare("value")
    items = builder.star(builder.seq(builder.literal(","), value))
    builder.define(value, [builder.literal("x")], [builder.literal("["), value, items, builder.literal("]")])
    grammar = builder.build(value)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from radixrt.errors import UnsatisfiableConstraint
from radixrt.grammar.leftrec import left_corners, remove_left_recursion
from radixrt.grammar.rules import Alternative, Grammar, Repeat, RuleTable, Symbol, is_terminal, term_of
from radixrt.grammar.rx import EMPTY, NONE, Pool, Rx
from radixrt.grammar.terms import INFINITE
from radixrt.kernels.cpu.machine import LeftRecursion, NativeRules
from radixrt.kernels.cpu.terms import NativePool

__all__ = ["Alternative", "Grammar", "GrammarBuilder", "Symbol"]

_SHORT = 256


class GrammarBuilder:
    """Collects the rules of one grammar. Symbols are ints: ``~term`` for a terminal, else the rule's number."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.empty: Symbol = ~EMPTY
        """The empty string."""
        self.nothing: Symbol = ~NONE
        """No string at all."""
        self._names: list[str] = []
        self._table = RuleTable(pool)
        self._defined: list[bool] = []
        self._short: dict[Symbol, bool] = {}  # whether a symbol is a terminal that joins its neighbours
        self._made: dict[tuple[str, tuple[Symbol, ...]], Symbol] = {}

    # --- terminals -----------------------------------------------------------------------------------------------

    def terminal(self, term: Rx) -> Symbol:
        """A closed term as a symbol."""
        if ~term not in self._short:
            if self.pool.is_sensitive(term):
                raise ValueError("a terminal must be closed (Pool.closed)")
            self._short[~term] = self.pool.longest(term) <= _SHORT
        return ~term

    def literal(self, text: str | bytes) -> Symbol:
        """Exactly this text (``str`` is encoded as UTF-8)."""
        return ~self.pool.literal(text.encode() if isinstance(text, str) else text)

    # --- rules ---------------------------------------------------------------------------------------------------

    def declare(self, name: str) -> Symbol:
        """A rule to be defined later; ``name`` appears in errors only."""
        self._names.append(name)
        self._defined.append(False)
        return self._table.add(())

    def define(self, symbol: Symbol, *alternatives: Sequence[Symbol]) -> None:
        """Give a declared rule its alternatives, each a sequence of symbols (``[]`` is the empty string)."""
        if is_terminal(symbol) or symbol >= len(self._defined) or self._defined[symbol]:
            raise ValueError(f"symbol {symbol} is not a rule that waits for its definition")
        self._defined[symbol] = True
        self._table.rules[symbol] = self._tidy(alternatives)

    def seq(self, *symbols: Symbol) -> Symbol:
        """One after the other."""
        joined = self._join(symbols)
        if len(joined) < 2:
            return joined[0] if joined else self.empty
        return self._make("seq", joined, (joined,))

    def alt(self, *symbols: Symbol) -> Symbol:
        """Any of them."""
        members = self._tidy([(symbol,) for symbol in dict.fromkeys(symbols)])
        if not members:
            return self.nothing
        if len(members) == 1:
            return members[0][0] if members[0] else self.empty
        return self._make("alt", tuple(m[0] if m else self.empty for m in members), members)

    def opt(self, symbol: Symbol) -> Symbol:
        """Once or not at all."""
        return self.alt(symbol, self.empty)

    def star(self, symbol: Symbol) -> Symbol:
        """Any number of times."""
        return self.repeat(symbol, 0, None)

    def plus(self, symbol: Symbol) -> Symbol:
        """At least once."""
        return self.repeat(symbol, 1, None)

    def repeat(self, symbol: Symbol, low: int, high: int | None) -> Symbol:
        """``symbol`` at least ``low`` and at most ``high`` times (None: no upper end), by counting."""
        if low < 0 or (high is not None and high < low):
            raise ValueError(f"a repetition from {low} to {high} times")
        if is_terminal(symbol):
            return ~self.pool.repeat(term_of(symbol), low, high)
        if high == 0:
            return self.empty
        if low == high == 1:
            return symbol
        top = INFINITE if high is None else high
        known = len(self._table.rules)
        made = self._table.repeat(Repeat(symbol, low, top))
        if made == known:
            self._names.append("repetition")
            self._defined.append(True)
        return made

    def _make(self, kind: str, key: tuple[Symbol, ...], alternatives: tuple[Alternative, ...]) -> Symbol:
        known = self._made.get((kind, key))
        if known is None:
            known = self._table.add(alternatives)
            self._names.append(kind)
            self._defined.append(True)
            self._made[kind, key] = known
        return known

    def _join(self, symbols: Sequence[Symbol]) -> Alternative:
        """Concatenate neighbouring short terminals.

        Long ones (strings, say) stay apart, so that they are the same terminal wherever they occur.
        """
        joined: list[Symbol] = []
        run: list[Rx] = []
        for symbol in symbols:
            if self._is_short(symbol):
                run.append(term_of(symbol))
                continue
            if run:
                self._add_run(joined, run)
                run = []
            joined.append(symbol)
        if run:
            self._add_run(joined, run)
        return tuple(joined)

    def _is_short(self, symbol: Symbol) -> bool:
        """Whether it is a terminal that is joined with its neighbours."""
        known = self._short.get(symbol)
        if known is None:
            known = is_terminal(symbol) and self.pool.longest(term_of(symbol)) <= _SHORT
            self._short[symbol] = known
        return known

    def _add_run(self, joined: list[Symbol], run: list[Rx]) -> None:
        term = run[0] if len(run) == 1 else self.pool.concat(*run)
        if term != EMPTY:
            joined.append(~term)

    def _tidy(self, alternatives: Sequence[Sequence[Symbol]]) -> tuple[Alternative, ...]:
        """Join terminals within each alternative, and all alternatives that are one terminal."""
        terms: list[Rx] = []
        others: dict[Alternative, None] = {}
        for alternative in alternatives:
            joined = self._join(alternative)
            if not joined:
                terms.append(EMPTY)
            elif len(joined) == 1 and is_terminal(joined[0]):
                terms.append(term_of(joined[0]))
            else:
                others[joined] = None
        if not terms:
            return tuple(others)
        term = terms[0] if len(terms) == 1 else self.pool.alt(*terms)
        if term == EMPTY:
            return ((), *others)
        return tuple(others) if term == NONE else ((~term,), *others)

    # --- the finished grammar ------------------------------------------------------------------------------------

    def build(self, root: Symbol) -> Grammar:
        """Normalise what ``root`` produces. The builder must not be used afterwards."""
        for symbol, defined in enumerate(self._defined):
            if not defined:
                raise ValueError(f"the rule {self._names[symbol]!r} was declared but not defined")
        if isinstance(self.pool, NativePool):
            return self._handed_on(self.pool, root)
        if is_terminal(root):
            if self.pool.is_empty(term_of(root)):
                raise UnsatisfiableConstraint("no text satisfies the constraint")
            return Grammar(self._table, root)
        return self._normalised(root)

    def unproductive(self, symbols: Sequence[Symbol]) -> list[Symbol]:
        """Those of some symbols that produce no string, once all rules are defined."""
        productive = _productive(self._table)
        return [
            symbol
            for symbol in symbols
            if (self.pool.is_empty(term_of(symbol)) if is_terminal(symbol) else symbol not in productive)
        ]

    def _normalised(self, root: Symbol) -> Grammar:
        productive = _productive(self._table)
        if root not in productive:
            raise UnsatisfiableConstraint("no text satisfies the constraint")
        _keep_productive(self._table, productive)
        grammar = _reachable(self._table, root)
        if any(left_corners(grammar.table).cyclic):
            table, root = remove_left_recursion(grammar)
            _keep_productive(table, _productive(table))
            grammar = _reachable(table, root)
        return grammar

    def _handed_on(self, pool: NativePool, root: Symbol) -> Grammar:
        """The same on the native side; only left recursion is removed here."""
        try:
            return Grammar(self._table, root, native=_native_rules(pool, self._table, root))
        except LeftRecursion:
            grammar = self._normalised(root)
            return grammar._replace(native=_native_rules(pool, grammar.table, grammar.root))


def _native_rules(pool: NativePool, table: RuleTable, root: Symbol) -> NativeRules:
    repeats = [(symbol, *repeat) for symbol, repeat in table.repeats.items()]
    return NativeRules(pool, table.rules, repeats, root, "compile_fuel")


def _productive(table: RuleTable) -> set[Symbol]:
    """The rules that produce at least one string: a worklist over the occurrences of each rule."""
    pool = table.pool
    productive: set[Symbol] = set()
    waiting: dict[Symbol, list[list[int]]] = {}
    ready: deque[Symbol] = deque()
    alive: dict[Rx, bool] = {}
    for symbol in range(len(table.rules)):
        repeat = table.repeats.get(symbol)
        if repeat is not None:
            alternatives: tuple[Alternative, ...] = ((),) if repeat.low == 0 else ((repeat.symbol,),)
        else:
            alternatives = table.rules[symbol]
        for alternative in alternatives:
            pool.spend(len(alternative) + 1)
            for part in alternative:
                if is_terminal(part) and part not in alive:
                    alive[part] = not pool.is_empty(term_of(part))
            if all(alive.get(part, True) for part in alternative):
                rules = [part for part in alternative if not is_terminal(part)]
                need = [len(rules), symbol]
                for part in rules:
                    waiting.setdefault(part, []).append(need)
                if not rules:
                    ready.append(symbol)
    while ready:
        symbol = ready.popleft()
        if symbol in productive:
            continue
        productive.add(symbol)
        for need in waiting.get(symbol, ()):
            need[0] -= 1
            if need[0] == 0:
                ready.append(need[1])
    return productive


def _keep_productive(table: RuleTable, productive: set[Symbol]) -> None:
    """Drop the alternatives with a part that produces nothing."""
    dead: dict[Symbol, bool] = {}

    def lives(part: Symbol) -> bool:
        if not is_terminal(part):
            return part in productive
        if part not in dead:
            dead[part] = table.pool.is_empty(term_of(part))
        return not dead[part]

    for symbol, alternatives in enumerate(table.rules):
        table.rules[symbol] = tuple(a for a in alternatives if all(map(lives, a)))
    for symbol, repeat in list(table.repeats.items()):
        if not lives(repeat.symbol):
            del table.repeats[symbol]
            table.rules[symbol] = ((),) if repeat.low == 0 else ()


def _reachable(table: RuleTable, root: Symbol) -> Grammar:
    """A copy of the table with only what the root can reach, renumbered."""
    fresh = RuleTable(table.pool)
    names: dict[Symbol, Symbol] = {}
    queue: deque[Symbol] = deque()

    def rename(symbol: Symbol) -> Symbol:
        if is_terminal(symbol):
            return symbol
        if symbol not in names:
            names[symbol] = fresh.add(())
            queue.append(symbol)
        return names[symbol]

    start = rename(root)
    while queue:
        symbol = queue.popleft()
        table.pool.spend(1)
        repeat = table.repeats.get(symbol)
        if repeat is not None:
            fresh.set_repeat(names[symbol], Repeat(rename(repeat.symbol), repeat.low, repeat.high))
        else:
            fresh.rules[names[symbol]] = tuple(tuple(map(rename, a)) for a in table.rules[symbol])
    return Grammar(fresh, start)
