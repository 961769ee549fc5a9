"""Random walks where names and unique items run out: what cannot be is not counted, and no way ends in a corner.

Schemas are made of what makes values scarce: parts that nothing satisfies, spelled in many ways, empty containers,
counts of what an array contains, negations and branches. A walk closes late, so that it comes to where little is
left.
"""

from __future__ import annotations

import json
import random
from decimal import Decimal
from typing import Any

import jsonschema
import numpy as np
import pytest

from radixrt.errors import UnsatisfiableConstraint, UnsupportedConstraint
from radixrt.grammar import Compiler, Vocabulary

PIECES = (
    b'{" "} ":" "," },{ "a": "ab" "" "a":1,"b": ],[ [] {} [[ 11 1, 0,0 [1, ,null true, null] 1e e40 1e400 1e400,'
).split()
# No backslash: what a control character matches, Python's patterns and ECMA's do not agree on.
TOKENS = [*(bytes((byte,)) for byte in range(0x20, 0x7F) if byte != 0x5C), *PIECES, None]
VOCABULARY = Vocabulary(TOKENS, eos_ids=[len(TOKENS) - 1])
COMPILER = Compiler(VOCABULARY)
IMPOSSIBLE: list[Any] = [
    False,
    {"enum": []},
    {"not": {}},
    {"type": "integer", "multipleOf": 2, "enum": [1]},
    {"pattern": "^a", "enum": ["b"]},
    {"type": "string", "not": {"type": "string"}},
    {"allOf": [{"type": "string"}, {"type": "null"}]},
    {"type": "integer", "exclusiveMinimum": 1, "exclusiveMaximum": 2},
    {"type": "number", "multipleOf": 3, "minimum": 1, "maximum": 2},
    {"type": "array", "minItems": 2, "maxItems": 1},
    {"type": "array", "uniqueItems": True, "items": {"const": 1}, "minItems": 2},
    {"type": "object", "maxProperties": 1, "required": ["a", "b"]},
    {"type": "object", "propertyNames": {"maxLength": 0}, "minProperties": 2},
    {"if": {"not": True}, "else": {"type": "array", "contains": True, "maxContains": 0}},
    {"$ref": "#/$defs/endless"},
]
ENDLESS = {"type": "object", "properties": {"x": {"$ref": "#/$defs/endless"}}, "required": ["x"]}
SCARCE: list[Any] = [
    True,
    {"type": "null"},
    {"const": 1},
    {"type": "boolean"},
    {"enum": [1, 2, "a"]},
    {"type": ["null", "integer"]},
    {"type": ["null", "string"]},
    {"type": ["array", "null"]},
    {"type": "integer", "minimum": 1, "maximum": 3},
    {"type": "array", "maxItems": 0},
    {"type": "object", "maxProperties": 0},
    {"type": "object", "additionalProperties": {"enum": []}},
    {"anyOf": [{"type": "object", "maxProperties": 0}, {"type": "array", "maxItems": 0}]},
    {"type": "array", "items": {"type": "null"}, "maxItems": 1},
    {"type": "array", "items": {"type": "null"}, "contains": {"type": "null"}, "maxContains": 2},
    {"type": "array", "items": {"enum": [0, 1]}, "uniqueItems": True},
    {"type": "string", "maxLength": 0},
    {"not": {"const": 1}},
    {"type": "number"},
]


def scarce_array(rng: random.Random) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "array", "uniqueItems": True, "items": rng.choice(SCARCE)}
    if rng.random() < 0.6:
        schema["contains"] = rng.choice(SCARCE)
        if rng.random() < 0.6:
            schema["maxContains"] = rng.randint(1, 2)
        if rng.random() < 0.4:
            schema["minContains"] = rng.randint(0, 2)
    if rng.random() < 0.3:
        schema["prefixItems"] = [rng.choice(SCARCE) for _ in range(rng.randint(1, 2))]
    if rng.random() < 0.3:
        schema["minItems"] = rng.randint(1, 3)
    if rng.random() < 0.4:
        schema["maxItems"] = rng.randint(1, 4)
    if rng.random() < 0.2:
        schema["not"] = {"contains": rng.choice(SCARCE)}
    if rng.random() < 0.2:
        schema["anyOf"] = [{"items": rng.choice(SCARCE)}, {"contains": rng.choice(SCARCE + IMPOSSIBLE[:4])}]
    return schema


def scarce_object(rng: random.Random) -> dict[str, Any]:
    def part() -> Any:
        return rng.choice(IMPOSSIBLE if rng.random() < 0.4 else SCARCE)

    schema: dict[str, Any] = {"type": "object", "$defs": {"endless": ENDLESS}}
    if rng.random() < 0.8:
        schema["properties"] = {name: part() for name in rng.sample(["a", "b", "ab", ""], rng.randint(1, 3))}
    if rng.random() < 0.5:
        schema["patternProperties"] = {rng.choice(["b", "^a", "[^a]", "^[^a]$"]): part()}
    if rng.random() < 0.7:
        schema["additionalProperties"] = part()
    if rng.random() < 0.4:
        names = [
            {"enum": ["a", "b", "c"]},
            {"not": {"pattern": "^a"}},
            {"maxLength": 1},
            {"pattern": "^[ab]{1,2}$"},
        ]
        schema["propertyNames"] = rng.choice(names)
    if rng.random() < 0.3:
        schema["minProperties"] = rng.randint(1, 3)
    if rng.random() < 0.3:
        schema["maxProperties"] = rng.randint(1, 3)
    if rng.random() < 0.2:
        schema["dependentRequired"] = {"a": ["b"]}
    return schema


def allowed_by_mask(matcher: Any) -> list[int]:
    row = np.zeros(VOCABULARY.words, np.int32)
    matcher.fill_mask(row)
    assert matcher.error is None
    return np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist()


def walk(grammar: Any, rng: random.Random, late: int) -> bytes | None:
    """The text of a walk that ended; one that closes nothing for ``late`` steps, if it can."""
    matcher, text = grammar.matcher(), b""
    for step in range(late + 60):
        allowed = allowed_by_mask(matcher)
        assert allowed, text
        if rng.random() < 0.3:
            taken = [token for token in range(VOCABULARY.size) if matcher.copy().accept(token)]
            assert allowed == taken, (text, [TOKENS[token] for token in set(allowed) ^ set(taken)])
        closing = [token for token in allowed if (TOKENS[token] or b"]")[:1] in b'"]}']
        left = [token for token in allowed if token not in closing or TOKENS[token] == b'"']
        token = rng.choice((closing if step >= late else left) or allowed)
        assert matcher.accept(token), (text, TOKENS[token])
        if TOKENS[token] is None:
            return text
        text += TOKENS[token] or b""
    return None


def exact(text: str) -> Decimal | int:
    number = Decimal(text)
    return int(number) if number == number.to_integral_value() else number


def check(schema: dict[str, Any], rng: random.Random) -> int:
    """The number of walks that ended; an unsatisfiable or a refused schema is fine too."""
    try:
        grammar = COMPILER.json_schema(
            schema, whitespace=rng.choice(["compact", "flexible"]), key_order=rng.choice(["schema", "any"])
        )
    except (UnsatisfiableConstraint, UnsupportedConstraint):
        return 0
    validator = jsonschema.Draft202012Validator(schema)
    texts = [text for late in (2, 6, 20, 40) if (text := walk(grammar, rng, late)) is not None]
    for text in texts:
        assert grammar.matches(text), text
        validator.validate(json.loads(text, parse_float=exact))
    return len(texts)


@pytest.mark.parametrize("make", [scarce_array, scarce_object])
def test_no_walk_ends_in_a_corner(make: Any) -> None:
    ended = 0
    for seed in range(60):
        rng = random.Random(seed)
        schema = make(rng)
        try:
            ended += check(schema, rng)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {json.dumps(schema)}") from error
    assert ended > 40


@pytest.mark.parametrize("dead", IMPOSSIBLE, ids=json.dumps)
@pytest.mark.parametrize(
    ("frame", "text"),
    [
        (lambda dead: {"properties": {"a": True}, "additionalProperties": dead}, b'{"a":1'),
        (lambda dead: {"properties": {"a": True, "b": dead}, "additionalProperties": False}, b'{"a":1'),
        (lambda dead: {"patternProperties": {"b": dead}, "propertyNames": {"enum": ["b", "c"]}}, b'{"c":1'),
        (
            lambda dead: {"patternProperties": {"[^a]": dead}, "propertyNames": {"not": {"pattern": "^a"}}},
            b'{"":1',
        ),
    ],
    ids=["additional", "declared", "pattern", "not finite at a glance"],
)
def test_no_comma_before_a_name_that_nothing_can_stand_under(dead: Any, frame: Any, text: bytes) -> None:
    schema = {"type": "object", "$defs": {"endless": ENDLESS}} | frame(dead)
    matcher = COMPILER.json_schema(schema, whitespace="compact", key_order="any").matcher()
    for byte in text:
        assert matcher.accept(TOKENS.index(bytes((byte,))))
    assert TOKENS.index(b",") not in allowed_by_mask(matcher)
    assert TOKENS.index(b"}") in allowed_by_mask(matcher)


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"items": {"type": ["null", "integer"]}, "contains": {"type": "integer"}, "maxContains": 1}, b"[7,null"),
        ({"items": {"enum": [1, 2, "a"]}, "not": {"contains": {"type": "string"}}}, b"[1,2"),
        ({"items": {"enum": [1, 2, "a"]}, "contains": {"type": "integer"}, "maxContains": 1}, b'["a",1'),
        (
            {"items": {"type": ["null", "integer"]}, "contains": {"not": {"const": 1}}, "maxContains": 1},
            b"[0,1",
        ),
        ({"items": {"type": "object", "maxProperties": 0}}, b"[{}"),
        (
            {"items": {"anyOf": [{"type": "object", "maxProperties": 0}, {"type": "array", "maxItems": 0}]}},
            b"[[],{}",
        ),
        (
            {"items": {"type": "array", "items": {"type": "null"}, "contains": {"type": "null"}, "maxContains": 2}},
            b"[[null],[null,null]",
        ),
        ({"prefixItems": [{"type": "boolean"}], "items": {"const": 1}}, b"[true,1"),
    ],
    ids=str,
)
def test_no_comma_behind_the_last_item_there_can_be(schema: dict[str, Any], text: bytes) -> None:
    matcher = COMPILER.json_schema({"type": "array", "uniqueItems": True} | schema, whitespace="compact").matcher()
    for byte in text:
        assert matcher.accept(TOKENS.index(bytes((byte,))))
    assert TOKENS.index(b",") not in allowed_by_mask(matcher)
    assert TOKENS.index(b"]") in allowed_by_mask(matcher)


def test_exponents_have_an_end() -> None:
    matcher = COMPILER.json_schema({"uniqueItems": True, "type": "array"}, whitespace="compact").matcher()
    for byte in b"[1e400,1e40":
        assert matcher.accept(TOKENS.index(bytes((byte,))))
    assert TOKENS.index(b"0") not in allowed_by_mask(matcher)
    assert TOKENS.index(b",") in allowed_by_mask(matcher)


def test_what_cannot_be_counted_is_refused_by_name() -> None:
    deep: dict[str, Any] = {"const": 1}
    for _ in range(40):
        deep = {"type": "array", "items": deep, "minItems": 1, "maxItems": 1}
    with pytest.raises(UnsupportedConstraint) as caught:
        COMPILER.json_schema({"type": "array", "uniqueItems": True, "items": deep})
    assert (caught.value.keyword, caught.value.location) == ("uniqueItems", "/uniqueItems")


def test_a_unique_array_of_an_empty_container_cannot_hold_two() -> None:
    empty = {"type": "object", "maxProperties": 0}
    with pytest.raises(UnsatisfiableConstraint):
        COMPILER.json_schema({"type": "array", "uniqueItems": True, "items": empty, "minItems": 2})
