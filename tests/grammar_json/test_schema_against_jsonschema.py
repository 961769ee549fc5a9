"""Random schemas, most of them unreasonable: exactly the small documents that ``jsonschema`` takes are taken."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import combinations, permutations, product
from random import Random
from typing import Any

import jsonschema
import pytest

from radixrt.errors import UnsatisfiableConstraint, UnsupportedConstraint

NAMES = ["a", "b", "c"]
VALUES = [1, "x", None]
LEAVES: list[Any] = [
    True,
    False,
    {"type": "integer"},
    {"type": "string"},
    {"const": 1},
    {"type": ["string", "null"]},
    {"enum": [1, "x"]},
]
LISTED: list[Any] = [1, "x", {"a": 1}, {"a": 1, "b": "x"}, {}, [1], [1, "x"], {"c": None}]
KEYWORDS = [
    "properties",
    "required",
    "additionalProperties",
    "patternProperties",
    "propertyNames",
    "maxProperties",
    "dependentRequired",
    "dependentSchemas",
    "prefixItems",
    "items",
    "contains",
    "counted",
    "minItems",
    "maxItems",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "enum",
    "type",
    "$ref",
    "unevaluatedProperties",
    "unevaluatedItems",
    "unevaluatedProperties",
    "unevaluatedItems",
]


def documents() -> Iterator[Any]:
    yield from [True, 1.5, *VALUES]
    for size in range(4):
        for values in product(VALUES, repeat=size):
            yield list(values)
            yield from (dict(zip(names, values, strict=True)) for names in combinations(NAMES, size))


class Generator:
    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)

    def leaf(self) -> Any:
        return self.rng.choice(LEAVES)

    def schema(self, depth: int) -> Any:
        if depth == 0 or self.rng.random() < 0.15:
            return self.leaf()
        made: dict[str, Any] = {}
        for _ in range(self.rng.randint(1, 3)):
            made |= self.keyword(self.rng.choice(KEYWORDS), depth - 1)
        return made

    def keyword(self, keyword: str, depth: int) -> dict[str, Any]:
        rng = self.rng
        match keyword:
            case "properties":
                return {keyword: {name: self.leaf() for name in rng.sample(NAMES, rng.randint(1, 2))}}
            case "patternProperties":
                return {keyword: {rng.choice(["^a", "b", "[ab]"]): self.leaf()}}
            case "propertyNames":
                return {keyword: {"pattern": rng.choice(["a", "[bc]"])}}
            case "required":
                return {keyword: rng.sample(NAMES, rng.randint(1, 2))}
            case "maxProperties" | "minItems" | "maxItems":
                return {keyword: rng.randint(0, 2)}
            case "dependentRequired":
                return {keyword: {rng.choice(NAMES): [rng.choice(NAMES)]}}
            case "dependentSchemas":
                return {keyword: {rng.choice(NAMES): self.schema(depth)}}
            case "counted":
                return {"contains": self.leaf(), "minContains": rng.randint(0, 2)}
            case "prefixItems":
                return {keyword: [self.leaf() for _ in range(rng.randint(1, 2))]}
            case "allOf" | "anyOf" | "oneOf":
                return {keyword: [self.schema(depth) for _ in range(rng.randint(1, 3))]}
            case "not":
                return {keyword: self.schema(depth)}
            case "if":
                return {part: self.schema(depth) for part in ("if", "then", "else")}
            case "enum":
                return {keyword: rng.sample(LISTED, 3)}
            case "type":
                return {keyword: rng.choice(["object", "array", ["object", "integer"], ["array", "string"]])}
            case "$ref":
                return {keyword: "#/$defs/other"}
        return {keyword: self.leaf() if rng.random() < 0.7 else False}  # the keywords with one schema


def spellings(document: Any) -> Iterator[str]:
    """The document as text; an object in every order of its members, for which order counts is not the question."""
    if isinstance(document, dict):
        yield from (json.dumps(dict(members)) for members in permutations(document.items()))
    else:
        yield json.dumps(document)


@pytest.mark.parametrize("seed", range(12))
def test_the_same_small_documents_are_valid(compiled: Callable[..., Any], seed: int) -> None:
    checked = 0
    for number in range(25):
        generator = Generator(1000 * seed + number)
        schema = generator.schema(3)
        if isinstance(schema, bool):
            continue
        schema = {**schema, "$defs": {"other": generator.schema(1)}}
        try:
            language = compiled(schema)
        except UnsatisfiableConstraint:
            language = None
        except UnsupportedConstraint:
            continue
        validator = jsonschema.Draft202012Validator(schema)
        try:
            valid = {json.dumps(document): validator.is_valid(document) for document in documents()}
        except RecursionError:
            continue  # the schema refers to itself for the same value, in a part that does not matter here
        for text, verdict in valid.items():
            taken = language is not None and any(map(language.takes, spellings(json.loads(text))))
            assert taken is verdict, (text, json.dumps(schema))
        checked += 1
    assert checked > 15
