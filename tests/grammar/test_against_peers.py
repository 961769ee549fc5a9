"""The same constraints in other engines: llguidance token by token, interegular and outlines-core on languages."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from radixrt.grammar import Compiler, Matcher, Vocabulary

llguidance = pytest.importorskip("llguidance")
interegular = pytest.importorskip("interegular")
outlines_core = pytest.importorskip("outlines_core")

Allowed = Callable[[Matcher], set[int]]

PATTERNS = [
    r"[a-c]{2,5}( [a-c]+)*",
    r"(ab|a|b1)+",
    r"\{\"a\":(true|false|[0-9]{1,3})\}",
    r"(a|é|😀)*b?",
    r"[^a\n]{0,4}a",
    r"(a+b){2,3}|(b+a)*",
    r"([ab]*a[ab]{3}){1,2}",
    r"x?(y|xy)*z{0,2}",
]
GRAMMARS = [
    ('root ::= "[" (root ("," root)*)? "]" | [ab1]+', 'start: "[" (start ("," start)*)? "]" | /[ab1]+/'),
    ('root ::= root "a" | "b" root? | "1"', 'start: start "a" | "b" start? | "1"'),
    ('root ::= "{" a a "}"\na ::= "a" a "b" | ""', 'start: "{" a a "}"\na: "a" a "b" |'),
]


@pytest.fixture(scope="module")
def peer_vocab() -> Vocabulary:
    """Bytes, words, one end token, no specials in between: what both engines read alike."""
    rng = random.Random(11)
    words = {
        "".join(rng.choice('abc1é😀 {}":,[]xyz') for _ in range(rng.randint(2, 5))).encode() for _ in range(300)
    }
    return Vocabulary([*(bytes([i]) for i in range(256)), *sorted(words), None], [256 + len(words)])


@pytest.fixture(scope="module")
def peer_tokenizer(peer_vocab: Vocabulary) -> Any:
    class Wrapped:
        eos_token_id = peer_vocab.eos_ids[0]
        bos_token_id = None
        tokens = [token or b"<end>" for token in peer_vocab.tokens]  # noqa: RUF012
        special_token_ids = list(peer_vocab.eos_ids)  # noqa: RUF012

        def __call__(self, text: bytes) -> list[int]:
            return list(text)

    return llguidance.LLTokenizer(llguidance.TokenizerWrapper(Wrapped()))


def walk_together(ours: Matcher, theirs: Any, allowed_ids: Allowed, vocab: Vocabulary, rng: random.Random) -> None:
    """Compare all masks along one random text."""
    for _ in range(12):
        bias = theirs.compute_logit_bias()
        expected = {i for i in range(vocab.size) if bias[i]}
        assert allowed_ids(ours) == expected
        token = rng.choice(sorted(expected))
        assert ours.accept(token)
        if token in vocab.eos_ids:
            break
        assert theirs.consume_token(token)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_masks_are_those_of_llguidance_on_regexes(
    pattern: str, peer_vocab: Vocabulary, peer_tokenizer: Any, allowed_ids: Allowed
) -> None:
    grammar = Compiler(peer_vocab).regex(pattern)
    rng = random.Random(pattern)
    for _ in range(4):
        theirs = llguidance.LLMatcher(peer_tokenizer, llguidance.LLMatcher.grammar_from_regex(pattern))
        assert not theirs.get_error()
        walk_together(grammar.matcher(), theirs, allowed_ids, peer_vocab, rng)


@pytest.mark.parametrize(("ours", "theirs"), GRAMMARS)
def test_masks_are_those_of_llguidance_on_grammars(
    ours: str, theirs: str, peer_vocab: Vocabulary, peer_tokenizer: Any, allowed_ids: Allowed
) -> None:
    grammar = Compiler(peer_vocab).ebnf(ours)
    rng = random.Random(ours)
    for _ in range(4):
        other = llguidance.LLMatcher(peer_tokenizer, llguidance.LLMatcher.grammar_from_lark(theirs))
        assert not other.get_error()
        walk_together(grammar.matcher(), other, allowed_ids, peer_vocab, rng)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_languages_are_those_of_interegular(pattern: str, bytes_compiler: Compiler) -> None:
    automaton = interegular.parse_pattern(pattern).to_fsm()
    grammar = bytes_compiler.regex(pattern)
    rng = random.Random(pattern)
    good = [text for _, text in zip(range(60), automaton.strings(max_iterations=4000), strict=False)]
    texts = ["".join(map(str, text)) for text in good if all(isinstance(char, str) for char in text)]
    alphabet = 'abc1é😀 {}":xyz\n'
    texts += ["".join(rng.choice(alphabet) for _ in range(rng.randint(0, 6))) for _ in range(300)]
    texts += [t[:i] + rng.choice(alphabet) + t[i:] for t in texts[:60] for i in (0, len(t) // 2, len(t))]
    assert [t for t in texts if grammar.matches(t) != automaton.accepts(t)] == []


@pytest.mark.parametrize("pattern", PATTERNS)
def test_what_outlines_core_allows_is_allowed(pattern: str, peer_vocab: Vocabulary, allowed_ids: Allowed) -> None:
    end = peer_vocab.eos_ids[0]
    table: dict[bytes, list[int]] = {}
    for i, token in enumerate(peer_vocab.tokens):
        if token:
            table.setdefault(token, []).append(i)
    index = outlines_core.Index(pattern, outlines_core.Vocabulary(end, table))
    grammar = Compiler(peer_vocab).regex(pattern)
    rng = random.Random(pattern)
    for _ in range(4):
        matcher, state = grammar.matcher(), index.get_initial_state()
        for _ in range(10):
            expected = set(index.get_allowed_tokens(state) or [])
            assert allowed_ids(matcher) >= expected - {end}  # it leaves out some tokens that llguidance allows too
            assert matcher.is_accepting == index.is_final_state(state)
            if not expected - {end}:
                break
            token = rng.choice(sorted(expected - {end}))
            assert matcher.accept(token)
            state = index.get_next_state(state, token)
