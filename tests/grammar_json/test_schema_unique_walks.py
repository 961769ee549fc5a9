"""Random walks under schemas that need a tracker.

A mask says of every token what accepting it says, no walk ends in a corner, and every text that ends is valid and
has no name twice.
"""

from __future__ import annotations

import json
import random
from decimal import Decimal
from typing import Any

import jsonschema
import numpy as np
import pytest

from radixrt.grammar import Compiler, Vocabulary

CHARACTERS = [bytes((byte,)) for byte in b'{}[]",:\\/ \n-.eab0123456789nutrlsf']
PIECES = (
    b'{" {"a": [1 '
    b'"} ":" "," ", " },{" "a": "a" "ab "" ,"a a":1,"a" "b":1,"b": ],[ [],[] }] }} ]] 11 1, 1,1 0,0 ,1 , 12 '
    b"true false null null,null true,true , t ,null [[ {} {},{} \\/ \\u00 a/"
)
TOKENS: list[bytes | None] = [*CHARACTERS, *dict.fromkeys(PIECES.split(b" ")), b" 1", b', "', None]
VOCABULARY = Vocabulary([token or None for token in TOKENS], eos_ids=[len(TOKENS) - 1])
STRUCTURE = frozenset(b'{}[]",:')
UNIQUE = {"type": "array", "uniqueItems": True}
INTEGER = {"type": "integer"}
OBJECTS: list[dict[str, Any]] = [
    {},
    {"properties": {"a": INTEGER, "b": {}, "ab": {"type": "null"}}, "required": ["b"]},
    {
        "properties": {"a": INTEGER, "b": {}, "ab": {"type": "null"}},
        "required": ["b"],
        "additionalProperties": False,
    },
    {"properties": {"a": {}, "aa": {}, "aab": {}}, "additionalProperties": False, "minProperties": 2},
    {"required": ["a", "b", "ab"], "additionalProperties": INTEGER, "maxProperties": 4},
    {"propertyNames": {"enum": ["a", "ab", "b"]}, "minProperties": 2, "additionalProperties": INTEGER},
    {"patternProperties": {"^[ab]$": INTEGER}, "additionalProperties": False, "minProperties": 2},
    {"propertyNames": {"pattern": "^[a/]{1,2}$"}, "minProperties": 3, "additionalProperties": INTEGER},
    {"not": {"additionalProperties": INTEGER}, "maxProperties": 2},
    {"not": {"patternProperties": {"^a$": INTEGER}}, "maxProperties": 2},
    {"additionalProperties": {"type": "object", "propertyNames": {"enum": ["a", "b"]}}},
    {"dependentRequired": {"a": ["b"]}, "properties": {"a": {}, "b": {}}, "additionalProperties": False},
]
ARRAYS: list[dict[str, Any]] = [
    UNIQUE,
    UNIQUE | {"items": INTEGER},
    UNIQUE | {"items": {"type": "number"}},
    UNIQUE | {"items": {"type": "string"}},
    UNIQUE | {"items": {"type": "boolean"}, "minItems": 2},
    UNIQUE | {"items": {"enum": [1, "a", None, "ab", 2.5, "a/"]}},
    UNIQUE | {"items": {"type": "integer", "minimum": 1, "maximum": 12}, "minItems": 3},
    UNIQUE | {"items": {"type": "number", "minimum": 0, "maximum": 3, "multipleOf": 1}},
    UNIQUE | {"items": {"type": "string", "pattern": "^[ab]{0,2}$"}, "minItems": 6},
    UNIQUE | {"items": {"type": "array", "items": {"enum": [1, 2]}, "maxItems": 2, "uniqueItems": True}},
    UNIQUE | {"items": {"type": "array", "items": {"enum": [1, 12]}, "maxItems": 2, "minItems": 1}, "minItems": 5},
    UNIQUE
    | {"items": {"properties": {"a": {"enum": [1, 11]}, "b": {"type": "null"}}, "additionalProperties": False}},
    UNIQUE | {"items": {"type": "object", "properties": {"a": INTEGER}, "additionalProperties": False}},
    UNIQUE | {"items": {"type": "object", "properties": {"a": INTEGER, "b": {"type": "string"}}}},
    UNIQUE
    | {"items": {"type": "object", "patternProperties": {"^[ab]$": {"const": 1}}, "additionalProperties": False}},
    UNIQUE | {"items": {"properties": {"a": {"const": 1}}, "additionalProperties": False, "type": "object"}},
    UNIQUE | {"contains": {"enum": [1, "a"]}, "minContains": 2, "maxItems": 3},
    UNIQUE | {"prefixItems": [{"enum": ["a", "b"]}, {"enum": ["a", "b"]}], "items": {"enum": ["a", "b", 1]}},
    {"type": "array", "items": UNIQUE | {"items": {"enum": [0, 1]}}},
    {"anyOf": [UNIQUE | {"items": INTEGER}, {"type": "array", "items": {"enum": [1, "a"]}}]},
    {"oneOf": [UNIQUE, {"type": "array", "items": INTEGER}]},
    {"type": "array", "not": {"uniqueItems": True}},
    {"type": "array", "items": {"type": "array", "items": INTEGER}, "not": {"uniqueItems": True}},
]
COMPILER = Compiler(VOCABULARY)


def allowed_by_mask(matcher: Any) -> list[int]:
    row = np.zeros(VOCABULARY.words, np.int32)
    matcher.fill_mask(row)
    assert matcher.error is None
    return np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist()


def walk(grammar: Any, seed: int) -> bytes | None:
    """The text of a walk that ended, checked at each step."""
    rng, matcher, text = random.Random(seed), grammar.matcher(), b""
    for step in range(80):
        allowed = allowed_by_mask(matcher)
        taken = [token for token in range(VOCABULARY.size) if matcher.copy().accept(token)]
        assert allowed == taken, (text, [TOKENS[token] for token in set(allowed) ^ set(taken)])
        assert allowed, text
        forced = matcher.forced_tokens()
        assert not forced or allowed == forced[:1], (text, forced)
        # Towards the end of the walk, prefer what closes something.
        weights = [1 + 6 * (not STRUCTURE.isdisjoint(TOKENS[token] or b"")) for token in allowed]
        if step > 30 or rng.random() < 0.2:
            weights = [1 + 30 * ((TOKENS[token] or b"]")[:1] in b'"]}') for token in allowed]
        token = rng.choices(allowed, weights)[0]
        assert matcher.accept(token)
        if TOKENS[token] is None:
            return text
        text += TOKENS[token] or b""
        if rng.random() < 0.1:
            matcher.rollback(1)
            assert allowed_by_mask(matcher) == allowed
            assert matcher.accept(token)
    return None


def exact(text: str) -> Decimal | int:
    number = Decimal(text)
    return int(number) if number == number.to_integral_value() else number


def without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    assert len(dict(pairs)) == len(pairs), pairs
    return dict(pairs)


@pytest.mark.parametrize("key_order", ["schema", "any"])
@pytest.mark.parametrize("schema", [{"type": "object"} | schema for schema in OBJECTS], ids=json.dumps)
def test_walks_through_objects(schema: dict[str, Any], key_order: str) -> None:
    check_walks(schema, key_order=key_order)


@pytest.mark.parametrize("schema", ARRAYS, ids=json.dumps)
def test_walks_through_arrays(schema: dict[str, Any]) -> None:
    check_walks(schema)


def check_walks(schema: dict[str, Any], **options: Any) -> None:
    validator = jsonschema.Draft202012Validator(schema)
    ended = 0
    for whitespace, seeds in (("compact", range(6)), ("flexible", range(6, 9))):
        grammar = COMPILER.json_schema(schema, whitespace=whitespace, **options)
        for seed in seeds:
            text = walk(grammar, seed)
            if text is not None:
                ended += 1
                assert grammar.matches(text), text
                validator.validate(json.loads(text, object_pairs_hook=without_doubles, parse_float=exact))
    assert ended or "required" in schema  # a name that is asked for is rarely met by chance


@pytest.mark.parametrize(
    ("schema", "texts"),
    [
        (UNIQUE | {"items": {"enum": [1, "a", None, "ab"]}}, 65),
        (UNIQUE | {"items": {"type": "integer", "minimum": 9, "maximum": 12}, "minItems": 3}, 48),
        (UNIQUE | {"items": {"type": "array", "items": {"enum": [1, 2]}, "uniqueItems": True}, "maxItems": 3}, 86),
        (UNIQUE | {"contains": {"enum": [1, "a"]}, "minContains": 2, "items": {"enum": [1, "a", 2]}}, 8),
        (
            UNIQUE | {"items": {"anyOf": [{"enum": [1, 2]}, {"enum": [2, 3]}, {"type": "boolean"}]}, "minItems": 4},
            240,
        ),
        ({"type": "array", "not": {"uniqueItems": True}, "maxItems": 3, "items": {"enum": [1, "a"]}}, 10),
        ({"type": "array", "items": UNIQUE | {"items": {"enum": [0, 1]}}, "maxItems": 2}, 31),
        (
            {
                "type": "object",
                "properties": {"a": {"const": 1}, "ab": {"const": 2}, "b": {"enum": [1, 2]}},
                "required": ["ab"],
                "additionalProperties": False,
            },
            19,
        ),
        (
            {
                "type": "object",
                "propertyNames": {"enum": ["a", "ab"]},
                "additionalProperties": UNIQUE | {"items": {"enum": [1, "a"]}},
                "minProperties": 1,
            },
            60,
        ),
    ],
    ids=json.dumps,
)
def test_every_way_leads_to_a_text(schema: dict[str, Any], texts: int) -> None:
    grammar = COMPILER.json_schema(schema, whitespace="compact", key_order="any")
    characters = [token for token in range(VOCABULARY.size) if len(TOKENS[token] or b"1") == 1]
    validator = jsonschema.Draft202012Validator(schema)
    found: set[bytes] = set()
    todo = [(grammar.matcher(), b"")]
    while todo:
        matcher, text = todo.pop()
        allowed = [token for token in allowed_by_mask(matcher) if token in characters]
        assert allowed, text
        for token in allowed:
            if TOKENS[token] is None:
                validator.validate(json.loads(text))
                found.add(text)
                continue
            twin = matcher.copy()
            assert twin.accept(token)
            todo.append((twin, text + (TOKENS[token] or b"")))
    assert len(found) == texts


@pytest.mark.parametrize("prefix", [b"{", b' {"', b"[1", b"x"])
def test_a_healed_prefix_goes_on_with_what_accepting_says(prefix: bytes) -> None:
    tokens: list[bytes | None] = [
        *TOKENS[:-1],
        b"x{",
        b'x{"a":1,"a',
        b'x{"a":1,"a":',
        b"x[1,1,",
        b"x[1,",
        b"[1[1,1,",
        None,
    ]
    vocabulary = Vocabulary([token or None for token in tokens], eos_ids=[len(tokens) - 1])
    grammar = Compiler(vocabulary).json_schema({"items": {"uniqueItems": True}, "uniqueItems": True})
    matcher = grammar.matcher(prefix=prefix)
    row = np.zeros(vocabulary.words, np.int32)
    matcher.fill_mask(row)
    for token in range(vocabulary.size):
        assert bool(row[token // 32] >> (token % 32) & 1) == matcher.copy().accept(token), tokens[token]


def test_a_copy_and_a_rollback_remember_their_own_names() -> None:
    matcher = COMPILER.json_schema({"type": "object"}, whitespace="compact").matcher()
    for byte in b'{"a":1,':
        assert matcher.accept(TOKENS.index(bytes((byte,))))
    twin = matcher.copy()
    for byte in b'"b":1,"':
        assert matcher.accept(TOKENS.index(bytes((byte,))))
    for byte in b'"ab":1,"b':
        assert twin.accept(TOKENS.index(bytes((byte,))))
    quote = TOKENS.index(b'"')
    assert twin.copy().accept(quote)
    assert matcher.accept(TOKENS.index(b"b"))
    assert not matcher.copy().accept(quote)
    matcher.rollback(len('"b":1,"b'))
    for byte in b'"b':
        assert matcher.accept(TOKENS.index(bytes((byte,))))
    assert matcher.accept(quote)


def test_many_names_are_remembered_and_found() -> None:
    matcher = COMPILER.json_schema({"additionalProperties": {"type": "integer"}}, whitespace="compact").matcher()
    names = [f"{'a' * (i % 7)}{i}".translate(str.maketrans("46789", "bentr")) for i in range(400)]
    names = list(dict.fromkeys(names))
    for i, name in enumerate(names):
        for byte in f'{"," if i else "{"}"{name}":1'.encode():
            assert matcher.accept(TOKENS.index(bytes((byte,))))
    for byte in b',"':
        assert matcher.accept(TOKENS.index(bytes((byte,))))
    for name in names:
        twin = matcher.copy()
        assert all(twin.accept(TOKENS.index(bytes((byte,)))) for byte in name.encode())
        allowed = allowed_by_mask(twin)
        assert TOKENS.index(b'"') not in allowed
        assert not twin.accept(TOKENS.index(b'":'[:1]))
        assert twin.accept(TOKENS.index(b"s"))
        assert TOKENS.index(b'"') in allowed_by_mask(twin)
