"""Schemas to shapes: for a schema and a JSON type, the union of shapes of the values for which it holds, or fails.

Each keyword is an ``Assertion`` with these two sides, so ``not``, ``if`` and ``oneOf`` need no rules of their
own beyond logic: a schema holds where all its assertions hold (a product) and fails where one fails (a union).
Only the value itself is looked at; children stay goals, so recursive schemas end. Nothing here knows how
anything is spelled in JSON text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Final

from radixrt.errors import UnsupportedConstraint
from radixrt.grammar.json_schema.algebra import Algebra
from radixrt.grammar.json_schema.assertions import (
    Alternatives,
    Assertion,
    TypeAssertions,
    check_numbers,
)
from radixrt.grammar.json_schema.documents import Library, Schema
from radixrt.grammar.json_schema.languages import Languages
from radixrt.grammar.json_schema.logic import Logic
from radixrt.grammar.json_schema.reason import Reasoner
from radixrt.grammar.json_schema.shapes import (
    ANY_SHAPE,
    FiniteShape,
    Goal,
    NumberShape,
    StringShape,
    finite,
    goal_of,
)
from radixrt.grammar.json_schema.unevaluated import Tracking, Unevaluated
from radixrt.grammar.json_schema.values import TYPES, JsonType, JsonValue, type_of

__all__ = ["Expander"]

GOAL_FUEL: Final = 10  # about what finding the shapes of one goal and type costs, in operations of a pool
MAX_IN_PLACE: Final = 50  # schemas for the same value inside one another; each takes a few frames of Python's stack

_BRANCHING: Final = (
    "oneOf",
    "anyOf",
    "not",
    "if",
    "dependencies",
    "dependentSchemas",
    "dependentRequired",
    "allOf",
    "$ref",
    "$dynamicRef",
    "$recursiveRef",
)
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
# Keywords that apply other schemas to the value itself.
_IN_PLACE: Final = frozenset(_BRANCHING) - {"dependentRequired"}
_NOT_EASY: Final = _IN_PLACE | {"unevaluatedProperties", "unevaluatedItems"}
_ALL_KINDS: Final = frozenset(TYPES)
_UNEVALUATED: Final = {"object": "unevaluatedProperties", "array": "unevaluatedItems"}


class Expander:
    """Expansion with a memory. One per compilation; not thread-safe."""

    def __init__(self, library: Library, languages: Languages) -> None:
        self.library = library
        self.languages = languages
        self.reasoner = Reasoner(languages, self.of_goal, self.is_deep)
        self._types = TypeAssertions(library, languages, self._names_of)
        self._memory: dict[tuple[Schema, bool, JsonType, Tracking], Alternatives] = {}
        self._goals: dict[tuple[Goal, JsonType], Alternatives] = {}
        self._kinds: dict[Schema, frozenset[JsonType]] = {}
        self._open: dict[tuple[Schema, bool, JsonType, Tracking], None] = {}
        self._algebra = Algebra(self.reasoner, self._too_many)
        self._logic = Logic(library, self._algebra, self.reasoner, self._of)
        self._nesting = 0
        self._subject = library.main

    # --- goals ----------------------------------------------------------------------------------------------

    def of_goal(self, goal: Goal, kind: JsonType) -> Alternatives:
        """The union of shapes of the values of one type that satisfy every schema of the goal as it says."""
        key = (goal, kind)
        known = self._goals.get(key)
        if known is None:
            self.languages.pool.spend(GOAL_FUEL)
            known = self._easily(goal, kind)
            if known is not None:
                self._goals[key] = known
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

    def kinds(self, goal: Goal) -> Iterable[JsonType]:
        """The types that values of a goal may have, as far as ``type`` says."""
        left = _ALL_KINDS
        for schema, holds in goal:
            if holds and (known := self._kinds_of(schema)) is not _ALL_KINDS:
                left &= known
        return TYPES if left is _ALL_KINDS else [kind for kind in TYPES if kind in left]

    def _easily(self, goal: Goal, kind: JsonType) -> Alternatives | None:
        """The two most frequent answers, found without ceremony; None if it is another one.

        Nothing, where ``type`` excludes the type; the own keywords of a schema that applies no other to the value.
        """
        for schema, holds in goal:
            if holds and kind not in self._kinds_of(schema):
                return ()
        if len(goal) != 1:
            return None if goal else (ANY_SHAPE[kind],)
        ((schema, holds),) = goal
        if not holds or schema.keywords is None or not schema.keywords.keys().isdisjoint(_NOT_EASY):
            return None
        found = self._own(schema, kind)
        if len(found) == 1:
            return found[0].holds()
        return self._algebra.product((assertion.holds() for assertion in found), kind)

    def _kinds_of(self, schema: Schema) -> frozenset[JsonType]:
        """The types that the ``type`` of a schema leaves, numbers of all kinds as one."""
        known = self._kinds.get(schema)
        if known is None:
            named = None if schema.keywords is None else schema.keywords.get("type")
            known = _ALL_KINDS
            if named is not None and not self._hidden_by_reference(schema):
                names = [named] if isinstance(named, str) else named
                known = frozenset(kind for kind in TYPES if kind in names)
                if "integer" in names:
                    known |= {"number"}
            self._kinds[schema] = known
        return known

    def is_deep(self) -> bool:
        """Whether so much is being expanded inside one another that it is better not to start anything optional."""
        return self._nesting + len(self._open) > MAX_IN_PLACE // 2

    def _literals(self, goal: Goal, kind: JsonType) -> list[Assertion]:
        found = []
        for schema, holds in goal:
            if holds:
                found.extend(self._inlined(schema, kind, Tracking.NONE))
            else:
                sides = self._sides(schema, kind, Tracking.NONE)
                found.append(Assertion(sides.fails, sides.holds))
        return found

    def _sides(self, schema: Schema, kind: JsonType, tracking: Tracking) -> Assertion:
        return Assertion(lambda: self._of(schema, True, kind, tracking), lambda: self._of(schema, False, kind))

    def _inlined(self, schema: Schema, kind: JsonType, tracking: Tracking) -> list[Assertion]:
        """The assertions of a schema that must hold beside others, side by side with theirs."""
        if schema.keywords is None or self._unevaluated(schema, kind) is not None:
            return [self._sides(schema, kind, tracking)]
        key = (schema, True, kind, tracking)
        self._enter(key)
        try:
            return self._assertions(schema, kind, tracking)
        finally:
            del self._open[key]

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
            raise self._closing(key).refuse(_REFERENCES[0], "it refers to itself for the same value", *_REFERENCES)
        if self._nesting + len(self._open) >= MAX_IN_PLACE:
            why = f"more than {MAX_IN_PLACE} schemas apply inside one another to one value"
            raise schema.refuse(_BRANCHING[0], why, *_BRANCHING)
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

    def _assertions(self, schema: Schema, kind: JsonType, tracking: Tracking) -> list[Assertion]:
        keywords = schema.keywords or {}
        if self._hidden_by_reference(schema):
            return self._inlined(self.library.meant(schema), kind, tracking)
        own = self._own(schema, kind)
        if keywords.keys().isdisjoint(_IN_PLACE):
            return own
        # In the order of the text, for it decides about the order of the members of an object.
        own_place = "properties" if "properties" in keywords else next(iter(keywords))
        before: list[Assertion] = []
        after: list[Assertion] = []
        seen = False
        for keyword in keywords:
            seen = seen or keyword == own_place
            if keyword in _IN_PLACE:
                (after if seen else before).extend(self._in_place(schema, keyword, kind, tracking))
        return [*before, *own, *after]

    def _own(self, schema: Schema, kind: JsonType) -> list[Assertion]:
        """What the keywords assert that apply no other schema to the value itself."""
        keywords = schema.keywords or {}
        return [
            *self._type(keywords, kind),
            *self._values(schema, keywords, kind),
            *self._types.of(schema, kind),
        ]

    def _in_place(self, schema: Schema, keyword: str, kind: JsonType, tracking: Tracking) -> Iterable[Assertion]:
        """What a keyword that applies schemas to the value itself asserts."""
        keywords = schema.keywords or {}
        value = keywords[keyword]
        at = self.library.at
        match keyword:
            case "$ref" | "$dynamicRef" | "$recursiveRef":
                return self._inlined(self.library.meant(self.library.resolve(schema, keyword)), kind, tracking)
            case "allOf":
                return [found for part in value for found in self._inlined(at(part, schema), kind, tracking)]
            case "anyOf":
                return [self._logic.any_of(schema, value, kind, tracking)]
            case "oneOf":
                return [self._logic.one_of([at(part, schema) for part in value], kind, tracking)]
            case "not":
                return [self._logic.not_(at(value, schema), kind)]
            case "if" if tracking or keywords.keys() & {"then", "else"}:
                return [self._logic.if_(schema, kind, tracking)]
            case "dependentSchemas" | "dependencies" if kind == "object":
                return [
                    self._logic.dependent(name, at(part, schema), tracking)
                    for name, part in value.items()
                    if isinstance(part, dict | bool)
                ]
        return ()

    # --- keywords that speak about the same value -----------------------------------------------------------

    def _type(self, keywords: dict[str, JsonValue], kind: JsonType) -> tuple[Assertion, ...]:
        named = keywords.get("type")
        if named is None or kind == named:
            return ()
        names = named if isinstance(named, list) else [named]
        if kind in names:
            return ()
        if kind == "number" and "integer" in names:
            return (Assertion(lambda: (NumberShape(integral=True),), lambda: (NumberShape(integral=False),)),)
        return (Assertion(lambda: (), lambda: (ANY_SHAPE[kind],)),)

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

    # --- blame ----------------------------------------------------------------------------------------------

    def _too_many(self, what: str) -> UnsupportedConstraint:
        """Blames the innermost schema being expanded, by the keyword of it that multiplies."""
        schema = next(reversed(self._open), (self._subject,))[0]
        return schema.refuse(_BRANCHING[0], f"it makes {what}", *_BRANCHING)

    def _closing(self, key: tuple[Schema, bool, JsonType, Tracking]) -> Schema:
        """The schema whose reference closes the ring that comes back to an open one."""
        for other in reversed(self._open):
            if not (other[0].keywords or {}).keys().isdisjoint(_REFERENCES):
                return other[0]
            if other == key:
                break
        return key[0]
