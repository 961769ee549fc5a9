"""Arrays as rules: items with places of their own in turn, then a counted repetition of the common item.

Where ``contains``, or the negation of ``uniqueItems``, makes what an item is matter for the whole, the array is a
chain of states instead.

Whether two items are equal is not said in the rules but by the tracker of the text (``json_tracker``): in a schema
with ``uniqueItems`` anywhere, the automaton reads the byte ``DUPLICATE`` behind an item that its array has already.
Unique arrays do not take that byte, arrays that must not be unique take it once at least, and all others take it
wherever it comes. So ``anyOf``, ``oneOf`` and ``not`` work on unique arrays as on anything. What is left to count
here is that items may come from few: no array is longer than there are values for it. Where an array also counts
what it contains, that is said of each *class* of items apart: those that meet the same of its counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from math import comb, prod
from typing import Final, NamedTuple

from radixrt.errors import UnsupportedConstraint
from radixrt.grammar.cfg import GrammarBuilder, Symbol
from radixrt.grammar.json_schema.documents import Schema
from radixrt.grammar.json_schema.reason import Reasoner
from radixrt.grammar.json_schema.shapes import ArrayShape, Goal, join_goals
from radixrt.grammar.json_schema.sizes import Extent, Sizes, Values
from radixrt.grammar.json_schema.spacing import Spacing
from radixrt.grammar.json_schema.values import JsonValue
from radixrt.grammar.json_tracker import DUPLICATE

__all__ = ["ArrayEmitter"]

MAX_STATES: Final = 5_000  # of one array whose items are counted one by one


class _State(NamedTuple):
    """``place``: items so far, as far as it matters. ``counts``: how many of them each ``CountRule`` has seen,
    likewise. ``repeated``: whether one was there already, where that is asked for. ``seen``: the keys of the values
    so far, where different places of a unique array share few values. ``used``: how many items of each class there
    are, where it has few.
    """

    place: int
    counts: tuple[int, ...]
    repeated: bool
    seen: frozenset[object]
    used: tuple[int, ...] = ()


class _Class(NamedTuple):
    """The items that meet certain counts of a unique array (``met``, one flag for each) and fail the others.

    ``goals``: what they are at each place with rules of its own, and last at all further ones. ``listed``: how many
    values there are. ``limit``: how many such items the array can hold that are values of the further places (None:
    any number), and ``inside``: the places whose values are among those.
    """

    met: tuple[bool, ...]
    goals: list[Goal]
    listed: list[Values | Extent]
    limit: int | None = None
    inside: frozenset[int] = frozenset()

    @property
    def is_few(self) -> bool:
        return all(isinstance(values, dict) for values in self.listed)


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
        return _Chain(self, shape).alternatives() if shape.counts else self._plain(shape, self.perhaps)

    def _check_tracker(self, origin: Schema) -> None:
        if not self.marked:
            raise origin.refuse("uniqueItems", "in JSON text that is part of another text, items are not compared")

    def _cut(self, shape: ArrayShape) -> ArrayShape:
        """Lower the upper bound to where the first impossible item stands."""
        places = max((len(rule.prefix) for rule in shape.rules), default=0)
        for place in range(places + 1):
            if shape.high is not None and place >= shape.high:
                break
            if not self.sizes.is_alive(Reasoner.at_index(shape, place)):
                return replace(shape, high=place)
        return shape

    # --- unique items -----------------------------------------------------------------------------------------

    def _unique(self, shape: ArrayShape) -> list[list[Symbol]]:
        found = [self._class(shape, met) for met in product((True, False), repeat=len(shape.counts))]
        limited = [self._limited(kind) for kind in found]
        classes = [kind for kind in limited if kind is not None]
        if len(classes) < len(found):
            if not all(kind.is_few for kind in found):
                raise self._refusal(shape, "some places hold few values and share them with places that hold many")
            return _Chain(self, shape, is_listed=True).alternatives()
        if shape.counts:
            few = any(kind.limit is not None for kind in classes)
            return _Chain(self, shape, classes=classes if few else ()).alternatives()
        only = classes[0]
        if only.limit is not None:
            most = len(only.goals) - 1 + only.limit - len(only.inside)
            shape = replace(shape, high=most if shape.high is None else min(most, shape.high))
        if shape.high is not None and shape.low > shape.high:
            return []
        return self._plain(shape, self.builder.empty)

    def _class(self, shape: ArrayShape, met: tuple[bool, ...]) -> _Class:
        counted = [count.goal if meets else count.fails for count, meets in zip(shape.counts, met, strict=True)]
        goals = [join_goals(goal, *counted) for goal in self._goals_of_places(shape)]
        listed = [self.sizes.values(goal) for goal in goals]
        if Extent.UNSURE in listed:
            raise self._refusal(shape, "it cannot be told whether items like these run out")
        self.tight = self.tight or not all(map(self.sizes.is_roomy, goals))
        return _Class(met, goals, listed)

    @staticmethod
    def _refusal(shape: ArrayShape, why: str) -> UnsupportedConstraint:
        if shape.unique is None:
            raise ValueError("only of unique arrays")
        return shape.unique.refuse("uniqueItems", why)

    @staticmethod
    def _goals_of_places(shape: ArrayShape) -> list[Goal]:
        """What each place with a rule of its own holds, and last what all further ones hold."""
        places = max((len(rule.prefix) for rule in shape.rules), default=0)
        if shape.high is not None:
            places = min(places, shape.high - 1)
        return [Reasoner.at_index(shape, place) for place in range(places + 1)]

    def _limited(self, kind: _Class) -> _Class | None:
        """The class with its limit; None where it matters which values come first.

        It does not where few are left to a place and the items before it either are among them or cannot be.
        """
        rest = kind.listed[-1]
        for place, values in enumerate(kind.listed[:-1]):
            shares = sum(self._may_share(kind, place, other) for other in range(place))
            if isinstance(values, dict) and values and len(values) <= shares:
                return None
        if not isinstance(rest, dict):
            return kind
        inside = set()
        for place, values in enumerate(kind.listed[:-1]):
            if isinstance(values, dict) and values.keys() <= rest.keys():
                if values:
                    inside.add(place)
            elif self._may_share(kind, place, -1):
                return None
        return kind._replace(limit=len(rest), inside=frozenset(inside))

    def _may_share(self, kind: _Class, one: int, other: int) -> bool:
        if kind.listed[one] == {} or kind.listed[other] == {}:
            return False
        first, second = kind.listed[one], kind.listed[other]
        if isinstance(first, dict) and isinstance(second, dict):
            return not first.keys().isdisjoint(second)
        return self.sizes.is_alive(join_goals(kind.goals[one], kind.goals[other]))

    # --- items that repeat ------------------------------------------------------------------------------------

    def _repeating(self, shape: ArrayShape, origin: Schema) -> list[list[Symbol]]:
        """Arrays in which some item is there twice."""
        self._check_tracker(origin)
        if shape.high is not None:
            if any(isinstance(self.sizes.values(goal), Extent) for goal in self._goals_of_places(shape)):
                raise origin.refuse("uniqueItems", "its negation beside an upper bound on the number of items")
            return _Chain(self, shape, is_listed=True).alternatives()
        if any(count.high is not None for count in shape.counts):
            raise origin.refuse("uniqueItems", "its negation beside an upper bound on what the array contains")
        self.demands = True
        return _Chain(self, shape).alternatives()

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

    ``is_listed``: by their values, where the places of an array share few of them. ``classes``: by what they meet,
    where there are few values of that.
    """

    def __init__(
        self, emitter: ArrayEmitter, shape: ArrayShape, *, is_listed: bool = False, classes: Sequence[_Class] = ()
    ) -> None:
        self._emitter = emitter
        self._builder = emitter.builder
        self._shape = shape
        self._is_listed = is_listed
        self._classes = classes
        places = max((len(rule.prefix) for rule in shape.rules), default=0)
        starts = max((count.start for count in shape.counts), default=0)
        # The first item is told from later ones: nothing is there that it could repeat.
        self._last = max(places, starts, shape.low, 1) if shape.high is None else shape.high
        self._caps = tuple(count.low if count.high is None else count.high + 1 for count in shape.counts)
        self._next: dict[_State, Symbol] = {}
        self._todo: list[_State] = []
        if (self._last + 1) * prod(cap + 1 for cap in self._caps) > MAX_STATES:
            raise self._too_large()

    def alternatives(self) -> list[list[Symbol]]:
        builder, spacing = self._builder, self._emitter.spacing
        nothing = (0,) * len(self._shape.counts)
        start = _State(0, nothing, self._shape.repeats is None, frozenset(), (0,) * len(self._classes))
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
        if self._classes:
            return self._class_steps(state)
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
        if self._is_listed:
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

    def _class_steps(self, state: _State) -> list[tuple[Symbol, Symbol, _State]]:
        """Every item is of one class, which the array must have room for."""
        steps = []
        for index, kind in enumerate(self._classes):
            place = min(state.place, len(kind.goals) - 1)
            counts, used = list(state.counts), list(state.used)
            for number, (count, met) in enumerate(zip(self._shape.counts, kind.met, strict=True)):
                if met and state.place >= count.start:
                    counts[number] += 1
            if kind.limit is not None and (place == len(kind.goals) - 1 or place in kind.inside):
                used[index] += 1
                if used[index] > kind.limit:
                    continue
            bounds = zip(counts, self._shape.counts, strict=True)
            if all(count.high is None or seen <= count.high for seen, count in bounds):
                capped = tuple(map(min, counts, self._caps))
                after = _State(min(state.place + 1, self._last), capped, True, state.seen, tuple(used))
                steps.append((self._emitter.value(kind.goals[place]), self._builder.empty, after))
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
        if not isinstance(values, dict):
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
