"""No object has a name twice, so members of open objects can be counted, whatever names they take."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest

from radixrt.errors import UnsatisfiableConstraint

STRINGS = {"additionalProperties": {"type": "string"}}
SCHEMAS = [
    {"minProperties": 1},
    {"minProperties": 1, "maxProperties": 2},
    {"minProperties": 2, "maxProperties": 2},
    {"minProperties": 2, "required": ["a"]},
    {"minProperties": 3, "required": ["a", "b"], "additionalProperties": {"type": "integer"}},
    {"properties": {"a": {}}, "minProperties": 1, "patternProperties": {"^b": {"type": "string"}}},
    {"properties": {"a": {}, "b": {}, "c": {}}, "minProperties": 2},
    {"propertyNames": {"pattern": "^b"}, "minProperties": 2},
    {"propertyNames": {"enum": ["a", "c"]}, "minProperties": 2},
    {"not": {"maxProperties": 1}},
    {"not": {"minProperties": 2, "maxProperties": 2}},
    {"allOf": [{"minProperties": 1}, {"minProperties": 3}]},
    {"not": STRINGS},
    {"not": STRINGS, "required": ["a"]},
    {"not": STRINGS | {"properties": {"a": {"type": "null"}}}},
    {"allOf": [{"not": STRINGS}, {"not": {"additionalProperties": {"type": "integer"}}}]},
    {"not": {"patternProperties": {"^b": {"type": "string"}}}},
    {"not": {"patternProperties": {"^b$": {"type": "string"}}}, "maxProperties": 2},
    {"not": {"propertyNames": {"enum": ["a", "b"]}}},
    {"not": {"patternProperties": {"^b": {"type": "string"}, "c": {"type": "integer"}}}},
    {"if": STRINGS, "then": {"maxProperties": 1}, "else": {"required": ["c"]}},
    {"patternProperties": {"^[abc]$": {}}, "additionalProperties": False, "minProperties": 3},
    {"anyOf": [{"not": STRINGS, "minProperties": 1}, {"maxProperties": 0}]},
    {"dependentRequired": {"a": ["c"]}, "minProperties": 2},
    {"dependentSchemas": {"a": {"maxProperties": 2}, "b": {"required": ["a"]}}},
]
NAMES = ("a", "b", "bc", "c")
VALUES = ("1", '"x"')


@pytest.mark.parametrize("key_order", ["schema", "any"])
@pytest.mark.parametrize("schema", SCHEMAS, ids=json.dumps)
def test_what_is_taken_is_valid_and_what_is_valid_is_taken(
    compiled: Callable[..., Any], schema: dict[str, Any], key_order: str
) -> None:
    schema = {"type": "object"} | schema
    language = compiled(schema, key_order=key_order)
    validator = jsonschema.Draft202012Validator(schema)
    spelled = set()
    for size in range(4):
        for names in itertools.permutations(NAMES, size):
            for values in itertools.product(VALUES, repeat=size):
                text = "{" + ",".join(f'"{name}":{value}' for name, value in zip(names, values, strict=True)) + "}"
                value = json.loads(text)
                taken = language.takes(text)
                assert not taken or validator.is_valid(value), text
                if key_order == "any":
                    assert taken == validator.is_valid(value), text
                if taken:
                    spelled.add(json.dumps(value, sort_keys=True))
    for size in range(4):
        for names in itertools.combinations(NAMES, size):
            for values in itertools.product((1, "x"), repeat=size):
                value = dict(zip(names, values, strict=True))
                assert (json.dumps(value, sort_keys=True) in spelled) == validator.is_valid(value), value


@pytest.mark.parametrize("key_order", ["schema", "any"])
@pytest.mark.parametrize(
    "schema",
    [{}, {"properties": {"a": {}}}, {"required": ["a"]}, {"patternProperties": {"^a": {}}}],
    ids=json.dumps,
)
def test_a_name_comes_once_however_it_is_spelled_and_wherever_the_object_is(
    compiled: Callable[..., Any], schema: dict[str, Any], key_order: str
) -> None:
    language = compiled({"type": "object"} | schema, key_order=key_order)
    nested = compiled({"additionalProperties": {"items": schema}}, key_order=key_order)
    for one, other, equal in [
        ("a", "a", True),
        ("a", "A", False),
        ("a", "a ", False),
        ("", "", True),
        ("/", "\\/", True),
        ("a\\n", "a\\u000a", True),
        ("a\\u000a", "a\\u000A", True),
        ("é", "é", True),
        ("a\\\\", "a\\\\\\\\", False),
        ('a\\"', 'a\\"', True),
    ]:
        inside = f'{{"{one}":1,"{other}":2}}'
        wanted = not equal and ("required" not in schema or "a" in (one, other))
        assert language.takes(inside) == wanted, inside
        for text in (f'{{"a":[{inside}]}}', f'{{"{one}":[{inside},{inside}],"\t":{{}}}}'.replace("\t", "tab")):
            assert nested.takes(text) == wanted, text
    assert nested.takes('{"a":[{"a":{"a":1,"b":{"a":2}}}]}')


@pytest.mark.parametrize(
    ("schema", "most"),
    [
        ({"propertyNames": {"enum": ["a", "b", "c"]}}, 3),
        ({"patternProperties": {"^[a-z]$": {}}, "additionalProperties": False}, 26),
        ({"properties": {"a": {}, "b": {}}, "additionalProperties": False}, 2),
        ({"properties": {"a": {}}, "patternProperties": {"^[ab]$": {}}, "additionalProperties": False}, 2),
    ],
    ids=json.dumps,
)
def test_more_members_than_names_is_unsatisfiable(
    compiled: Callable[..., Any], schema: dict[str, Any], most: int
) -> None:
    for key_order in ("schema", "any"):
        assert compiled({"type": "object", "minProperties": most} | schema, key_order=key_order)
        with pytest.raises(UnsatisfiableConstraint):
            compiled({"type": "object", "minProperties": most + 1} | schema, key_order=key_order)


@pytest.mark.parametrize(
    "closing",
    [
        {"additionalProperties": False},
        {"additionalProperties": {"not": {}}},
        {"additionalProperties": {"allOf": [{"type": "string"}, {"type": "null"}]}},
        {"propertyNames": {"enum": ["a", "b", "c"]}},
        {"unevaluatedProperties": False},
    ],
    ids=json.dumps,
)
def test_closed_objects_count_their_declared_names(compiled: Callable[..., Any], closing: dict[str, Any]) -> None:
    names: dict[str, Any] = {name: {} for name in "abc"}
    language = compiled({"type": "object", "properties": names, "minProperties": 2} | closing)
    assert language.takes('{"a":1,"c":1}')
    assert not language.takes('{"b":1}')
    assert not language.takes('{"a":1,"a":1}')
