"""Objects as right-linear rules: a state is a place in the list of members, and each member leads to a later one.

Key order policy: the declared names in schema order, then names that are only required, then all others in any
order. A name is never declared twice and no other name repeats a declared one. Other names that are few (an enum in
``propertyNames``, a small pattern) do not repeat each other either.

Repeated names policy: that names of an endless language differ is more than a finite automaton can remember, so
they may repeat, and the value read last counts, as ``json.loads`` has it. The text is valid for all that: what is
said of a name holds for every value under it; a member that some demand was waiting for (``SomeRule``) is followed
only by members that cannot undo it; and a number of members that repetition could feign is refused.

States share their tails: n optional names take 2n rules.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Final, NamedTuple

from radixrt.errors import UnsupportedConstraint
from radixrt.grammar.cfg import GrammarBuilder, Symbol
from radixrt.grammar.json_schema.languages import Languages
from radixrt.grammar.json_schema.members import Named, Other, named_members, other_members
from radixrt.grammar.json_schema.reason import Reasoner
from radixrt.grammar.json_schema.shapes import Goal, ObjectShape, join_goals
from radixrt.grammar.json_schema.spacing import Spacing
from radixrt.grammar.rx import Rx

__all__ = ["ObjectEmitter"]

MAX_FEW: Final = 8  # other names that are told apart; a state for every subset of them
MAX_STATES: Final = 25_000  # places times counts of one object


class _State(NamedTuple):
    place: int
    members: int  # so far, as far as the bounds care
    open: frozenset[int]  # the demands (indices of SomeRule) that no member has met yet
    used: frozenset[int] = frozenset()  # which of the few other names have been taken
    kept: frozenset[int] = frozenset()  # the demands that a name met which may repeat: later members keep to them


class ObjectEmitter:
    """``value`` gives the symbol of the values of a goal."""

    def __init__(
        self,
        builder: GrammarBuilder,
        languages: Languages,
        reasoner: Reasoner,
        spacing: Spacing,
        value: Callable[[Goal], Symbol],
    ) -> None:
        self.builder = builder
        self.languages = languages
        self.spacing = spacing
        self.value = value
        self.reasoner = reasoner

    def alternatives(self, shape: ObjectShape) -> list[list[Symbol]]:
        """The ways to spell an object of this shape, each a sequence of symbols."""
        named = named_members(shape, self.languages, self.reasoner)
        if named is None:
            return []
        return _Object(self, shape, named, other_members(shape, self.languages)).alternatives()

    def key(self, name: str) -> Symbol:
        """A given name, from behind its opening quote to the start of the value."""
        return self.builder.terminal(self.languages.after_quote(name, self.spacing.colon))

    def keys(self, language: Rx) -> Symbol:
        """Any name of a language, likewise."""
        pool = self.builder.pool
        spelled = pool.concat(self.languages.spelled(language), pool.literal(b'"'), self.spacing.colon)
        return self.builder.terminal(spelled)


class _Object:
    """The states of one object and the rules between them.

    Every state has two rules: *next* reads a member, its opening quote already read; *rest* reads what follows
    a member.
    """

    def __init__(self, emitter: ObjectEmitter, shape: ObjectShape, named: list[Named], others: list[Other]) -> None:
        self._emitter = emitter
        self._builder = emitter.builder
        self._shape = shape
        self._named = named
        self._few, self._others = self._divided(others)
        required = sum(member.required for member in named)
        most = len(named) + len(self._few) if not self._others else None
        self._check_names_that_may_repeat(required)
        self._low = shape.low if shape.low > required else 0
        self._high = shape.high if shape.high is not None and (most is None or most > shape.high) else None
        self._cap = self._high if self._high is not None else self._low
        # From this place on nothing is required any more.
        self._free_from = max((index + 1 for index, member in enumerate(named) if member.required), default=0)
        places = len(named) + 1
        if places * (self._cap + 1) > MAX_STATES:
            raise self._too_large()
        self._next: dict[_State, Symbol] = {}
        self._rest: dict[_State, Symbol] = {}
        self._keys: dict[int, Symbol] = {}
        self._todo: list[_State] = []

    def _divided(self, others: list[Other]) -> tuple[list[Named], list[Other]]:
        """Other names that are few are taken one by one, in any order, and none twice."""
        few: list[Named] = []
        many: list[Other] = []
        for other in others:
            names = self._emitter.languages.few(other.language, MAX_FEW - len(few))
            if names is None:
                many.append(other)
            else:
                few.extend(Named(name, other.goal, False) for name in names)
        return few, many

    def _check_names_that_may_repeat(self, required: int) -> None:
        """Refuse what is only true of names that differ from each other.

        One member beyond the required ones is a new name in any case. Of two that count, one may be the other
        again. And where two demands can be met by different members only, each would undo the other.
        """
        shape, languages, reasoner = self._shape, self._emitter.languages, self._emitter.reasoner
        counts = shape.low > required + 1
        demands = [some for some in shape.somes if some.goal]
        if not counts and len(demands) < 2:
            return
        names = languages.union([o.language for o in self._others if not reasoner.is_empty_goal(o.goal)])
        if counts and shape.low_blame is not None and not languages.is_empty(names):
            schema, keyword = shape.low_blame
            raise schema.refuse(keyword, "it would count names that no part of the schema declares and may repeat")
        for one, other in combinations(demands, 2):
            shared = languages.all_of((one.language, other.language, names))
            if other.blame is not None and not languages.is_empty(shared):
                schema, keyword = other.blame
                raise schema.refuse(keyword, "its negation beside another one, over names that may repeat")

    def alternatives(self) -> list[list[Symbol]]:
        builder, spacing = self._builder, self._emitter.spacing
        start = _State(0, 0, frozenset(range(len(self._shape.somes))))
        found = []
        if self._may_end(start):
            found.append([builder.terminal(spacing.empty("{}"))])
        opening = builder.terminal(builder.pool.concat(spacing.opening("{"), builder.pool.literal(b'"')))
        found.append([opening, self._next_of(start)])
        while self._todo:
            self._define(self._todo.pop())
        return found

    def _may_end(self, state: _State) -> bool:
        return state.place >= self._free_from and state.members >= self._low and not state.open

    def _may_go_on(self, state: _State) -> bool:
        return self._high is None or state.members < self._high

    def _next_of(self, state: _State) -> Symbol:
        known = self._next.get(state)
        if known is None:
            if len(self._next) >= MAX_STATES:
                raise self._too_large()
            known = self._next[state] = self._builder.declare("member")
            self._todo.append(state)
        return known

    def _rest_of(self, state: _State) -> Symbol:
        """What follows a member: a comma and another one, or the end."""
        known = self._rest.get(state)
        if known is None:
            builder, spacing = self._builder, self._emitter.spacing
            known = self._rest[state] = builder.declare("rest")
            ways: list[list[Symbol]] = []
            more = state.place < len(self._named) or len(state.used) < len(self._few) or bool(self._others)
            if self._may_go_on(state) and more:
                comma = builder.terminal(builder.pool.concat(spacing.comma, builder.pool.literal(b'"')))
                ways.append([comma, self._next_of(state)])
            if self._may_end(state):
                ways.append([builder.terminal(spacing.closing("}"))])
            builder.define(known, *ways)
        return known

    def _define(self, state: _State) -> None:
        ways: list[list[Symbol]] = []
        count = min(state.members + 1, self._cap)
        if not self._may_go_on(state):
            pass
        elif state.place < len(self._named):
            member = self._named[state.place]
            for goal, still_open in self._demands(member, state.open):
                after = self._rest_of(_State(state.place + 1, count, still_open, kept=state.kept))
                ways.append([self._emitter.key(member.name), self._emitter.value(goal), after])
            if not member.required:
                ways.append([self._next_of(state._replace(place=state.place + 1))])
        else:
            for index, member in enumerate(self._few):
                if index not in state.used:
                    for goal, still_open in self._demands(member, state.open):
                        used = state.used | {index}
                        after = self._rest_of(_State(state.place, count, still_open, used, state.kept))
                        ways.append([self._emitter.key(member.name), self._emitter.value(goal), after])
            for other in self._others:
                for keys, goal, still_open in self._other_demands(other, state):
                    met = {index for index in state.open - still_open if self._shape.somes[index].goal}
                    after = self._rest_of(_State(state.place, count, still_open, state.used, state.kept | met))
                    ways.append([self._key_symbol(keys), self._emitter.value(goal), after])
        self._builder.define(self._next[state], *ways)

    def _key_symbol(self, language: Rx) -> Symbol:
        if language not in self._keys:
            self._keys[language] = self._emitter.keys(language)
        return self._keys[language]

    def _demands(self, member: Named, open_: frozenset[int]) -> list[tuple[Goal, frozenset[int]]]:
        """The ways to take a declared member: meeting none of the open demands, or some of them."""
        ways = [(member.goal, open_)]
        for index in sorted(open_):
            some = self._shape.somes[index]
            if self._emitter.languages.has(some.language, member.name):
                ways.extend([(join_goals(goal, some.goal), left - {index}) for goal, left in ways])
        return ways

    def _other_demands(self, other: Other, state: _State) -> list[tuple[Rx, Goal, frozenset[int]]]:
        """The same for any other member. It may have the name that met a demand, so it must meet that one too."""
        languages = self._emitter.languages
        ways = [(other.language, other.goal, state.open)]
        for index in sorted(state.kept):
            some = self._shape.somes[index]
            outside = languages.complement(some.language)
            inside = [
                (languages.all_of((language, some.language)), join_goals(goal, some.goal), left)
                for language, goal, left in ways
            ]
            ways = [(languages.all_of((language, outside)), goal, left) for language, goal, left in ways]
            ways = [way for way in ways + inside if not languages.is_empty(way[0])]
        for index in sorted(state.open):
            some = self._shape.somes[index]
            ways.extend(
                [
                    (
                        languages.all_of((language, some.language)),
                        join_goals(goal, some.goal),
                        left - {index},
                    )
                    for language, goal, left in ways
                ]
            )
        return ways

    def _too_large(self) -> UnsupportedConstraint:
        location = self._shape.origin.pointer if self._shape.origin else ""
        return UnsupportedConstraint(
            f"the object at {location or 'the top'} needs more than {MAX_STATES} states",
            keyword="minProperties" if self._cap else "properties",
            location=location,
            param="schema",
        )
