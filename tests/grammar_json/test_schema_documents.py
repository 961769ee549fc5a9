"""Loading: strict JSON, the kinds of keyword values, references and the spellings of the drafts."""

from __future__ import annotations

import enum
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import pytest

from radixrt.errors import InvalidRequest, UnsatisfiableConstraint, UnsupportedConstraint


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        ({"type": "strng"}, "/type"),
        ({"type": []}, "/type"),
        ({"properties": {"a": {"required": True}}}, "/properties/a/required"),
        ({"properties": {"a": {"enum": {}}}}, "/properties/a/enum"),
        ({"properties": []}, "/properties"),
        ({"required": ["a", "a"]}, "/required"),
        ({"minLength": -1}, "/minLength"),
        ({"maxItems": 1.5}, "/maxItems"),
        ({"multipleOf": 0}, "/multipleOf"),
        ({"minimum": "3"}, "/minimum"),
        ({"allOf": []}, "/allOf"),
        ({"anyOf": {}}, "/anyOf"),
        ({"not": 1}, "/not"),
        ({"items": {"if": []}}, "/items/if"),
        ({"pattern": 1}, "/pattern"),
        ({"items": {"pattern": "a("}}, "/items/pattern"),
        ({"items": {"pattern": "(a)\\1"}}, "/items/pattern"),
        ({"patternProperties": {"[": {}}}, "/patternProperties"),
        ({"$ref": "#/nowhere"}, "/$ref"),
        ({"$ref": "#nowhere"}, "/$ref"),
        ({"$ref": "#/required", "required": ["a"]}, "/$ref"),
        ({"patternProperties": {"a/b~": {"type": 3}}}, "/patternProperties/a~1b~0/type"),
    ],
)
def test_malformed_keywords_are_named_with_their_place(
    compiled: Callable[..., Any], schema: Any, place: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        compiled(schema)
    assert place in caught.value.message
    assert caught.value.param == "schema"


@pytest.mark.parametrize(
    "text",
    ["", "{", '{"a":1}x', "[1]", "1", '"x"', "null", '{"const":NaN}', '{"type":"null","type":"null"}', "{'a':1}"],
)
def test_text_that_is_no_json_schema_is_invalid(compiled: Callable[..., Any], text: str) -> None:
    with pytest.raises(InvalidRequest):
        compiled(text)


@pytest.mark.parametrize(
    "value", [None, 3, [1], {1: 2}, {"const": {1, 2}}, {"const": float("nan")}, {"const": b"x"}]
)
def test_python_values_that_are_no_json_are_invalid(compiled: Callable[..., Any], value: Any) -> None:
    with pytest.raises(InvalidRequest):
        compiled(value)


@pytest.mark.parametrize("schema", [{"const": "\ud800"}, {"properties": {"\udc00": {}}}, '{"enum":["\\ud83d"]}'])
def test_lone_surrogates_are_refused(compiled: Callable[..., Any], schema: Any) -> None:
    with pytest.raises(InvalidRequest, match="lone surrogate"):
        compiled(schema)


def test_text_keeps_the_order_of_its_names(compiled: Callable[..., Any]) -> None:
    language = compiled('{"properties":{"b":{"type":"null"},"a":{"type":"null"}},"additionalProperties":false}')
    assert language.takes('{"b":null,"a":null}')
    assert not language.takes('{"a":null,"b":null}')


class Colour(str, enum.Enum):  # noqa: UP042 - its str() is not its value
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


def test_subclasses_and_mappings_count_as_what_they_hold(compiled: Callable[..., Any]) -> None:
    schema = MappingProxyType({"enum": (Colour.RED, Level.LOW), "title": Colour.RED})
    language = compiled(schema)
    assert language.takes('"red"')
    assert language.takes("1")


def test_later_changes_of_the_schema_do_not_matter(compiled: Callable[..., Any]) -> None:
    schema = {"enum": ["a"]}
    language = compiled(schema)
    schema["enum"].append("b")
    assert not language.takes('"b"')


REFERENCES = [
    {"$defs": {"n": {"type": "integer"}}, "items": {"$ref": "#/$defs/n"}},
    {"definitions": {"n/~ %": {"type": "integer"}}, "items": {"$ref": "#/definitions/n~1~0%20%25"}},
    {"$defs": {"n": {"$anchor": "num", "type": "integer"}}, "items": {"$ref": "#num"}},
    {"$defs": {"n": {"$id": "http://x.test/n", "type": "integer"}}, "items": {"$ref": "http://x.test/n"}},
    {"$id": "http://x.test/a/b", "$defs": {"n": {"$id": "n", "type": "integer"}}, "items": {"$ref": "n"}},
    {"$id": "urn:x:y", "$defs": {"n": {"type": "integer"}}, "items": {"$ref": "urn:x:y#/$defs/n"}},
    {"odd place": [{"type": "integer"}], "items": {"$ref": "#/odd place/0"}},
    {"$defs": {"n": {"$dynamicAnchor": "n", "type": "integer"}}, "items": {"$dynamicRef": "#n"}},
    {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "definitions": {"n": {"id": "#num", "type": "integer"}},
        "items": {"$ref": "#num", "type": "string"},  # siblings of $ref do not count up to draft-07
    },
]


@pytest.mark.parametrize("schema", REFERENCES, ids=range(len(REFERENCES)))
def test_every_way_to_refer_to_a_schema(compiled: Callable[..., Any], schema: Any) -> None:
    language = compiled({"type": "array", **schema})
    assert language.takes("[1,2]")
    assert not language.takes('["x"]')


def test_resources_are_read_when_they_are_referred_to(compiled: Callable[..., Any]) -> None:
    resources = {
        "http://x.test/one": {"$ref": "two#/$defs/n"},
        "http://x.test/two": {"$defs": {"n": {"$ref": "three"}, "e": {"$id": "four", "type": "null"}}},
        "http://x.test/three": '{"type":"integer"}',
        "http://x.test/broken": {"type": "strng"},
    }
    assert compiled({"$ref": "http://x.test/one"}, resources=resources).takes("1")
    with pytest.raises(InvalidRequest):
        compiled({"$ref": "http://x.test/four"}, resources=resources)  # looks through all, and finds the broken one
    del resources["http://x.test/broken"]
    assert compiled({"$ref": "http://x.test/four"}, resources=resources).takes("null")
    with pytest.raises(UnsupportedConstraint) as caught:
        compiled({"items": {"$ref": "http://x.test/five"}}, resources=resources)
    assert (caught.value.keyword, caught.value.location) == ("$ref", "/items/$ref")


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
        {"anyOf": [{"type": "null"}, {"$ref": "#"}]},
        {"not": {"$ref": "#"}},
        {"allOf": [{"properties": {"a": {}}}, {"$ref": "#"}]},
    ],
)
def test_a_schema_that_is_itself_is_refused(compiled: Callable[..., Any], schema: Any) -> None:
    with pytest.raises(UnsupportedConstraint, match="refers to itself"):
        compiled(schema)


def test_recursion_through_children(compiled: Callable[..., Any]) -> None:
    tree = {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#"}}}}
    tree |= {"additionalProperties": False}
    language = compiled(tree)
    deep = '{"kids":[' * 300 + "]}" * 300
    assert language.takes(deep)
    assert not language.takes(deep.replace("[]", "[1]"))
    with pytest.raises(UnsatisfiableConstraint):
        compiled({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]})


def test_spellings_of_older_drafts(compiled: Callable[..., Any]) -> None:
    old = compiled(
        {
            "$schema": "http://json-schema.org/draft-04/schema#",
            "type": "array",
            "items": [{"type": "integer", "minimum": 3, "exclusiveMinimum": True}],
            "additionalItems": {"type": "string"},
        }
    )
    assert old.takes('[4,"x"]')
    assert not old.takes("[3]")
    assert not old.takes("[4,5]")
    beside = compiled(
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "$id": "http://x.test/root",
            "definitions": {"n": {"$id": "http://x.test/n", "type": "null"}},
            "items": {"$id": "http://elsewhere.test/", "$ref": "n"},  # the $id beside $ref is no base
            "type": "array",
        }
    )
    assert beside.takes("[null]")
    assert not beside.takes("[1]")
    needs = compiled({"dependencies": {"a": ["b"], "c": {"required": ["d"]}}, "type": "object"})
    assert needs.takes('{"b":1}')
    assert not needs.takes('{"a":1}')
    assert not needs.takes('{"c":1}')
    for other in (
        "draft-03/schema#",
        "draft-01/hyper-schema",
        "draft-05/schema",
        "draft/2031-01/schema",
        f"draft-{'9' * 5000}/x",
    ):
        with pytest.raises(UnsupportedConstraint, match="drafts 4, 6, 7") as caught:
            compiled({"properties": {"a": {"$schema": f"http://json-schema.org/{other}"}}})
        assert (caught.value.keyword, caught.value.location) == ("$schema", "/properties/a/$schema")
    for wrong in (3, None, {}, ["https://json-schema.org/draft/2020-12/schema"]):
        with pytest.raises(InvalidRequest, match=r"wrong at /\$schema: '\$schema' must be a string"):
            compiled({"$schema": wrong})


def test_other_metaschemas_are_read_as_the_latest_draft(compiled: Callable[..., Any]) -> None:
    for known in ("http://json-schema.org/schema#", "https://example.com/meta", "draft-04"):
        beside = compiled({"$schema": known, "$ref": "#/$defs/a", "maxItems": 0, "$defs": {"a": True}})
        assert beside.takes("[]")
        assert not beside.takes("[1]")
        assert not compiled({"$schema": known, "prefixItems": [{"const": 1}]}).takes("[2]")


def test_keywords_are_read_whichever_draft_is_named(compiled: Callable[..., Any]) -> None:
    named = {"$schema": "http://json-schema.org/draft-04/schema#"}
    assert not compiled({**named, "const": 1}).takes("2")
    assert not compiled({**named, "prefixItems": [{"const": 1}]}).takes("[2]")
    assert not compiled({"dependencies": {"a": ["b"]}}).takes('{"a": 1}')
