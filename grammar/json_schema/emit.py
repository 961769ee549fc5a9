"""Goals to grammar: one symbol for the values of each goal, scalars as a single terminal.

Works from a list of goals still to be defined, so that the depth and the rings of a schema cost no stack.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from radixrt.errors import UnsupportedConstraint
from radixrt.grammar.cfg import GrammarBuilder, Symbol
from radixrt.grammar.json_schema.arrays import ArrayEmitter
from radixrt.grammar.json_schema.expand import Expander
from radixrt.grammar.json_schema.living import Living
from radixrt.grammar.json_schema.numbers import NumberLanguage, spellings
from radixrt.grammar.json_schema.objects import ObjectEmitter
from radixrt.grammar.json_schema.shapes import (
    ArrayShape,
    FiniteShape,
    Goal,
    NumberShape,
    ObjectShape,
    Shape,
    StringShape,
    is_never,
)
from radixrt.grammar.json_schema.sizes import Sizes
from radixrt.grammar.json_schema.spacing import Spacing
from radixrt.grammar.json_schema.values import JsonValue, type_of
from radixrt.grammar.json_tracker import DUPLICATE
from radixrt.grammar.rules import Tracks
from radixrt.grammar.rx import EMPTY, Rx

__all__ = ["Emitter"]

MAX_GOALS: Final = 50_000  # different demands on values in one schema


class _Work(NamedTuple):
    """A symbol whose ways are not yet defined: a term for the scalars of a goal, and the shapes of the others."""

    goal: Goal
    symbol: Symbol
    term: Rx
    shapes: list[Shape]


def _placed(error: UnsupportedConstraint, goal: Goal) -> UnsupportedConstraint:
    """The error; of one that knows no place, such as that of a limit, that of the schema being worked on."""
    if error.location is not None or not goal:
        return error
    place = goal[0][0].pointer
    return UnsupportedConstraint(
        f"{error.message} (the schema at {place or 'the top'})",
        keyword=error.keyword,
        location=place,
        param=error.param,
    )


class Emitter:
    """One per compilation; ``root`` of a goal is its symbol, ready for ``builder.build``.

    ``tracked``: a tracker will keep names from repeating, and with ``marked`` also mark duplicates in arrays.
    """

    def __init__(
        self,
        builder: GrammarBuilder,
        expander: Expander,
        spacing: Spacing,
        living: Living,
        *,
        any_order: bool = False,
        tracked: bool = True,
        marked: bool = False,
    ) -> None:
        self._builder = builder
        self._pool = builder.pool
        self._expander = expander
        self._languages = expander.languages
        self._spacing = spacing
        self._numbers = NumberLanguage(builder.pool)
        self._objects = ObjectEmitter(
            builder,
            expander.languages,
            expander.reasoner,
            living,
            spacing,
            self.value,
            any_order=any_order,
            tracked=tracked,
        )
        self._marked = marked and tracked
        self._living = living
        sizes = Sizes(expander.languages, expander.reasoner, expander.of_goal, living)
        self._arrays = ArrayEmitter(
            builder, spacing, self.value, self._given_symbol, expander.reasoner, sizes, marked=self._marked
        )
        self._symbols: dict[Goal, Symbol] = {}
        self._todo: list[_Work] = []

    def root(self, goal: Goal) -> Symbol:
        """The symbol of the values of ``goal``, with all it needs defined."""
        symbol = self.value(goal)
        self._define_all()
        return symbol

    def dead_goals(self) -> list[Goal]:
        """The goals that a count took to have values, and that have none: all of it is to be made anew without."""
        found: dict[Goal, Symbol] = {}
        while len(found) < len(self._living.doubted):
            found = {goal: self.value(goal) for goal in self._living.doubted}
            self._define_all()
        if not found:
            return []
        dead = set(self._builder.unproductive(list(found.values())))
        return [goal for goal, symbol in found.items() if symbol in dead]

    def _define_all(self) -> None:
        while self._todo:
            work = self._todo.pop()
            try:
                self._define(work)
            except UnsupportedConstraint as error:
                raise _placed(error, work.goal) from error.__cause__

    @property
    def tracks(self) -> Tracks | None:
        """What the grammar leaves to a tracker, once the root is made."""
        objects, arrays = self._objects, self._arrays
        if not (objects.tracks or self._marked):
            return None
        return Tracks(items=self._marked, tight=objects.tight or arrays.tight, demands=arrays.demands)

    def value(self, goal: Goal) -> Symbol:
        """The symbol of the values of ``goal``; its definition may still be on the list."""
        known = self._symbols.get(goal)
        if known is None:
            if len(self._symbols) >= MAX_GOALS:
                why = f"the schema makes more than {MAX_GOALS} different demands on values"
                raise _placed(UnsupportedConstraint(why, keyword="size", param="schema"), goal)
            try:
                known = self._symbols[goal] = self._symbol(goal)
            except UnsupportedConstraint as error:
                raise _placed(error, goal) from error.__cause__
        return known

    def _symbol(self, goal: Goal) -> Symbol:
        if is_never(goal):
            return self._builder.nothing
        terms: list[Rx] = []
        structured: list[Shape] = []
        for kind in self._expander.kinds(goal):
            for shape in self._expander.of_goal(goal, kind):
                if isinstance(shape, ArrayShape | ObjectShape):
                    structured.append(shape)
                else:
                    terms.append(self._scalar(shape))
        term = self._pool.alt(*terms)
        if not structured:
            return self._builder.terminal(term)
        symbol = self._builder.declare(goal[0][0].pointer if goal else "value")
        self._todo.append(_Work(goal, symbol, term, structured))
        return symbol

    def _define(self, work: _Work) -> None:
        ways: list[list[Symbol]] = [[self._builder.terminal(work.term)]]
        for shape in work.shapes:
            if isinstance(shape, ObjectShape):
                ways.extend(self._objects.alternatives(shape))
            elif isinstance(shape, ArrayShape):
                ways.extend(self._arrays.alternatives(shape))
        self._builder.define(work.symbol, *ways)

    def _scalar(self, shape: Shape) -> Rx:
        if isinstance(shape, FiniteShape):
            return self._pool.alt(*map(self._given, shape.values.values()))
        if isinstance(shape, NumberShape):
            return self._numbers.of(shape)
        if not isinstance(shape, StringShape):
            raise TypeError("not a shape of scalars")
        return self._languages.quoted(self._expander.reasoner.string_language(shape))

    # --- given values ---------------------------------------------------------------------------------------

    def _given_symbol(self, value: JsonValue) -> Symbol:
        return self._builder.terminal(self._given(value))

    def _given(self, value: JsonValue) -> Rx:
        """One given value in its canonical spelling; objects keep the order they were given in."""
        pool, spacing = self._pool, self._spacing
        kind = type_of(value)
        if kind == "string":
            return self._languages.exactly(value)
        if kind == "number":
            return pool.alt(*(pool.literal(text.encode()) for text in spellings(value)))
        if kind in ("null", "boolean"):
            return pool.literal({None: b"null", True: b"true", False: b"false"}[value])
        if not value:
            return spacing.empty("[]" if kind == "array" else "{}")
        if kind == "array":
            parts = [self._given(part) for part in value]
            brackets = "[]"
        else:
            parts = [
                pool.concat(self._languages.exactly(name), spacing.colon, self._given(part))
                for name, part in value.items()
            ]
            brackets = "{}"
        spelled = [spacing.opening(brackets[0]), parts[0]]
        mark = self._pool.opt(self._pool.literal(DUPLICATE)) if kind == "array" and self._marked else EMPTY
        for part in parts[1:]:
            spelled.extend((spacing.comma, part, mark))
        return pool.concat(*spelled, spacing.closing(brackets[1]))
