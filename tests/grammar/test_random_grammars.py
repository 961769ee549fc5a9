"""Random context-free grammars in both notations, against a solver of their equations and against llguidance."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

from radixrt.errors import UnsatisfiableConstraint
from radixrt.grammar import Compiler, Matcher, Vocabulary

llguidance = pytest.importorskip("llguidance")

RULES = 4
LETTERS = "ab"
ALL_TEXTS = ["".join(letters) for size in range(6) for letters in product(LETTERS, repeat=size)]
Grammar = dict[str, list[list[str]]]


def random_grammar(rng: random.Random) -> Grammar:
    """Rules of up to three alternatives of up to three parts: letters and rules, recursive, empty or dead."""
    names = [f"r{i}" for i in range(RULES)]
    parts = [*names, *LETTERS, *LETTERS]
    return {
        name: [[rng.choice(parts) for _ in range(rng.choice((0, 1, 1, 2, 2, 3)))] for _ in range(rng.randint(1, 3))]
        for name in names
    }


def ebnf(grammar: Grammar) -> str:
    def way(parts: list[str]) -> str:
        return " ".join(part if part in grammar else f'"{part}"' for part in parts) or '""'

    rules = (f"{name} ::= {' | '.join(map(way, ways))}" for name, ways in grammar.items())
    return "root ::= r0\n" + "\n".join(rules)


def lark(grammar: Grammar) -> str:
    def way(parts: list[str]) -> str:
        return " ".join(part if part in grammar else f'"{part}"' for part in parts)

    rules = (f"{name}: {' | '.join(map(way, ways))}" for name, ways in grammar.items())
    return "start: r0\n" + "\n".join(rules)


def language(grammar: Grammar) -> set[str]:
    """The texts of ``ALL_TEXTS`` that r0 produces: the least solution of the rules as equations."""
    longest = max(map(len, ALL_TEXTS))
    found: dict[str, set[str]] = {name: set() for name in grammar}
    while True:
        bigger = {}
        for name, ways in grammar.items():
            texts: set[str] = set()
            for parts in ways:
                heads = {""}
                for part in parts:
                    tails = found.get(part, {part})
                    heads = {head + tail for head in heads for tail in tails if len(head + tail) <= longest}
                texts |= heads
            bigger[name] = texts
        if bigger == found:
            return found["r0"]
        found = bigger


@pytest.mark.parametrize("seed", range(150))
def test_texts_and_their_beginnings(seed: int, bytes_compiler: Compiler) -> None:
    grammar = random_grammar(random.Random(seed))
    texts = language(grammar)
    for compile_, spelled in ((bytes_compiler.ebnf, ebnf(grammar)), (bytes_compiler.lark, lark(grammar))):
        try:
            compiled = compile_(spelled)
        except UnsatisfiableConstraint:
            assert not texts
            continue
        assert [text for text in ALL_TEXTS if compiled.matches(text) != (text in texts)] == []
        begun = {text[:end] for text in texts for end in range(len(text) + 1)}
        for text in begun:
            matcher = compiled.matcher()
            assert all(map(matcher.accept, text.encode()))


@pytest.mark.parametrize("seed", range(60))
def test_dead_ends_are_never_entered(seed: int, bytes_compiler: Compiler, allowed_ids: Callable[..., Any]) -> None:
    rng = random.Random(1000 + seed)
    try:
        matcher = bytes_compiler.ebnf(ebnf(random_grammar(rng))).matcher()
    except UnsatisfiableConstraint:
        return
    for _ in range(12):
        allowed = sorted(allowed_ids(matcher))
        assert allowed
        token = rng.choice(allowed)
        assert matcher.accept(token)
        if token == 256:
            break


@pytest.fixture(scope="module")
def words_vocab() -> Vocabulary:
    words = [b"aa", b"ab", b"ba", b"bb", b"aba", b"  ", b" a", b"b ", b'{"', b'":', b"12", b"[1", b"1]", b'"a"']
    return Vocabulary([*(bytes([i]) for i in range(256)), *words, None], [256 + len(words)])


@pytest.fixture(scope="module")
def peer_tokenizer(words_vocab: Vocabulary) -> Any:
    class Wrapped:
        eos_token_id = words_vocab.eos_ids[0]
        bos_token_id = None
        tokens = [token or b"<end>" for token in words_vocab.tokens]  # noqa: RUF012
        special_token_ids = list(words_vocab.eos_ids)  # noqa: RUF012

        def __call__(self, text: bytes) -> list[int]:
            return list(text)

    return llguidance.LLTokenizer(llguidance.TokenizerWrapper(Wrapped()))


SHARED_LARK = [
    'start: item ("," item)*\nitem: /[ab]+/ | "[" [item ("," item)*] "]"',
    'start: a{3} b{1,2} c{,2}\na: "a"\nb: "b"\nc: "[" start "]"',
    'start: A "]"\nA: /[a-z]*/ & ~/(?s:.*)ab(?s:.*)/',
    'start: t "a"\nt[lazy]: /[ab]*/ "ba"',
    'start: t "b"\nt[suffix="bb"]: /[ab ]*/',
    'start: %json {"type": "object", "properties": {"a": {"const": 12}}, "required": ["a"], '
    '"additionalProperties": false} "b"\n',
    'start: "AB"i "a".."c" ("12" | "1")',
    'start: sum\nsum: sum "a" prod | prod\nprod: prod "b" "1" | "1" | "[" sum "]"',
]
"""What both read alike. (llguidance gives up texts where two terminals compete, so those are not among these.)"""


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("text", SHARED_LARK)
def test_masks_as_in_llguidance(
    text: str, seed: int, words_vocab: Vocabulary, peer_tokenizer: Any, allowed_ids: Callable[[Matcher], set[int]]
) -> None:
    rng = random.Random(seed)
    matcher = Compiler(words_vocab).lark(text).matcher()
    peer_text = text.replace("%json {", '%json {"x-guidance": {"whitespace_flexible": false}, ')
    peer = llguidance.LLMatcher(peer_tokenizer, '%llguidance {"no_forcing": true}\n' + peer_text)
    assert not peer.get_error()
    for _ in range(25):
        bits = int.from_bytes(peer.compute_bitmask(), "little")
        theirs = {token for token in range(words_vocab.size) if bits >> token & 1}
        ours = allowed_ids(matcher)
        if "%json" in text:  # blanks differ
            blank = {
                token for token in range(words_vocab.size - 1) if (words_vocab.tokens[token] or b"")[:1].isspace()
            }
            ours -= blank
            theirs -= blank
        assert ours == theirs
        token = rng.choice(sorted(ours))
        if token in words_vocab.eos_ids:
            break
        assert matcher.accept(token)
        assert peer.consume_token(token)
