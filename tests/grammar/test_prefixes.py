"""The texts on the way: a beginning is alive exactly where some whole text begins with it.

The oracle is ``re`` on every text over a small alphabet up to a length. A beginning that the engine calls dead
must begin none of them; of one that it calls alive, a whole text is found by the engine itself, and ``re`` must
match it.
"""

from __future__ import annotations

import itertools
import re
from collections import deque

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import assume, given, settings

from radixrt.errors import UnsatisfiableConstraint, UnsupportedConstraint
from radixrt.grammar import CompiledGrammar, Compiler, Vocabulary

ALPHABET = "ab1"
LONGEST = 6
TEXTS = ["".join(t) for n in range(LONGEST + 1) for t in itertools.product(ALPHABET, repeat=n)]
WORDS = [b"ab", b"ba", b"aa", b"b1", b"1a", b"aba", b"111", b"bab1"]
VOCAB = Vocabulary([*(bytes([i]) for i in range(256)), *WORDS, None], [256 + len(WORDS)])
COMPILER = Compiler(VOCAB)

ATOMS = st.sampled_from(["a", "b", "1", "[ab]", "[^a]", ".", r"\d", r"\w", "ab", "", "(?i:A)"])
ASSERTIONS = st.sampled_from(
    ["^", "$", r"\b", r"\B", r"\Z", "(?=a)", "(?!b)", "(?<=a)", "(?<!1)", "(?=.*1)", "(?!.*aa)"]
)
COUNTS = st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{0,2}", "{2,}", "*?", "+?", "{1,2}?"])


def repeated(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.builds(lambda body, count: f"(?:{body}){count}", inner, COUNTS)


def joined(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(inner, min_size=2, max_size=3).map("".join)


def either(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(inner, min_size=2, max_size=3).map(lambda parts: f"(?:{'|'.join(parts)})")


def patterns(leaves: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.recursive(leaves, lambda inner: repeated(inner) | joined(inner) | either(inner), max_leaves=7)


def compiled(pattern: str) -> CompiledGrammar:
    try:
        return COMPILER.regex(pattern)
    except UnsupportedConstraint:
        assume(False)
        raise


def alive(grammar: CompiledGrammar, text: str) -> bool:
    matcher = grammar.matcher()
    return all(map(matcher.accept, text.encode()))


def completed(grammar: CompiledGrammar, start: str) -> str | None:
    """A shortest whole text that begins with ``start``, over the bytes; None where the search is given up."""
    todo = deque([start.encode()])
    for _ in range(3000):
        if not todo:
            return None
        text = todo.popleft()
        if grammar.matches(text):
            return text.decode()
        matcher = grammar.matcher()
        for byte in text:
            matcher.accept(byte)
        todo.extend(text + bytes([byte]) for byte in b"ab1 cA\n" if matcher.copy().accept(byte))
    return None


@settings(max_examples=150)
@given(patterns(ATOMS | ASSERTIONS))
def test_beginnings_are_those_of_whole_texts(pattern: str) -> None:
    whole = [text for text in TEXTS if re.fullmatch(pattern, text)]
    begins = {text[:length] for text in whole for length in range(len(text) + 1)}
    try:
        grammar = compiled(pattern)
    except UnsatisfiableConstraint:
        assert whole == []
        return
    for text in TEXTS[:121]:  # up to four characters
        assert grammar.matches(text) == bool(re.fullmatch(pattern, text)), text
        if not alive(grammar, text):
            assert text not in begins, f"{text!r} is dead"
        elif text not in begins:
            end = completed(grammar, text)
            assert end is None or re.fullmatch(pattern, end), f"{text!r} is alive by {end!r}"


@settings(max_examples=60)
@given(patterns(ATOMS | ASSERTIONS), st.lists(st.sampled_from(range(VOCAB.size)), max_size=5))
def test_a_token_is_allowed_where_its_text_is_alive(pattern: str, tokens: list[int]) -> None:
    try:
        grammar = compiled(pattern)
    except UnsatisfiableConstraint:
        return
    matcher = grammar.matcher()
    for token in tokens:
        matcher.accept(token)
    row = np.zeros(VOCAB.words, np.int32)
    matcher.fill_mask(row)
    bits = np.unpackbits(row.view(np.uint8), bitorder="little")
    assert bits.any(), "a live text with no legal token"
    for token in [*b"ab1 A\n\xc3", *range(256, 256 + len(WORDS)), *VOCAB.eos_ids]:
        copy = matcher.copy()
        data = VOCAB.token_bytes(token)
        one_by_one = copy.is_accepting if data is None else all(map(copy.accept, data))
        assert bits[token] == one_by_one, VOCAB.token_bytes(token)


@settings(max_examples=60)
@given(patterns(ATOMS), patterns(ATOMS))
def test_the_same_language_has_the_same_masks(left: str, right: str) -> None:
    """Rewritings that change no language change no mask."""
    try:
        pair = [compiled(pattern) for pattern in (f"(?:{left})|(?:{right})", f"(?:{right})|(?:{left})|(?:{left})")]
    except UnsatisfiableConstraint:
        return
    rows = np.zeros((2, VOCAB.words), np.int32)
    for text in ("", "a", "b", "ab", "1a", "aab"):
        for row, grammar in zip(rows, pair, strict=True):
            matcher = grammar.matcher()
            row[:] = 0
            if all(map(matcher.accept, text.encode())):
                matcher.fill_mask(row)
        assert rows[0].tobytes() == rows[1].tobytes(), text


@pytest.mark.parametrize(
    ("pattern", "plain"),
    [
        ("(?:a|b)*a(?:a|b){9}", "[ab]*a[ab]{9}"),
        ("(a+)+b", "a+b"),
        ("(?:a*)*1", "a*1"),
        ("(?:a?){20}a{20}", "a{20,40}"),
        (".*a.{24}", ".*a.{24}"),
        ("(?:[ab]{1,50}){1,50}", "[ab]{1,2500}"),
    ],
)
def test_patterns_that_blow_up_elsewhere(pattern: str, plain: str) -> None:
    """Against a plain spelling of the same language, since ``re`` takes exponential time for some of these."""
    grammar = COMPILER.regex(pattern)
    for text in ("", "a" * 30, "ab" * 15, "ba" * 9 + "1", "b" * 24, "a" + "b" * 24, "a" * 29 + "b", "a" * 30 + "1"):
        assert grammar.matches(text) == bool(re.fullmatch(plain, text)), text
        assert alive(grammar, text) or not grammar.matches(text)
