"""Unions and conjunctions of shapes, kept small and counted.

A union of shapes is a tuple without repetitions; a conjunction of unions takes one shape of each in every way
that is not plainly empty. Nothing here knows about schemas or keywords.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Final

from radixrt.errors import UnsupportedConstraint
from radixrt.grammar.json_schema.assertions import Alternatives, Assertion
from radixrt.grammar.json_schema.reason import Reasoner
from radixrt.grammar.json_schema.shapes import (
    ANY_SHAPE,
    FiniteShape,
    NumberShape,
    ObjectShape,
    Shape,
    StringShape,
    is_inside,
    meet,
)
from radixrt.grammar.json_schema.unevaluated import evaluated_by
from radixrt.grammar.json_schema.values import JsonType, JsonValue, with_integers

__all__ = ["Algebra"]

MAX_ALTERNATIVES: Final = 1000  # shapes of one schema and type
MAX_COMPARED: Final = 200  # more alternatives than these are not looked through for ones inside others
MAX_WORK: Final = 25_000  # conjunctions of two shapes in one compilation


class Algebra:
    """``too_many`` makes the error for too much work, and knows whom to blame.

    ``tracked`` counts the unevaluated keywords being expanded: then a shape inside another one still counts if it
    has evaluated something else.
    """

    def __init__(self, reasoner: Reasoner, too_many: Callable[[str], UnsupportedConstraint]) -> None:
        self.tracked = 0
        self._reasoner = reasoner
        self._too_many = too_many
        self._work = 0

    def conjoined(self, assertions: Iterable[Assertion], kind: JsonType) -> Alternatives:
        """The shapes for which all assertions hold; those that profit from a context come after the others."""
        known: list[Assertion] = []
        later: list[tuple[int, Callable[[Alternatives], Alternatives]]] = []
        for assertion in assertions:
            if assertion.within is None:
                known.append(assertion)
            else:
                later.append((len(known), assertion.within))
        sides: list[Alternatives] = []

        def sides_in_order() -> Iterator[Alternatives]:
            for assertion in known:
                sides.append(assertion.holds())
                yield sides[-1]

        found = self.product(sides_in_order(), kind)
        for place, within in later:
            if found:
                found = _in_text_order(within(found), sides[place:])
        return found

    def union(self, sides: Iterable[Alternatives]) -> Alternatives:
        return self.distinct([shape for side in sides for shape in side])

    def product(self, sides: Iterable[Alternatives], kind: JsonType) -> Alternatives:
        """Every way to take one shape from each side, conjoined, without those that are plainly empty."""
        found: Alternatives = (ANY_SHAPE[kind],)
        first = True
        for side in sides:
            if first:
                found, first = side, False
            else:
                self._spend(len(found) * len(side))
                whole = ANY_SHAPE[kind]
                met = [self._meet(left, right, whole) for left in found for right in side]
                found = self.distinct([shape for shape in met if shape is not None])
            if not found:
                break
        return found

    def _meet(self, left: Shape, right: Shape, whole: Shape) -> Shape | None:
        """The conjunction of two shapes of the type of ``whole``, which has all values; None if plainly empty."""
        if left == whole:
            return right
        if isinstance(right, FiniteShape):
            left, right = right, left
        if isinstance(left, FiniteShape):
            self._spend(len(left.values))
            kept = {key: value for key, value in left.values.items() if self._reasoner.admits(right, value)}
            if not isinstance(right, FiniteShape | StringShape | NumberShape) or _asks_for_integers(right):
                # The rules may ask for integers, and by the policy for spellings these have no fraction.
                kept = {key: with_integers(value) for key, value in kept.items()}
            return FiniteShape(kept, self._beside(left, right) if self.tracked else None) if kept else None
        if isinstance(left, ObjectShape) and isinstance(right, ObjectShape):
            self._spend(len(left.rules) + len(right.rules))  # what comes next looks at pairs of rules
        met: Shape = self._reasoner.simplified(meet(left, right))  # type: ignore[type-var]
        return None if self._reasoner.is_empty(met) else met

    @staticmethod
    def _beside(left: FiniteShape, right: Shape) -> Shape | None:
        """The rules that both sides bring for the values of ``left``."""
        more = right.beside if isinstance(right, FiniteShape) else right
        if left.beside is None or more is None:
            return left.beside or more
        met: Shape = meet(left.beside, more)  # type: ignore[type-var]
        return met

    def distinct(self, shapes: list[Shape]) -> Alternatives:
        """Without repetitions and without shapes plainly inside another one; lists of values become one."""
        if len(shapes) < 2:
            return tuple(shapes)
        kept: list[Shape] = []
        values: dict[object, JsonValue] = {}
        for shape in shapes:
            if isinstance(shape, FiniteShape) and shape.beside is None:
                for key, value in shape.values.items():
                    values.setdefault(key, value)
            elif len(shapes) > MAX_COMPARED:
                kept.append(shape)
            else:
                self._spend(len(kept))
                if not any(self._covers(other, shape) for other in kept):
                    kept = [other for other in kept if not self._covers(shape, other)]
                    kept.append(shape)
        if len(kept) > MAX_ALTERNATIVES:
            raise self._too_many(f"more than {MAX_ALTERNATIVES} alternatives for one value")
        return (*kept, FiniteShape(values)) if values else tuple(kept)

    def _covers(self, outer: Shape, inner: Shape) -> bool:
        if not is_inside(inner, outer):
            return False
        return not self.tracked or evaluated_by(inner) == evaluated_by(outer)

    def _spend(self, amount: int) -> None:
        self._work += amount
        if self._work > MAX_WORK:
            raise self._too_many(f"more than {MAX_WORK} combinations of alternatives")


def _in_text_order(found: Alternatives, following: list[Alternatives]) -> Alternatives:
    """Put the rules about members that follow in the text behind those that were conjoined after them."""
    behind = {
        rule for side in following for shape in side if isinstance(shape, ObjectShape) for rule in shape.rules
    }
    if not behind:
        return found
    return tuple(
        replace(shape, rules=tuple(sorted(shape.rules, key=lambda rule: rule in behind)))
        if isinstance(shape, ObjectShape)
        else shape
        for shape in found
    )


def _asks_for_integers(shape: Shape) -> bool:
    return isinstance(shape, NumberShape) and shape.integral is True
