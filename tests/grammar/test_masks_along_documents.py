"""Documents of several kinds of schemas written token by token beside llguidance: all masks along them compared.

The two engines may differ where their policies do, and only there: llguidance takes any run of blanks between
tokens, and -0 for an integer; it leaves DEL, which JSON does not forbid, out of strings. Everything else that one
alone allows is finished and judged by ``jsonschema`` (``radixrt.bench.structured_masks``): ours must not allow what
is invalid.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from radixrt.bench.structured_engines import Engine, open_engine
from radixrt.bench.structured_masks import MaskRecord, compare_masks
from radixrt.bench.structured_vocabularies import BenchVocabulary, longest_match
from radixrt.grammar import Vocabulary

pytest.importorskip("llguidance")
pytest.importorskip("jsonschema")

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "minLength": 1, "maxLength": 12}, "age": {"type": "integer"}},
    "required": ["name"],
    "additionalProperties": False,
}
CASES: list[tuple[str, Any, list[Any]]] = [
    ("closed object", PERSON, [{"name": "Ada", "age": 36}, {"name": "é😀"}, {"age": 1}]),
    (
        "open object",
        {**PERSON, "additionalProperties": True},
        [{"name": "A", "x": [1, {"y": None}]}, {"name": "A"}],
    ),
    ("typed others", {"type": "object", "additionalProperties": {"type": "integer"}}, [{"a": 1, "b": -2}, {}]),
    ("nested arrays", {"items": {"items": {"type": "boolean"}}, "type": "array"}, [[[], [True, False]], []]),
    (
        "tuple",
        {"type": "array", "prefixItems": [{"type": "null"}, PERSON], "items": False},
        [[None, {"name": "B"}]],
    ),
    (
        "counted items",
        {"type": "array", "items": {"enum": ["a", 1]}, "minItems": 2, "maxItems": 3},
        [["a", 1, "a"]],
    ),
    ("enum of all kinds", {"enum": [None, True, 12, "ab", [1, 2], {"a": [None]}]}, [12, {"a": [None]}, "ab"]),
    ("integer range", {"type": "integer", "minimum": -3, "maximum": 1234}, [7, 1234, -3, 0]),
    ("number range", {"type": "number", "minimum": 0.5, "maximum": 9.5}, [0.5, 9.25, 3]),
    ("pattern", {"type": "string", "pattern": "^[a-c]+-[0-9]{2}$"}, ["abc-12", "a-00"]),
    ("searched pattern", {"type": "string", "pattern": "[0-9]b"}, ["aa1bc", "1b"]),
    ("lengths", {"type": "string", "minLength": 2, "maxLength": 4}, ["ab", "é😀a", 'a"\\\n']),
    ("dates", {"type": "string", "format": "date"}, ["2024-02-29"]),
    ("uuid", {"type": "string", "format": "uuid"}, ["123e4567-e89b-12d3-a456-426614174000"]),
    ("either", {"anyOf": [PERSON, {"type": "string"}, {"type": "null"}]}, [{"name": "C"}, "x", None]),
    ("all of", {"allOf": [PERSON, {"properties": {"name": {"pattern": "^A"}}}]}, [{"name": "Ada"}]),
    (
        "recursion",
        {"$defs": {"n": {"type": "array", "items": {"$ref": "#/$defs/n"}}}, "$ref": "#/$defs/n"},
        [[[], [[]]]],
    ),
    ("anything", True, [{"a": [1.5e3, "x", None, {"b": {}}]}, "text"]),
]

POLICIES = {("over/string content", repr(b"\x7f")), ("under/numbers", repr(b"0"))}


@pytest.fixture(scope="module")
def bench() -> BenchVocabulary:
    """Bytes and words across the seams of JSON, one end token."""
    rng = random.Random(23)
    words = {
        '{"',
        '":',
        '": ',
        '", "',
        '"}',
        '"a',
        "name",
        '"name',
        "true",
        "12",
        "34",
        ", ",
        "]]",
        '\\"',
        "\\n",
        " 1",
    }
    words |= {"".join(rng.choice('abc1é😀 {}":,[]\\n-') for _ in range(rng.randint(2, 4))) for _ in range(250)}
    tokens = [*(bytes([i]) for i in range(256)), *sorted(word.encode() for word in words)]
    return BenchVocabulary("words", Vocabulary([*tokens, None], [len(tokens)]), longest_match(tokens), "words")


@pytest.fixture(scope="module")
def engines(bench: BenchVocabulary) -> tuple[Engine, Engine]:
    return open_engine("radixrt", bench, {}), open_engine("llguidance", bench, {})


@pytest.mark.parametrize(("name", "schema", "documents"), CASES, ids=[name for name, _, _ in CASES])
def test_masks_differ_only_by_policy(
    name: str, schema: Any, documents: list[Any], bench: BenchVocabulary, engines: tuple[Engine, Engine]
) -> None:
    row = {"id": name, "schema": schema, "tests": [{"data": value, "valid": True} for value in documents]}
    (record,) = compare_masks(*engines, bench, [row])
    assert record.positions >= len(documents)
    assert record.faults == []
    assert unexplained(record) == {}


def unexplained(record: MaskRecord) -> dict[str, str]:
    """Sides and kinds of tokens that differ, policies aside, where a finished text was not judged invalid.

    What llguidance alone allows and turns out invalid is its fault and none of ours.
    """
    found = {}
    for key, token in record.examples.items():
        judged = {
            verdict for verdict in ("valid", "unfinished", "unjudged") if record.judged.get(f"{key}/{verdict}")
        }
        if key == "under/blanks" or (key, token) in POLICIES:
            continue
        if judged:
            found[key] = f"{token}: {', '.join(sorted(judged))}"
    return found
