"""What ``unevaluatedProperties`` and ``unevaluatedItems`` see: which names and items other keywords have evaluated.

A shape keeps every rule that contributed to it, so the evaluated names are those of its rules. Rules that come
from a schema that *fails* do not count; ``forget`` marks them so. A union of shapes is *exact* if each of them has
all rules of every branch that holds for its values: that is what a violation needs to know, while for the keyword
to hold it is enough that some shape evaluates enough. Nothing here expands schemas.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import IntEnum
from typing import NamedTuple

from radixrt.grammar.json_schema.documents import Library, Schema
from radixrt.grammar.json_schema.shapes import (
    ArrayShape,
    CountRule,
    FiniteShape,
    Goal,
    ItemRule,
    NameRule,
    ObjectShape,
    Shape,
    SomeRule,
    goal_of,
    join_goals,
)
from radixrt.grammar.json_schema.values import JsonValue
from radixrt.grammar.rx import Rx

__all__ = ["Tracking", "Unevaluated", "evaluated_by", "forget"]


class Tracking(IntEnum):
    """What somebody asks about the evaluated parts of a schema that holds."""

    NONE = 0
    SOME = 1  # every branch that may hold has shapes with its rules
    EXACT = 2  # every shape has the rules of all branches that hold


def forget(shape: Shape) -> Shape:
    """The same values, with nothing counted as evaluated."""
    if isinstance(shape, ObjectShape):
        return replace(shape, rules=tuple(replace(rule, evaluates=False) for rule in shape.rules))
    if isinstance(shape, ArrayShape):
        rules = tuple(replace(rule, evaluates=False) for rule in shape.rules)
        return replace(shape, rules=rules, evaluated=())
    if isinstance(shape, FiniteShape) and shape.beside is not None:
        return replace(shape, beside=forget(shape.beside))
    return shape


def evaluated_by(shape: Shape) -> object:
    """Equal for shapes that evaluate the same names or items, as far as the rules tell."""
    if isinstance(shape, ObjectShape):
        named, patterns, all_names = _names(shape)
        return all_names or (frozenset(named), frozenset(patterns))
    if isinstance(shape, ArrayShape):
        count, all_items = _items(shape)
        return all_items or (count, frozenset(shape.evaluated))
    if isinstance(shape, FiniteShape) and shape.beside is not None:
        return evaluated_by(shape.beside)
    return None


class Unevaluated(NamedTuple):
    """One unevaluated keyword: ``goal`` is what parts that nothing has evaluated must satisfy.

    ``admits`` says whether a value is inside a shape, ``other_names`` gives the names that are neither among the
    given ones nor in the given languages.
    """

    keyword: str
    goal: Goal
    origin: Schema
    library: Library
    admits: Callable[[Shape, JsonValue], bool]
    other_names: Callable[[Sequence[str], Sequence[Rx]], Rx]

    def held(self, shape: Shape) -> Shape:
        """``shape`` where the keyword holds; afterwards everything counts as evaluated."""
        if isinstance(shape, ObjectShape):
            named, patterns, everything = _names(shape)
            if everything:
                return shape
            last = NameRule(
                named=tuple((name, ()) for name in named),
                patterns=tuple((language, ()) for language in patterns),
                additional=self.goal,
                evaluates_rest=True,
                origin=self.origin,
            )
            return replace(shape, rules=(*shape.rules, last))
        if isinstance(shape, ArrayShape):
            count, everything = _items(shape)
            if everything:
                return shape
            last_item = ItemRule(((),) * count, self._rest(shape), evaluates_rest=True)
            return replace(shape, rules=(*shape.rules, last_item))
        if isinstance(shape, FiniteShape) and self.goal:
            beside = self.held(self._rules_of(shape))
            kept = {key: value for key, value in shape.values.items() if self.admits(beside, value)}
            return FiniteShape(kept, beside)
        return shape

    def violated(self, shape: Shape) -> Shape | None:
        """``shape``, one of an exact union, where the keyword fails; None if it cannot."""
        if not self.goal:
            return None
        wrong = _negated(self.goal)
        if isinstance(shape, ObjectShape):
            named, patterns, everything = _names(shape)
            if everything:
                return None
            some = SomeRule(self.other_names(named, patterns), wrong, (self.origin, self.keyword))
            return forget(replace(shape, somes=(*shape.somes, some), origin=shape.origin or self.origin))
        if isinstance(shape, ArrayShape):
            start, everything = _items(shape)
            rest = self._rest(shape)
            if everything or not rest:
                return None
            outside = join_goals(wrong, *map(_negated, shape.evaluated))
            counted = CountRule(outside, rest, start=start, blame=(self.origin, self.keyword))
            return forget(replace(shape, counts=(*shape.counts, counted)))
        if isinstance(shape, FiniteShape):
            beside = self.held(self._rules_of(shape))
            kept = {key: value for key, value in shape.values.items() if not self.admits(beside, value)}
            return FiniteShape(kept) if kept else None
        return None

    def _rules_of(self, shape: FiniteShape) -> Shape:
        if shape.beside is not None:
            return shape.beside
        return ObjectShape() if self.keyword == "unevaluatedProperties" else ArrayShape()

    def _rest(self, shape: ArrayShape) -> Goal:
        """What an item behind the evaluated ones must be: evaluated by a ``contains``, or as the keyword says."""
        parts = []
        for part in (*shape.evaluated, self.goal):
            if not part:
                return ()
            parts.append(part[0][0])
        if len(parts) == 1:
            return self.goal
        return goal_of(self.library.derived({"anyOf": parts}, self.origin))


def _negated(goal: Goal) -> Goal:
    """The negation of the goal of one schema that must hold."""
    ((schema, _),) = goal
    return goal_of(schema, holds=False)


def _names(shape: ObjectShape) -> tuple[list[str], list[Rx], bool]:
    """The names and languages of names that are evaluated, and whether all names are."""
    rules = [rule for rule in shape.rules if rule.evaluates]
    named = dict.fromkeys(name for rule in rules for name, _ in rule.named)
    patterns = dict.fromkeys(language for rule in rules for language, _ in rule.patterns)
    return list(named), list(patterns), any(rule.evaluates_rest for rule in rules)


def _items(shape: ArrayShape) -> tuple[int, bool]:
    """How many items from the start are evaluated, and whether all are."""
    rules = [rule for rule in shape.rules if rule.evaluates]
    return max((len(rule.prefix) for rule in rules), default=0), any(rule.evaluates_rest for rule in rules)
