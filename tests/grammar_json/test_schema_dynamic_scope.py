"""``$dynamicRef`` and ``$recursiveRef``: the first resource an evaluation came through decides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

DRAFT_2019 = "https://json-schema.org/draft/2019-09/schema"


def extensible_list(kind: str) -> dict[str, Any]:
    """A list whose items are what the outermost resource with the anchor ``item`` says."""
    return {
        "$id": f"https://example.com/{kind}",
        "$ref": "list",
        "$defs": {
            "item": {"$dynamicAnchor": "item", "type": kind},
            "list": {
                "$id": "list",
                "type": "array",
                "items": {"$dynamicRef": "#item"},
                "$defs": {"any": {"$dynamicAnchor": "item"}},
            },
        },
    }


@pytest.mark.parametrize(("kind", "good", "bad"), [("integer", [1], ["a"]), ("string", ["a"], [1])])
def test_the_outermost_anchor_wins(compiled: Callable[..., Any], kind: str, good: Any, bad: Any) -> None:
    language = compiled(extensible_list(kind))
    assert language.takes_value(good)
    assert not language.takes_value(bad)


def test_one_place_means_two_things_in_two_scopes(compiled: Callable[..., Any]) -> None:
    schema = {
        "properties": {"n": {"$ref": "numbers"}, "s": {"$ref": "strings"}},
        "$defs": {
            "numbers": {
                "$id": "numbers",
                "$ref": "list",
                "$defs": {"i": {"$dynamicAnchor": "i", "type": "number"}},
            },
            "strings": {
                "$id": "strings",
                "$ref": "list",
                "$defs": {"i": {"$dynamicAnchor": "i", "type": "string"}},
            },
            "list": {
                "$id": "list",
                "items": {"$dynamicRef": "#i"},
                "type": "array",
                "$defs": {"i": {"$dynamicAnchor": "i"}},
            },
        },
    }
    language = compiled(schema)
    assert language.takes_value({"n": [1], "s": ["a"]})
    assert not language.takes_value({"n": ["a"]})
    assert not language.takes_value({"s": [1]})


def test_a_scope_reaches_the_children_of_a_recursive_schema(compiled: Callable[..., Any]) -> None:
    tree = {
        "$id": "https://example.com/tree",
        "$dynamicAnchor": "node",
        "type": "object",
        "properties": {"data": True, "children": {"type": "array", "items": {"$dynamicRef": "#node"}}},
    }
    strict = {
        "$id": "https://example.com/strict",
        "$dynamicAnchor": "node",
        "$ref": "tree",
        "unevaluatedProperties": False,
    }
    language = compiled(strict, resources={"https://example.com/tree": tree})
    assert language.takes_value({"children": [{"data": 1, "children": []}]})
    assert not language.takes_value({"children": [{"daat": 1}]})
    loose = compiled({"$ref": "https://example.com/tree"}, resources={"https://example.com/tree": tree})
    assert loose.takes_value({"children": [{"daat": 1}]})


def test_a_left_scope_does_not_count(compiled: Callable[..., Any]) -> None:
    schema = {
        "if": {"$id": "first", "$defs": {"t": {"$dynamicAnchor": "t", "type": "string"}}},
        "then": {
            "$id": "second",
            "$ref": "#/$defs/use",
            "$defs": {"use": {"$dynamicRef": "#t"}, "t": {"$dynamicAnchor": "t", "type": "null"}},
        },
    }
    language = compiled(schema)
    assert language.takes("null")
    assert not language.takes('"a"')


def test_an_anchor_that_is_not_dynamic_where_it_starts_is_a_plain_one(compiled: Callable[..., Any]) -> None:
    schema = {
        "$dynamicRef": "inner#t",
        "$defs": {
            "here": {"$dynamicAnchor": "t", "type": "string"},
            "inner": {"$id": "inner", "$defs": {"t": {"$anchor": "t", "type": "null"}}},
        },
    }
    language = compiled(schema)
    assert language.takes("null")
    assert not language.takes('"a"')


def recursive(outer_anchor: bool, inner_anchor: bool) -> dict[str, Any]:
    inner = {
        "$id": "inner",
        "$recursiveAnchor": inner_anchor,
        "anyOf": [{"type": "integer"}, {"type": "array", "items": {"$recursiveRef": "#"}}],
    }
    outer = {"$schema": DRAFT_2019, "$id": "https://example.com/outer", "$recursiveAnchor": outer_anchor}
    return {**outer, "anyOf": [{"type": "boolean"}, {"$ref": "inner"}], "$defs": {"inner": inner}}


@pytest.mark.parametrize(
    ("outer_anchor", "inner_anchor", "taken"),
    [(True, True, True), (False, True, False), (True, False, False), (False, False, False)],
)
def test_a_recursive_reference_starts_anew_only_with_both_anchors(
    compiled: Callable[..., Any], outer_anchor: bool, inner_anchor: bool, taken: bool
) -> None:
    language = compiled(recursive(outer_anchor, inner_anchor))
    assert language.takes("[1,[2]]")
    assert language.takes("[[true]]") is taken


def test_a_recursive_anchor_below_the_root_of_its_resource_means_nothing(compiled: Callable[..., Any]) -> None:
    schema = {
        "$schema": DRAFT_2019,
        "properties": {"a": {"$recursiveAnchor": True, "$recursiveRef": "#"}},
        "type": "object",
    }
    language = compiled(schema)
    assert language.takes_value({"a": {"a": {}}})
    assert not language.takes_value({"a": 1})
