"""Names that repeat: whatever is taken is valid when the value read last counts, as ``json.loads`` reads it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest

from radixrt.errors import UnsupportedConstraint

STRINGS = {"additionalProperties": {"type": "string"}}
OPEN = [
    {"minProperties": 1},
    {"minProperties": 1, "maxProperties": 2},
    {"minProperties": 2, "required": ["a"]},
    {"minProperties": 3, "required": ["a", "b"], "additionalProperties": {"type": "integer"}},
    {"properties": {"a": {}}, "minProperties": 1, "patternProperties": {"^b": {"type": "string"}}},
    {"not": STRINGS},
    {"not": STRINGS, "required": ["a"]},
    {"not": STRINGS | {"properties": {"a": {"type": "null"}}}},
    {"not": {"patternProperties": {"^b": {"type": "string"}}}},
    {"not": {"propertyNames": {"enum": ["a", "b"]}}},
    {"not": {"patternProperties": {"^b": {"type": "string"}, "c": {"type": "integer"}}}},
    {"if": STRINGS, "then": {"maxProperties": 1}, "else": {"required": ["c"]}},
    {"patternProperties": {"^[abc]$": {}}, "additionalProperties": False, "minProperties": 3},
    {"anyOf": [{"not": STRINGS, "minProperties": 1}, {"maxProperties": 0}]},
]
VALUES = ["1", '"x"']


@pytest.mark.parametrize("schema", OPEN, ids=json.dumps)
def test_what_is_taken_is_valid_and_what_is_valid_is_taken_in_some_order(
    compiled: Callable[..., Any], schema: dict[str, Any]
) -> None:
    schema = {"type": "object"} | schema
    language = compiled(schema)
    validator = jsonschema.Draft202012Validator(schema)
    members = [f'"{name}":{value}' for name in ("a", "b", "bc", "c") for value in VALUES]
    spelled = set()
    for size in range(4):
        for parts in itertools.product(members, repeat=size):
            text = "{" + ",".join(parts) + "}"
            if language.takes(text):
                value = json.loads(text)
                assert validator.is_valid(value), text
                spelled.add(json.dumps(value, sort_keys=True))
    for size in range(4):
        for names in itertools.combinations(("a", "b", "bc", "c"), size):
            for values in itertools.product((1, "x"), repeat=size):
                value = dict(zip(names, values, strict=True))
                assert (json.dumps(value, sort_keys=True) in spelled) == validator.is_valid(value), value


@pytest.mark.parametrize(
    ("schema", "location"),
    [
        ({"type": "object", "minProperties": 2}, "/minProperties"),
        ({"type": "object", "not": {"maxProperties": 1}}, "/not/maxProperties"),
        ({"type": "object", "minProperties": 3, "required": ["a"]}, "/minProperties"),
        ({"type": "object", "minProperties": 2, "maxProperties": 2}, "/minProperties"),
        ({"type": "object", "minProperties": 2, "additionalProperties": {"type": "null"}}, "/minProperties"),
        ({"type": "object", "minProperties": 2, "properties": {"a": {}, "b": {}, "c": {}}}, "/minProperties"),
        ({"type": "object", "minProperties": 2, "propertyNames": {"pattern": "^a"}}, "/minProperties"),
        ({"items": {"anyOf": [{"type": "null"}, {"minProperties": 2}]}}, "/items/anyOf/1/minProperties"),
        ({"allOf": [{"minProperties": 1}, {"minProperties": 4}], "type": "object"}, "/allOf/1/minProperties"),
        (
            {"type": "object", "allOf": [{"not": STRINGS}, {"not": {"additionalProperties": {"type": "integer"}}}]},
            "/allOf/1/not/additionalProperties",
        ),
    ],
    ids=json.dumps,
)
def test_what_only_different_names_could_meet_is_refused(
    compiled: Callable[..., Any], schema: dict[str, Any], location: str
) -> None:
    with pytest.raises(UnsupportedConstraint) as caught:
        compiled(schema)
    assert (caught.value.location, caught.value.keyword) == (location, location.rpartition("/")[2])


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
def test_where_no_name_may_repeat_members_are_counted(
    compiled: Callable[..., Any], closing: dict[str, Any]
) -> None:
    names: dict[str, Any] = {name: {} for name in "abc"}
    language = compiled({"type": "object", "properties": names, "minProperties": 2} | closing)
    assert language.takes('{"a":1,"c":1}')
    assert not language.takes('{"b":1}')
    assert not language.takes('{"a":1,"a":1}')
