"""Objects and arrays: names, order, counts, blanks, and that a schema's size does not multiply."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest

from radixrt.errors import InvalidRequest, UnsatisfiableConstraint, UnsupportedConstraint
from radixrt.grammar.limits import GrammarLimits

CLOSED = {"type": "object", "additionalProperties": False}


def test_declared_names_come_in_order_and_once(compiled: Callable[..., Any]) -> None:
    language = compiled(CLOSED | {"properties": {n: {"type": "integer"} for n in "abcd"}, "required": ["c", "b"]})
    for size in range(5):
        for names in itertools.permutations("abcd", size):
            inside = list(names) == sorted(names) and {"b", "c"} <= set(names)
            assert language.takes_value(dict.fromkeys(names, 1)) == inside, names
    assert not language.takes('{"b":1,"c":1,"c":1}')
    assert not language.takes('{"b":1,"c":"x"}')


def test_required_only_names_and_others_follow(compiled: Callable[..., Any]) -> None:
    language = compiled({"type": "object", "properties": {"a": {"type": "null"}}, "required": ["z", "y"]})
    assert language.takes('{"a":null,"z":1,"y":{},"other":[1]}')
    assert language.takes('{"z":1,"y":2}')
    assert not language.takes('{"a":null,"z":1}')
    assert not language.takes('{"z":1,"y":2,"a":null}')
    assert not language.takes('{"z":1,"y":2,"z":3}')


@pytest.mark.parametrize("key", ["a", 'q"\\', "é😀", "a/b", "\n\x00", "", "\x7f"])
def test_other_names_never_repeat_a_declared_one(compiled: Callable[..., Any], key: str) -> None:
    language = compiled({"type": "object", "properties": {key: {"type": "integer"}}})
    spelled = json.dumps(key, ensure_ascii=False)
    assert language.takes(f"{{{spelled}:1}}")
    assert not language.takes(f"{{{spelled}:null}}")
    assert not language.takes(f"{{{spelled}:1,{spelled}:1}}")
    assert language.takes(f'{{{spelled}:1,"other":null}}')
    if "/" in key:
        assert not language.takes('{"a\\/b":null}')


def test_patterns_beside_names_and_each_other(compiled: Callable[..., Any]) -> None:
    schema = CLOSED | {
        "properties": {"ax": {"type": "integer"}, "n": {"type": "null"}},
        "patternProperties": {"^a": {"minimum": 5}, "x$": {"maximum": 9}, "^n": {"type": "integer"}},
    }
    language = compiled(schema)
    for name, value, inside in [
        ("ax", 7, True),
        ("ax", 4, False),
        ("ax", 10, False),
        ("ax", 7.5, False),
        ("ay", 50, True),
        ("ay", 4, False),
        ("bx", 3, True),
        ("bx", 10, False),
        ("abx", 7, True),
        ("abx", 4, False),
        ("abx", "s", True),
        ("c", 1, False),
        ("n", None, False),
        ("n", 1, False),
        ("nn", 1, True),
        ("nn", None, False),
    ]:
        assert language.takes_value({name: value}) == inside, (name, value)


def test_names_must_satisfy_property_names(compiled: Callable[..., Any]) -> None:
    language = compiled(
        {"type": "object", "properties": {"toolong": {}, "ab": {}}, "propertyNames": {"maxLength": 3}}
    )
    assert language.takes('{"ab":1,"abc":2}')
    assert not language.takes('{"toolong":1}')
    assert not language.takes('{"abcd":1}')
    with pytest.raises(UnsatisfiableConstraint):
        compiled({"type": "object", "propertyNames": {"enum": ["a"]}, "required": ["b"]})
    fails = compiled({"type": "object", "not": {"propertyNames": {"maxLength": 1}}})
    assert fails.takes('{"a":1,"bb":1}')
    assert not fails.takes('{"a":1}')


def test_a_few_other_names_come_in_any_order_and_once(compiled: Callable[..., Any]) -> None:
    language = compiled(
        {
            "type": "object",
            "properties": {"z": {}},
            "patternProperties": {"^[ab]$": {"type": "integer"}},
            "propertyNames": {"enum": ["a", "b", "c", "z"]},
            "minProperties": 2,
        }
    )
    for size in range(5):
        for names in itertools.product("abcz", repeat=size):
            text = "{" + ",".join(f'"{name}":1' for name in names) + "}"
            once = len(set(names)) == size >= 2
            assert language.takes(text) == (once and "z" not in names[1:]), text
    assert not language.takes('{"a":1,"b":"x"}')
    assert language.takes('{"c":"x","b":1}')


@pytest.mark.parametrize(("low", "high"), [(0, 0), (0, 2), (2, 2), (3, None), (1, 3), (5, None)])
@pytest.mark.parametrize("closed", [True, False])
def test_counting_members(compiled: Callable[..., Any], low: int, high: int | None, closed: bool) -> None:
    schema = {"type": "object", "properties": {n: {} for n in "abcd"}, "required": ["b"], "minProperties": low}
    schema |= {"additionalProperties": False} if closed else {}
    schema |= {} if high is None else {"maxProperties": high}
    possible = [
        dict.fromkeys(names, 1)
        for size in range(7)
        for names in itertools.combinations("abcdxy", size)
        if "b" in names
        and low <= size <= (99 if high is None else high)
        and not (closed and set(names) & {"x", "y"})
    ]
    if not possible:
        with pytest.raises(UnsatisfiableConstraint):
            compiled(schema)
        return
    language = compiled(schema)
    for size in range(7):
        for names in itertools.combinations("abcdxy", size):
            value = dict.fromkeys(names, 1)
            assert language.takes_value(value) == (value in possible), names


@pytest.mark.parametrize("keyword", ["dependentRequired", "dependencies"])
def test_dependent_names(compiled: Callable[..., Any], keyword: str) -> None:
    language = compiled(
        {"type": "object", "properties": {n: {} for n in "abc"}, keyword: {"a": ["b", "c"], "b": []}}
    )
    for size in range(4):
        for names in itertools.combinations("abc", size):
            assert language.takes_value(dict.fromkeys(names, 1)) == ("a" not in names or size == 3)


def test_items_with_places_of_their_own(compiled: Callable[..., Any]) -> None:
    language = compiled(
        {
            "type": "array",
            "prefixItems": [{"type": "integer"}, {"type": "string"}],
            "items": {"type": "null"},
            "minItems": 1,
            "maxItems": 4,
        }
    )
    for value, inside in [
        ([], False),
        ([1], True),
        ([1, "a"], True),
        ([1, None], False),
        ([1, "a", None], True),
        ([1, "a", 2], False),
        ([1, "a", None, None], True),
        ([1, "a", None, None, None], False),
        (["a"], False),
    ]:
        assert language.takes_value(value) == inside, value


@pytest.mark.parametrize("item", [{"type": "integer"}, {"type": "array", "items": {"$ref": "#"}}])
@pytest.mark.parametrize(("low", "high"), [(0, 0), (0, 3), (2, 3), (3, None), (1, 1)])
def test_counting_items(compiled: Callable[..., Any], item: Any, low: int, high: int | None) -> None:
    schema = {"type": "array", "items": item, "minItems": low} | ({} if high is None else {"maxItems": high})
    if "$ref" in str(item):
        schema = {"type": "array", "items": {"type": "array"}, "minItems": low} | (
            {} if high is None else {"maxItems": high}
        )
    language = compiled(schema)
    for size in range(6):
        value = [[] if item["type"] == "array" else 1] * size
        assert language.takes_value(value) == (low <= size <= (99 if high is None else high))


def test_an_impossible_item_ends_the_array(compiled: Callable[..., Any]) -> None:
    language = compiled({"type": "array", "prefixItems": [{"type": "null"}], "items": False})
    assert language.takes("[null]")
    assert language.takes("[]")
    assert not language.takes("[null,null]")
    with pytest.raises(UnsatisfiableConstraint):
        compiled({"type": "array", "items": False, "minItems": 1})


@pytest.mark.parametrize(("low", "high"), [(1, None), (0, 1), (2, 3), (0, 0), (0, None), (3, 2)])
def test_contains_counts_what_matches(compiled: Callable[..., Any], low: int, high: int | None) -> None:
    schema = {"type": "array", "contains": {"type": "integer"}, "minContains": low, "maxItems": 4}
    schema |= {} if high is None else {"maxContains": high}
    top = 99 if high is None else high
    if low > top:
        with pytest.raises(UnsatisfiableConstraint):
            compiled(schema)
        return
    language = compiled(schema)
    for size in range(6):
        for value in itertools.product([1, "a"], repeat=size):
            assert language.takes_value(list(value)) == (size <= 4 and low <= value.count(1) <= top), value


def test_unique_items_of_a_few_values(compiled: Callable[..., Any]) -> None:
    language = compiled({"type": "array", "uniqueItems": True, "items": {"enum": ["a", 1, None]}, "minItems": 1})
    for size in range(5):
        for value in itertools.product(["a", 1, None], repeat=size):
            assert language.takes_value(list(value)) == (size >= 1 and len(set(value)) == size), value
    assert compiled({"type": "array", "uniqueItems": True, "maxItems": 1}).takes('["x"]')


VALUE = {"a": [1, {"b": []}], "c": {}, "d": [[], [2, 3]]}


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(VALUE),
        json.dumps(VALUE, separators=(",", ":")),
        *(json.dumps(VALUE, indent=n) for n in (0, 1, 2, 4, 8, "\t", "\t\t")),
    ],
)
def test_usual_layouts_are_taken(compiled: Callable[..., Any], text: str) -> None:
    for schema in [True, {"const": VALUE}, {"type": "object", "properties": {"a": {}, "c": {}, "d": {}}}]:
        assert compiled(schema).takes(text)
    compact = compiled(True, whitespace="compact")
    assert compact.takes(text) == (" " not in text and "\n" not in text)


@pytest.mark.parametrize(
    "text",
    [
        " {}",
        "{} ",
        '{"a" :1}',
        '{"a":  1}',
        '{"a":\n1}',
        '{"a":1 ,"b":2}',
        '{"a":1,  "b":2}',
        '{"a":1,\n\n"b":2}',
        "[1,\r\n2]",
        "[1,\n" + " " * 65 + "2]",
        "[1,]",
        "[,1]",
        "[1 2]",
        "{,}",
        '{"a":1,}',
        '{"a"}',
        "{a:1}",
        "[1]]",
        "[",
        "",
    ],
)
def test_blanks_are_bounded_and_text_is_json(compiled: Callable[..., Any], text: str) -> None:
    assert not compiled(True).takes(text)


def test_options_are_checked(compiled: Callable[..., Any]) -> None:
    for option in ("whitespace", "key_order", "unknown_format"):
        with pytest.raises(InvalidRequest) as caught:
            compiled(True, **{option: "other"})
        assert caught.value.param == option


def test_size_is_not_multiplied(compiled: Callable[..., Any]) -> None:
    names = [f"name{i}" for i in range(400)]
    language = compiled(CLOSED | {"properties": {n: {"type": "boolean"} for n in names}, "minProperties": 3})
    assert language.takes_value(dict.fromkeys(names[::50], True))
    assert not language.takes_value(dict.fromkeys(names[:2], True))
    listed = compiled({"enum": [f"v{i}" for i in range(3000)]})
    assert listed.takes('"v2999"')
    assert not listed.takes('"v3000"')
    many = compiled({"type": "array", "items": {"type": "object"}, "minItems": 10**9, "maxItems": 10**9})
    assert not many.takes("[{}]")
    assert compiled({"type": "string", "minLength": 10**12, "maxLength": 10**15})


@pytest.mark.parametrize(
    ("schema", "keyword"),
    [
        ({"type": "object", "minProperties": 10**6}, "minProperties"),
        ({"type": "array", "contains": {"const": 1}, "maxContains": 10**6}, "contains"),
        ({"type": "array", "not": {"uniqueItems": True}, "maxItems": 3}, "uniqueItems"),
        ({"patternProperties": {f"[{chr(97 + i)}]": {"minimum": i} for i in range(12)}}, "patternProperties"),
        ({"oneOf": [{"properties": {f"p{i}": {"type": "null"}}} for i in range(60)]}, "oneOf"),
        ({"allOf": [{"anyOf": [{"required": [f"a{i}"]}, {"required": [f"b{i}"]}]} for i in range(20)]}, "allOf"),
    ],
)
def test_what_would_multiply_is_refused_by_name(compiled: Callable[..., Any], schema: Any, keyword: str) -> None:
    with pytest.raises(UnsupportedConstraint) as caught:
        compiled(schema)
    assert caught.value.keyword == keyword
    assert caught.value.location is not None


def test_a_limit_that_runs_out_is_named(compiled: Callable[..., Any]) -> None:
    with pytest.raises(UnsupportedConstraint) as caught:
        compiled({"properties": {f"name{i}": {} for i in range(2000)}}, limits=GrammarLimits(compile_fuel=10_000))
    assert (caught.value.keyword, caught.value.param) == ("compile_fuel", "schema")


def test_depth_is_limited_and_costs_no_stack(compiled: Callable[..., Any]) -> None:
    def nested(depth, wrap):
        schema = {"type": "null"}
        for _ in range(depth):
            schema = wrap(schema)
        return schema

    for wrap in (
        lambda s: {"properties": {"a": s}},
        lambda s: {"allOf": [s]},
        lambda s: {"not": s},
        lambda s: {"items": s},
    ):
        with pytest.raises(UnsupportedConstraint):
            compiled(nested(5000, wrap))
    assert compiled(nested(60, lambda s: {"properties": {"a": s}}))
    with pytest.raises(UnsupportedConstraint):
        compiled('{"const":' + "[" * 100000 + "]" * 100000 + "}")
    ring = {}
    ring["properties"] = {"a": ring}
    with pytest.raises(UnsupportedConstraint):
        compiled(ring)
    chain = {f"d{i}": {"$ref": f"#/$defs/d{i + 1}"} for i in range(3000)} | {"d3000": {"type": "null"}}
    assert compiled({"$defs": chain, "$ref": "#/$defs/d0"}).takes("null")
