"""The cache of compiled grammars: single flight, bounds, and what adding one costs."""

from __future__ import annotations

import gc
import threading
import tracemalloc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from radixrt.errors import InvalidRequest
from radixrt.grammar import CompiledGrammar, Compiler, Vocabulary
from radixrt.grammar.compile_cache import CompileCache


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> dict[Any, int]:
    """The size that each grammar says it has; what is asked for is counted under None."""
    found: dict[Any, int] = {None: 0}

    def nbytes(grammar: CompiledGrammar) -> int:
        found[None] += 1
        return found.get(grammar, 10)

    monkeypatch.setattr(CompiledGrammar, "nbytes", property(nbytes))
    return found


def grammars(vocab: Vocabulary, count: int) -> list[CompiledGrammar]:
    compiler = Compiler(vocab)
    return [compiler.regex(f"a{{{i}}}b") for i in range(count)]


def test_adding_one_does_not_look_at_all_others(byte_vocab: Vocabulary, sizes: dict[Any, int]) -> None:
    cache = CompileCache(1000, 10**9)
    made = grammars(byte_vocab, 60)
    for i, grammar in enumerate(made):
        before = sizes[None]
        cache.get(i, lambda grammar=grammar: grammar)  # type: ignore[misc]
        assert sizes[None] - before <= 5
    assert cache.nbytes == 600
    assert len(cache) == 60


def test_grammars_that_grow_in_use_are_noticed(byte_vocab: Vocabulary, sizes: dict[Any, int]) -> None:
    cache = CompileCache(1000, 1000)
    made = grammars(byte_vocab, 40)
    for i, grammar in enumerate(made[:20]):
        cache.get(i, lambda grammar=grammar: grammar)  # type: ignore[misc]
    sizes.update(dict.fromkeys(made[:10], 400))
    for i, grammar in enumerate(made[20:], 20):
        cache.get(i, lambda grammar=grammar: grammar)  # type: ignore[misc]
    assert cache.nbytes <= 1000
    assert len(cache) < 40


def test_the_latest_stays_however_large_it_is(byte_vocab: Vocabulary, sizes: dict[Any, int]) -> None:
    cache = CompileCache(5, 100)
    small, large = grammars(byte_vocab, 2)
    sizes[large] = 1000
    cache.get("small", lambda: small)
    assert cache.get("large", lambda: large) is large
    assert cache.get("large", lambda: small) is large
    assert len(cache) == 1


def test_a_bug_is_raised_and_not_remembered(byte_vocab: Vocabulary) -> None:
    cache = CompileCache(5, 10**9)

    def broken() -> CompiledGrammar:
        raise ZeroDivisionError

    def refusing() -> CompiledGrammar:
        raise InvalidRequest("no")

    (grammar,) = grammars(byte_vocab, 1)
    with pytest.raises(ZeroDivisionError):
        cache.get("key", broken)
    assert cache.get("key", lambda: grammar) is grammar
    with pytest.raises(InvalidRequest):
        cache.get("refused", refusing)
    with pytest.raises(InvalidRequest):
        cache.get("refused", lambda: grammar)


def test_who_comes_meanwhile_waits_for_the_first(byte_vocab: Vocabulary) -> None:
    cache = CompileCache(5, 10**9)
    (grammar,) = grammars(byte_vocab, 1)
    go, calls = threading.Event(), []

    def slow() -> CompiledGrammar:
        calls.append(1)
        assert go.wait(20)
        return grammar

    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(cache.get, "key", slow) for _ in range(4)]
        go.set()
        assert all(future.result() is grammar for future in waiting)
    assert calls == [1]


def test_nothing_that_is_kept_holds_the_source(byte_vocab: Vocabulary) -> None:
    compiler = Compiler(byte_vocab)
    chars = 1_000_000
    requests: list[Callable[[str], Any]] = [
        compiler.regex,
        compiler.ebnf,
        compiler.lark,
        compiler.json_schema,
        compiler.structural_tag,
        lambda text: compiler.json_schema({text: True, "type": 0}),
        lambda text: compiler.json_schema({"$ref": "x:y"}, resources={"x:z": {"title": text}}),
        lambda text: compiler.choices([text, text]),
        lambda text: compiler.json_schema({"const": text + "\udc00"}),
    ]
    for request in requests:
        with pytest.raises(InvalidRequest):
            request("(" * 200)
    gc.collect()
    tracemalloc.start()
    try:
        for index, request in enumerate(requests):
            for other in range(4):
                with pytest.raises(InvalidRequest):
                    request(f"({index}{other}" * (chars // 3))
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(compiler._cache) >= 4 * len(requests)
    assert held < chars
