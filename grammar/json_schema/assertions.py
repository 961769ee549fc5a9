"""What the keywords of one JSON type assert, and what their failing asserts.

Each keyword (or group that only has meaning together) becomes an ``Assertion``. The keywords that speak about
other schemas for the same value (``allOf``, ``$ref``, ...) are in ``expand``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Final, NamedTuple

from radixrt.grammar.json_schema.documents import Library, Schema
from radixrt.grammar.json_schema.languages import Languages
from radixrt.grammar.json_schema.shapes import (
    ArrayShape,
    CountRule,
    Goal,
    ItemRule,
    NameRule,
    NumberShape,
    ObjectShape,
    Shape,
    SomeRule,
    StringShape,
    goal_of,
)
from radixrt.grammar.json_schema.values import JsonType, JsonValue, Number, is_modest, pointer_to

__all__ = ["Alternatives", "Assertion", "TypeAssertions", "absent", "check_numbers", "plain"]

Alternatives = tuple[Shape, ...]  # a union; () is the empty one
MAX_COUNT: Final = 10**12
_KEYWORDS: Final[dict[JsonType, frozenset[str]]] = {
    "null": frozenset(),
    "boolean": frozenset(),
    "number": frozenset(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")),
    "string": frozenset(("minLength", "maxLength", "pattern", "format")),
    "array": frozenset(("prefixItems", "items", "minItems", "maxItems", "contains", "uniqueItems")),
    "object": frozenset(
        (
            "properties",
            "patternProperties",
            "additionalProperties",
            "propertyNames",
            "required",
            "minProperties",
            "maxProperties",
            "dependentRequired",
            "dependencies",
        )
    ),
}
NEVER = goal_of(Schema(None, False, "", "", 0))


class Assertion(NamedTuple):
    """The shapes of the values for which it holds, and of those for which it fails; each made when asked for.

    ``within``, where given, makes the conjunction of ``holds`` with shapes that are known already, which is
    smaller than to make it alone first.
    """

    holds: Callable[[], Alternatives]
    fails: Callable[[], Alternatives]
    within: Callable[[Alternatives], Alternatives] | None = None


def plain(holds: Shape, *fails: Shape) -> Assertion:
    return Assertion(lambda: (holds,), lambda: fails)


def absent(name: str) -> ObjectShape:
    """Objects without this name."""
    return ObjectShape(rules=(NameRule(named=((name, NEVER),), evaluates=False),))


class TypeAssertions:
    """The assertions of the type-specific keywords of a schema.

    ``names_of`` gives the regular language of the strings that satisfy a goal (for ``propertyNames``).
    """

    def __init__(self, library: Library, languages: Languages, names_of: Callable[[Goal], int]) -> None:
        self._library = library
        self._languages = languages
        self._names_of = names_of

    def of(self, schema: Schema, kind: JsonType) -> list[Assertion]:
        """The keywords that have one way to hold are one assertion; others follow."""
        keywords = schema.keywords
        if not keywords or keywords.keys().isdisjoint(_KEYWORDS[kind]):
            return []
        if kind == "number":
            return self._number(schema, keywords)
        if kind == "string":
            return self._string(schema, keywords)
        return self._array(schema, keywords) if kind == "array" else self._object(schema, keywords)

    def _goal(self, value: JsonValue, parent: Schema, holds: bool = True) -> Goal:
        return goal_of(self._library.meant(self._library.at(value, parent)), holds)

    # --- numbers --------------------------------------------------------------------------------------------

    def _number(self, schema: Schema, keywords: dict[str, JsonValue]) -> list[Assertion]:
        parts: list[Assertion] = []
        for limit, exclusive, is_low in (
            ("minimum", "exclusiveMinimum", True),
            ("maximum", "exclusiveMaximum", False),
        ):
            strict = keywords.get(exclusive)
            for name in (limit, exclusive):
                if name in keywords:
                    check_numbers(keywords[name], schema, name)
            if limit in keywords:
                parts.append(_bound(keywords[limit], is_low, open_=strict is True))  # draft-04: a flag of the other
            if strict is not None and not isinstance(strict, bool):
                parts.append(_bound(strict, is_low, open_=True))
        if "multipleOf" in keywords:
            check_numbers(keywords["multipleOf"], schema, "multipleOf")
            step = frozenset((Decimal(keywords["multipleOf"]),))
            parts.append(
                plain(NumberShape(multiples=step, origin=schema), NumberShape(non_multiples=step, origin=schema))
            )
        return parts

    # --- strings --------------------------------------------------------------------------------------------

    def _string(self, schema: Schema, keywords: dict[str, JsonValue]) -> list[Assertion]:
        low, high = _count(keywords.get("minLength", 0)), keywords.get("maxLength")
        high = None if high is None else _count(high)
        languages = []
        if "pattern" in keywords:
            languages.append(self._languages.search(keywords["pattern"], f"{schema.pointer}/pattern"))
        if "format" in keywords:
            known = self._languages.format(keywords["format"], schema.pointer)
            languages.extend(() if known is None else (known,))

        def fails() -> Iterator[Shape]:
            if low > 0:
                yield StringShape(high=low - 1)
            if high is not None:
                yield StringShape(low=high + 1)
            for language in languages:
                yield StringShape(frozenset((self._languages.complement(language),)))

        return _together(StringShape(frozenset(languages), low, high), fails)

    # --- arrays ---------------------------------------------------------------------------------------------

    def _array(self, schema: Schema, keywords: dict[str, JsonValue]) -> list[Assertion]:
        low, high = _count(keywords.get("minItems", 0)), keywords.get("maxItems")
        high = None if high is None else _count(high)
        rule, wrong_items = self._items(schema, keywords)
        counts, evaluated = self._contains(schema, keywords)
        unique = schema if keywords.get("uniqueItems") is True else None

        def fails() -> Iterator[Shape]:
            yield from wrong_items()
            if low > 0:
                yield ArrayShape(high=low - 1)
            if high is not None:
                yield ArrayShape(low=high + 1)
            for count in counts:
                if count.high is None:
                    yield ArrayShape(counts=(replace(count, low=0, high=count.low - 1),))
                else:
                    yield ArrayShape(counts=(replace(count, low=count.high + 1, high=None),))
            if unique is not None:
                yield ArrayShape(repeats=schema)

        rules = () if rule is None else (rule,)
        return _together(ArrayShape(rules, low, high, counts, unique, evaluated), fails)

    def _items(
        self, schema: Schema, keywords: dict[str, JsonValue]
    ) -> tuple[ItemRule | None, Callable[[], Iterator[Shape]]]:
        """The rule for the items, and the arrays that break it."""
        prefix, rest, keyword = keywords.get("prefixItems", []), keywords.get("items"), "items"
        if isinstance(rest, list):  # the spelling up to 2019-09
            prefix, rest, keyword = rest, keywords.get("additionalItems"), "additionalItems"
        rest_goal = () if rest is None else self._goal(rest, schema)

        def wrong() -> Iterator[Shape]:
            for index, part in enumerate(prefix):
                bad = ItemRule(((),) * index + (self._goal(part, schema, holds=False),), evaluates=False)
                yield ArrayShape(rules=(bad,), low=index + 1)
            if rest is not None and rest_goal:
                outside = self._goal(rest, schema, holds=False)
                counted = CountRule(outside, rest_goal, start=len(prefix), blame=(schema, keyword))
                yield ArrayShape(counts=(counted,))

        if not prefix and rest is None:
            return None, wrong
        goals = tuple(self._goal(part, schema) for part in prefix)
        return ItemRule(goals, rest_goal, evaluates_rest=rest is not None), wrong

    def _contains(
        self, schema: Schema, keywords: dict[str, JsonValue]
    ) -> tuple[tuple[CountRule, ...], tuple[Goal, ...]]:
        """What it counts, each with one bound, and what it evaluates."""
        if "contains" not in keywords:
            return (), ()
        goal = self._goal(keywords["contains"], schema)
        fails = self._goal(keywords["contains"], schema, holds=False)
        low = _count(keywords.get("minContains", 1))
        counted = CountRule(goal, fails, low=low, blame=(schema, "contains"))
        counts = (counted,) if counted.low > 0 else ()
        if "maxContains" in keywords:
            counts = (*counts, replace(counted, low=0, high=_count(keywords["maxContains"])))
        return counts, (goal,) if schema.draft >= 2020 else ()

    # --- objects --------------------------------------------------------------------------------------------

    def _object(self, schema: Schema, keywords: dict[str, JsonValue]) -> list[Assertion]:
        rule, wrong_members = self._members(schema, keywords)
        required: list[str] = keywords.get("required", [])
        low, high = _count(keywords.get("minProperties", 0)), keywords.get("maxProperties")
        high = None if high is None else _count(high)
        names = self._goal(keywords["propertyNames"], schema) if "propertyNames" in keywords else ()
        language = self._names_of(names) if names else None

        def fails() -> Iterator[Shape]:
            yield from wrong_members()
            yield from map(absent, required)
            if low > 0:
                yield ObjectShape(high=low - 1, origin=schema, high_blame=(schema, "minProperties"))
            if high is not None:
                yield ObjectShape(low=high + 1, origin=schema, low_blame=(schema, "maxProperties"))
            if language is not None:
                wanted = SomeRule(self._languages.complement(language), (), (schema, "propertyNames"))
                yield ObjectShape(somes=(wanted,), origin=schema)

        holds = ObjectShape(
            rules=() if rule is None else (rule,),
            required=tuple(required),
            low=low,
            high=high,
            names=() if language is None else (language,),
            origin=schema,
            low_blame=(schema, "minProperties") if low > 0 else None,
            high_blame=None if high is None else (schema, "maxProperties"),
        )
        needs = (
            _dependent_required(name, tuple(names))
            for keyword in ("dependentRequired", "dependencies")
            for name, names in keywords.get(keyword, {}).items()
            if isinstance(names, list) and names
        )
        return [*_together(holds, fails), *needs]

    def _members(
        self, schema: Schema, keywords: dict[str, JsonValue]
    ) -> tuple[NameRule | None, Callable[[], Iterator[Shape]]]:
        """The rule for the members, and the objects that break it."""
        named: dict[str, JsonValue] = keywords.get("properties", {})
        patterns = [
            (self._languages.search(pattern, schema.pointer + pointer_to(("patternProperties", pattern))), value)
            for pattern, value in keywords.get("patternProperties", {}).items()
        ]
        additional = keywords.get("additionalProperties")
        additional_goal = () if additional is None else self._goal(additional, schema)

        def wrong() -> Iterator[Shape]:
            for name, value in named.items():
                if self._goal(value, schema):
                    bad = NameRule(named=((name, self._goal(value, schema, holds=False)),), evaluates=False)
                    yield ObjectShape(rules=(bad,), required=(name,), origin=schema)
            for language, value in patterns:
                if self._goal(value, schema):
                    outside = self._goal(value, schema, holds=False)
                    wanted = SomeRule(language, outside, (schema, "patternProperties"))
                    yield ObjectShape(somes=(wanted,), origin=schema)
            if additional is not None and additional_goal:
                others = self._languages.other_names(tuple(named), [language for language, _ in patterns])
                outside = self._goal(additional, schema, holds=False)
                wanted = SomeRule(others, outside, (schema, "additionalProperties"))
                yield ObjectShape(somes=(wanted,), origin=schema)

        if not named and not patterns and additional is None:
            return None, wrong
        rule = NameRule(
            named=tuple((name, self._goal(value, schema)) for name, value in named.items()),
            patterns=tuple((language, self._goal(value, schema)) for language, value in patterns),
            additional=additional_goal,
            evaluates_rest=additional is not None,
            origin=schema,
        )
        return rule, wrong


def _together(holds: Shape, fails: Callable[[], Iterator[Shape]]) -> list[Assertion]:
    """Keywords that hold together in one way and fail each in its own."""
    return [Assertion(lambda: (holds,), lambda: tuple(fails()))]


def check_numbers(value: JsonValue, schema: Schema, keyword: str) -> None:
    """Refuse numbers whose digits alone would cost more than any schema is worth."""
    todo = [value]
    while todo:
        part = todo.pop()
        if isinstance(part, list):
            todo.extend(part)
        elif isinstance(part, dict):
            todo.extend(part.values())
        elif isinstance(part, int | Decimal) and not isinstance(part, bool) and not is_modest(part):
            raise schema.refuse(keyword, "a number beyond 10**±400 or of more than 1000 digits")


def _count(value: Number) -> int:
    """A count, cut where no text is long enough for it to matter."""
    return int(min(value, MAX_COUNT))


def _bound(limit: Number, is_low: bool, open_: bool) -> Assertion:
    at_least = NumberShape(low=limit, low_open=open_ if is_low else not open_)
    at_most = NumberShape(high=limit, high_open=not open_ if is_low else open_)
    return plain(at_least, at_most) if is_low else plain(at_most, at_least)


def _dependent_required(name: str, needs: tuple[str, ...]) -> Assertion:
    present = ObjectShape(required=tuple(dict.fromkeys((name, *needs))))
    without = tuple(ObjectShape(rules=absent(need).rules, required=(name,)) for need in needs if need != name)
    return Assertion(lambda: (absent(name), present), lambda: without)
