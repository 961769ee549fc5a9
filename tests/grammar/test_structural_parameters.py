"""Structural tags: arguments of calls as tagged parameters."""

from __future__ import annotations

from typing import Any

import pytest

from radixrt.errors import UnsupportedConstraint
from radixrt.grammar import Compiler

Spec = dict[str, Any]

CALL_SCHEMA: Spec = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "description": "where"},
        "days": {"type": "integer", "minimum": 1},
        "unit": {"enum": ["C", "F"]},
        "note": {"anyOf": [{"type": "string", "maxLength": 3}, {"type": "null"}]},
        "any": {},
        "where": {"$ref": "#/$defs/point"},
        "code": {"type": ["string", "number"], "pattern": "^[a-z]+$"},
        "odd": {"enum": ["x", 1]},
    },
    "required": ["city"],
    "$defs": {"point": {"type": "array", "items": {"$ref": "#/$defs/n"}}, "n": {"type": "number"}},
}


def call_text(*parameters: tuple[str, str], glue: str = "") -> str:
    return glue.join(f"<parameter={name}>{value}</parameter>" for name, value in parameters)


@pytest.mark.parametrize(
    ("parameters", "is_right"),
    [
        ([("city", "Paris")], True),
        ([("city", '\nNew "York" <b>\n')], True),
        ([("city", "")], True),
        ([], False),
        ([("days", "1")], False),
        ([("city", "a"), ("days", " 12\n")], True),
        ([("city", "a"), ("days", "0")], False),
        ([("city", "a"), ("days", "x")], False),
        ([("days", "1"), ("city", "a")], False),
        ([("city", "a"), ("city", "a")], False),
        ([("city", "a"), ("unit", "C")], True),
        ([("city", "a"), ("unit", "\nF\n")], True),
        ([("city", "a"), ("unit", '"C"')], False),
        ([("city", "a"), ("note", "abc")], True),
        ([("city", "a"), ("note", "null")], True),
        ([("city", "a"), ("note", "abcd")], False),
        ([("city", "a"), ("any", '{"x": [1]} or not')], True),
        ([("city", "a"), ("where", "[1, 2.5]")], True),
        ([("city", "a"), ("where", '["x"]')], False),
        ([("city", "a"), ("code", "abc")], True),
        ([("city", "a"), ("code", "1.5")], True),
        ([("city", "a"), ("code", "ABC")], False),
        ([("city", "a"), ("odd", "x")], True),
        ([("city", "a"), ("odd", "1")], True),
        ([("city", "a"), ("odd", "2")], False),
        ([("city", "a"), ("other", "1")], False),
    ],
)
def test_tagged_parameters(parameters: list[tuple[str, str]], is_right: bool, bytes_compiler: Compiler) -> None:
    content = {"type": "json_schema", "json_schema": CALL_SCHEMA, "style": "qwen_xml"}
    grammar = bytes_compiler.structural_tag(
        {"format": {"type": "tag", "begin": "<f>", "content": content, "end": "\n</f>"}}
    )
    for glue in ("", "\n", " \n  "):
        assert grammar.matches(f"<f>{call_text(*parameters, glue=glue)}\n</f>") == is_right
    assert not grammar.matches(f"<f>{call_text(*parameters)}x\n</f>")


@pytest.mark.parametrize(
    ("style", "good", "bad"),
    [
        ("minimax_xml", '<parameter name="a">v</parameter>', "<parameter=a>v</parameter>"),
        ("glm_xml", "<arg_key>a</arg_key>\n<arg_value>v</arg_value>", "<arg_key>a</arg_key><arg_value>v"),
        ("glm_xml", "<arg_key>a</arg_key><arg_value>v</arg_value>", "<arg_key>c</arg_key><arg_value>v</arg_value>"),
        (
            "deepseek_xml",
            '<｜DSML｜parameter name="a" string="true">v</｜DSML｜parameter>\n'
            '<｜DSML｜parameter name="b" string="false">1</｜DSML｜parameter>',
            '<｜DSML｜parameter name="a" string="false">v</｜DSML｜parameter>',
        ),
    ],
)
def test_styles_of_parameters(style: str, good: str, bad: str, bytes_compiler: Compiler) -> None:
    schema = {"properties": {"a": {"type": "string"}, "b": {"type": "integer"}}, "required": ["a"]}
    grammar = bytes_compiler.structural_tag(
        {"format": {"type": "json_schema", "json_schema": schema, "style": style}}
    )
    assert grammar.matches(good)
    assert not grammar.matches(bad)


@pytest.mark.parametrize(
    ("schema", "keyword", "location"),
    [
        ({"additionalProperties": True}, "additionalProperties", ""),
        ({"minProperties": 1}, "minProperties", ""),
        ({"properties": {"a>": {}}}, "style", "/properties/a>"),
        ({"properties": {"a": {"type": "string", "format": "date"}}}, "format", "/properties/a"),
        ({"properties": {"a": {"minLength": 1}}}, "minLength", "/properties/a"),
        ({"properties": {"a": {"oneOf": [{"type": "string"}]}}}, "oneOf", "/properties/a"),
        ({"properties": {"a": {"$ref": "https://example.com"}}}, "$ref", "/properties/a"),
        ({"properties": {"a": {"$ref": "#/properties/a"}}}, "$ref", "/properties/a"),
        ({"properties": {"a": {"type": "string", "pattern": "(a)\\1"}}}, "back-reference", "/properties/a/pattern"),
    ],
)
def test_parameters_that_mean_nothing_exact_are_refused(
    schema: Spec, keyword: str, location: str, bytes_compiler: Compiler
) -> None:
    with pytest.raises(UnsupportedConstraint) as caught:
        bytes_compiler.structural_tag({"format": {"type": "qwen_xml_parameter", "json_schema": schema}})
    assert caught.value.keyword == keyword
    assert caught.value.location is not None
    assert caught.value.location.startswith("/format/json_schema" + location)


@pytest.mark.parametrize(
    ("schema", "keyword", "location"),
    [
        ({"properties": {"a": {"type": "array", "uniqueItems": True}}}, "uniqueItems", "/properties/a/uniqueItems"),
        (
            {
                "properties": {"a": {"$ref": "#/$defs/x"}},
                "$defs": {"x": {"type": "integer", "multipleOf": 1000003}},
            },
            "multipleOf",
            "/$defs/x/multipleOf",
        ),
        (
            {
                "properties": {
                    "a/b": {"anyOf": [{"type": "string"}, {"items": {"uniqueItems": True}, "type": "array"}]}
                }
            },
            "uniqueItems",
            "/properties/a~1b/anyOf/1/items/uniqueItems",
        ),
        (
            {"properties": {"a": {"type": ["null", "integer"], "multipleOf": 1000003}}},
            "multipleOf",
            "/properties/a/multipleOf",
        ),
    ],
)
def test_what_is_refused_in_a_value_has_the_place_it_was_given_at(
    schema: Spec, keyword: str, location: str, bytes_compiler: Compiler
) -> None:
    with pytest.raises(UnsupportedConstraint) as caught:
        bytes_compiler.structural_tag({"format": {"type": "qwen_xml_parameter", "json_schema": schema}})
    assert (caught.value.keyword, caught.value.location) == (keyword, "/format/json_schema" + location)


def test_references_in_values_go_to_the_schema_of_the_call(bytes_compiler: Compiler) -> None:
    schema = {
        "properties": {
            "count": {"type": "integer"},
            "rows": {"type": "array", "items": {"$ref": "#/properties/count"}},
            "tree": {"type": "array", "items": {"$ref": "#/properties/tree"}},
        },
        "required": ["count", "rows", "tree"],
    }
    grammar = bytes_compiler.structural_tag({"format": {"type": "qwen_xml_parameter", "json_schema": schema}})

    def call(rows: str, tree: str) -> str:
        values = {"count": "3", "rows": rows, "tree": tree}
        return "".join(f"<parameter={name}>{value}</parameter>" for name, value in values.items())

    assert grammar.matches(call("[1, 2]", "[[], [[]]]"))
    assert not grammar.matches(call('["1"]', "[]"))
    assert not grammar.matches(call("[1]", "[[1]]"))
