"""Choices: exactly one of a list of strings."""

from __future__ import annotations

import random
from typing import Any

import pytest

from radixrt.errors import InvalidRequest, UnsupportedConstraint
from radixrt.grammar import Compiler, GrammarLimits, Vocabulary
from radixrt.grammar.rx import Pool


def test_exactly_the_choices(bytes_compiler: Compiler) -> None:
    choices = ["yes", "no", "not at all", "日本", "日", 'a"b', "line\nbreak", "(.*)"]
    grammar = bytes_compiler.choices(choices)
    assert all(map(grammar.matches, choices))
    others = [c[:-1] for c in choices if c[:-1] not in choices] + [c + "x" for c in choices]
    assert not any(map(grammar.matches, others))


@pytest.mark.parametrize("seed", range(20))
def test_random_sets_of_strings(seed: int, pool: Pool) -> None:
    rng = random.Random(seed)
    words = {bytes(rng.choice(b"ab") for _ in range(rng.randint(0, 5))) for _ in range(rng.randint(1, 30))}
    term = pool.one_of(list(words))
    found, todo = set(), [(term, b"")]
    while todo:
        x, prefix = todo.pop()
        if pool.nullable(x):
            found.add(prefix)
        todo += [(y, prefix + bytes([b])) for mask, y in pool.arcs(x) for b in range(256) if mask >> b & 1]
    assert found == words


def test_many_choices_share_beginnings_and_endings(byte_vocab: Vocabulary) -> None:
    choices = [f"item number {i} of the list" for i in range(10_000)]
    grammar = Compiler(byte_vocab, GrammarLimits(compile_fuel=500_000)).choices(choices)
    assert grammar.matches(choices[777])
    assert not grammar.matches("item number 10000 of the list")


def test_thousands_of_long_choices_without_anything_in_common(bytes_compiler: Compiler) -> None:
    rng = random.Random(3)
    choices = ["".join(rng.choices("abcdefghé 日", k=30)) for _ in range(4_000)]
    grammar = bytes_compiler.choices(choices)
    assert all(map(grammar.matches, choices[::50]))
    assert not grammar.matches(choices[0][:-1] + "x")


def test_choices_that_begin_alike(bytes_compiler: Compiler) -> None:
    choices = ["a" * n for n in (1, 2, 5, 100)]
    grammar = bytes_compiler.choices(choices)
    assert [n for n in range(110) if grammar.matches("a" * n)] == [1, 2, 5, 100]
    matcher = grammar.matcher()
    assert matcher.accept(ord("a"))
    assert matcher.is_accepting
    assert not matcher.is_complete


def test_long_choices(bytes_compiler: Compiler) -> None:
    choices = ["x" * 4_000 + end for end in "ab"]
    grammar = bytes_compiler.choices(choices)
    assert grammar.matches(choices[1])
    assert not grammar.matches(choices[0][1:])


@pytest.mark.parametrize(
    "choices",
    [[], ["a", "b", "a"], ["a", ""], ["a", 1], [None], [b"a"], "abc", None, [["a"]], ["\ud800"], {"a": 1}],
)
def test_lists_that_make_no_sense(choices: Any, bytes_compiler: Compiler) -> None:
    with pytest.raises(InvalidRequest) as caught:
        bytes_compiler.choices(choices)
    assert caught.value.param == "choices"


def test_too_much_text(byte_vocab: Vocabulary) -> None:
    with pytest.raises(UnsupportedConstraint) as caught:
        Compiler(byte_vocab, GrammarLimits(source_chars=10)).choices(["x" * 6, "y" * 6])
    assert caught.value.keyword == "source_chars"
