"""The shared corpora, with ratchets: what is right today stays right, and nothing invalid is ever taken.

``ratchets/`` holds the expected outcome of every case; ``python -m radixrt.bench.structured_ratchet`` writes it.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from decimal import Decimal, localcontext
from functools import partial
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from radixrt.bench.structured_cases import CORPORA, Judged, judge, read_rows, regressions
from radixrt.bench.structured_causes import byte_vocabulary
from radixrt.bench.structured_child import spread
from radixrt.bench.structured_engines import open_engine
from radixrt.bench.structured_measure import forced_share, judge_schemas
from radixrt.bench.structured_ratchet import read_ratchet
from radixrt.bench.structured_vocabularies import BenchVocabulary, load_vocabulary
from radixrt.errors import InvalidRequest
from radixrt.grammar import CompiledGrammar, Compiler

pytestmark = pytest.mark.corpus

RATCHETS = Path(__file__).parent / "ratchets"
END = 256
# Of the schemas with documents and of the required tests of the suite. What is missing is refused by name or
# written in another order or spelling. A test that means ``format`` as a remark contradicts our policy.
SAMPLE_SHARE = 0.952
SUITE_SHARE = 0.97


@pytest.fixture(scope="module")
def compiler() -> Compiler:
    return Compiler(byte_vocabulary())


@pytest.fixture(scope="module")
def judged(corpus: Path, compiler: Compiler) -> dict[str, list[Judged]]:
    """Every case of every corpus, judged once for all tests here."""
    return {name: list(judge(name, corpus, compiler)) for name in CORPORA}


@pytest.mark.parametrize("name", CORPORA)
def test_no_case_is_worse_than_its_ratchet(
    name: str, judged: dict[str, list[Judged]], capsys: pytest.CaptureFixture[str]
) -> None:
    cases = judged[name]
    found = {case.key: case.outcome for case in cases}
    assert len(found) == len(cases)
    assert [case.key for case in cases if case.outcome == "accepted"] == []
    worse, other = regressions(read_ratchet(RATCHETS / f"{name}.json"), found)
    assert worse == []
    if other:
        with capsys.disabled():
            print(f"\n{name}: {len(other)} cases are better or other than their ratchet, tighten it: {other[:9]}")


def share(cases: list[Judged], outcomes: tuple[str, ...]) -> float:
    counts = Counter(case.outcome.split(":")[0] for case in cases)
    return sum(counts[outcome] for outcome in outcomes) / len(cases)


def test_shares_that_are_promised(corpus: Path, judged: dict[str, list[Judged]]) -> None:
    documented = {row["id"] for row in read_rows(corpus, CORPORA["sample"]) if row["tests"]}
    with_documents = [case for case in judged["sample"] if case.key in documented]
    required = [case for case in judged["suite"] if not case.group.startswith("optional/")]
    assert share(with_documents, ("right",)) >= SAMPLE_SHARE
    assert share(required, ("right", "format_asserted")) >= SUITE_SHARE
    assert share(judged["regex"], ("right",)) >= 0.98
    assert share(judged["regex"], ("right", "refused")) == 1
    assert share(judged["bugs"], ("right",)) == 1


# --- with the tokens of a real model ---


@pytest.fixture(scope="module")
def model_tokens(model_file: Path) -> BenchVocabulary:
    return load_vocabulary("smollm2")


@pytest.mark.model
def test_tokens_are_judged_as_bytes_are(
    corpus: Path, model_tokens: BenchVocabulary, judged: dict[str, list[Judged]]
) -> None:
    """Every mask has a legal token, allows what is then accepted, and ends where the text of bytes ends."""
    rows = spread(read_rows(corpus, CORPORA["sample"]), 60)
    outcomes = {case.key: case.outcome for case in judged["sample"]}
    records = list(judge_schemas(open_engine("radixrt", model_tokens, {}), model_tokens, rows))
    assert [record.id for record in records] == [row["id"] for row in rows]
    for record in records:
        assert record.empty_masks == record.disagreements == 0, record.id
        right = all(taken == valid for taken, valid in record.verdicts)
        if record.verdicts:
            assert right == (outcomes[record.id] == "right"), record.id


@pytest.mark.model
def test_forced_tokens_are_canonical(corpus: Path, model_tokens: BenchVocabulary) -> None:
    records = list(forced_share(model_tokens, spread(read_rows(corpus, CORPORA["sample"]), 120), {}))
    assert [
        (record.id, record.respelled, record.wrong) for record in records if record.respelled + record.wrong
    ] == []
    assert sum(record.forced for record in records) > 0.05 * sum(record.tokens for record in records)


# --- random texts ---


def random_text(grammar: CompiledGrammar, rng: random.Random) -> bytes | None:
    """A walk along allowed bytes that prefers to finish once it is long; None if it does not get there."""
    matcher, text = grammar.matcher(), bytearray()
    row = np.zeros(grammar.vocab.words, np.int32)
    while len(text) < 1500:
        matcher.fill_mask(row)
        following = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist()
        assert following, f"a living state without a future after {bytes(text)!r}"
        assert (END in following) == matcher.is_accepting
        if END in following and (following == [END] or rng.random() < 0.5 or len(text) > 200):
            return bytes(text)
        following = [byte for byte in following if byte != END]
        ending = [byte for byte in following if byte in b'"]}']
        if len(text) > 200 and ending and rng.random() < 0.8:
            following = ending
        readable = [byte for byte in following if 32 <= byte < 127]
        byte = rng.choice(readable if readable and rng.random() < 0.9 else following)
        assert matcher.accept(byte)
        text.append(byte)
    return None


def test_random_output_is_valid(compiler: Compiler, corpus: Path) -> None:
    rng = random.Random(5)
    exact = partial(json.loads, parse_float=Decimal)
    schemas: list[Any] = [row["schema"] for row in read_rows(corpus, CORPORA["sample"])]
    checked = 0
    for schema in rng.sample(schemas, 60):
        try:
            grammar = compiler.json_schema(schema)
        except InvalidRequest:
            continue
        text = random_text(grammar, rng)
        if text is None:
            continue
        decimal = exact(json.dumps(schema))
        cls = jsonschema.validators.validator_for(decimal, default=jsonschema.Draft202012Validator)
        value = exact(text)  # a name that stands twice has its last value
        with localcontext(prec=2000):
            errors = list(cls(decimal, format_checker=cls.FORMAT_CHECKER).iter_errors(value))
        assert errors == [], text
        checked += 1
    assert checked > 30
