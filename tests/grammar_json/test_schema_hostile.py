"""Schemas made to cost: each is served or refused by name, with work that is counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from radixrt.errors import InvalidRequest, UnsupportedConstraint


def nested(depth: int, around: Callable[[Any], Any]) -> Any:
    schema: Any = {}
    for _ in range(depth):
        schema = around(schema)
    return schema


def ring(size: int, link: Callable[[str], Any]) -> dict[str, Any]:
    """Definitions of which each leads to the next and the last to the first."""
    links = {f"d{place}": link(f"#/$defs/d{(place + 1) % size}") for place in range(size)}
    return {"$ref": "#/$defs/d0", "$defs": links}


def members(count: int) -> dict[str, Any]:
    return {f"p{number}": {"type": "integer"} for number in range(count)}


REFUSED: dict[str, tuple[Any, str]] = {
    "a ring of references": (ring(5000, lambda to: {"$ref": to}), "$ref"),
    "a ring for the same value": (ring(1000, lambda to: {"allOf": [{"$ref": to}]}), "$ref"),
    "200,000 properties": ({"type": "object", "properties": members(200_000)}, "size"),
    "200,000 required names": ({"type": "object", "required": list(members(200_000))}, "size"),
    "200,000 places": ({"type": "array", "prefixItems": [{"const": n} for n in range(200_000)]}, "size"),
    "too many values": ({"enum": list(range(200_000))}, "size"),
    "a long text": ({"const": "x" * 1_000_000}, ""),  # too many terms, or too much work
    "2,000 objects that overlap": (
        {"anyOf": [{"type": "object", "required": [f"a{number}"]} for number in range(2_000)]},
        "anyOf",
    ),
    "a product of choices": (
        {"allOf": [{"anyOf": [{"required": [f"a{i}"]}, {"required": [f"b{i}"]}]} for i in range(20)]},
        "allOf",
    ),
    "a product of oneOf": (
        {
            "allOf": [
                {"oneOf": [{"properties": {"x": {"pattern": f"{i}"}}}, {"required": [f"b{i}"]}]} for i in range(12)
            ]
        },
        "allOf",
    ),
    "names that need each other": (
        {"type": "object", "dependentRequired": {f"a{i}": [f"b{i}"] for i in range(300)}},
        "dependentRequired",
    ),
    "not in not": (nested(100, lambda schema: {"not": schema}), "not"),
    "deep Python": (nested(5000, lambda schema: {"not": schema}), "nesting"),
    "deep lists": (nested(5000, lambda schema: [schema]), "nesting"),
    "deep text": ("[" * 100_000, "nesting"),
    "deep closed text": ('{"not":' * 100_000 + "{}" + "}" * 100_000, "nesting"),
    "overlapping name patterns": (
        {"type": "object", "patternProperties": {f"{chr(97 + i)}{i}": {"const": i} for i in range(26)}},
        "",
    ),
    "scopes that multiply": (
        {
            "$ref": "x0",
            "$defs": {
                f"d{i}": {
                    "$id": f"x{i}",
                    "$dynamicAnchor": f"n{i}",
                    "properties": {f"b{j}": {"$ref": f"x{j}"} for j in range(12)},
                }
                for i in range(12)
            },
        },
        "$dynamicAnchor",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_costs_too_much_is_refused_by_name(compiled: Callable[..., Any], case: str) -> None:
    schema, keyword = REFUSED[case]
    with pytest.raises(UnsupportedConstraint) as caught:
        compiled(schema)
    assert caught.value.param == "schema"
    assert not keyword or caught.value.keyword == keyword


SERVED: dict[str, tuple[Any, str, str]] = {
    "10,000 strings": ({"enum": [f"value {number}" for number in range(10_000)]}, '"value 9999"', '"value 10000"'),
    "10,000 escaped strings": ({"enum": [f'"{number}"\n' for number in range(10_000)]}, r'"\"7\"\n"', r'"\"x\"\n"'),
    "10,000 integers": ({"enum": list(range(10_000))}, "9999", "10000"),
    "none of 10,000": ({"type": "string", "not": {"enum": [f"v{n}" for n in range(10_000)]}}, '"v"', '"v77"'),
    "one of 10,000 constants": ({"oneOf": [{"const": f"v{n}"} for n in range(10_000)]}, '"v9"', '"w"'),
    "10,000 names": (
        {"type": "object", "propertyNames": {"enum": [f"n{number}" for number in range(10_000)]}},
        '{"n7":1,"n9999":2}',
        '{"n10000":1}',
    ),
    "20,000 properties": (
        {"type": "object", "properties": members(20_000)},
        '{"p7":1,"p19999":2}',
        '{"p19999":"x"}',
    ),
    "2,000 allOf": ({"type": "string", "allOf": [{"minLength": n % 5} for n in range(2_000)]}, '"abcd"', '"abc"'),
    "huge bounds": (
        {"type": "integer", "minimum": -(10**399), "maximum": 10**399},
        "1" + "0" * 399,
        "2" + "0" * 399,
    ),
    "control characters": (
        {"properties": {"\x00\x01": {"const": "\x1f"}}, "required": ["\x00\x01"], "type": "object"},
        r'{"\u0000\u0001":"\u001f"}',
        r'{"\u0000\u0001":"x"}',
    ),
    "a NUL in a pattern": ({"type": "string", "pattern": "a\x00b"}, r'"a\u0000b"', '"ab"'),
    "names beyond ASCII": (
        {"type": "object", "properties": {"日本": {"enum": ["😀"]}}},
        '{"日本":"😀"}',
        '{"日本":"x"}',
    ),
    "a ring of members": (
        ring(50, lambda to: {"type": "object", "properties": {"a": {"$ref": to}}, "additionalProperties": False}),
        '{"a":{"a":{}}}',
        '{"a":{"b":{}}}',
    ),
}


@pytest.mark.parametrize("case", SERVED)
def test_large_schemas_that_are_served(compiled: Callable[..., Any], case: str) -> None:
    schema, taken, refused = SERVED[case]
    language = compiled(schema)
    assert language.takes(taken)
    assert not language.takes(refused)


@pytest.mark.parametrize(
    "schema",
    [
        {"enum": ["\ud800"]},
        {"properties": {"\udc00": {}}},
        {"description": "\udfff"},
        '{"const":"\\ud800"}',
        '{"const":"\\udc00\\ud800"}',
        '{"const":"\ud800"}',
    ],
)
def test_lone_surrogates_are_invalid(compiled: Callable[..., Any], schema: Any) -> None:
    with pytest.raises(InvalidRequest, match="surrogate"):
        compiled(schema)


def test_a_pair_of_escapes_is_one_character(compiled: Callable[..., Any]) -> None:
    assert compiled('{"const":"\\ud83d\\ude00"}').takes('"😀"')


def test_a_thousand_objects_told_apart_by_a_member(compiled: Callable[..., Any]) -> None:
    branches = [
        {"type": "object", "properties": {"kind": {"const": f"k{n}"}, "n": {"const": n}}, "required": ["kind", "n"]}
        for n in range(300)
    ]
    language = compiled({"oneOf": branches})
    assert language.takes('{"kind":"k7","n":7}')
    assert not language.takes('{"kind":"k7","n":8}')


def test_many_conditions_on_one_member(compiled: Callable[..., Any]) -> None:
    rules = [
        {"if": {"properties": {"kind": {"const": n}}, "required": ["kind"]}, "then": {"required": [f"x{n}"]}}
        for n in range(40)
    ]
    language = compiled({"type": "object", "properties": {"kind": {"type": "integer"}}, "allOf": rules})
    assert language.takes('{"kind":7,"x7":0}')
    assert language.takes('{"kind":70}')
    assert not language.takes('{"kind":7,"x8":0}')


def test_values_in_two_branches_of_a_one_of_are_out(compiled: Callable[..., Any]) -> None:
    language = compiled({"oneOf": [{"enum": ["a", "b"]}, {"enum": ["b", "c"]}, {"const": "c"}]})
    assert language.takes('"a"')
    assert not language.takes('"b"')
    assert not language.takes('"c"')
