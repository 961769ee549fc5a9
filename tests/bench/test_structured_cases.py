"""Judging the corpora: outcomes, causes, ratchets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from radixrt.bench.structured_cases import judge, read_rows, regressions, schema_outcome
from radixrt.bench.structured_causes import byte_vocabulary, cause_of_refusal
from radixrt.bench.structured_ratchet import main, read_ratchet
from radixrt.errors import InvalidRequest
from radixrt.grammar import Compiler


@pytest.fixture(scope="module")
def compiler() -> Compiler:
    return Compiler(byte_vocabulary())


NESTED = {
    "type": "object",
    "properties": {
        "name": {"type": "object", "properties": {"first": {"type": "string"}, "name": {"type": "string"}}},
        "rate": {"type": "number", "minimum": 0.5},
        "tags": {"type": "array", "items": {"properties": {"x": {}, "y": {"type": "integer"}}}},
    },
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("schema", "value", "cause"),
    [
        (NESTED, {"rate": 1, "name": {"name": "a", "first": "b"}}, "key_order"),
        (NESTED, {"tags": [{"y": 1, "x": 2}, {"y": 1}], "rate": 1, "name": {}}, "key_order"),
        ({"const": 1}, 1.0, "spelling"),
        ({"enum": [[{"a": 100}]]}, [{"a": 1e2}], "spelling"),
        ({"type": "object", "properties": {"a": {"const": 1}, "b": {}}}, {"b": 0, "a": 1.0}, "key_order+spelling"),
        (NESTED, {"rate": 0}, "rejected"),
        (NESTED, {"rate": 1, "other": 1}, "rejected"),
        ({"const": {"a": [1, {"b": "é"}]}}, {"a": [1, {"b": "e"}]}, "rejected"),
    ],
)
def test_the_cause_of_a_refusal_is_found_by_writing_again(
    compiler: Compiler, schema: Any, value: Any, cause: str
) -> None:
    grammar = compiler.json_schema(schema)
    assert cause_of_refusal(grammar, None, schema, value) == cause
    assert cause_of_refusal(grammar, compiler.json_schema(schema, key_order="any"), schema, value) == cause


def test_values_nested_deeper_than_the_interpreter_recurses(compiler: Compiler) -> None:
    value: Any = {}
    for _ in range(900):
        value = {"a": value, "b": 0}
    schema = {"$defs": {"n": {"properties": {"b": {}, "a": {"$ref": "#/$defs/n"}}}}, "$ref": "#/$defs/n"}
    assert cause_of_refusal(compiler.json_schema(schema), None, schema, value) == "key_order"


def outcomes(corpus: str, folder: Path, compiler: Compiler) -> list[tuple[str, str]]:
    return [(case.group, case.outcome) for case in judge(corpus, folder, compiler)]


def test_every_corpus_is_judged(small_corpus: Path, compiler: Compiler) -> None:
    assert outcomes("sample", small_corpus, compiler) == [
        ("easy", "right"),
        ("easy", "key_order"),
        ("hard", "refused:$ref"),
        ("hard", "compiled"),
    ]
    assert outcomes("suite", small_corpus, compiler) == [
        ("format.json", "right"),
        ("format.json", "format_asserted"),
        ("optional/format/date.json", "right"),
        ("ref.json", "right"),
        ("not.json", "right"),
    ]
    assert outcomes("suite-optional", small_corpus, compiler) == []
    assert outcomes("regex", small_corpus, compiler) == [
        ("regex", "right"),
        ("regex", "refused:back-reference"),
        ("regex", "accepted"),
    ]
    assert outcomes("bugs", small_corpus, compiler) == [
        ("regex", "right"),
        ("regex", "compiled"),
        ("ebnf", "right"),
        ("regex", "forced"),
    ]


def test_options_reach_the_schemas(small_corpus: Path, compiler: Compiler) -> None:
    cases = judge("sample", small_corpus, compiler, {"whitespace": "compact"})
    assert next(case.outcome for case in cases) == "rejected"  # documents are written with blanks


def test_keys_name_cases_once_and_hold_no_text(small_corpus: Path, compiler: Compiler) -> None:
    keys = [case.key for case in judge("suite", small_corpus, compiler)]
    assert len(set(keys)) == len(keys)
    assert not any("date" in key.split("/")[-1] or "remark" in key for key in keys)


def test_a_missing_corpus_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match=r"no corpus file nothing.jsonl") as caught:
        read_rows(tmp_path, "nothing.jsonl")
    assert caught.value.param == "corpus"


def test_a_schema_is_as_good_as_its_worst_document() -> None:
    assert schema_outcome([]) == "compiled"
    assert schema_outcome(["right", "key_order", "right"]) == "key_order"
    assert schema_outcome(["rejected", "right", "accepted", "spelling"]) == "accepted"


def test_worse_cases_are_told_from_better_ones() -> None:
    expected = {"a": "right", "b": "refused:x", "c": "refused:x", "d": "key_order", "e": "right", "f": "right"}
    found = {"a": "right", "b": "right", "c": "accepted", "d": "rejected", "e": "refused:x", "g": "refused:y"}
    worse, other = regressions(expected, found)
    assert worse == [
        "c: refused:x -> accepted",
        "d: key_order -> rejected",
        "e: right -> refused:x",
        "f: right -> gone",
    ]
    assert other == ["b: refused:x -> right", "g: new -> refused:y"]


def test_ratchets_are_written_and_read(small_corpus: Path, tmp_path: Path) -> None:
    folder = tmp_path / "held"
    main(["--corpus", str(small_corpus), "--only", "regex", "--only", "bugs", str(folder)])
    assert sorted(path.name for path in folder.iterdir()) == ["bugs.json", "regex.json"]
    assert read_ratchet(folder / "regex.json") == {
        "r1": "right",
        "r2": "refused:back-reference",
        "r3": "accepted",
    }
