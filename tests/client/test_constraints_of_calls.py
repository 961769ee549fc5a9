"""Every notation and every option of a schema reaches the engine from a single call, however the call is made."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import pytest

import radixrt as rx

DAYS = "https://example.com/days"
TAG = {
    "type": "structural_tag",
    "format": {
        "type": "tag",
        "begin": "<d>",
        "content": {"type": "json_schema", "json_schema": {"enum": [1, 2]}},
        "end": "</d>",
    },
}
OLD_TAG = {"structures": [{"begin": "<d>", "schema": {"enum": [1]}, "end": "</d>"}], "triggers": ["<d"]}
OBJECT = {
    "type": "object",
    "properties": {"a": {"$ref": DAYS}, "b": {"$ref": DAYS}},
    "required": ["a", "b"],
    "additionalProperties": False,
}
REFERRING = rx.Constraint(
    kind="json_schema",
    source=OBJECT,
    resources={DAYS: {"enum": ["Monday", "Tuesday"]}},
    key_order="any",
    whitespace="compact",
    unknown_format="refuse",
)
# What a call is given, and what its text looks like.
SERVED: list[tuple[dict[str, Any], str]] = [
    ({"regex": rx.Constraint(kind="regex", source="[ab]{3}")}, "[ab]{3}"),
    ({"choices": rx.Constraint(kind="choices", choices=("left", "right"))}, "left|right"),
    ({"grammar": 'root ::= "x" | "y"'}, "x|y"),
    ({"grammar": rx.Constraint(kind="ebnf", source='root ::= "x" | "y"')}, "x|y"),
    ({"grammar": rx.Constraint(kind="lark", source='start: "x" | "y"')}, "x|y"),
    ({"grammar": TAG}, "<d>[12]</d>"),
    ({"grammar": MappingProxyType(TAG)}, "<d>[12]</d>"),
    ({"grammar": rx.Constraint(kind="structural_tag", source=TAG)}, "<d>[12]</d>"),
    ({"grammar": rx.Constraint(kind="structural_tag", source=json.dumps(TAG))}, "<d>[12]</d>"),
    ({"schema": REFERRING}, r'\{"[ab]":"\w+day","[ab]":"\w+day"\}'),
]


def _ways(engine: Any, arguments: dict[str, Any]) -> list[str]:
    """The texts of one call made in every way."""

    async def both() -> list[str]:
        found = [(await engine.agenerate("?", **arguments)).text]
        found.append("".join([piece async for piece in engine.astream("?", **arguments)]))
        return found

    texts = [engine.generate("?", **arguments).text, "".join(engine.stream("?", **arguments))]
    return texts + asyncio.run(both())


@pytest.mark.parametrize(("given", "pattern"), SERVED)
def test_all_ways_to_call_take_all_constraints(
    make_engine: Callable[..., Any], given: dict[str, Any], pattern: str
) -> None:
    texts = _ways(make_engine(), {**given, "max_tokens": 200, "seed": 3})
    assert [text for text in texts if not re.fullmatch(pattern, text)] == []
    assert len(set(texts)) == 1


def test_the_older_spelling_of_a_tag_is_taken(make_engine: Callable[..., Any]) -> None:
    text = make_engine().generate("?", grammar=OLD_TAG, max_tokens=20).text
    assert isinstance(text, str)


def test_any_order_means_that_some_text_is_in_another_order(make_engine: Callable[..., Any]) -> None:
    result = make_engine().generate("?", schema=REFERRING, n=16, max_tokens=200, seed=1)
    assert {tuple(value) for value in result.value} == {("a", "b"), ("b", "a")}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"kind": "json_schema", "source": OBJECT}, "schema"),  # what it refers to is not at hand
        ({"kind": "json_schema", "source": OBJECT, "resources": {DAYS: 5}}, "schema"),
        ({"kind": "json_schema", "source": "{}", "key_order": "random"}, "key_order"),
        ({"kind": "json_schema", "source": "{}", "whitespace": "none"}, "whitespace"),
        ({"kind": "json_schema", "source": "{}", "unknown_format": "?"}, "unknown_format"),
    ],
)
def test_what_only_the_engine_knows_is_named_by_its_field(
    make_engine: Callable[..., Any], fields: dict[str, Any], param: str
) -> None:
    with pytest.raises(rx.InvalidRequest) as caught:
        make_engine().generate("?", schema=rx.Constraint(**fields))
    assert caught.value.param == param
