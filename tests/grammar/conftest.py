"""Vocabularies and oracles that the tests of this room share."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from radixrt.grammar import CompiledGrammar, Compiler, Matcher, Vocabulary
from radixrt.grammar import compiler as compiler_module
from radixrt.grammar.cfg import GrammarBuilder
from radixrt.grammar.limits import Fuel
from radixrt.grammar.rx import Pool, PythonPool
from radixrt.kernels.cpu.library import native


@pytest.fixture(scope="session")
def byte_vocab() -> Vocabulary:
    """Every byte is a token; 256 ends the text."""
    return Vocabulary([bytes([i]) for i in range(256)] + [None], [256])


@pytest.fixture(scope="session")
def toy_vocab() -> Vocabulary:
    """Bytes, random longer tokens, pieces of characters, duplicates, gaps and padding."""
    rng = random.Random(7)
    words = ["".join(rng.choice('ab1" {}:,é😀\n') for _ in range(rng.randint(2, 6))).encode() for _ in range(700)]
    words += [
        b"\xc3",
        b"\xa9",
        b" \xf0\x9f",
        b"\x98\x80",
        b"true",
        b"false",
        b"null",
        b'{"',
        b'":',
        b'",',
        b"ab",
        b"ab",
    ]
    tokens: list[bytes | None] = [bytes([i]) for i in range(256)]
    tokens += [*words, None, None]
    return Vocabulary(tokens, [len(tokens) - 1], [len(tokens) - 2], size=len(tokens) + 45)


@pytest.fixture
def bytes_compiler(byte_vocab: Vocabulary) -> Compiler:
    return Compiler(byte_vocab)


@pytest.fixture
def pool() -> Pool:
    return PythonPool(Fuel(10**7, "test"))


@pytest.fixture(params=["native", "python"])
def each_pool(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test runs over native terms and machines, and over those in Python."""
    if request.param == "python":
        monkeypatch.setattr(compiler_module, "new_pool", lambda amount, limit: PythonPool(Fuel(amount, limit)))
    elif native() is None:
        pytest.skip("no native kernels")


@pytest.fixture
def builder(pool: Pool) -> GrammarBuilder:
    return GrammarBuilder(pool)


@pytest.fixture(scope="session")
def member() -> Callable[[Pool, int, bytes], bool]:
    """Whether a string is in a term, one derivative at a time."""

    def check(pool: Pool, term: int, data: bytes) -> bool:
        for byte in data:
            term = next((target for mask, target in pool.arcs(term) if mask >> byte & 1), 0)
        return pool.nullable(term)

    return check


@pytest.fixture(scope="session")
def allowed_ids() -> Callable[[Matcher], set[int]]:
    """The ids that a matcher's mask allows, padding bits included."""

    def read(matcher: Matcher) -> set[int]:
        row = np.full((matcher.vocab_size + 31) // 32, -1, np.int32)
        matcher.fill_mask(row)
        return set(np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist())

    return read


@pytest.fixture(scope="session")
def brute_force() -> Callable[[CompiledGrammar, Matcher], set[int]]:
    """The ids that a copy of a matcher accepts, tried one by one."""

    def read(grammar: CompiledGrammar, matcher: Matcher) -> set[int]:
        return {token for token in range(-3, grammar.vocab.size + 70) if matcher.copy().accept(token)}

    return read


@pytest.fixture(scope="session")
def corpus_rows(corpus: Path) -> Callable[[str], Iterator[dict[str, Any]]]:
    """The rows of a file of the shared test data."""

    def read(name: str) -> Iterator[dict[str, Any]]:
        with open(corpus / name, encoding="utf-8") as lines:
            yield from map(json.loads, lines)

    return read
