"""Measuring: verdicts, disagreements, forced tokens, batches, and masks of two engines side by side."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from radixrt.bench.structured_engines import Engine, Missing, Refused, Text, open_engine
from radixrt.bench.structured_masks import _validator, compare_masks
from radixrt.bench.structured_measure import batch_times, forced_share, judge_schemas, settled_rss_mib
from radixrt.bench.structured_vocabularies import (
    VOCABULARIES,
    BenchVocabulary,
    load_vocabulary,
    longest_match,
    synthetic_tokens,
)
from radixrt.errors import InvalidRequest

Rows = list[dict[str, Any]]


class Bent:
    """Our engine with each mask changed before it is read."""

    name, version = "bent", "0"

    def __init__(self, engine: Engine, bend: Callable[[Any], None], accept: bool | None = None) -> None:
        self._engine, self._bend, self._accept = engine, bend, accept

    def compile(self, schema: Any) -> Callable[[], Text]:
        begin = self._engine.compile(schema)

        def bent() -> Text:
            text = begin()

            def fill() -> None:
                text.fill()
                self._bend(text.row)

            accept = text.accept if self._accept is None else lambda token: bool(self._accept)
            return Text(text.row, fill, accept)

        return bent


def nothing(row: Any) -> None:
    row[:] = 0


def test_documents_are_judged_with_the_end_token(bench: BenchVocabulary, rows: Rows) -> None:
    records = list(judge_schemas(open_engine("radixrt", bench, {}), bench, rows))
    assert [record.verdicts for record in records] == [
        [(True, True), (False, False), (False, False)],
        [(False, True)],
        [],
        [],
    ]
    assert [record.refused for record in records] == [None, None, "$ref", None]
    tokens = len(bench.encode('{"name": "Ada", "age": 123}'))
    assert len(records[0].masks_us) > tokens  # one for each token, one before the end, and those of the others
    assert all(record.empty_masks == record.disagreements == 0 for record in records)
    assert all(time > 0 for record in records for time in record.masks_us + record.accepts_us)


def test_empty_masks_and_disagreement_are_counted(bench: BenchVocabulary, rows: Rows) -> None:
    ours = open_engine("radixrt", bench, {})
    (dead,) = judge_schemas(Bent(ours, nothing), bench, rows[:1])
    assert dead.empty_masks == len(rows[0]["tests"])
    assert not any(taken for taken, _ in dead.verdicts)
    (deaf,) = judge_schemas(Bent(ours, lambda row: None, accept=False), bench, rows[:1])
    assert deaf.disagreements == len(rows[0]["tests"])


def test_options_reach_our_engine(bench: BenchVocabulary, rows: Rows) -> None:
    (record,) = judge_schemas(open_engine("radixrt", bench, {"whitespace": "compact"}), bench, rows[:1])
    assert record.verdicts[0] == (False, True)


def test_forced_tokens_are_those_of_the_document(bench: BenchVocabulary, rows: Rows) -> None:
    records = list(forced_share(bench, rows, {"whitespace": "compact"}))
    assert sum(record.tokens for record in records) == 0  # no document is written compactly
    schema = {"const": {"name": "Ada", "age": 123}}
    row = {"id": "fixed", "schema": schema, "tests": [{"data": schema["const"], "valid": True}]}
    (record,) = forced_share(bench, [row], {})
    assert record.forced > 0
    assert record.respelled == record.wrong == 0


def test_tokens_forced_in_another_spelling_are_counted(bench: BenchVocabulary) -> None:
    schema = {"const": "Ada is true"}
    row = {"id": "fixed", "schema": schema, "tests": [{"data": schema["const"], "valid": True}]}
    calls = []

    def fickle(text: str) -> list[int]:
        calls.append(text)
        return bench.encode(text) if len(calls) == 1 else list(text.encode())  # the document, then what is forced

    (record,) = forced_share(replace(bench, encode=fickle), [row], {})
    assert record.respelled > 0
    assert record.wrong == 0


def test_a_batch_is_written_together_twice(bench: BenchVocabulary, rows: Rows) -> None:
    record = batch_times(bench, rows, {}, batch=2)
    assert record.grammars == 1  # the only schema of these with a document that its grammar takes
    assert len(record.step_us) == len(record.again_us) == len(bench.encode('{"name": "Ada", "age": 123}'))


# --- masks of two engines ---


def test_the_same_engine_has_the_same_masks(bench: BenchVocabulary, rows: Rows) -> None:
    ours = open_engine("radixrt", bench, {})
    records = list(compare_masks(ours, ours, bench, rows))
    assert [record.id for record in records] == ["person", "order", "bare"]
    assert records[0].positions == records[0].equal > 0


def test_differences_are_sorted_and_judged(bench: BenchVocabulary, rows: Rows) -> None:
    ours = open_engine("radixrt", bench, {})

    def no_blanks_nor_digits(row: Any) -> None:
        for byte in b" \n0123456789":
            row[byte >> 5] &= np.uint32(~(1 << (byte & 31)) & 0xFFFFFFFF)

    (record,) = compare_masks(ours, Bent(ours, no_blanks_nor_digits), bench, rows[:1])
    assert set(record.over) == {"blanks", "string content", "numbers"}
    assert record.under == {}
    assert record.judged.get("over/numbers/invalid", 0) == 0
    assert any(key.endswith("/valid") for key in record.judged)
    assert record.faults == []


def test_what_ours_allows_and_is_invalid_is_a_fault(bench: BenchVocabulary, rows: Rows) -> None:
    tight, loose = open_engine("radixrt", bench, {}), dict(rows[0])

    class Loose:
        name, version = "loose", "0"

        def compile(self, schema: Any) -> Callable[[], Text]:
            return tight.compile({**schema, "required": [], "properties": {"name": {}, "age": {"minimum": 5}}})

    (record,) = compare_masks(Loose(), tight, bench, [loose])
    assert any(key.endswith("/invalid") for key in record.judged)
    assert record.faults


def test_what_jsonschema_says_of_a_finished_text() -> None:
    pytest.importorskip("jsonschema")
    judge = _validator({"additionalProperties": {"type": "string", "pattern": r"^\S*$"}})
    assert judge('{"a": "b"}') == "valid"
    assert judge('{"a": "b c"}') == judge('{"a": 1}') == judge('{"a": ') == "invalid"
    assert judge('{"a": 1, "a": "b"}') == "repeated"
    assert judge('{"a": "\x85"}') == "unjudged"  # a blank for ``re`` alone
    assert _validator({"$ref": "#/$defs/nowhere"})("1") == "unjudged"


# --- engines and vocabularies ---


@pytest.mark.parametrize("name", ["llguidance", "xgrammar", "outlines-core"])
def test_a_peer_that_is_not_there_is_said(
    name: str, bench: BenchVocabulary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, name.replace("-", "_"), None)
    with pytest.raises(Missing, match=name):
        open_engine(name, bench, {})


def test_unknown_names_are_refused(bench: BenchVocabulary) -> None:
    with pytest.raises(InvalidRequest, match="no peer 'other'"):
        open_engine("other", bench, {})
    with pytest.raises(InvalidRequest, match="no vocabulary 'other'"):
        load_vocabulary("other")


@pytest.mark.parametrize(("name", "package"), [("llguidance", "llguidance"), ("outlines-core", "outlines_core")])
def test_peers_run_behind_the_same_face(name: str, package: str, bench: BenchVocabulary, rows: Rows) -> None:
    pytest.importorskip(package)
    engine = open_engine(name, bench, {})
    (record, *_) = judge_schemas(engine, bench, rows[:1])
    assert record.verdicts == [(True, True), (False, False), (False, False)]
    with pytest.raises(Refused):
        engine.compile({"$ref": "https://example.com/elsewhere"})


def test_synthetic_tokens_are_different_and_repeatable() -> None:
    tokens = synthetic_tokens(30_000, [b"base one", b"a"])
    assert len(tokens) == len(set(tokens)) == 29_999
    assert tokens == synthetic_tokens(30_000, [b"base one", b"a"])
    assert tokens[:256] == [bytes([i]) for i in range(256)]
    assert {b"base one", b"999", b" " * 100, b'"},{"', b'"}, {"', b"\n        "} <= set(tokens)
    assert any(_is_cut(token) for token in tokens[256:])


def _is_cut(token: bytes) -> bool:
    try:
        token.decode()
    except UnicodeDecodeError:
        return True
    return False


def test_the_longest_token_is_taken_at_each_place() -> None:
    tokens = [*(bytes([i]) for i in range(256)), b"ab", b"abcd", b"bc", "é".encode()]
    encode = longest_match(tokens)
    text = 'abcabcdé "x"'
    assert b"".join(tokens[token] for token in encode(text)) == text.encode()
    assert [tokens[token] for token in encode("abcabcdé")] == [b"ab", b"c", b"abcd", "é".encode()]
    assert encode("") == []


def test_vocabularies_have_names() -> None:
    assert VOCABULARIES[0] == "smollm2"


@pytest.mark.skipif(not settled_rss_mib(), reason="the system does not say how much memory a process has")
def test_memory_that_was_freed_does_not_count() -> None:
    # In a process of its own: another's free memory would take the ballast.
    script = (
        "from radixrt.bench.structured_measure import settled_rss_mib\n"
        "before = settled_rss_mib()\n"
        "ballast = [bytes(100) + str(i).encode() for i in range(300_000)]\n"
        "held = settled_rss_mib() - before\n"
        "del ballast\n"
        "print(held, settled_rss_mib() - before)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    held, left = map(float, done.stdout.split())
    assert held > 20
    assert left < held / 2
