"""What grammars in EBNF and in Lark notation have in common: named rules, written as postfix code.

A rule's body is a list of operations on a stack of sequences of symbols: a leaf pushes a sequence of one,
``Seq(n)`` joins the top n, ``Alt(n)`` makes one symbol of the top n, ``Times`` repeats the top. Bodies nest as deep
as they like: nothing here recurses.

``lower`` turns the rules that a root needs into symbols of a builder, what a rule needs before the rule itself. So
a rule that is not part of a ring is written out where it is used, and where it is regular it becomes one terminal,
as if its author had written it inline. Nothing here knows how rules are spelled, nor about places in a text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from radixrt.grammar.cfg import GrammarBuilder, Symbol
from radixrt.grammar.rules import is_terminal

__all__ = ["Alt", "Body", "Leaf", "Op", "Rule", "Seq", "Times", "lower", "rings"]


class Leaf(NamedTuple):
    """A symbol that is ready, a terminal for instance."""

    symbol: Symbol


class Rule(NamedTuple):
    """The rule with this name."""

    name: str


class Seq(NamedTuple):
    """The last ``size``, one after the other; none at all is the empty string."""

    size: int


class Alt(NamedTuple):
    """Any of the last ``size``."""

    size: int


class Times(NamedTuple):
    """The last one, ``low`` to ``high`` times (None: no upper end)."""

    low: int
    high: int | None


Op: TypeAlias = Leaf | Rule | Seq | Alt | Times
Body: TypeAlias = Sequence[Op]
_Parts: TypeAlias = tuple[Symbol, ...]


def lower(
    builder: GrammarBuilder,
    rules: Mapping[str, Body],
    root: str,
    leaf: Callable[[Symbol], Sequence[Symbol]] = lambda symbol: (symbol,),
) -> Symbol:
    """The symbol of the rule ``root``. Every rule that is named must be in ``rules``.

    ``leaf`` says what stands for a leaf in the grammar (itself and what may follow it anywhere, for instance).
    """
    symbols: dict[str, Symbol] = {}
    for ring, is_cyclic in rings(lambda name: _names(rules[name]), root):
        if is_cyclic:
            for name in ring:
                symbols[name] = builder.declare(name)
            for name in ring:
                builder.define(symbols[name], *_run(builder, rules[name], symbols, leaf))
        else:
            [name] = ring
            ways = _run(builder, rules[name], symbols, leaf)
            symbols[name] = _inline(builder, name, ways)
    return symbols[root]


def _inline(builder: GrammarBuilder, name: str, ways: Sequence[_Parts]) -> Symbol:
    """One symbol for alternatives: a terminal where all of them are, else a rule with them."""
    joined = [builder.seq(*way) for way in ways]
    if len(joined) < 2 or all(map(is_terminal, joined)):
        return builder.alt(*joined)
    symbol = builder.declare(name)
    builder.define(symbol, *ways)
    return symbol


def _names(body: Body) -> list[str]:
    return [op.name for op in body if isinstance(op, Rule)]


def _run(
    builder: GrammarBuilder,
    body: Body,
    symbols: Mapping[str, Symbol],
    leaf: Callable[[Symbol], Sequence[Symbol]],
) -> list[_Parts]:
    """The alternatives that a body stands for."""
    builder.pool.spend(len(body))
    stack: list[_Parts] = []
    last = len(body) - 1
    for position, op in enumerate(body):
        if isinstance(op, Leaf):
            stack.append(tuple(leaf(op.symbol)))
        elif isinstance(op, Rule):
            stack.append((symbols[op.name],))
        elif isinstance(op, Times):
            stack.append((builder.repeat(builder.seq(*stack.pop()), op.low, op.high),))
        else:
            top = stack[len(stack) - op.size :]
            del stack[len(stack) - op.size :]
            if isinstance(op, Seq):
                stack.append(tuple(symbol for parts in top for symbol in parts))
            elif position == last:  # a rule has its alternatives itself, without a symbol for all of them
                return top
            else:
                stack.append((builder.alt(*(builder.seq(*parts) for parts in top)),))
    return stack


def rings(needs: Callable[[str], Sequence[str]], root: str) -> list[tuple[list[str], bool]]:
    """What ``root`` needs, in groups of names that need one another, each group after all that it needs.

    Each with whether its members need themselves. Tarjan's algorithm (1972) with an explicit stack.
    """
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    own: set[str] = set()  # names that need themselves at once
    path: list[tuple[str, Iterator[str]]] = []
    open_names: dict[str, None] = {}
    found: list[tuple[list[str], bool]] = []

    def enter(name: str) -> None:
        order[name] = low[name] = len(order)
        open_names[name] = None
        path.append((name, iter(needs(name))))

    enter(root)
    while path:
        name, rest = path[-1]
        for other in rest:
            if other not in order:
                enter(other)
                break
            if other in open_names:
                low[name] = min(low[name], order[other])
            if other == name:
                own.add(name)
        else:
            path.pop()
            if path:
                low[path[-1][0]] = min(low[path[-1][0]], low[name])
            if low[name] == order[name]:
                ring: list[str] = []
                while not ring or ring[-1] != name:
                    ring.append(open_names.popitem()[0])
                found.append((ring, len(ring) > 1 or name in own))
    return found
