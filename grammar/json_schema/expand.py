"""Schemas to shapes: for a schema and a JSON type, the union of shapes of the values for which it holds, or fails.

Each keyword is an ``Assertion`` with these two sides, so ``not``, ``if`` and ``oneOf`` need no rules of their
own beyond logic: a schema holds where all its assertions hold (a product) and fails where one fails (a union).
Only the value itself is looked at; children stay goals, so recursive schemas end. Nothing here knows how
anything is spelled in JSON text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from decimal import Decimal
from itertools import combinations
from typing import Final

from radixrt.errors import UnsupportedConstraint
from radixrt.grammar.json_schema.algebra import Algebra
from radixrt.grammar.json_schema.assertions import (
    Alternatives,
    Assertion,
    TypeAssertions,
    absent,
    check_numbers,
)
from radixrt.grammar.json_schema.documents import Library, Schema
from radixrt.grammar.json_schema.languages import Languages
from radixrt.grammar.json_schema.reason import Reasoner
from radixrt.grammar.json_schema.shapes import (
    ANY_SHAPE,
    FiniteShape,
    Goal,
    NumberShape,
    ObjectShape,
    Shape,
    StringShape,
    finite,
    goal_of,
)
from radixrt.grammar.json_schema.unevaluated import Tracking, Unevaluated, forget
from radixrt.grammar.json_schema.values import JsonType, JsonValue, type_of

__all__ = ["Expander"]

MAX_IN_PLACE: Final = 50  # schemas for the same value inside one another; each takes a few frames of Python's stack

_UNEVALUATED: Final = {"object": "unevaluatedProperties", "array": "unevaluatedItems"}
_BRANCHING: Final = ("oneOf", "anyOf", "not", "if", "dependencies", "allOf", "$ref")


class Expander:
    """Expansion with a memory. One per compilation; not thread-safe."""

    def __init__(self, library: Library, languages: Languages) -> None:
        self.library = library
        self.languages = languages
        self.reasoner = Reasoner(languages, self.of_goal, self.is_deep)
        self._types = TypeAssertions(library, languages, self._names_of)
        self._memory: dict[tuple[Schema, bool, JsonType, Tracking], Alternatives] = {}
        self._goals: dict[tuple[Goal, JsonType], Alternatives] = {}
        self._open: dict[tuple[Schema, bool, JsonType, Tracking], None] = {}
        self._algebra = Algebra(self.reasoner, self._too_many)
        self._nesting = 0
        self._subject = library.main

    # --- goals ----------------------------------------------------------------------------------------------

    def of_goal(self, goal: Goal, kind: JsonType) -> Alternatives:
        """The union of shapes of the values of one type that satisfy every schema of the goal as it says."""
        key = (goal, kind)
        known = self._goals.get(key)
        if known is None and any(holds and self._excludes(schema, kind) for schema, holds in goal):
            known = self._goals[key] = ()  # by far the most frequent answer, so it is found without ceremony
        if known is None:
            open_, self._open = self._open, {}  # another value: what is open for this one does not count
            self._nesting += len(open_)
            subject, self._subject = self._subject, goal[0][0] if goal else self._subject
            try:
                known = self._algebra.conjoined(self._literals(goal, kind), kind)
            finally:
                self._open, self._subject = open_, subject
                self._nesting -= len(open_)
            self._goals[key] = known
        return known

    def _excludes(self, schema: Schema, kind: JsonType) -> bool:
        """Whether the ``type`` of a schema leaves nothing of this type."""
        named = None if schema.keywords is None else schema.keywords.get("type")
        if named is None or self._hidden_by_reference(schema):
            return False
        if kind == "number" and (named == "integer" or "integer" in named):
            return False
        return kind != named if isinstance(named, str) else kind not in named

    def is_deep(self) -> bool:
        """Whether so much is being expanded inside one another that it is better not to start anything optional."""
        return self._nesting + len(self._open) > MAX_IN_PLACE // 2

    def _literals(self, goal: Goal, kind: JsonType) -> Iterator[Assertion]:
        for schema, holds in goal:
            if holds:
                yield from self._inlined(schema, kind, Tracking.NONE)
            else:
                sides = self._sides(schema, kind, Tracking.NONE)
                yield Assertion(sides.fails, sides.holds)

    def _sides(self, schema: Schema, kind: JsonType, tracking: Tracking) -> Assertion:
        return Assertion(lambda: self._of(schema, True, kind, tracking), lambda: self._of(schema, False, kind))

    def _inlined(self, schema: Schema, kind: JsonType, tracking: Tracking) -> Iterator[Assertion]:
        """The assertions of a schema that must hold beside others, side by side with theirs."""
        if schema.keywords is None or self._unevaluated(schema, kind) is not None:
            yield self._sides(schema, kind, tracking)
            return
        key = (schema, True, kind, tracking)
        self._enter(key)
        try:
            found = list(self._assertions(schema, kind, tracking))
        finally:
            del self._open[key]
        yield from found

    def _names_of(self, goal: Goal) -> int:
        """The language of the strings that satisfy a goal."""
        return self.languages.union(
            [self.reasoner.string_language(shape) for shape in self.of_goal(goal, "string")]
        )

    # --- one schema -----------------------------------------------------------------------------------------

    def _of(self, schema: Schema, holds: bool, kind: JsonType, tracking: Tracking = Tracking.NONE) -> Alternatives:
        """``tracking``: the caller asks which parts were evaluated, so every branch that may hold counts."""
        if schema.keywords is None:
            return (ANY_SHAPE[kind],) if schema.value is holds else ()
        key = (schema, holds, kind, tracking)
        known = self._memory.get(key)
        if known is not None:
            return known
        self._enter(key)
        try:
            found = self._holding(schema, kind, tracking) if holds else self._failing(schema, kind)
        finally:
            del self._open[key]
        self._memory[key] = found
        return found

    def _enter(self, key: tuple[Schema, bool, JsonType, Tracking]) -> None:
        schema = key[0]
        if key in self._open:
            raise schema.refuse(self._blamed(schema), "the schema refers to itself for the same value")
        if self._nesting + len(self._open) >= MAX_IN_PLACE:
            raise schema.refuse(
                self._blamed(schema), f"more than {MAX_IN_PLACE} schemas apply inside one another to one value"
            )
        self._open[key] = None

    def _holding(self, schema: Schema, kind: JsonType, tracking: Tracking) -> Alternatives:
        unevaluated = self._unevaluated(schema, kind)
        if unevaluated is None:
            return self._algebra.conjoined(self._assertions(schema, kind, tracking), kind)
        found = map(unevaluated.held, self._tracked(schema, kind, max(tracking, Tracking.SOME)))
        return tuple(shape for shape in found if not isinstance(shape, FiniteShape) or shape.values)

    def _tracked(self, schema: Schema, kind: JsonType, tracking: Tracking) -> Alternatives:
        """The shapes of everything but the unevaluated keyword, with what they evaluate."""
        self._algebra.tracked += 1
        try:
            return self._algebra.conjoined(self._assertions(schema, kind, tracking), kind)
        finally:
            self._algebra.tracked -= 1

    def _failing(self, schema: Schema, kind: JsonType) -> Alternatives:
        sides = [assertion.fails() for assertion in self._assertions(schema, kind, Tracking.NONE)]
        unevaluated = self._unevaluated(schema, kind)
        if unevaluated is not None and unevaluated.goal:
            found = map(unevaluated.violated, self._tracked(schema, kind, Tracking.EXACT))
            sides.append(tuple(shape for shape in found if shape is not None))
        return self._algebra.union(sides)

    def _unevaluated(self, schema: Schema, kind: JsonType) -> Unevaluated | None:
        """The keyword about unevaluated parts of a value of this type, if the schema has it."""
        keyword = _UNEVALUATED.get(kind)
        keywords = schema.keywords
        if keyword is None or keywords is None or keyword not in keywords or self._hidden_by_reference(schema):
            return None
        goal = goal_of(self.library.meant(self.library.at(keywords[keyword], schema)))
        return Unevaluated(keyword, goal, schema, self.library, self.reasoner.admits, self.languages.other_names)

    @staticmethod
    def _hidden_by_reference(schema: Schema) -> bool:
        """Up to draft-07 a ``$ref`` is alone: whatever stands beside it is ignored."""
        return schema.draft <= 7 and schema.keywords is not None and "$ref" in schema.keywords

    def _assertions(self, schema: Schema, kind: JsonType, tracking: Tracking) -> Iterator[Assertion]:
        keywords = schema.keywords or {}
        if self._hidden_by_reference(schema):
            yield from self._inlined(self.library.meant(schema), kind, tracking)
            return
        yield from self._type(keywords, kind)
        yield from self._values(schema, keywords, kind)
        # In the order of the text, for it decides about the order of the members of an object.
        own_place = "properties" if "properties" in keywords else next(iter(keywords), None)
        for keyword in keywords:
            if keyword == own_place:
                yield from self._types.of(schema, kind)
            yield from self._in_place(schema, keyword, kind, tracking)

    def _in_place(self, schema: Schema, keyword: str, kind: JsonType, tracking: Tracking) -> Iterator[Assertion]:
        """What a keyword that applies schemas to the value itself asserts."""
        keywords = schema.keywords or {}
        value = keywords[keyword]
        match keyword:
            case "$ref" | "$dynamicRef" | "$recursiveRef":
                target = self.library.meant(self.library.resolve(schema, keyword))
                yield from self._inlined(target, kind, tracking)
            case "allOf":
                for part in value:
                    yield from self._inlined(self.library.at(part, schema), kind, tracking)
            case "anyOf":
                yield self._any_of(schema, value, kind, tracking)
            case "oneOf":
                yield self._one_of([self.library.at(part, schema) for part in value], kind, tracking)
            case "not":
                yield self._not(self.library.at(value, schema), kind)
            case "if" if tracking or keywords.keys() & {"then", "else"}:
                yield self._if(schema, kind, tracking)
            case "dependentSchemas" | "dependencies" if kind == "object":
                for name, part in value.items():
                    if isinstance(part, dict | bool):
                        yield self._dependent(name, self.library.at(part, schema), tracking)

    # --- keywords that speak about the same value -----------------------------------------------------------

    def _type(self, keywords: dict[str, JsonValue], kind: JsonType) -> Iterator[Assertion]:
        named = keywords.get("type")
        if named is None:
            return
        names = named if isinstance(named, list) else [named]
        if kind in names:
            return
        if kind == "number" and "integer" in names:
            yield Assertion(lambda: (NumberShape(integral=True),), lambda: (NumberShape(integral=False),))
        else:
            yield Assertion(lambda: (), lambda: (ANY_SHAPE[kind],))

    def _values(self, schema: Schema, keywords: dict[str, JsonValue], kind: JsonType) -> Iterator[Assertion]:
        for keyword in ("enum", "const"):
            if keyword in keywords:
                listed = keywords[keyword] if keyword == "enum" else [keywords[keyword]]
                values = [value for value in listed if type_of(value) == kind]
                for value in values:
                    check_numbers(value, schema, keyword)
                yield Assertion(
                    lambda values=values: (finite(values),) if values else (),  # type: ignore[misc]
                    lambda values=values: self._other_values(schema, values, kind),  # type: ignore[misc]
                )

    def _other_values(self, schema: Schema, values: list[JsonValue], kind: JsonType) -> Alternatives:
        """The values of a type that are none of ``values``."""
        if kind in ("null", "boolean"):
            taken = finite(values).values
            left = [value for key, value in self._all_of(kind).items() if key not in taken]
            return (finite(left),) if left else ()
        if kind == "number":
            return (NumberShape(excluded=frozenset(map(Decimal, values))),)
        if kind == "string":
            return (StringShape(excluded=frozenset(values)),)
        # An array or object differs from a given one in its size, a name or a part: a schema that says so fails.
        spelled = [self._as_schema(schema, value) for value in values]
        return self._algebra.product((self._of(part, False, kind) for part in spelled), kind)

    @staticmethod
    def _all_of(kind: JsonType) -> dict[object, JsonValue]:
        shape = ANY_SHAPE[kind]
        return shape.values if isinstance(shape, FiniteShape) else {}

    def _as_schema(self, origin: Schema, value: JsonValue) -> Schema:
        """A schema without ``const`` at its top that holds for exactly this array or object."""
        derive = self.library.derived
        if isinstance(value, list):
            keywords: dict[str, JsonValue] = {"type": "array", "minItems": len(value), "maxItems": len(value)}
            if value:
                keywords["prefixItems"] = [derive({"const": part}, origin) for part in value]
            return derive(keywords, origin)
        parts = {name: derive({"const": part}, origin) for name, part in value.items()}
        return derive(
            {"type": "object", "properties": parts, "required": list(value), "additionalProperties": False}, origin
        )

    def _not(self, schema: Schema, kind: JsonType) -> Assertion:
        def fails() -> Alternatives:
            return tuple(map(forget, self._of(schema, True, kind)))

        return Assertion(lambda: self._of(schema, False, kind), fails)

    def _any_of(self, schema: Schema, parts: list[JsonValue], kind: JsonType, tracking: Tracking) -> Assertion:
        schemas = [self.library.at(part, schema) for part in parts]

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

    def _one_of(self, schemas: list[Schema], kind: JsonType, tracking: Tracking) -> Assertion:
        """Exactly one holds. A branch is cut by the others only where they overlap, which keeps it small."""

        def within(context: Alternatives) -> Alternatives:
            sides = [self._of(part, True, kind, tracking) for part in schemas]
            found: list[Shape] = []
            for index, side in enumerate(sides):
                for shape in self._algebra.product((context, side), kind):
                    others = (
                        self._of(schemas[other], False, kind)
                        for other, rival in enumerate(sides)
                        if other != index and self._algebra.product(((shape,), rival), kind)
                    )
                    found.extend(self._algebra.product(_before((shape,), others), kind))
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

    def _if(self, schema: Schema, kind: JsonType, tracking: Tracking) -> Assertion:
        parts = schema.keywords or {}
        condition, then, otherwise = (
            self.library.at(parts.get(name, True), schema) for name in ("if", "then", "else")
        )

        def both(result: bool) -> Alternatives:
            yes = (self._of(condition, True, kind, tracking), self._of(then, result, kind, tracking))
            no = (self._of(condition, False, kind), self._of(otherwise, result, kind, tracking))
            found = self._algebra.union((self._algebra.product(yes, kind), self._algebra.product(no, kind)))
            return tuple(map(_late, found))

        return Assertion(lambda: both(True), lambda: tuple(map(forget, both(False))))

    def _dependent(self, name: str, schema: Schema, tracking: Tracking) -> Assertion:
        present: Alternatives = (ObjectShape(required=(name,)),)

        def holds() -> Alternatives:
            with_it = self._algebra.product((present, self._of(schema, True, "object", tracking)), "object")
            return (absent(name), *map(_late, with_it))

        return Assertion(
            holds, lambda: self._algebra.product((present, self._of(schema, False, "object")), "object")
        )

    # --- blame ----------------------------------------------------------------------------------------------

    def _too_many(self, what: str) -> UnsupportedConstraint:
        """Blames the innermost schema being expanded, by the keyword of it that multiplies."""
        schema = next(reversed(self._open), (self._subject,))[0]
        return schema.refuse(self._blamed(schema), f"it makes {what}")

    @staticmethod
    def _blamed(schema: Schema) -> str:
        return next((name for name in _BRANCHING if name in (schema.keywords or {})), "properties")


def _late(shape: Shape) -> Shape:
    """The same values; names that only a condition brings in come behind the others."""
    if not isinstance(shape, ObjectShape):
        return shape
    return replace(shape, rules=tuple(replace(rule, late=True) for rule in shape.rules))


def _before(first: Alternatives, others: Iterable[Alternatives]) -> Iterator[Alternatives]:
    yield first
    yield from others
