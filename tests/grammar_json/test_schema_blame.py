"""Every refusal says where: its location resolves in what was given, and a keyword it names stands there."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest

from radixrt.errors import InvalidRequest, UnsupportedConstraint
from radixrt.grammar import Compiler
from radixrt.grammar.json_schema import json_schema_grammar
from radixrt.grammar.json_schema.keywords import KEYWORDS
from radixrt.grammar.limits import GrammarLimits
from tests.grammar_json.conftest import BYTES

Schema = Any
Rng = random.Random

FAR: Final = "https://example.com/far"
NAMES: Final = ["a", "b/c", "d~e", ""]
MANY: Final = 1_000_000


def leaf(rng: Rng) -> Schema:
    """Something that is refused, alone or in the wrong company, or a plain schema."""
    return rng.choice(
        [
            lambda: rng.choice([True, False, {}]),
            lambda: {"type": rng.choice(["string", "integer", "array", "object", "null"])},
            lambda: {"$ref": rng.choice(["#", "#/$defs/x", "#/$defs/y~1", FAR, f"{FAR}#/items", "x:nowhere"])},
            lambda: {rng.choice(["$dynamicRef", "$recursiveRef"]): "#"},
            lambda: {rng.choice(["minProperties", "maxProperties"]): rng.choice([2, MANY])},
            lambda: {"contains": {"const": 1}, rng.choice(["minContains", "maxContains"]): rng.choice([2, MANY])},
            lambda: {"uniqueItems": True, rng.choice(["maxItems", "minItems"]): rng.choice([3, MANY])},
            lambda: {"multipleOf": rng.choice([3, 1000003, 0.25])},
            lambda: {rng.choice(["minimum", "exclusiveMaximum", "multipleOf"]): 10**500},
            lambda: {"pattern": rng.choice(["^a", "(a)\\1", "\\p{Script=Greek}", "a{,3}", ".*a.{24}b"])},
            lambda: {
                "patternProperties": {p: {"minimum": 1} for p in rng.sample(["^a", "b$", "(a)\\1", "a~/"], 2)}
            },
            lambda: {"patternProperties": {f"{i}.*{i}": {"minLength": i} for i in range(12)}},
            lambda: {"const": rng.choice([[1, {"a": 2}], {"a": [1]}, 10**500, "x" * 300])},
            lambda: {"enum": rng.choice([[1, 2, [3]], [{"a": 1}, {"b": [2]}], [None]])},
            lambda: {"format": rng.choice(["email", "odd"])},
            lambda: {"required": rng.sample([f"r{i}" for i in range(40)], rng.choice([1, 30]))},
            lambda: {"propertyNames": {"maxLength": rng.choice([1, 30])}},
            lambda: {"properties": {f"p{i}": {"type": "string"} for i in range(rng.choice([2, 60]))}},
            lambda: {"minLength": rng.choice([1, MANY]), "pattern": "a.*b"},
        ]
    )()


def schema(rng: Rng, depth: int) -> Schema:
    if depth == 0 or rng.random() < 0.15:
        return leaf(rng)

    def inner() -> Schema:
        return schema(rng, depth - 1)

    made: dict[str, Any] = {}
    for _ in range(rng.randint(1, 3)):
        name = rng.choice(NAMES)
        part = rng.choice(
            [
                lambda: {rng.choice(["not", "items", "contains", "if", "then", "else"]): inner()},
                lambda: {rng.choice(["additionalProperties", "propertyNames"]): inner()},
                lambda: {rng.choice(["unevaluatedItems", "unevaluatedProperties"]): inner()},
                lambda: {rng.choice(["allOf", "anyOf", "oneOf"]): [inner() for _ in range(rng.randint(1, 3))]},
                lambda: {"prefixItems": [inner(), inner()]},
                lambda: {"items": [inner(), inner()], "additionalItems": inner()},
                lambda name=name: {rng.choice(["properties", "dependentSchemas"]): {name: inner(), "z": inner()}},
                lambda: {"patternProperties": {"^b/": inner()}},
                lambda: {"dependentRequired": {"a": ["b", "c"]}},
                lambda: leaf(rng),
            ]
        )()
        made.update(part if isinstance(part, dict) else {"not": part})
    return made


def document(rng: Rng) -> Schema:
    made = schema(rng, rng.randint(1, 4))
    if isinstance(made, dict):
        if rng.random() < 0.04:
            made["title"] = "\udc00"
        made["$defs"] = {"x": schema(rng, 1), "y/": schema(rng, 1)}
        if rng.random() < 0.2:
            made["$schema"] = rng.choice(
                ["http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2019-09/schema"]
            )
        if rng.random() < 0.2:
            made["$dynamicAnchor"] = "n"
    return made


def at(value: Any, pointer: str) -> Any:
    """What is at a JSON pointer; KeyError, IndexError or TypeError if nothing is."""
    assert pointer == "" or pointer.startswith("/")
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        value = value[int(name)] if isinstance(value, list) else value[name]
    return value


def refusal(work: Callable[[], object], param: str) -> UnsupportedConstraint | None:
    """What was refused as beyond the engine. What is malformed or unsatisfiable has no place to check."""
    try:
        work()
    except InvalidRequest as error:
        if error.param != param:
            raise
        return error if isinstance(error, UnsupportedConstraint) else None
    return None


def check(error: UnsupportedConstraint, given: Any, resources: Mapping[str, Any]) -> None:
    """The location resolves; a keyword of JSON Schema stands where it says."""
    assert error.location is not None
    pointer = error.location
    for uri, text in resources.items():
        if pointer.startswith(uri):
            pointer, given = pointer.removeprefix(uri), text
    at(given, pointer)
    if error.keyword in KEYWORDS:
        place, _, last = pointer.rpartition("/")
        assert last == error.keyword
        assert error.keyword in at(given, place)


@pytest.mark.parametrize("seed", range(60))
def test_every_location_resolves_and_ends_in_its_keyword(seed: int) -> None:
    rng = Rng(seed)
    refused = 0
    for _ in range(25):
        given, resources = document(rng), {FAR: {"items": schema(rng, 1), "minItems": 1}}
        limits = GrammarLimits(compile_fuel=rng.choice([50, 500, 5_000, 100_000]))
        options = {
            "key_order": rng.choice(["schema", "any"]),
            "unknown_format": rng.choice(["ignore", "refuse"]),
        }
        work = functools.partial(json_schema_grammar, given, resources=resources, limits=limits, **options)
        error = refusal(work, "schema")
        if error is not None:
            refused += 1
            check(error, given, resources)
    assert refused > 3


@pytest.mark.parametrize("seed", range(20))
def test_so_does_every_location_in_a_structural_tag(seed: int) -> None:
    rng = Rng(1000 + seed)
    compiler = Compiler(BYTES, GrammarLimits(compile_fuel=20_000))
    refused = 0
    for _ in range(15):
        given = {
            "type": "object",
            "properties": {"a": document(rng), "b/": schema(rng, 1)},
            "$defs": {"x": leaf(rng)},
        }
        form = rng.choice(
            [
                {"type": "json_schema", "json_schema": given, "any_order": rng.random() < 0.5},
                {"type": "qwen_xml_parameter", "json_schema": given},
            ]
        )
        spec = {"format": {"type": "sequence", "elements": [{"type": "any_text", "excludes": ["<"]}, form]}}
        error = refusal(functools.partial(compiler.structural_tag, spec), "grammar")
        if error is not None:
            refused += 1
            check(error, spec, {})
    assert refused > 2


@pytest.mark.parametrize(
    ("given", "location"),
    [
        ({"$recursiveRef": "#"}, "/$recursiveRef"),
        ({"$dynamicRef": "#"}, "/$dynamicRef"),
        ({"allOf": [{"$ref": "#"}]}, "/allOf/0/$ref"),
        ({"oneOf": [{"$ref": "#"}, True]}, "/oneOf/0/$ref"),
        ({"maxProperties": MANY}, "/maxProperties"),
        ({"minProperties": MANY}, "/minProperties"),
        ({"allOf": [{"properties": {"a": {}}}, {"maxProperties": MANY}]}, "/allOf/1/maxProperties"),
        (
            {
                "if": {"unevaluatedItems": {"$ref": "#"}},
                "else": {"contains": {"const": 1}, "maxContains": MANY},
            },
            "/else/contains",
        ),
        ({"patternProperties": {"(a)\\1/~": {}}}, "/patternProperties/(a)\\1~1~0"),
    ],
)
def test_the_blame_is_the_causes(compiled: Callable[..., Any], given: Schema, location: str) -> None:
    with pytest.raises(UnsupportedConstraint) as caught:
        compiled(given)
    assert caught.value.location == location


def test_a_limit_is_placed_at_the_schema_that_needs_the_work() -> None:
    given = {"properties": {"small": {"const": 1}, "big": {"items": {"enum": [f"{i}" * 40 for i in range(300)]}}}}
    with pytest.raises(UnsupportedConstraint) as caught:
        json_schema_grammar(given, limits=GrammarLimits(compile_fuel=2_000))
    assert (caught.value.keyword, caught.value.location) == ("compile_fuel", "/properties/big/items")
    assert caught.value.param == "schema"
