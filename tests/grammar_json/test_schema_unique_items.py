"""``uniqueItems``, asserted and negated, over items of every kind: what is taken is what ``jsonschema`` takes."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest

from radixrt.errors import UnsatisfiableConstraint, UnsupportedConstraint

UNIQUE = {"type": "array", "uniqueItems": True}
REPEATED = {"type": "array", "not": {"uniqueItems": True}}
OPEN_ITEMS: list[Any] = [
    {},
    {"type": "string"},
    {"type": ["integer", "null"]},
    {"type": "array"},
    {"type": "object"},
    {"enum": [1, "a", [], {}]},
    {"anyOf": [{"type": "boolean"}, {"type": "array", "items": {"type": "integer"}}]},
    {"type": "array", "uniqueItems": True},
    {"not": {"type": "array", "uniqueItems": True}},
]
VALUES = [1, 2, "a", "b", None, True, [], [1], [1, 1], [2, 1], {}, {"a": 1}, {"a": [1, 1]}]


@pytest.mark.parametrize("array", [UNIQUE, REPEATED, UNIQUE | {"minItems": 2, "maxItems": 2}], ids=json.dumps)
@pytest.mark.parametrize("items", OPEN_ITEMS, ids=json.dumps)
def test_arrays_of_up_to_three_values(compiled: Callable[..., Any], array: dict[str, Any], items: Any) -> None:
    schema = array | {"items": items}
    language, validator = compiled(schema), jsonschema.Draft202012Validator(schema)
    for size in range(4):
        for value in itertools.product(VALUES, repeat=size):
            text = json.dumps(list(value))
            assert language.takes(text) == validator.is_valid(list(value)), text


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ("1", "1.0", True),
        ("1", "1e0", True),
        ("10", "1E+1", True),
        ("100e-2", "1", True),
        ("0", "-0", True),
        ("0", "0.0e5", True),
        ("1", "10", False),
        ("1", "-1", False),
        ("0.1", "0.10", True),
        ("0.1", "0.01", False),
        ("1", "true", False),
        ("0", "false", False),
        ("0", '""', False),
        ("1", '"1"', False),
        ("null", "null", True),
        ('"a"', '"a"', True),
        ('"/"', '"\\/"', True),
        ('"\\n"', '"\\u000A"', True),
        ('"é"', '"e"', False),
        ("[1,2]", "[1.0, 2]", True),
        ("[1,2]", "[2,1]", False),
        ("[]", "{}", False),
        ("[[]]", "[]", False),
        ('{"a":1,"b":[2]}', '{"b":[2.0],"a":1}', True),
        ('{"a":1}', '{"a":2}', False),
        ('{"a":1}', '{"b":1}', False),
        ('{"a":{"b":null}}', '{"a": {"b": null}}', True),
        ('["a","b"]', '["a,b"]', False),
    ],
)
def test_items_are_compared_as_values(compiled: Callable[..., Any], one: str, other: str, equal: bool) -> None:
    unique, repeated, any_ = compiled(UNIQUE), compiled(REPEATED), compiled({"anyOf": [UNIQUE, {"type": "array"}]})
    for pair in (f"{one},{other}", f"{other}, {one}"):
        for text in (f"[{pair}]", f"[{pair}\n]", f'[7,{pair},"x"]', f"[{one},7,{other}]"):
            assert any_.takes(text), text
            assert unique.takes(text) == (not equal), text
            assert repeated.takes(text) == equal, text


@pytest.mark.parametrize(
    ("schema", "most"),
    [
        ({"items": {"type": "boolean"}}, 2),
        ({"items": {"type": "null"}}, 1),
        ({"items": {"enum": list(range(30))}}, 30),
        ({"items": {"type": "integer", "minimum": -3, "maximum": 3}}, 7),
        ({"items": {"type": "integer", "minimum": 0, "maximum": 100, "multipleOf": 25}}, 5),
        ({"items": {"type": "number", "minimum": 0, "maximum": 1, "multipleOf": 0.25}}, 5),
        ({"items": {"type": "string", "pattern": "^[ab]{1,2}$"}}, 6),
        ({"items": {"type": "string", "maxLength": 0}}, 1),
        ({"items": {"type": ["boolean", "null"]}}, 3),
        ({"items": {"anyOf": [{"enum": [1, 2]}, {"type": "integer", "minimum": 1, "maximum": 3}]}}, 3),
        ({"items": {"type": "array", "items": {"type": "boolean"}, "maxItems": 2}}, 7),
        ({"items": {"type": "array", "items": {"type": "boolean"}, "maxItems": 2, "uniqueItems": True}}, 5),
        (
            {
                "items": {
                    "type": "object",
                    "properties": {"a": {"type": "boolean"}, "b": {"type": "null"}},
                    "required": ["a"],
                    "additionalProperties": False,
                }
            },
            4,
        ),
        ({"items": {"type": "array", "items": {"type": "boolean"}, "uniqueItems": True}}, 5),
        (
            {
                "items": {
                    "patternProperties": {"^[ab]$": {"const": 1}},
                    "additionalProperties": False,
                    "type": "object",
                }
            },
            4,
        ),
        (
            {
                "items": {
                    "type": "number",
                    "minimum": 0,
                    "maximum": 1,
                    "multipleOf": 0.5,
                    "not": {"type": "integer"},
                }
            },
            1,
        ),
        ({"prefixItems": [{"type": "string"}, {"type": "string"}], "items": {"type": "boolean"}}, 4),
        ({"prefixItems": [{"const": True}], "items": {"type": "boolean"}}, 2),
        ({"prefixItems": [{"enum": ["a", "b"]}, {"enum": ["a", "b"]}], "items": {"enum": ["a", "b", "c"]}}, 3),
    ],
    ids=json.dumps,
)
def test_there_are_no_more_items_than_values(
    compiled: Callable[..., Any], schema: dict[str, Any], most: int
) -> None:
    assert compiled(UNIQUE | schema | {"minItems": most})
    with pytest.raises(UnsatisfiableConstraint):
        compiled(UNIQUE | schema | {"minItems": most + 1})


@pytest.mark.parametrize(
    "schema",
    [
        {"oneOf": [UNIQUE | {"items": {"type": "integer"}}, {"type": "array", "items": {"type": "string"}}]},
        {"if": UNIQUE, "then": {"minItems": 2}, "else": {"contains": {"const": 1}}, "type": "array"},
        {"anyOf": [UNIQUE, {"type": "array", "minItems": 3}]},
        UNIQUE | {"contains": {"enum": [1, 2]}, "minContains": 2},
        UNIQUE | {"contains": {"type": "integer"}, "maxContains": 1},
        {"type": "array", "items": UNIQUE | {"items": {"type": "array", "not": {"uniqueItems": True}}}},
        UNIQUE | {"prefixItems": [{"type": "string"}, {"type": "integer"}], "items": {"type": "integer"}},
        {"type": "array", "const": [1, 1], "not": {"uniqueItems": True}},
        {"enum": [[1, 1], [1, 2], [[2], [2]]], "uniqueItems": True},
    ],
    ids=json.dumps,
)
def test_beside_other_keywords(compiled: Callable[..., Any], schema: dict[str, Any]) -> None:
    language, validator = compiled(schema), jsonschema.Draft202012Validator(schema)
    values = [1, 2, "a", [], [1, 1], [[1, 1]], [[2], [2]]]
    for size in range(4):
        for value in itertools.product(values, repeat=size):
            text = json.dumps(list(value))
            assert language.takes(text) == validator.is_valid(list(value)), text


@pytest.mark.parametrize(
    "schema",
    [
        REPEATED | {"maxItems": 3},
        UNIQUE | {"prefixItems": [{"type": "integer"}, {"enum": [1]}]},
        {"properties": {"a": REPEATED | {"contains": {"type": "integer"}, "maxContains": 2}}},
    ],
    ids=json.dumps,
)
def test_what_is_out_of_reach_is_refused_by_name(compiled: Callable[..., Any], schema: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedConstraint) as caught:
        compiled(schema)
    assert caught.value.keyword == "uniqueItems"
    assert (caught.value.location or "").endswith("/uniqueItems")
