"""What the keywords assert that combine other schemas for the same value: each logic on their two sides.

``of`` gives the shapes of the values for which a schema holds, or fails; nothing here knows how it finds them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import combinations
from typing import Final, Protocol

from radixrt.grammar.json_schema.algebra import Algebra
from radixrt.grammar.json_schema.assertions import Alternatives, Assertion, absent
from radixrt.grammar.json_schema.documents import Library, Schema
from radixrt.grammar.json_schema.reason import Reasoner
from radixrt.grammar.json_schema.shapes import ANY_SHAPE, FiniteShape, ObjectShape, Shape, meet
from radixrt.grammar.json_schema.unevaluated import Tracking, forget
from radixrt.grammar.json_schema.values import JsonType, JsonValue

__all__ = ["Logic"]

MANY_BRANCHES: Final = 5  # of a oneOf; below, every pair is compared
MANY_RIVALS: Final = 3  # from so many on it is looked at whether one member tells them apart


class _Of(Protocol):
    def __call__(
        self, schema: Schema, holds: bool, kind: JsonType, tracking: Tracking = Tracking.NONE
    ) -> Alternatives: ...


class Logic:
    """The assertions of ``not``, ``anyOf``, ``oneOf``, ``if`` and ``dependentSchemas``."""

    def __init__(self, library: Library, algebra: Algebra, reasoner: Reasoner, of: _Of) -> None:
        self._library = library
        self._algebra = algebra
        self._reasoner = reasoner
        self._of = of

    def not_(self, schema: Schema, kind: JsonType) -> Assertion:
        def fails() -> Alternatives:
            return tuple(map(forget, self._of(schema, True, kind)))

        return Assertion(lambda: self._of(schema, False, kind), fails)

    def any_of(self, schema: Schema, parts: list[JsonValue], kind: JsonType, tracking: Tracking) -> Assertion:
        schemas = [self._library.at(part, schema) for part in parts]

        def any_holds() -> Alternatives:
            if not tracking:
                return self._algebra.union(self._of(part, True, kind) for part in schemas)
            some: Alternatives = ()
            none: Alternatives = (ANY_SHAPE[kind],)  # where none of the branches so far holds, or may not
            for part in schemas:
                both = (some, none)
                holds = self._of(part, True, kind, tracking)
                if tracking is Tracking.EXACT:
                    fails = self._of(part, False, kind)
                    some, none = (self._algebra.product((before, fails), kind) for before in both)
                more = (self._algebra.product((before, holds), kind) for before in both)
                some = self._algebra.union(_before(some, more))
            return some

        return Assertion(
            any_holds, lambda: self._algebra.product((self._of(part, False, kind) for part in schemas), kind)
        )

    def one_of(self, schemas: list[Schema], kind: JsonType, tracking: Tracking) -> Assertion:
        """Exactly one holds. A branch is cut by the others only where they overlap, which keeps it small."""

        def within(context: Alternatives) -> Alternatives:
            sides = [self._of(part, True, kind, tracking) for part in schemas]
            once = None if tracking else _listed_once(sides)
            if once is not None:
                return self._algebra.product((context, once), kind)
            rivals_of = _Rivals(sides, self._reasoner)

            def met(shape: Shape, index: int) -> list[int]:
                """The other branches that the shape has values in common with, as far as can be seen."""
                rivals = (other for other in rivals_of(shape) if other != index)
                return [other for other in rivals if self._algebra.product(((shape,), sides[other]), kind)]

            found: list[Shape] = []
            for index, side in enumerate(sides):
                for whole in self._algebra.product((context, side), kind):
                    many = len(met(whole, index)) >= MANY_RIVALS
                    for shape in rivals_of.parts(whole) if many else (whole,):
                        outside = (((shape,), self._of(schemas[other], False, kind)) for other in met(shape, index))
                        # Each alone leaves little of the shape: the fewer ways there are, the earlier it comes.
                        cuts = sorted((self._algebra.product(sides, kind) for sides in outside), key=len)
                        found.extend(self._algebra.product(cuts, kind) if cuts else (shape,))
            return self._algebra.distinct(found)

        def fails() -> Alternatives:
            none = self._algebra.product((self._of(part, False, kind) for part in schemas), kind)
            pairs = (
                tuple(
                    map(
                        forget,
                        self._algebra.product((self._of(one, True, kind), self._of(other, True, kind)), kind),
                    )
                )
                for one, other in combinations(schemas, 2)
            )
            return self._algebra.union(_before(none, pairs))

        return Assertion(lambda: within((ANY_SHAPE[kind],)), fails, within)

    def if_(self, schema: Schema, kind: JsonType, tracking: Tracking) -> Assertion:
        parts = schema.keywords or {}
        condition, then, otherwise = (
            self._library.at(parts.get(name, True), schema) for name in ("if", "then", "else")
        )

        def both(result: bool) -> Alternatives:
            yes = (self._of(condition, True, kind, tracking), self._of(then, result, kind, tracking))
            no = (self._of(condition, False, kind), self._of(otherwise, result, kind, tracking))
            found = self._algebra.union((self._algebra.product(yes, kind), self._algebra.product(no, kind)))
            return tuple(map(_late, found))

        return Assertion(lambda: both(True), lambda: tuple(map(forget, both(False))))

    def dependent(self, name: str, schema: Schema, tracking: Tracking) -> Assertion:
        present: Alternatives = (ObjectShape(required=(name,)),)

        def holds() -> Alternatives:
            with_it = self._algebra.product((present, self._of(schema, True, "object", tracking)), "object")
            return (absent(name), *map(_late, with_it))

        return Assertion(
            holds, lambda: self._algebra.product((present, self._of(schema, False, "object")), "object")
        )


class _Rivals:
    """Which of many branches a shape may have values in common with.

    Branches are mostly told apart by the value of one member, the pivot, so they are looked up by it.
    """

    def __init__(self, sides: list[Alternatives], reasoner: Reasoner) -> None:
        self._reasoner = reasoner
        self._all: Iterable[int] = range(len(sides))
        self._pivot = _pivot_of(sides, reasoner) if len(sides) >= MANY_BRANCHES else None
        self._open: set[int] = set()  # branches in which any value may stand under the pivot
        self._by_key: dict[object, set[int]] = {}
        for index, side in enumerate(sides if self._pivot is not None else ()):
            choices = [self._choices(shape) for shape in side]
            if None in choices:
                self._open.add(index)
            for key in frozenset().union(*(keys for keys in choices if keys is not None)):
                self._by_key.setdefault(key, set()).add(index)

    def __call__(self, shape: Shape) -> Iterable[int]:
        if isinstance(shape, ObjectShape) and self._pivot in shape.required:
            keys = self._choices(shape)
            if keys is not None:
                return sorted(self._open.union(*(self._by_key.get(key, ()) for key in keys)))
        return self._all

    def parts(self, shape: Shape) -> Alternatives:
        """The shape with the pivot, which has few rivals, and without it."""
        pivot = self._pivot
        if pivot is None or not isinstance(shape, ObjectShape) or pivot in shape.required:
            return (shape,)
        return (meet(shape, ObjectShape(required=(pivot,))), meet(shape, absent(pivot)))

    def _choices(self, shape: Shape) -> frozenset[object] | None:
        if self._pivot is None or not isinstance(shape, ObjectShape):
            return None
        return self._reasoner.choices(shape, self._pivot)


def _pivot_of(sides: list[Alternatives], reasoner: Reasoner) -> str | None:
    """The name whose values most branches list in all their shapes; of several, one that most of them require."""
    counts: Counter[str] = Counter()
    required: Counter[str] = Counter()
    for side in sides:
        shapes = [shape for shape in side if isinstance(shape, ObjectShape)]
        if shapes and len(shapes) == len(side):
            listed = Counter(name for shape in shapes for name in reasoner.listed_names(shape))
            counts.update(name for name, count in listed.items() if count == len(shapes))
            required.update(frozenset(name for shape in shapes for name in shape.required))
    return max(counts, key=lambda name: (counts[name], required[name]), default=None)


def _listed_once(sides: list[Alternatives]) -> Alternatives | None:
    """The values that stand in one branch only, if all branches list theirs."""
    values: dict[object, JsonValue] = {}
    counts: Counter[object] = Counter()
    for side in sides:
        keys: set[object] = set()
        for shape in side:
            if not isinstance(shape, FiniteShape):
                return None
            values |= shape.values
            keys.update(shape.values)
        counts.update(keys)
    once = {key: value for key, value in values.items() if counts[key] == 1}
    return (FiniteShape(once),) if once else ()


def _late(shape: Shape) -> Shape:
    """The same values; names that only a condition brings in come behind the others."""
    if not isinstance(shape, ObjectShape):
        return shape
    return replace(shape, rules=tuple(replace(rule, late=True) for rule in shape.rules))


def _before(first: Alternatives, others: Iterable[Alternatives]) -> Iterator[Alternatives]:
    yield first
    yield from others
