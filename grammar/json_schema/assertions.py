"""What the keywords of one JSON type assert, and what their failing asserts.

Each keyword (or group that only has meaning together) becomes an ``Assertion``. The keywords that speak about
other schemas for the same value (``allOf``, ``$ref``, ...) are in ``expand``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from typing import NamedTuple

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
from radixrt.grammar.json_schema.values import JsonType, JsonValue, Number, is_modest

__all__ = ["Alternatives", "Assertion", "TypeAssertions", "absent", "check_numbers", "plain"]

Alternatives = tuple[Shape, ...]  # a union; () is the empty one
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

    def of(self, schema: Schema, kind: JsonType) -> Iterator[Assertion]:
        keywords = schema.keywords or {}
        if kind == "number":
            yield from self._number(schema, keywords)
        elif kind == "string":
            yield from self._string(schema, keywords)
        elif kind == "array":
            yield from self._array(schema, keywords)
        elif kind == "object":
            yield from self._object(schema, keywords)

    def _goal(self, value: JsonValue, parent: Schema, holds: bool = True) -> Goal:
        return goal_of(self._library.meant(self._library.at(value, parent)), holds)

    # --- numbers --------------------------------------------------------------------------------------------

    def _number(self, schema: Schema, keywords: dict[str, JsonValue]) -> Iterator[Assertion]:
        for limit, exclusive, is_low in (
            ("minimum", "exclusiveMinimum", True),
            ("maximum", "exclusiveMaximum", False),
        ):
            strict = keywords.get(exclusive)
            for name in (limit, exclusive):
                check_numbers(keywords.get(name), schema, name)
            if limit in keywords:
                yield _bound(keywords[limit], is_low, open_=strict is True)  # draft-04: a flag of the other keyword
            if strict is not None and not isinstance(strict, bool):
                yield _bound(strict, is_low, open_=True)
        if "multipleOf" in keywords:
            check_numbers(keywords["multipleOf"], schema, "multipleOf")
            step = frozenset((Decimal(keywords["multipleOf"]),))
            yield plain(NumberShape(multiples=step, origin=schema), NumberShape(non_multiples=step, origin=schema))

    # --- strings --------------------------------------------------------------------------------------------

    def _string(self, schema: Schema, keywords: dict[str, JsonValue]) -> Iterator[Assertion]:
        low, high = int(keywords.get("minLength", 0)), keywords.get("maxLength")
        if low > 0:
            yield plain(StringShape(low=low), StringShape(high=low - 1))
        if high is not None:
            yield plain(StringShape(high=int(high)), StringShape(low=int(high) + 1))
        languages = []
        if "pattern" in keywords:
            languages.append(self._languages.search(keywords["pattern"], f"{schema.pointer}/pattern"))
        if "format" in keywords:
            known = self._languages.format(keywords["format"], schema.pointer)
            languages.extend(() if known is None else (known,))
        for language in languages:
            outside = self._languages.complement(language)
            yield plain(StringShape(frozenset((language,))), StringShape(frozenset((outside,))))

    # --- arrays ---------------------------------------------------------------------------------------------

    def _array(self, schema: Schema, keywords: dict[str, JsonValue]) -> Iterator[Assertion]:
        yield from self._items(schema, keywords)
        low, high = int(keywords.get("minItems", 0)), keywords.get("maxItems")
        if low > 0:
            yield plain(ArrayShape(low=low), ArrayShape(high=low - 1))
        if high is not None:
            yield plain(ArrayShape(high=int(high)), ArrayShape(low=int(high) + 1))
        if "contains" in keywords:
            yield from self._contains(schema, keywords)
        if keywords.get("uniqueItems") is True:
            yield Assertion(lambda: (ArrayShape(unique=schema),), lambda: _refused(schema, "uniqueItems"))

    def _items(self, schema: Schema, keywords: dict[str, JsonValue]) -> Iterator[Assertion]:
        prefix, rest = keywords.get("prefixItems", []), keywords.get("items")
        if isinstance(rest, list):  # the spelling up to 2019-09
            prefix, rest = rest, keywords.get("additionalItems")
        if not prefix and rest is None:
            return
        rest_goal = () if rest is None else self._goal(rest, schema)
        holds = ArrayShape(
            rules=(
                ItemRule(
                    tuple(self._goal(part, schema) for part in prefix), rest_goal, evaluates_rest=rest is not None
                ),
            )
        )

        def fails() -> Iterator[Shape]:
            for index, part in enumerate(prefix):
                wrong = ItemRule(((),) * index + (self._goal(part, schema, holds=False),), evaluates=False)
                yield ArrayShape(rules=(wrong,), low=index + 1)
            if rest is not None and rest_goal:
                yield ArrayShape(
                    counts=(
                        CountRule(
                            self._goal(rest, schema, holds=False), rest_goal, start=len(prefix), origin=schema
                        ),
                    )
                )

        yield Assertion(lambda: (holds,), lambda: tuple(fails()))

    def _contains(self, schema: Schema, keywords: dict[str, JsonValue]) -> Iterator[Assertion]:
        goal, fails = (
            self._goal(keywords["contains"], schema),
            self._goal(keywords["contains"], schema, holds=False),
        )
        low = int(keywords.get("minContains", 1))
        high = keywords.get("maxContains")
        evaluated = (goal,) if schema.draft >= 2020 else ()
        counted = replace(CountRule(goal, fails, origin=schema), low=low)
        if low > 0:
            yield plain(
                ArrayShape(counts=(counted,), evaluated=evaluated),
                ArrayShape(counts=(replace(counted, low=0, high=low - 1),)),
            )
        elif evaluated:
            yield plain(ArrayShape(evaluated=evaluated))
        if high is not None:
            yield plain(
                ArrayShape(counts=(replace(counted, low=0, high=int(high)),)),
                ArrayShape(counts=(replace(counted, low=int(high) + 1),)),
            )

    # --- objects --------------------------------------------------------------------------------------------

    def _object(self, schema: Schema, keywords: dict[str, JsonValue]) -> Iterator[Assertion]:
        yield from self._members(schema, keywords)
        required: list[str] = keywords.get("required", [])
        if required:
            yield plain(ObjectShape(required=tuple(required)), *map(absent, required))
        low, high = int(keywords.get("minProperties", 0)), keywords.get("maxProperties")
        if low > 0:
            at_least = ObjectShape(low=low, origin=schema, low_blame=(schema, "minProperties"))
            yield plain(at_least, ObjectShape(high=low - 1, origin=schema))
        if high is not None:
            more = ObjectShape(low=int(high) + 1, origin=schema, low_blame=(schema, "maxProperties"))
            yield plain(ObjectShape(high=int(high), origin=schema), more)
        if "propertyNames" in keywords:
            goal = self._goal(keywords["propertyNames"], schema)
            if goal:
                language = self._names_of(goal)
                yield plain(
                    ObjectShape(names=(language,)),
                    ObjectShape(somes=(SomeRule(self._languages.complement(language), ()),), origin=schema),
                )
        for keyword in ("dependentRequired", "dependencies"):
            for name, needs in keywords.get(keyword, {}).items():
                if isinstance(needs, list) and needs:
                    yield _dependent_required(name, tuple(needs))

    def _members(self, schema: Schema, keywords: dict[str, JsonValue]) -> Iterator[Assertion]:
        if not keywords.keys() & {"properties", "patternProperties", "additionalProperties"}:
            return
        named: dict[str, JsonValue] = keywords.get("properties", {})
        patterns = [
            (self._languages.search(pattern, f"{schema.pointer}/patternProperties"), value)
            for pattern, value in keywords.get("patternProperties", {}).items()
        ]
        additional = keywords.get("additionalProperties")
        additional_goal = () if additional is None else self._goal(additional, schema)
        rule = NameRule(
            named=tuple((name, self._goal(value, schema)) for name, value in named.items()),
            patterns=tuple((language, self._goal(value, schema)) for language, value in patterns),
            additional=additional_goal,
            evaluates_rest=additional is not None,
        )

        def fails() -> Iterator[Shape]:
            for name, value in named.items():
                if self._goal(value, schema):
                    wrong = NameRule(named=((name, self._goal(value, schema, holds=False)),), evaluates=False)
                    yield ObjectShape(rules=(wrong,), required=(name,), origin=schema)
            for language, value in patterns:
                if self._goal(value, schema):
                    wanted = SomeRule(
                        language, self._goal(value, schema, holds=False), (schema, "patternProperties")
                    )
                    yield ObjectShape(somes=(wanted,), origin=schema)
            if additional is not None and additional_goal:
                others = self._languages.other_names(tuple(named), [language for language, _ in patterns])
                wanted = SomeRule(
                    others, self._goal(additional, schema, holds=False), (schema, "additionalProperties")
                )
                yield ObjectShape(somes=(wanted,), origin=schema)

        yield Assertion(lambda: (ObjectShape(rules=(rule,), origin=schema),), lambda: tuple(fails()))


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


def _bound(limit: Number, is_low: bool, open_: bool) -> Assertion:
    at_least = NumberShape(low=limit, low_open=open_ if is_low else not open_)
    at_most = NumberShape(high=limit, high_open=not open_ if is_low else open_)
    return plain(at_least, at_most) if is_low else plain(at_most, at_least)


def _dependent_required(name: str, needs: tuple[str, ...]) -> Assertion:
    present = ObjectShape(required=tuple(dict.fromkeys((name, *needs))))
    without = tuple(ObjectShape(rules=absent(need).rules, required=(name,)) for need in needs if need != name)
    return Assertion(lambda: (absent(name), present), lambda: without)


def _refused(schema: Schema, keyword: str) -> Alternatives:
    raise schema.refuse(keyword, "its negation is beyond a finite automaton with a stack")
