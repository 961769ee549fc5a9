"""Removal of left recursion: direct, mutual, hidden behind nullable symbols, and nullable cycles.

Works in two steps, only on grammars that need it. First every rule A is replaced by A+, its non-empty strings: an
alternative ``s1 s2 .. sn`` becomes ``si+ s(i+1) .. sn`` for every i with a nullable ``s1 .. s(i-1)``, so that the
first symbol of every alternative reads something. Then each group of rules that reach one another through first
symbols is a left-linear system, which is turned to read from the left: with A_j -> A_i alpha in the group and
A_j -> beta not,

    A_k    ->  beta R(j,k)                  for every beta of every A_j
    R(i,k) ->  alpha R(j,k)                 and the empty string where i = k,

where an alpha that may be empty also makes i count as j. Sizes stay polynomial (squared in the group). The result
produces the same strings. Nothing here knows about bytes beyond whether a terminal may be empty.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence

from radixrt.grammar.rules import Alternative, Grammar, Repeat, RuleTable, Symbol, is_terminal, term_of
from radixrt.grammar.rx import NONE
from radixrt.grammar.terms import INFINITE

__all__ = ["LeftCorners", "left_corners", "nullable_rules", "remove_left_recursion"]


def nullable_rules(table: RuleTable) -> set[Symbol]:
    """The rules that produce the empty string."""
    pool = table.pool
    nullable: set[Symbol] = set()
    waiting: dict[Symbol, list[list[int]]] = {}
    ready: deque[Symbol] = deque()
    for symbol in range(len(table.rules)):
        repeat = table.repeats.get(symbol)
        if repeat is None:
            alternatives = table.rules[symbol]
        else:
            alternatives = ((),) if repeat.low == 0 else ((repeat.symbol,),)
        for alternative in alternatives:
            if any(is_terminal(part) and not pool.nullable(term_of(part)) for part in alternative):
                continue
            rules = [part for part in alternative if not is_terminal(part)]
            need = [len(rules), symbol]
            for part in rules:
                waiting.setdefault(part, []).append(need)
            if not rules:
                ready.append(symbol)
    while ready:
        symbol = ready.popleft()
        if symbol not in nullable:
            nullable.add(symbol)
            for need in waiting.get(symbol, ()):
                need[0] -= 1
                if need[0] == 0:
                    ready.append(need[1])
    return nullable


class LeftCorners:
    """Which rules can stand first in which, grouped: ``group[symbol]`` numbers the sets of rules that reach one
    another through first symbols; ``cyclic[group]`` says whether a member reaches itself."""

    def __init__(self, edges: Sequence[Sequence[Symbol]]) -> None:
        self.group, count = _components(edges)
        size = [0] * count
        for number in self.group:
            size[number] += 1
        self.cyclic = [members > 1 for members in size]
        for symbol, firsts in enumerate(edges):
            if symbol in firsts:
                self.cyclic[self.group[symbol]] = True


def left_corners(table: RuleTable) -> LeftCorners:
    """The left corners of a table of rules, looking through nullable symbols."""
    nullable = nullable_rules(table)
    pool = table.pool

    def empty(part: Symbol) -> bool:
        return pool.nullable(term_of(part)) if is_terminal(part) else part in nullable

    edges: list[list[Symbol]] = []
    for symbol in range(len(table.rules)):
        firsts: dict[Symbol, None] = {}
        repeat = table.repeats.get(symbol)
        if repeat is not None:
            firsts[repeat.symbol] = None
            if empty(repeat.symbol):
                firsts[symbol] = None
        else:
            for alternative in table.rules[symbol]:
                for part in alternative:
                    table.pool.spend(1)
                    if not is_terminal(part):
                        firsts[part] = None
                    if not empty(part):
                        break
        edges.append([part for part in firsts if not is_terminal(part)])
    return LeftCorners(edges)


def _components(edges: Sequence[Sequence[Symbol]]) -> tuple[list[int], int]:
    """Strongly connected components (Tarjan's algorithm with its own stack): number per node, and their count."""
    index: list[int] = [-1] * len(edges)
    low = [0] * len(edges)
    component = [-1] * len(edges)
    trail: list[Symbol] = []
    clock = count = 0
    for start in range(len(edges)):
        if index[start] >= 0:
            continue
        work: list[tuple[Symbol, Iterator[Symbol]]] = [(start, iter(edges[start]))]
        index[start] = low[start] = clock
        clock += 1
        trail.append(start)
        while work:
            node, rest = work[-1]
            for target in rest:
                if index[target] < 0:
                    index[target] = low[target] = clock
                    clock += 1
                    trail.append(target)
                    work.append((target, iter(edges[target])))
                    break
                if component[target] < 0:
                    low[node] = min(low[node], index[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    while component[node] < 0:
                        component[trail.pop()] = count
                    count += 1
    return component, count


class _NonEmpty:
    """Builds A+ and A? for the rules of a grammar, in a new table."""

    def __init__(self, source: RuleTable) -> None:
        self.source = source
        self.table = RuleTable(source.pool)
        self.maybe: dict[Symbol, Symbol] = {}
        """A? -> A+ in the new table."""
        self._nullable = nullable_rules(source)
        self._plus: dict[Symbol, Symbol] = {}
        self._whole: dict[Symbol, Symbol] = {}
        self._todo: deque[Symbol] = deque()

    def empty(self, part: Symbol) -> bool:
        """Whether a symbol of the new table may be empty."""
        if is_terminal(part):
            return self.table.pool.nullable(term_of(part))
        repeat = self.table.repeats.get(part)
        return part in self.maybe or (repeat is not None and repeat.low == 0)

    def heads(self, sequence: Alternative) -> list[Alternative]:
        """The non-empty strings of a sequence of new symbols, as sequences whose first symbol is never empty."""
        result: list[Alternative] = []
        for i, part in enumerate(sequence):
            self.table.pool.spend(len(sequence) - i)
            rest = sequence[i + 1 :]
            if is_terminal(part):
                term = self.table.pool.consuming(term_of(part))
                if term != NONE:
                    result.append((~term, *rest))
            elif part in self.maybe:
                result.append((self.maybe[part], *rest))
            elif part in self.table.repeats:
                repeat = self.table.repeats[part]
                left = self.table.after_one(repeat)
                result.append((repeat.symbol, *(() if left is None else (left,)), *rest))
            else:
                result.append((part, *rest))
            if not self.empty(part):
                break
        return result

    def plus(self, symbol: Symbol) -> Symbol:
        """A+ for a rule A of the source."""
        if symbol not in self._plus:
            self._plus[symbol] = self.table.add(())
            self._todo.append(symbol)
        return self._plus[symbol]

    def whole(self, symbol: Symbol) -> Symbol:
        """A itself: A+ or A?, or a terminal unchanged."""
        if is_terminal(symbol):
            return symbol
        if symbol not in self._nullable:
            return self.plus(symbol)
        if symbol not in self._whole:
            plus = self.plus(symbol)
            made = self.table.add(((plus,), ()))
            self.maybe[made] = plus
            self._whole[symbol] = made
        return self._whole[symbol]

    def run(self) -> None:
        while self._todo:
            symbol = self._todo.popleft()
            repeat = self.source.repeats.get(symbol)
            if repeat is None:
                sequences = [tuple(map(self.whole, a)) for a in self.source.rules[symbol]]
            else:
                sequences = [(self._repeat(repeat),)]
            found = dict.fromkeys(h for s in sequences for h in self.heads(s))
            self.table.rules[self._plus[symbol]] = tuple(found)

    def _repeat(self, repeat: Repeat) -> Symbol:
        """A repetition whose every round reads something."""
        x, low, high = repeat
        if is_terminal(x):
            return ~self.table.pool.repeat(term_of(x), low, None if high == INFINITE else high)
        return self.table.repeat(Repeat(self.plus(x), 0 if x in self._nullable else low, high))


def remove_left_recursion(grammar: Grammar) -> tuple[RuleTable, Symbol]:
    """Rules with the same strings in which no rule reaches itself without reading a byte, and their root."""
    step = _NonEmpty(grammar.table)
    root = step.whole(grammar.root)
    step.run()
    table = step.table
    edges = [
        [a[0] for a in alternatives if a and not is_terminal(a[0])] if symbol not in table.repeats else []
        for symbol, alternatives in enumerate(table.rules)
    ]
    corners = LeftCorners(edges)
    groups: dict[int, list[Symbol]] = {}
    for symbol, number in enumerate(corners.group):
        if corners.cyclic[number]:
            groups.setdefault(number, []).append(symbol)
    for members in groups.values():
        _solve(table, members, step)
    return table, root


def _solve(table: RuleTable, members: Sequence[Symbol], step: _NonEmpty) -> None:
    """Rewrite one group of left-recursive rules as the module docstring says."""
    inside = set(members)
    bases: dict[Symbol, list[Alternative]] = {j: [] for j in members}
    tails: dict[Symbol, list[tuple[Symbol, Alternative]]] = {i: [] for i in members}
    same: dict[Symbol, set[Symbol]] = {i: {i} for i in members}
    for j in members:
        for alternative in table.rules[j]:
            if alternative[0] not in inside:
                bases[j].append(alternative)
                continue
            i, alpha = alternative[0], alternative[1:]
            tails[i].extend((j, head) for head in step.heads(alpha))
            if all(map(step.empty, alpha)):
                same[i].add(j)
    closure = {i: _closure(i, same.__getitem__, table) for i in members}
    rest: dict[tuple[Symbol, Symbol], Symbol] = {}
    todo: deque[tuple[Symbol, Symbol]] = deque()

    def continuation(i: Symbol, k: Symbol) -> Symbol:
        if (i, k) not in rest:
            rest[i, k] = table.add(())
            todo.append((i, k))
        return rest[i, k]

    for k in members:
        table.rules[k] = tuple((*beta, continuation(j, k)) for j in members for beta in bases[j])
    while todo:
        i, k = todo.popleft()
        found: dict[Alternative, None] = {(): None} if k in closure[i] else {}
        for p in closure[i]:
            for j, head in tails[p]:
                table.pool.spend(len(head))
                found[(*head, continuation(j, k))] = None
        table.rules[rest[i, k]] = tuple(found)


def _closure(start: Symbol, follow: Callable[[Symbol], set[Symbol]], table: RuleTable) -> set[Symbol]:
    seen, stack = {start}, [start]
    while stack:
        for symbol in follow(stack.pop()):
            table.pool.spend(1)
            if symbol not in seen:
                seen.add(symbol)
                stack.append(symbol)
    return seen
