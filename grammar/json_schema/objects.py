"""Objects as right-linear rules: a state is what of the members so far matters, and each member leads to a later
one.

Key order policy: ``"schema"`` is the declared names in schema order, then names that are only required, then all
others in any order; ``"any"`` is any order for all of them.

That no object has a name twice is not said in the rules but left to the tracker of the text (``json_tracker``),
which knows all names so far. So rules only count: members, required names, names of a class that is small enough
to run out. Where no name of an endless class is free to come at any place, a text could also run out of names in
the middle of one; such objects are ``tight``, and it is the tracker's guard that keeps out of these corners.
JSON inside another grammar has no tracker. There the rules of ``"any"`` remember which declared names are taken, so
that none comes twice: 2^n states, so few names. Other names may repeat.

States share their tails: n optional names in schema order take 2n rules, in any order a rule for each number of
required names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from radixrt.errors import UnsupportedConstraint
from radixrt.grammar.cfg import GrammarBuilder, Symbol
from radixrt.grammar.json_schema.demands import singled_out
from radixrt.grammar.json_schema.languages import Languages
from radixrt.grammar.json_schema.living import Living
from radixrt.grammar.json_schema.members import Named, Other, named_members, other_members
from radixrt.grammar.json_schema.reason import Reasoner
from radixrt.grammar.json_schema.shapes import Goal, ObjectShape, is_never, join_goals
from radixrt.grammar.json_schema.sizes import count_strings
from radixrt.grammar.json_schema.spacing import Spacing
from radixrt.grammar.rx import Rx

__all__ = ["ObjectEmitter"]

MAX_COUNTED: Final = 1_000  # names of a finite language; of more than these, no text runs out
MAX_STATES: Final = 25_000  # of one object


class _State(NamedTuple):
    """``place``: declared names left behind (schema order). ``required``: how many required names are there,
    ``rest``: how many of the others that are countable (any order, or others of a finite language). ``members``:
    all so far, as far as the bounds care. ``open``: the demands (indices of ``SomeRule``) that no member has met
    yet. ``used``: which of the names that demands single out are taken.
    """

    place: int = 0
    required: int = 0
    rest: int = 0
    members: int = 0
    open: frozenset[int] = frozenset()
    used: frozenset[int] = frozenset()


class ObjectEmitter:
    """``value`` gives the symbol of the values of a goal. ``tracked``: a tracker will keep names from repeating.

    ``tracks`` becomes true with the first object whose names only a tracker can keep apart, ``tight`` with the
    first one that could run out of names in the middle of one.
    """

    def __init__(
        self,
        builder: GrammarBuilder,
        languages: Languages,
        reasoner: Reasoner,
        living: Living,
        spacing: Spacing,
        value: Callable[[Goal], Symbol],
        *,
        any_order: bool = False,
        tracked: bool = True,
    ) -> None:
        self.builder = builder
        self.languages = languages
        self.spacing = spacing
        self.value = value
        self.reasoner = reasoner
        self.living = living
        self.any_order = any_order
        self.tracked = tracked
        self.tracks = False
        self.tight = False
        pool, quote = builder.pool, builder.pool.literal(b'"')
        self.opening = builder.terminal(pool.concat(spacing.opening("{"), quote))
        self.comma = builder.terminal(pool.concat(spacing.comma, quote))
        """A comma and the opening quote of the next name."""
        self.closing = builder.terminal(spacing.closing("}"))
        self.empty = builder.terminal(spacing.empty("{}"))
        self._keys: dict[str, Symbol] = {}

    def alternatives(self, shape: ObjectShape) -> list[list[Symbol]]:
        """The ways to spell an object of this shape, each a sequence of symbols."""
        named = named_members(shape, self.languages, self.reasoner)
        if named is None:
            return []
        if self.any_order:  # then names are counted; in order, the grammar itself passes over what is dead
            if not all(self.living.is_alive(member.goal) for member in named if member.required):
                return []
            named = [member for member in named if self.living.is_alive(member.goal)]
        return _Object(self, shape, named, other_members(shape, self.languages)).alternatives()

    def key(self, name: str) -> Symbol:
        """A given name, from behind its opening quote to the start of the value."""
        known = self._keys.get(name)
        if known is None:
            known = self.builder.terminal(self.languages.after_quote(name, self.spacing.colon))
            self._keys[name] = known
        return known

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
        self._any_order = emitter.any_order
        alive = [other for other in others if emitter.living.is_alive(other.goal)]
        never = any(is_never(goal) for rule in shape.rules for _, goal in (("", rule.additional), *rule.patterns))
        self._few, self._others = singled_out(shape, alive, emitter.languages)
        self._is_open = bool(alive) and not (self._few or shape.names or never or len(alive) < len(others))
        self._must_use: frozenset[int] = frozenset()
        self._required: list[Named] = []
        self._optional: list[Named] = []
        self._listed: list[Named] = []
        if emitter.any_order and not emitter.tracked:
            self._must_use = frozenset(index for index, member in enumerate(named) if member.required)
            self._few = [*named, *self._few]
        elif emitter.any_order:
            self._check_demands(named)
            self._required = [member for member in named if member.required]
            self._optional = [member for member in named if not member.required]
        else:
            self._listed = named
        if emitter.tracked:
            self._note_what_is_tracked(named)
        else:
            self._check_names_that_may_repeat(sum(member.required for member in named))
        # How many names are countable beside the required ones of any order; None: no end of them.
        sizes = [count_strings(emitter.builder.pool, other.language) for other in self._others]
        finite = sum(size for size in sizes if size is not None)
        required = sum(member.required for member in named)
        most = None if None in sizes else finite + len({member.name for member in (*self._few, *named)})
        self._room = None if None in sizes or finite > MAX_COUNTED else finite + len(self._optional)
        self._low = shape.low if shape.low > required else 0
        self._high = shape.high if shape.high is not None and (most is None or most > shape.high) else None
        self._cap = self._high if self._high is not None else self._low
        self._hopeless = most is not None and self._low > most
        # From this place on nothing listed is required any more.
        self._free_from = max(
            (index + 1 for index, member in enumerate(self._listed) if member.required), default=0
        )
        if (len(self._listed) + 1) * (self._cap + 1) > MAX_STATES:
            raise self._too_large()
        self._next: dict[_State, Symbol] = {}
        self._rest: dict[_State, Symbol] = {}
        self._keys: dict[Rx, Symbol] = {}
        self._groups: dict[tuple[bool, frozenset[int]], list[tuple[Symbol, frozenset[int]]]] = {}
        self._todo: list[_State] = []

    def _check_demands(self, named: Sequence[Named]) -> None:
        """In any order a demand could lose the names that may meet it to members that do not."""
        languages = self._emitter.languages
        for some in self._shape.somes:
            met_by_others = any(
                not languages.is_empty(languages.all_of((some.language, other.language)))
                and self._emitter.living.is_alive(join_goals(other.goal, some.goal))
                for other in self._others
            )
            if not met_by_others and any(languages.has(some.language, member.name) for member in named):
                location = self._shape.origin.pointer if self._shape.origin else ""
                raise UnsupportedConstraint(
                    f'the object at {location or "the top"} is not supported with key_order="any": '
                    "a negated keyword asks for a member that only declared names could be",
                    keyword="key_order",
                    location=location,
                    param="schema",
                )

    def _check_names_that_may_repeat(self, required: int) -> None:
        """Without a tracker, refuse what is only true of names that differ from each other.

        One member beyond the required ones is a new name in any case; of two, one may be the other again. And a
        member that met a demand could be undone by a later one of its name, for the last value counts.
        """
        shape = self._shape
        if not self._others:
            return
        blamed = shape.low_blame if shape.low > required + 1 else None
        for some in shape.somes if blamed is None else ():
            blamed = some.blame if some.goal else None
        if blamed is not None:
            schema, keyword = blamed
            raise schema.refuse(keyword, "names may repeat in JSON text that is part of another text")

    def _note_what_is_tracked(self, named: Sequence[Named]) -> None:
        emitter, shape = self._emitter, self._shape
        if self._others or self._few or (self._any_order and named):
            emitter.tracks = True
            # Where members are counted, the last place may be for a required or a demanded name only.
            last_matters = shape.high is not None and bool(shape.somes or (self._any_order and shape.required))
            emitter.tight = emitter.tight or not self._is_open or last_matters

    def alternatives(self) -> list[list[Symbol]]:
        if self._hopeless:
            return []
        if self._is_plain():
            return self._plain()
        emitter = self._emitter
        start = _State(open=frozenset(range(len(self._shape.somes))))
        found = [[emitter.empty]] if self._may_end(start) else []
        found.append([emitter.opening, self._next_of(start)])
        while self._todo:
            self._define(self._todo.pop())
        return found

    def _is_plain(self) -> bool:
        """Whether only places matter, which is so for nearly all objects."""
        return (
            not (self._any_order or self._shape.somes or self._few or self._low)
            and self._high is None
            and (self._room is None or not self._others)
        )

    def _plain(self) -> list[list[Symbol]]:
        """The same rules as those of the states, from the last place to the first."""
        builder, emitter = self._builder, self._emitter
        rest, next_ = emitter.closing, builder.nothing
        if self._others:
            rest, next_ = builder.declare("rest"), builder.declare("member")
            builder.define(next_, *([symbol, rest] for symbol, _ in self._group(False, frozenset())))
            builder.define(rest, [emitter.comma, next_], [emitter.closing])
        for place in range(len(self._listed) - 1, -1, -1):
            member = self._listed[place]
            taken = [emitter.key(member.name), emitter.value(member.goal), rest]
            skipped = [] if member.required or next_ == builder.nothing else [[next_]]
            next_ = builder.declare("member")
            builder.define(next_, taken, *skipped)
            if place > 0:
                rest = builder.declare("rest")
                ending = [[emitter.closing]] if place >= self._free_from else []
                builder.define(rest, [emitter.comma, next_], *ending)
        found = [] if self._free_from else [[emitter.empty]]
        return found if next_ == builder.nothing else [*found, [emitter.opening, next_]]

    def _may_end(self, state: _State) -> bool:
        return (
            state.place >= self._free_from
            and state.required == len(self._required)
            and state.members >= self._low
            and not state.open
            and self._must_use <= state.used
        )

    def _may_go_on(self, state: _State) -> bool:
        return self._high is None or state.members < self._high

    def _has_room(self, state: _State) -> bool:
        """Whether a name that is neither listed nor required is left."""
        return bool(self._others or self._optional) and (self._room is None or state.rest < self._room)

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
            known = self._rest[state] = self._builder.declare("rest")
            ways: list[list[Symbol]] = []
            more = (
                state.place < len(self._listed)
                or state.required < len(self._required)
                or len(state.used) < len(self._few)
                or self._has_room(state)
            )
            if self._may_go_on(state) and more:
                ways.append([self._emitter.comma, self._next_of(state)])
            if self._may_end(state):
                ways.append([self._emitter.closing])
            self._builder.define(known, *ways)
        return known

    def _define(self, state: _State) -> None:
        ways: list[list[Symbol]] = []
        after = state._replace(members=min(state.members + 1, self._cap))
        if not self._may_go_on(state):
            pass
        elif state.place < len(self._listed):
            member = self._listed[state.place]
            for goal, still_open in self._demands(member, state.open):
                behind = self._rest_of(after._replace(place=state.place + 1, open=still_open))
                ways.append([self._emitter.key(member.name), self._emitter.value(goal), behind])
            if not member.required:
                ways.append([self._next_of(state._replace(place=state.place + 1))])
        else:
            ways = self._in_any_order(state, after)
        self._builder.define(self._next[state], *ways)

    def _in_any_order(self, state: _State, after: _State) -> list[list[Symbol]]:
        """The members that may come wherever they like."""
        ways: list[list[Symbol]] = []
        if state.required < len(self._required):
            for symbol, still_open in self._group(True, state.open):
                ways.append([symbol, self._rest_of(after._replace(required=state.required + 1, open=still_open))])
        for index, member in enumerate(self._few):
            if index not in state.used:
                for goal, still_open in self._demands(member, state.open):
                    behind = self._rest_of(after._replace(open=still_open, used=state.used | {index}))
                    ways.append([self._emitter.key(member.name), self._emitter.value(goal), behind])
        if self._has_room(state):
            if self._room is not None:
                after = after._replace(rest=state.rest + 1)
            for symbol, still_open in self._group(False, state.open):
                ways.append([symbol, self._rest_of(after._replace(open=still_open))])
        return ways

    def _group(self, required: bool, open_: frozenset[int]) -> list[tuple[Symbol, frozenset[int]]]:
        """The required members in any order, or all the others: a rule for each set of demands left open."""
        known = self._groups.get((required, open_))
        if known is None:
            emitter = self._emitter
            ways: dict[frozenset[int], list[list[Symbol]]] = {}
            for member in self._required if required else self._optional:
                for goal, still_open in self._demands(member, open_):
                    ways.setdefault(still_open, []).append([emitter.key(member.name), emitter.value(goal)])
            for other in () if required else self._others:
                for language, goal, still_open in self._other_demands(other, open_):
                    ways.setdefault(still_open, []).append([self._key_symbol(language), emitter.value(goal)])
            known = self._groups[required, open_] = []
            for still_open, alternatives in ways.items():
                symbol = self._builder.declare("members")
                self._builder.define(symbol, *alternatives)
                known.append((symbol, still_open))
        return known

    def _key_symbol(self, language: Rx) -> Symbol:
        if language not in self._keys:
            self._keys[language] = self._emitter.keys(language)
        return self._keys[language]

    def _demands(self, member: Named, open_: frozenset[int]) -> list[tuple[Goal, frozenset[int]]]:
        """The ways to take a given member: meeting none of the open demands, or some of them."""
        ways = [(member.goal, open_)]
        for index in sorted(open_):
            some = self._shape.somes[index]
            if self._emitter.languages.has(some.language, member.name):
                ways.extend([(join_goals(goal, some.goal), left - {index}) for goal, left in ways])
        return ways

    def _other_demands(self, other: Other, open_: frozenset[int]) -> list[tuple[Rx, Goal, frozenset[int]]]:
        """The same for any other member."""
        languages = self._emitter.languages
        ways = [(other.language, other.goal, open_)]
        for index in sorted(open_):
            some = self._shape.somes[index]
            for language, goal, left in list(ways):
                inside = languages.all_of((language, some.language))
                if not languages.is_empty(inside):
                    ways.append((inside, join_goals(goal, some.goal), left - {index}))
        return ways

    def _too_large(self) -> UnsupportedConstraint:
        """Blames what has to be counted, then the order of members, then the largest group of them."""
        shape, why = self._shape, f"the object needs more than {MAX_STATES} states"
        blamed = shape.low_blame if self._high is None else shape.high_blame
        if self._cap and blamed is not None:
            schema, keyword = blamed
            return schema.refuse(keyword, why)
        rule = max(shape.rules, key=lambda rule: len(rule.named) + len(rule.patterns), default=None)
        origin = shape.origin if rule is None or rule.origin is None else rule.origin
        if origin is not None and not self._any_order:
            return origin.refuse("properties", why, "patternProperties", "required")
        location = "" if origin is None else origin.pointer
        return UnsupportedConstraint(
            f"the object at {location or 'the top'} is not supported: {why}",
            keyword="key_order" if self._any_order else "properties",
            location=location,
            param="schema",
        )
