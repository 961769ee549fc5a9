"""Keywords that combine schemas, against an independent validator.

Every document that is taken is valid, and of every valid value some order of its names is taken.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest

from radixrt.errors import UnsatisfiableConstraint, UnsupportedConstraint

SCALARS = [None, True, False, 0, 1, 2, 5, 7, 1.5, -1, "", "a", "ab", "bab", "abc"]


def random_schema(rng: random.Random, depth: int) -> object:
    """A schema of a few keywords, of every kind that this front end claims to represent."""
    if depth == 0 or rng.random() < 0.08:
        return rng.choice(
            [True, False, {}, {"type": "integer"}, {"type": "string"}, {"const": rng.choice(SCALARS)}]
        )
    sub = lambda: random_schema(rng, depth - 1)  # noqa: E731
    makers = {
        "type": lambda: rng.choice(
            ["integer", "string", "object", "array", "number", ["null", "object"], ["array", "boolean"]]
        ),
        "enum": lambda: rng.sample([*SCALARS, [1], ["a", 1], {"a": 1}, {"a": "b", "b": 1}], rng.randint(1, 4)),
        "const": lambda: rng.choice([*SCALARS, [1], {"a": 1}]),
        "minimum": lambda: rng.randint(-1, 6),
        "exclusiveMaximum": lambda: rng.randint(-1, 6),
        "multipleOf": lambda: rng.choice([1, 2, 3, 0.5]),
        "minLength": lambda: rng.randint(0, 3),
        "maxLength": lambda: rng.randint(0, 3),
        "pattern": lambda: rng.choice(["^a", "b$", "a", "^[ab]+$"]),
        "properties": lambda: {name: sub() for name in rng.sample("abc", rng.randint(1, 2))},
        "patternProperties": lambda: {rng.choice(["^a", "b", "c$"]): sub()},
        "additionalProperties": sub,
        "required": lambda: rng.sample("abc", rng.randint(0, 2)),
        "minProperties": lambda: rng.randint(0, 2),
        "maxProperties": lambda: rng.randint(0, 2),
        "propertyNames": lambda: rng.choice(
            [{"maxLength": 1}, {"enum": ["a", "b"]}, {"pattern": "^a"}, {"not": {"const": "a"}}]
        ),
        "dependentRequired": lambda: {"a": ["b"]},
        "dependentSchemas": lambda: {rng.choice("ab"): sub()},
        "unevaluatedProperties": sub,
        "unevaluatedItems": sub,
        "items": sub,
        "prefixItems": lambda: [sub() for _ in range(rng.randint(1, 2))],
        "minItems": lambda: rng.randint(0, 2),
        "maxItems": lambda: rng.randint(0, 2),
        "contains": sub,
        "minContains": lambda: rng.randint(0, 2),
        "maxContains": lambda: rng.randint(0, 2),
        "allOf": lambda: [sub() for _ in range(2)],
        "anyOf": lambda: [sub() for _ in range(rng.randint(1, 3))],
        "oneOf": lambda: [sub() for _ in range(rng.randint(2, 3))],
        "not": sub,
        "if": sub,
        "then": sub,
        "else": sub,
    }
    return {name: makers[name]() for name in rng.sample(sorted(makers), rng.randint(1, 4))}


def random_value(rng: random.Random, depth: int) -> object:
    kind = rng.random() if depth else 0
    if kind < 0.4:
        return rng.choice(SCALARS)
    if kind < 0.65:
        return [random_value(rng, depth - 1) for _ in range(rng.randint(0, 3))]
    return {
        name: random_value(rng, depth - 1) for name in rng.sample(["a", "b", "c", "ab", "d"], rng.randint(0, 3))
    }


def spellings(value: object):
    """The value with the names of its objects in every order."""
    if isinstance(value, list):
        yield from (list(parts) for parts in itertools.product(*map(list, map(spellings, value))))
    elif isinstance(value, dict):
        for names in itertools.permutations(value):
            for parts in itertools.product(*(list(spellings(value[name])) for name in names)):
                yield dict(zip(names, parts, strict=True))
    else:
        yield value


@pytest.mark.parametrize("seed", range(60))
def test_random_schemas_agree_with_an_independent_validator(compiled: Callable[..., Any], seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(4):
        schema = random_schema(rng, rng.randint(1, 3))
        try:
            language = compiled(schema)
        except UnsupportedConstraint:
            continue
        except UnsatisfiableConstraint:
            language = None
        validator = jsonschema.Draft202012Validator(schema)
        for _ in range(25):
            value = random_value(rng, 2)
            valid = validator.is_valid(value)
            orders = [json.dumps(order) for order in itertools.islice(spellings(value), 1000)]
            taken = language is not None and any(map(language.takes, orders))
            assert taken == valid, (schema, value)
        for _ in range(25 if language else 0):
            names = rng.choices(["a", "b", "c", "ab", "d", "e"], k=rng.randint(2, 4))
            text = "{" + ", ".join(f'"{name}": {json.dumps(random_value(rng, 1))}' for name in names) + "}"
            assert validator.is_valid(json.loads(text)) or not language.takes(text), (schema, text)


@pytest.mark.parametrize(
    ("schema", "right", "wrong"),
    [
        (
            {
                "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
                "properties": {"a": {"type": "string"}, "b": {"type": "integer"}},
                "additionalProperties": False,
                "type": "object",
            },
            ['{"a":"x"}', '{"b":1}', '{"a":"x","b":1}'],
            ["{}", "5", '{"a":1}', '{"c":1}'],
        ),
        (
            {
                "oneOf": [
                    {"properties": {"kind": {"const": k}, k: {"type": "null"}}, "required": ["kind", k]}
                    for k in "xyz"
                ],
                "type": "object",
            },
            ['{"kind":"x","x":null}', '{"kind":"z","z":null,"more":1}'],
            ['{"kind":"x"}', '{"kind":"x","y":null}', '{"kind":"q"}'],
        ),
        (
            {"oneOf": [{"type": "integer"}, {"minimum": 2}]},
            ["1", "2.5", "-1"],
            ["3", "2", "-1.5"],
        ),
        (
            {
                "if": {"properties": {"a": {"const": 1}}, "required": ["a"]},
                "then": {"required": ["b"]},
                "else": {"required": ["c"]},
                "type": "object",
            },
            ['{"a":1,"b":0}', '{"a":2,"c":0}', '{"c":0}'],
            ['{"a":1,"c":0}', '{"a":2,"b":0}', "{}"],
        ),
        (
            {
                "$defs": {"base": {"properties": {"a": {"type": "integer"}}}},
                "$ref": "#/$defs/base",
                "properties": {"b": {"type": "null"}},
                "unevaluatedProperties": False,
                "type": "object",
            },
            ['{"a":1,"b":null}', '{"a":1}', "{}"],
            ['{"c":1}', '{"a":"x"}', '{"b":1}'],
        ),
    ],
    ids=["anyOf", "discriminated", "overlap", "if", "unevaluated"],
)
def test_combinations(compiled: Callable[..., Any], schema: Any, right: Any, wrong: Any) -> None:
    language = compiled(schema)
    assert [text for text in right if not language.takes(text)] == []
    assert [text for text in wrong if language.takes(text)] == []


def test_one_of_is_judged_beside_its_neighbours(compiled: Callable[..., Any]) -> None:
    """Forty branches that only the ``required`` beside them keeps apart."""
    branches = [{"properties": {"kind": {"const": f"k{i}"}, "v": {"minimum": i}}} for i in range(40)]
    language = compiled({"type": "object", "required": ["kind"], "oneOf": branches})
    assert language.takes('{"kind":"k7","v":7}')
    assert not language.takes('{"kind":"k7","v":6}')
    assert not language.takes('{"v":100}')


@pytest.mark.parametrize(
    "schema",
    [
        {"anyOf": [{"properties": {"a": {"const": 1}}}, {}]},
        {"not": {"not": {"properties": {"a": {"const": 1}}}}, "properties": {"a": {"type": "integer"}}},
    ],
    ids=["a branch inside another", "a rule implied by another"],
)
def test_what_adds_no_demand_still_evaluates(compiled: Callable[..., Any], schema: dict[str, Any]) -> None:
    language = compiled({"type": "object", "unevaluatedProperties": False, **schema})
    assert language.takes('{"a":1}')
    assert language.takes("{}")
    assert not language.takes('{"b":1}')


@pytest.mark.parametrize("keyword", ["not", "oneOf"])
def test_what_a_failing_schema_names_stays_unevaluated(compiled: Callable[..., Any], keyword: str) -> None:
    names_a = {"properties": {"a": {"const": 1}}, "required": ["a"]}
    schema: dict[str, Any] = {"type": "object", "properties": {"b": {}}, "unevaluatedProperties": False}
    double = {"not": {"not": {"properties": {"a": {"const": 1}}}}}
    schema |= double if keyword == "not" else {"oneOf": [names_a, {"required": ["b"]}]}
    language = compiled(schema)
    for value in [{"a": 1}, {"a": 2}, {"b": 1}, {"b": 1, "a": 2}, {"b": 1, "a": 1}, {}]:
        valid = jsonschema.Draft202012Validator(schema).is_valid(value)
        taken = language is not None and any(language.takes_value(order) for order in spellings(value))
        assert taken == valid, value


def test_values_in_alternatives_become_one_list(compiled: Callable[..., Any]) -> None:
    language = compiled({"anyOf": [{"const": {"k": i}} for i in range(2000)]})
    assert language.takes('{"k":1999}')
    assert not language.takes('{"k":2000}')


def test_what_only_looks_contradictory_stays(compiled: Callable[..., Any]) -> None:
    language = compiled({"allOf": [{"maxLength": 2}, {"minimum": 9}]})
    assert language.takes('"ab"')
    assert language.takes("null")
    assert language.takes("10")
    assert not language.takes("8")
    assert not language.takes('"abc"')


@pytest.mark.parametrize(
    ("schema", "valid", "invalid"),
    [
        ({"not": {"unevaluatedProperties": False}, "type": "object"}, ['{"a":1}'], ["{}"]),
        (
            {
                "type": "object",
                "not": {"properties": {"a": True}, "unevaluatedProperties": {"type": "integer"}},
            },
            ['{"b":"x"}', '{"a":1,"b":null}'],
            ["{}", '{"a":"x"}', '{"b":1}'],
        ),
        (
            {"type": "array", "not": {"prefixItems": [True], "unevaluatedItems": {"type": "integer"}}},
            ['[1,"x"]', '["x",1,null]'],
            ["[]", '["x"]', '["x",1]'],
        ),
        (
            {"type": "array", "not": {"contains": {"type": "null"}, "unevaluatedItems": {"type": "integer"}}},
            ["[]", "[1]", '[null,"x"]'],
            ["[null]", "[null,1]"],
        ),
        (
            {
                "type": "object",
                "not": {
                    "anyOf": [{"properties": {"a": {"type": "null"}}}, {"properties": {"b": {"type": "null"}}}],
                    "unevaluatedProperties": False,
                },
            },
            ['{"c":1}', '{"a":1,"b":null}', '{"a":1}'],
            ['{"a":null,"b":null}', '{"b":null}'],
        ),
        (
            {"enum": [{"a": 1}, {"a": 1, "b": 2}, {}], "properties": {"a": True}, "unevaluatedProperties": False},
            ['{"a":1}', "{}"],
            ['{"a":1,"b":2}'],
        ),
        (
            {"allOf": [{"enum": [[1], [1, 2]]}], "prefixItems": [True], "unevaluatedItems": False},
            ["[1]"],
            ["[1,2]"],
        ),
        (
            {
                "type": "object",
                "not": {"const": {"a": 1}, "unevaluatedProperties": False},
            },
            ['{"a":1}', "{}"],
            [],
        ),
        ({"type": "array", "not": {"const": [1], "items": True, "unevaluatedItems": False}}, ["[]"], ["[1]"]),
        (
            {
                "enum": [{"a": 1}, {"b": 1}],
                "anyOf": [{"properties": {"a": True}}, {"maxItems": 1}],
                "unevaluatedProperties": False,
            },
            ['{"a":1}'],
            ['{"b":1}'],
        ),
    ],
)
def test_unevaluated_parts_where_the_keyword_fails_or_values_are_given(
    compiled: Callable[..., Any], schema: Any, valid: list[str], invalid: list[str]
) -> None:
    language = compiled(schema)
    assert [text for text in valid if not language.takes(text)] == []
    assert [text for text in invalid if language.takes(text)] == []


def test_many_branches_beside_unevaluated_properties(compiled: Callable[..., Any]) -> None:
    names = [f"p{number}" for number in range(40)]
    branches = [{"properties": {"kind": {"const": n}, n: {"type": "null"}}, "required": ["kind"]} for n in names]
    language = compiled({"type": "object", "anyOf": branches, "unevaluatedProperties": False})
    assert language.takes('{"kind":"p7","p7":null}')
    assert not language.takes('{"kind":"p7","p8":null}')


def test_names_that_only_a_condition_brings_in_come_last(compiled: Callable[..., Any]) -> None:
    condition = {"if": {"properties": {"kind": {"const": "x"}}}, "then": {"properties": {"size": {"const": 1}}}}
    properties = {"name": True, "size": True, "kind": True}
    language = compiled({"type": "object", "allOf": [condition], "properties": properties})
    assert language.takes('{"name":"n","size":1,"kind":"x"}')
    assert not language.takes('{"name":"n","size":2,"kind":"x"}')
