"""``oneOf`` of many branches that one member tells apart, whether it must be there or not."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import jsonschema
import pytest

from radixrt.errors import UnsatisfiableConstraint, UnsupportedConstraint

NAMES = ("a", "b", "c")
VALUES: tuple[Any, ...] = (1, "x", None)
KINDS = ("k0", "k1", "k2", "k3", "k4", "k5")
DEMANDS: tuple[Any, ...] = ({"type": "integer"}, {"type": "string"}, {"enum": [1, "x"]}, {"type": "null"}, {})


def branch(rng: random.Random, place: int) -> dict[str, Any]:
    """An object with some members, closed more often than not; its kind is mostly listed and sometimes required."""
    kinds = [KINDS[place], *rng.choices(KINDS, k=rng.choice([0, 0, 0, 1]))]
    kind: Any = rng.choice([{"const": kinds[0]}, {"enum": sorted(set(kinds))}, {"type": "string"}])
    members = {name: rng.choice(DEMANDS) for name in rng.sample(NAMES, rng.randint(0, 3))}
    if rng.random() < 0.95:
        members = {"kind": kind, **members}
    found: dict[str, Any] = {"type": "object", "properties": members}
    if rng.random() < 0.8:
        found["additionalProperties"] = rng.choice([False, False, {"type": "integer"}, {"enum": ["x", None]}])
    if rng.random() < 0.3:
        found["required"] = rng.sample(sorted(members), min(1, len(members)))
    return found


def documents() -> Iterator[dict[str, Any]]:
    """All objects of at most two members beside a kind or none, in the order of the schema."""
    for kind in (None, "k0", "k1", "k5", 7):
        for count in range(3):
            for names in itertools.combinations(NAMES, count):
                for values in itertools.product(VALUES, repeat=count):
                    members = dict(zip(names, values, strict=True))
                    yield members if kind is None else {"kind": kind, **members}


def spellings(value: dict[str, Any]) -> Iterator[str]:
    return (json.dumps(dict(order)) for order in itertools.permutations(value.items()))


@pytest.mark.parametrize("seed", range(40))
def test_exactly_one_branch_holds(compiled: Callable[..., Any], seed: int) -> None:
    rng = random.Random(seed)
    schema: dict[str, Any] = {"oneOf": [branch(rng, place) for place in range(6)]}
    if seed % 4 == 0:
        schema = {"properties": {"kind": {}, "a": {}, "b": {}, "c": {}}, **schema}
    if seed % 5 == 0:
        schema["unevaluatedProperties"] = False
    try:
        language = compiled(schema)
    except UnsatisfiableConstraint:
        language = None
    except UnsupportedConstraint:
        return  # six open branches may overlap in too many ways
    validator = jsonschema.Draft202012Validator(schema)
    for value in documents():
        taken = language is not None and any(map(language.takes, spellings(value)))
        assert taken == validator.is_valid(value), (schema, value)


def test_many_branches_that_an_optional_member_tells_apart(compiled: Callable[..., Any]) -> None:
    """Without the member nearly all of them hold at once, so that each must be kept from all others."""
    grid = {"type": "object", "properties": {"h": {"type": "number"}}, "additionalProperties": False}
    query = {
        "type": "object",
        "properties": {"q": {"type": "string", "maxLength": 9}},
        "additionalProperties": False,
    }
    shared = {"id": {"type": "string", "maxLength": 48}, "label": {"type": "string"}, "grid": grid, "query": query}
    branches = [
        {
            "type": "object",
            "properties": {
                "type": {"enum": [f"kind {i}"]},
                **shared,
                f"own{i}": query,
                f"also{i}": {"type": "null"},
            },
            "additionalProperties": False,
        }
        for i in range(6)
    ]
    language = compiled({"oneOf": branches})
    assert language.takes('{"type":"kind 3","id":"x","grid":{"h":1},"also3":null}')
    assert language.takes('{"label":"x","own2":{"q":"y"}}')
    assert not language.takes('{"label":"x"}')
    assert not language.takes('{"type":"kind 3","also2":null}')
    assert not language.takes('{"own2":{"q":"0123456789"}}')
    assert not language.takes('{"own2":{},"own3":{}}')
