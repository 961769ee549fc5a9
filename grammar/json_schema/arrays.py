"""Arrays as rules: items with places of their own in turn, then a counted repetition of the common item.

Where ``contains``, or the negation of ``uniqueItems``, makes what an item is matter for the whole, the array is a
chain of states instead.

Whether two items are equal is not said in the rules but by the tracker of the text (``json_tracker``): in a schema
with ``uniqueItems`` anywhere, the automaton reads the byte ``DUPLICATE`` behind an item that its array has already.
Unique arrays do not take that byte, arrays that must not be unique take it once at least, and all others take it
wherever it comes. So ``anyOf``, ``oneOf`` and ``not`` work on unique arrays as on anything. What is left to count
here is that items may come from few: no array is longer than there are values for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import comb, prod
from typing import Final, NamedTuple

from radixrt.errors import UnsupportedConstraint
from radixrt.grammar.cfg import GrammarBuilder, Symbol
from radixrt.grammar.json_schema.documents import Schema
from radixrt.grammar.json_schema.reason import Reasoner
from radixrt.grammar.json_schema.shapes import ArrayShape, Goal, is_never, join_goals
from radixrt.grammar.json_schema.sizes import Sizes, Values
from radixrt.grammar.json_schema.spacing import Spacing
from radixrt.grammar.json_schema.values import JsonValue
from radixrt.grammar.json_tracker import DUPLICATE

__all__ = ["ArrayEmitter"]

MAX_STATES: Final = 5_000  # of one array whose items are counted one by one


class _State(NamedTuple):
    """``place``: items so far, as far as it matters. ``counts``: how many of them each ``CountRule`` has seen,
    likewise. ``repeated``: whether one was there already, where that is asked for. ``seen``: the keys of the values
    so far, where different places of a unique array share few values.
    """

    place: int
    counts: tuple[int, ...]
    repeated: bool
    seen: frozenset[object]


class ArrayEmitter:
    """``value`` gives the symbol of a goal's values, ``given`` that of one value.

    ``marked``: there is a tracker that marks duplicates. ``tight`` becomes true with the first unique array whose
    items could run out in the middle of one, ``demands`` with the first array that must hold a duplicate.
    """

    def __init__(
        self,
        builder: GrammarBuilder,
        spacing: Spacing,
        value: Callable[[Goal], Symbol],
        given: Callable[[JsonValue], Symbol],
        reasoner: Reasoner,
        sizes: Sizes,
        *,
        marked: bool,
    ) -> None:
        self.builder = builder
        self.spacing = spacing
        self.value = value
        self.given = given
        self.reasoner = reasoner
        self.sizes = sizes
        self.marked = marked
        self.tight = False
        self.demands = False
        self.mark = builder.terminal(builder.pool.literal(DUPLICATE))
        self.perhaps = builder.opt(self.mark) if marked else builder.empty
        """What may follow an item that is like any other or not."""

    def alternatives(self, shape: ArrayShape) -> list[list[Symbol]]:
        """The ways to spell an array of this shape, each a sequence of symbols."""
        shape = self._cut(shape)
        if shape.unique is not None:
            if shape.repeats is not None:
                return []
            if shape.high is None or shape.high > 1:
                self._check_tracker(shape.unique)
                return self._unique(shape)
        if shape.repeats is not None:
            return self._repeating(shape, shape.repeats)
        if shape.high is not None and shape.low > shape.high:
            return []
        return _Chain(self, shape, None).alternatives() if shape.counts else self._plain(shape, self.perhaps)

    def _check_tracker(self, origin: Schema) -> None:
        if not self.marked:
            raise origin.refuse("uniqueItems", "in JSON text that is part of another text, items are not compared")

    @staticmethod
    def _cut(shape: ArrayShape) -> ArrayShape:
        """Lower the upper bound to where the first impossible item stands."""
        places = max((len(rule.prefix) for rule in shape.rules), default=0)
        for place in range(places + 1):
            if shape.high is not None and place >= shape.high:
                break
            if is_never(Reasoner.at_index(shape, place)):
                return replace(shape, high=place)
        return shape

    # --- unique items -----------------------------------------------------------------------------------------

    def _unique(self, shape: ArrayShape) -> list[list[Symbol]]:
        goals = self._goals_of_places(shape)
        listed = [self.sizes.values(goal) for goal in goals]
        counted = [count.goal for count in shape.counts]
        self.tight = self.tight or not all(map(self.sizes.is_roomy, (*goals, *counted)))
        for count in shape.counts:
            values = self.sizes.values(count.goal)
            if values is not None and count.low > len(values):
                return []
        most = self._most(goals, listed)
        if most is None and shape.unique is not None and any(values is not None for values in listed):
            return _Chain(self, shape, listed).alternatives()
        if most is not None and (shape.high is None or most < shape.high):
            shape = replace(shape, high=most)
        if shape.high is not None and shape.low > shape.high:
            return []
        return _Chain(self, shape, None).alternatives() if shape.counts else self._plain(shape, self.builder.empty)

    @staticmethod
    def _goals_of_places(shape: ArrayShape) -> list[Goal]:
        """What each place with a rule of its own holds, and last what all further ones hold."""
        places = max((len(rule.prefix) for rule in shape.rules), default=0)
        if shape.high is not None:
            places = min(places, shape.high - 1)
        return [Reasoner.at_index(shape, place) for place in range(places + 1)]

    def _most(self, goals: list[Goal], listed: list[Values | None]) -> int | None:
        """How many different items there can be at most; None: any number, or the places share few values.

        It must not matter which values come first: where few are left to a place, the items before it either are
        among them or cannot be.
        """
        rest = listed[-1]
        for place, values in enumerate(listed[:-1]):
            if values is not None and len(values) <= sum(
                self._may_share(goals[place], goals[other]) for other in range(place)
            ):
                return None
        if rest is None:
            return None
        inside = 0
        for goal, values in zip(goals[:-1], listed[:-1], strict=True):
            if values is not None and values.keys() <= rest.keys():
                inside += 1
            elif self._may_share(goal, goals[-1]):
                return None
        return len(goals) - 1 + len(rest) - inside

    def _may_share(self, one: Goal, other: Goal) -> bool:
        return not self.reasoner.is_empty_goal(join_goals(one, other))

    # --- items that repeat ------------------------------------------------------------------------------------

    def _repeating(self, shape: ArrayShape, origin: Schema) -> list[list[Symbol]]:
        """Arrays in which some item is there twice."""
        self._check_tracker(origin)
        if shape.high is not None:
            listed = [self.sizes.values(goal) for goal in self._goals_of_places(shape)]
            if None in listed:
                raise origin.refuse("uniqueItems", "its negation beside an upper bound on the number of items")
            return _Chain(self, shape, listed).alternatives()
        if any(count.high is not None for count in shape.counts):
            raise origin.refuse("uniqueItems", "its negation beside an upper bound on what the array contains")
        self.demands = True
        return _Chain(self, shape, None).alternatives()

    # --- rules ------------------------------------------------------------------------------------------------

    def _plain(self, shape: ArrayShape, mark: Symbol) -> list[list[Symbol]]:
        builder, spacing = self.builder, self.spacing
        comma, closing = builder.terminal(spacing.comma), builder.terminal(spacing.closing("]"))
        places = max((len(rule.prefix) for rule in shape.rules), default=0)
        places = max(places, 1) if shape.high is None else min(max(places, 1), shape.high)
        found = [[builder.terminal(spacing.empty("[]"))]] if shape.low == 0 else []
        if places == 0:
            return found
        # tail: what may follow `places` items; then one step back at a time.
        common = builder.seq(comma, self.value(Reasoner.at_index(shape, places)), mark)
        low = max(0, shape.low - places)
        high = None if shape.high is None else shape.high - places
        tail = builder.seq(builder.repeat(common, low, high) if high != 0 else builder.empty, closing)
        for place in range(places - 1, 0, -1):
            more = [comma, self.value(Reasoner.at_index(shape, place)), mark, tail]
            tail = builder.declare("items")
            builder.define(tail, more, *([[closing]] if shape.low <= place else []))
        # Nothing is before the first item, so it is never marked.
        found.append([builder.terminal(spacing.opening("[")), self.value(Reasoner.at_index(shape, 0)), tail])
        return found


class _Chain:
    """An array whose items are told apart one by one: a rule for every state.

    ``listed``: the values of each place of a unique array, and last of all further ones, where places share few of
    them; None where that does not matter.
    """

    def __init__(self, emitter: ArrayEmitter, shape: ArrayShape, listed: list[Values | None] | None) -> None:
        self._emitter = emitter
        self._builder = emitter.builder
        self._shape = shape
        self._listed = listed
        places = max((len(rule.prefix) for rule in shape.rules), default=0)
        starts = max((count.start for count in shape.counts), default=0)
        least = shape.low if shape.repeats is None else max(shape.low, 1)
        self._last = max(places, starts, least) if shape.high is None else shape.high
        self._caps = tuple(count.low if count.high is None else count.high + 1 for count in shape.counts)
        self._next: dict[_State, Symbol] = {}
        self._todo: list[_State] = []
        if (self._last + 1) * prod(cap + 1 for cap in self._caps) > MAX_STATES:
            raise self._too_large()

    def alternatives(self) -> list[list[Symbol]]:
        builder, spacing = self._builder, self._emitter.spacing
        start = _State(0, (0,) * len(self._shape.counts), self._shape.repeats is None, frozenset())
        found = [[builder.terminal(spacing.empty("[]"))]] if self._may_end(start) else []
        found.append([builder.terminal(spacing.opening("[")), self._item(start)])
        while self._todo:
            self._define(self._todo.pop())
        return found

    def _may_end(self, state: _State) -> bool:
        met = all(seen >= count.low for seen, count in zip(state.counts, self._shape.counts, strict=True))
        return met and state.repeated and state.place >= self._shape.low

    def _item(self, state: _State) -> Symbol:
        known = self._next.get(state)
        if known is None:
            if len(self._next) >= MAX_STATES:
                raise self._too_large()
            known = self._next[state] = self._builder.declare("item")
            self._todo.append(state)
        return known

    def _define(self, state: _State) -> None:
        builder, spacing, emitter = self._builder, self._emitter.spacing, self._emitter
        ways: list[list[Symbol]] = []
        if self._shape.high is None or state.place < self._shape.high:
            for symbol, mark, after in self._steps(state):
                comma = builder.seq(builder.terminal(spacing.comma), self._item(after))
                closing = builder.terminal(spacing.closing("]")) if self._may_end(after) else builder.nothing
                ways.append([symbol, mark if state.place else emitter.builder.empty, builder.alt(comma, closing)])
        builder.define(self._next[state], *ways)

    def _steps(self, state: _State) -> list[tuple[Symbol, Symbol, _State]]:
        """The next item, its mark and the state behind. A counted goal is met or, where too many matter, failed."""
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
        emitter = self._emitter
        if self._listed is not None:
            return self._listed_steps(ways, state, place)
        steps = []
        for known, counts in ways:
            after = _State(place, counts, state.repeated, state.seen)
            if state.repeated:
                free = emitter.perhaps if self._shape.unique is None else self._builder.empty
                steps.append((emitter.value(known), free, after))
            else:
                steps.append((emitter.value(known), self._builder.empty, after))
                if state.place:
                    steps.append((emitter.value(known), emitter.mark, after._replace(repeated=True)))
        return steps

    def _listed_steps(
        self, ways: list[tuple[Goal, tuple[int, ...]]], state: _State, place: int
    ) -> list[tuple[Symbol, Symbol, _State]]:
        steps = []
        for goal, counts in ways:
            for key, value in self._values(goal).items():
                again = key in state.seen
                if not again or self._shape.unique is None:
                    after = _State(place, counts, state.repeated or again, state.seen | {key})
                    mark = self._emitter.mark if again else self._builder.empty
                    steps.append((self._emitter.given(value), mark, after))
        return steps

    def _values(self, goal: Goal) -> Values:
        origin, values = self._shape.unique or self._shape.repeats, self._emitter.sizes.values(goal)
        if origin is None:
            raise ValueError("only items that are compared are listed")
        if values is None:
            raise origin.refuse(
                "uniqueItems", "some places hold few values and share them with places that hold many"
            )
        most = len(values) if self._shape.high is None else min(self._shape.high, len(values))
        if sum(comb(len(values), size) for size in range(min(most, 16) + 1)) > MAX_STATES:
            raise self._too_large()
        return values

    def _too_large(self) -> UnsupportedConstraint:
        why = f"it needs more than {MAX_STATES} states"
        if self._shape.unique is not None:
            return self._shape.unique.refuse("uniqueItems", why)
        counts = [count for count in self._shape.counts if count.blame is not None]
        most = max(counts, key=lambda count: count.low if count.high is None else count.high, default=None)
        if most is not None and most.blame is not None:
            schema, keyword = most.blame
            return schema.refuse(keyword, why)
        if self._shape.repeats is not None:
            return self._shape.repeats.refuse("uniqueItems", why)
        return UnsupportedConstraint(f"counting items: {why}", keyword="contains", param="schema")
