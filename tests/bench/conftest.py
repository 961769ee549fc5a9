"""A small vocabulary and corpora of our own for the tests of the benchmark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from radixrt.bench.structured_vocabularies import BenchVocabulary, longest_match
from radixrt.grammar import Vocabulary

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name"],
    "additionalProperties": False,
}


@pytest.fixture(scope="session")
def bench() -> BenchVocabulary:
    """Bytes and a few longer tokens, the longest match."""
    words = [b'{"', b'":', b'": ', b'", "', b'"}', b"name", b"age", b"Ada", b"12", b"123", b"true", b"\n  "]
    tokens = [*(bytes([i]) for i in range(256)), *words]
    return BenchVocabulary("toy", Vocabulary([*tokens, None], [len(tokens)]), longest_match(tokens), "toy")


@pytest.fixture
def rows() -> list[dict[str, Any]]:
    """Schemas as the sample has them: right, in another order, refused, without documents."""
    return [
        {
            "id": "person",
            "split": "easy",
            "schema": PERSON,
            "tests": [
                {"data": {"name": "Ada", "age": 123}, "valid": True},
                {"data": {"age": 123}, "valid": False},
                {"data": {"name": 12}, "valid": False},
            ],
        },
        {
            "id": "order",
            "split": "easy",
            "schema": PERSON,
            "tests": [{"data": {"age": 12, "name": "Ada"}, "valid": True}],
        },
        {
            "id": "far",
            "split": "hard",
            "schema": {"$ref": "https://example.com/elsewhere"},
            "tests": [{"data": 1, "valid": True}],
        },
        {"id": "bare", "split": "hard", "schema": {"type": "null"}, "tests": []},
    ]


@pytest.fixture
def small_corpus(tmp_path: Path, rows: list[dict[str, Any]]) -> Path:
    """A folder with every corpus file, a few rows each."""
    suite = [
        {
            "file": "format.json",
            "description": "dates",
            "schema": {"format": "date"},
            "tests": [
                {"description": "a date", "data": "2024-02-29", "valid": True},
                {"description": "a remark", "data": "soon", "valid": True},
            ],
        },
        {
            "file": "optional/format/date.json",
            "description": "dates",
            "schema": {"format": "date"},
            "tests": [{"description": "no date", "data": "2023-02-29", "valid": False}],
        },
        {
            "file": "ref.json",
            "description": "elsewhere",
            "schema": {"$ref": "https://example.com/known"},
            "tests": [{"description": "a null", "data": None, "valid": True}],
        },
        {
            "file": "not.json",
            "description": "nothing",
            "schema": False,
            "tests": [{"description": "not a null", "data": None, "valid": False}],
        },
    ]
    regexes = [
        {"id": "r1", "pattern": "a+b?", "full_match": ["a", "aab"], "no_full_match": ["", "b"]},
        {"id": "r2", "pattern": r"(a)\1", "full_match": ["aa"], "no_full_match": ["a"]},
        {"id": "r3", "pattern": "a", "full_match": [], "no_full_match": ["a"]},
    ]
    bugs = [
        {"id": "b1", "kind": "regex", "grammar": "[a", "accept": [], "reject": [], "expect": "compile_error"},
        {"id": "b2", "kind": "regex", "grammar": "a", "accept": [], "reject": [], "expect": "compile_error"},
        {
            "id": "b3",
            "kind": "ebnf",
            "grammar": 'root ::= "(" root ")" | ""',
            "accept": ["()"],
            "reject": [")"],
            "expect": "exact",
            "stress": {"repeat": ["(", ")"], "n": 300},
        },
        {
            "id": "b4",
            "kind": "regex",
            "grammar": "ab?",
            "accept": ["ab"],
            "reject": ["b"],
            "expect": "exact",
            "jump_forward": [["", "ab"]],
        },
    ]
    for name, held in (
        ("jsonschemabench_sample", rows),
        ("json_schema_test_suite", suite),
        ("json_schema_test_suite_optional", []),
        ("regex_cases", regexes),
        ("grammar_bug_cases", bugs),
    ):
        text = "".join(json.dumps(row) + "\n" for row in held)
        (tmp_path / f"{name}.jsonl").write_text(text, encoding="utf-8")
    remotes = tmp_path / "json_schema_test_suite_remotes.json"
    remotes.write_text(json.dumps({"https://example.com/known": {"type": "null"}}), encoding="utf-8")
    return tmp_path
