"""The shared corpora, with ratchets: what is right today stays right, and nothing invalid is ever taken."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from decimal import Decimal, localcontext
from functools import partial
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from radixrt.errors import InvalidRequest, RadixrtError, UnsatisfiableConstraint

pytestmark = pytest.mark.corpus

# Schemas of the sample whose documents are all judged rightly; refused ones are not. The rest of the 568 with
# documents: those whose valid documents have another key order than the schema, those with uniqueItems over an
# open set of values, and two with a oneOf whose branches overlap in too many ways.
SAMPLE_RIGHT = 539
# Tests of the official suite, optional formats included; what is missing is refused by name or spelled otherwise.
SUITE_RIGHT = 1882


def rows(corpus: Path, name: str) -> Iterator[dict[str, Any]]:
    with (corpus / name).open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def test_sample_of_real_schemas(compiled: Callable[..., Any], corpus: Path) -> None:
    right, accepted = 0, []
    for row in rows(corpus, "jsonschemabench_sample.jsonl"):
        try:
            language = compiled(json.dumps(row["schema"]))
        except InvalidRequest:
            continue
        verdicts = [(language.takes_value(test["data"]), test["valid"]) for test in row["tests"]]
        if (True, False) in verdicts:
            accepted.append(row["id"])
        right += bool(verdicts) and all(taken == valid for taken, valid in verdicts)
    assert accepted == []
    assert right >= SAMPLE_RIGHT


def test_official_suite(compiled: Callable[..., Any], corpus: Path) -> None:
    remotes = json.loads((corpus / "json_schema_test_suite_remotes.json").read_text())
    counts: Counter[str] = Counter()
    accepted = []
    for group in rows(corpus, "json_schema_test_suite.jsonl"):
        try:
            language = compiled(json.dumps(group["schema"]), resources=remotes)
        except UnsatisfiableConstraint:
            language = None
        except InvalidRequest:
            counts["refused"] += len(group["tests"])
            continue
        for test in group["tests"]:
            taken = language is not None and language.takes_value(test["data"])
            counts["right"] += taken == test["valid"]
            if taken and not test["valid"]:
                accepted.append((group["file"], group["description"], test["description"]))
    assert accepted == []
    assert counts["right"] >= SUITE_RIGHT


def test_cases_after_public_bug_reports(compiled: Callable[..., Any], corpus: Path) -> None:
    for case in rows(corpus, "grammar_bug_cases.jsonl"):
        if case["kind"] != "json_schema":
            continue
        try:
            language = compiled(case["grammar"])
        except RadixrtError:
            assert case["expect"] != "exact", case["id"]
            continue
        assert case["expect"] in ("exact", "policy"), case["id"]
        assert [text for text in case["accept"] if not language.takes(text)] == [], case["id"]
        assert [text for text in case["reject"] if language.takes(text)] == [], case["id"]


def random_text(language: Any, rng: random.Random) -> bytes | None:
    """A walk along allowed bytes that prefers to finish once it is long; None if it does not get there."""
    machine, state, text = language.machine, language.machine.start, bytearray()
    while len(text) < 1500:
        following = language.next_bytes(state)
        assert following or machine.is_accepting(state), "a living state without a future"
        if machine.is_accepting(state) and (not following or rng.random() < 0.5 or len(text) > 200):
            return bytes(text)
        ending = [byte for byte in following if byte in b'"]}']
        if len(text) > 200 and ending and rng.random() < 0.8:
            following = ending
        readable = [byte for byte in following if 32 <= byte < 127]
        byte = rng.choice(readable if readable and rng.random() < 0.9 else following)
        state = machine.step(state, byte)
        text.append(byte)
    return None


def test_random_output_is_valid(compiled: Callable[..., Any], corpus: Path) -> None:
    rng = random.Random(5)
    exact = partial(json.loads, parse_float=Decimal)
    schemas = [exact(json.dumps(row["schema"])) for row in rows(corpus, "jsonschemabench_sample.jsonl")]
    checked = 0
    for schema in rng.sample(schemas, 40):
        try:
            language = compiled(schema)
        except InvalidRequest:
            continue
        cls = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
        text = random_text(language, rng)
        if text is None:
            continue
        value = json.loads(text, parse_float=Decimal)  # a name that stands twice has its last value
        with localcontext(prec=2000):
            errors = list(cls(schema, format_checker=cls.FORMAT_CHECKER).iter_errors(value))
        assert errors == [], text
        checked += 1
    assert checked > 20
