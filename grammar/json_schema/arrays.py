"""Arrays as rules: items with places of their own in turn, then a counted repetition of the common item.

Where ``contains`` or ``uniqueItems`` make the number or the identity of items matter, the array is a chain of
states instead.
"""

from __future__ import annotations

from collections.abc import Callable
from math import comb, prod
from typing import Final, NamedTuple

from radixrt.errors import UnsupportedConstraint
from radixrt.grammar.cfg import GrammarBuilder, Symbol
from radixrt.grammar.json_schema.documents import Schema
from radixrt.grammar.json_schema.reason import Reasoner
from radixrt.grammar.json_schema.shapes import ArrayShape, FiniteShape, Goal, Shape, is_never, join_goals
from radixrt.grammar.json_schema.spacing import Spacing
from radixrt.grammar.json_schema.values import TYPES, JsonType, JsonValue

__all__ = ["ArrayEmitter"]

MAX_STATES: Final = 5_000  # of one array whose items are counted one by one


class _State(NamedTuple):
    place: int  # items so far, as far as it matters
    counts: tuple[int, ...]  # how many of them each CountRule has seen, as far as it matters
    seen: frozenset[object]  # keys of the values so far, for uniqueItems


class ArrayEmitter:
    """``value`` gives the symbol of a goal's values, ``given`` that of one value, ``expand`` a goal's shapes."""

    def __init__(
        self,
        builder: GrammarBuilder,
        spacing: Spacing,
        value: Callable[[Goal], Symbol],
        given: Callable[[JsonValue], Symbol],
        expand: Callable[[Goal, JsonType], tuple[Shape, ...]],
    ) -> None:
        self.builder = builder
        self.spacing = spacing
        self.value = value
        self.given = given
        self._expand = expand

    def alternatives(self, shape: ArrayShape) -> list[list[Symbol]]:
        """The ways to spell an array of this shape, each a sequence of symbols."""
        shape = self._cut(shape)
        if shape.high is not None and shape.low > shape.high:
            return []
        if shape.counts or (shape.unique is not None and shape.high != 1 and shape.high != 0):
            return _Chain(self, shape).alternatives()
        return self._plain(shape)

    @staticmethod
    def _cut(shape: ArrayShape) -> ArrayShape:
        """Lower the upper bound to where the first impossible item stands."""
        places = max((len(rule.prefix) for rule in shape.rules), default=0)
        for place in range(places + 1):
            if shape.high is not None and place >= shape.high:
                break
            if is_never(Reasoner.at_index(shape, place)):
                return ArrayShape(shape.rules, shape.low, place, shape.counts, shape.unique)
        return shape

    def _plain(self, shape: ArrayShape) -> list[list[Symbol]]:
        builder, spacing = self.builder, self.spacing
        comma, closing = builder.terminal(spacing.comma), builder.terminal(spacing.closing("]"))
        places = max((len(rule.prefix) for rule in shape.rules), default=0)
        places = max(places, 1) if shape.high is None else min(max(places, 1), shape.high)
        found = [[builder.terminal(spacing.empty("[]"))]] if shape.low == 0 else []
        if places == 0:
            return found
        # tail: what may follow `places` items; then one step back at a time.
        common = builder.seq(comma, self.value(Reasoner.at_index(shape, places)))
        low = max(0, shape.low - places)
        high = None if shape.high is None else shape.high - places
        tail = builder.seq(builder.repeat(common, low, high) if high != 0 else builder.empty, closing)
        for place in range(places - 1, 0, -1):
            more = [comma, self.value(Reasoner.at_index(shape, place)), tail]
            tail = builder.declare("items")
            builder.define(tail, more, *([[closing]] if shape.low <= place else []))
        first = self.value(Reasoner.at_index(shape, 0))
        found.append([builder.terminal(spacing.opening("[")), first, tail])
        return found

    def values_of(self, goal: Goal) -> dict[object, JsonValue] | None:
        """All values of a goal if they are finitely many and listed, else None."""
        values: dict[object, JsonValue] = {}
        for kind in TYPES:
            for shape in self._expand(goal, kind):
                if not isinstance(shape, FiniteShape):
                    return None
                values.update(shape.values)
        return values


class _Chain:
    """An array whose items are told apart one by one: a rule for every state."""

    def __init__(self, emitter: ArrayEmitter, shape: ArrayShape) -> None:
        self._emitter = emitter
        self._builder = emitter.builder
        self._shape = shape
        places = max((len(rule.prefix) for rule in shape.rules), default=0)
        starts = max((count.start for count in shape.counts), default=0)
        self._last = max(places, starts, shape.low) if shape.high is None else shape.high
        self._caps = tuple(count.low if count.high is None else count.high + 1 for count in shape.counts)
        self._next: dict[_State, Symbol] = {}
        self._todo: list[_State] = []
        if (self._last + 1) * prod(cap + 1 for cap in self._caps) > MAX_STATES:
            raise self._too_large()

    def alternatives(self) -> list[list[Symbol]]:
        builder, spacing = self._builder, self._emitter.spacing
        start = _State(0, (0,) * len(self._shape.counts), frozenset())
        found = [[builder.terminal(spacing.empty("[]"))]] if self._may_end(start) else []
        found.append([builder.terminal(spacing.opening("[")), self._item(start)])
        while self._todo:
            self._define(self._todo.pop())
        return found

    def _may_end(self, state: _State) -> bool:
        met = all(seen >= count.low for seen, count in zip(state.counts, self._shape.counts, strict=True))
        return met and state.place >= self._shape.low

    def _item(self, state: _State) -> Symbol:
        known = self._next.get(state)
        if known is None:
            if len(self._next) >= MAX_STATES:
                raise self._too_large()
            known = self._next[state] = self._builder.declare("item")
            self._todo.append(state)
        return known

    def _define(self, state: _State) -> None:
        builder, spacing = self._builder, self._emitter.spacing
        ways: list[list[Symbol]] = []
        if self._shape.high is None or state.place < self._shape.high:
            for symbol, after in self._steps(state):
                comma = builder.seq(builder.terminal(spacing.comma), self._item(after))
                closing = builder.terminal(spacing.closing("]")) if self._may_end(after) else builder.nothing
                ways.append([symbol, builder.alt(comma, closing)])
        builder.define(self._next[state], *ways)

    def _steps(self, state: _State) -> list[tuple[Symbol, _State]]:
        """The next item and the state behind it. A counted goal is met or, where too many matter, failed."""
        goal = Reasoner.at_index(self._shape, state.place)
        place = min(state.place + 1, self._last)
        ways: list[tuple[Goal, tuple[int, ...]]] = [(goal, ())]
        for index, count in enumerate(self._shape.counts):
            seen = state.counts[index]
            if state.place < count.start or (count.high is None and seen >= count.low):
                ways = [(known, (*counts, seen)) for known, counts in ways]
                continue
            met = [
                (join_goals(known, count.goal), (*counts, min(seen + 1, self._caps[index])))
                for known, counts in ways
                if count.high is None or seen < count.high
            ]
            missed = count.fails if count.high is not None else ()
            ways = met + [(join_goals(known, missed), (*counts, seen)) for known, counts in ways]
        unique = self._shape.unique
        if unique is None:
            return [(self._emitter.value(known), _State(place, counts, state.seen)) for known, counts in ways]
        return [
            (self._emitter.given(value), _State(place, counts, state.seen | {key}))
            for known, counts in ways
            for key, value in self._values(known, unique).items()
            if key not in state.seen
        ]

    def _values(self, goal: Goal, unique: Schema) -> dict[object, JsonValue]:
        values = self._emitter.values_of(goal)
        if values is None:
            raise unique.refuse("uniqueItems", "the items are not limited to a few listed values")
        most = len(values) if self._shape.high is None else min(self._shape.high, len(values))
        if sum(comb(len(values), size) for size in range(min(most, 16) + 1)) > MAX_STATES:
            raise self._too_large()
        return values

    def _too_large(self) -> UnsupportedConstraint:
        why = f"it needs more than {MAX_STATES} states"
        if self._shape.unique is not None:
            return self._shape.unique.refuse("uniqueItems", why)
        origin = self._shape.counts[0].origin
        if origin is None:
            return UnsupportedConstraint(f"counting items: {why}", keyword="contains", param="schema")
        return origin.refuse("contains" if "contains" in (origin.keywords or {}) else "items", why)
