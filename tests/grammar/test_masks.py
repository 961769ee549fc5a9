"""Masks against trying every token, on a toy vocabulary and on the real one; padding, end tokens, batches."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from radixrt.errors import InvalidRequest
from radixrt.grammar import CompiledGrammar, Compiler, GrammarLimits, Matcher, Vocabulary, fill_masks
from radixrt.grammar.automaton import Row
from radixrt.grammar.row_set import RowSet, digest_of

Allowed = Callable[[Matcher], set[int]]
BruteForce = Callable[[CompiledGrammar, Matcher], set[int]]

pytestmark = pytest.mark.usefixtures("each_pool")

GRAMMARS = [
    ("regex", r"[ab]*(?:é|😀)+[^1]{0,3}"),
    ("regex", r"(?s).{0,4}"),
    ("regex", r"(?=.*b)(?!.*a1)[ab1 ]{1,9}"),
    ("regex", r"\w+(?: \w+)*"),
    ("regex", r'\{"a+":(?:true|false|null)(?:,"b":[1-9]+)?\}'),
    ("ebnf", 'root ::= "{" (pair ("," pair)*)? "}"\npair ::= [ab]+ ":" (root | "1"+ | " ")'),
    ("ebnf", 'root ::= root root | "a" | "b" root? "1" | ""'),
    ("ebnf", 'root ::= ("a" | "[" root "]"){1,4} | .'),
]


def compiled(compiler: Compiler, kind: str, source: str) -> CompiledGrammar:
    grammar: CompiledGrammar = getattr(compiler, kind)(source)
    return grammar


@pytest.mark.parametrize(("kind", "source"), GRAMMARS)
def test_a_mask_is_what_trying_every_token_says(
    kind: str, source: str, toy_vocab: Vocabulary, allowed_ids: Allowed, brute_force: BruteForce
) -> None:
    grammar = compiled(Compiler(toy_vocab), kind, source)
    rng = random.Random(source)
    for _ in range(4):
        matcher = grammar.matcher()
        for _ in range(9):
            allowed = allowed_ids(matcher)
            assert allowed == brute_force(grammar, matcher)
            assert max(allowed, default=0) < toy_vocab.size
            token = rng.choice(sorted(allowed))
            assert matcher.accept(token)
            if token in toy_vocab.eos_ids:
                break


@pytest.mark.parametrize(("kind", "source"), GRAMMARS)
def test_random_masked_texts_can_always_end_and_then_match(
    kind: str, source: str, toy_vocab: Vocabulary, allowed_ids: Allowed
) -> None:
    grammar = compiled(Compiler(toy_vocab), kind, source)
    rng = random.Random(source)
    for _ in range(6):
        matcher, text = grammar.matcher(), b""
        for step in range(400):
            allowed = sorted(allowed_ids(matcher))
            assert allowed, f"no legal token after {text!r}"
            ends = [token for token in allowed if token in toy_vocab.eos_ids]
            assert bool(ends) == matcher.is_accepting
            # After a while, go for the end: the token that leaves the fewest next choices.
            token = (
                ends[0] if ends and step > 8 else min(rng.sample(allowed, min(len(allowed), 4 if step < 30 else 1)))
            )
            assert matcher.accept(token)
            if token in toy_vocab.eos_ids:
                break
            text += toy_vocab.tokens[token] or b""
            if step > 60 and not matcher.is_accepting and kind == "ebnf":
                closing = [
                    t for t in sorted(allowed_ids(matcher)) if toy_vocab.tokens[t] in (b"}", b"]", b"1", b" ")
                ]
                if closing:
                    assert matcher.accept(closing[-1])
                    text += toy_vocab.tokens[closing[-1]] or b""
        if matcher.is_accepting:
            assert grammar.matches(text)


def test_real_vocabulary(model_vocab: Vocabulary, allowed_ids: Allowed, brute_force: BruteForce) -> None:
    compiler = Compiler(model_vocab)
    for kind, source in (
        ("regex", r'"(?:[^"\\\x00-\x1f]|\\["\\/bfnrt])*"'),
        ("regex", r"\w+@\w+\.com"),
        GRAMMARS[5],
    ):
        grammar = compiled(compiler, kind, source)
        rng = random.Random(source)
        matcher = grammar.matcher()
        for _ in range(3):
            allowed = allowed_ids(matcher)
            assert allowed == brute_force(grammar, matcher)
            assert matcher.accept(rng.choice(sorted(allowed - set(model_vocab.eos_ids))))


def test_python_and_native_paths_write_the_same_masks(
    toy_vocab: Vocabulary, allowed_ids: Allowed, monkeypatch: pytest.MonkeyPatch
) -> None:
    from radixrt.grammar import python_runner
    from radixrt.kernels.cpu.trie_walk import run_walks

    for kind, source in GRAMMARS:
        native = compiled(Compiler(toy_vocab), kind, source).matcher()
        slow = compiled(Compiler(toy_vocab), kind, source).matcher()
        rng = random.Random(source)
        for _ in range(5):
            allowed = allowed_ids(native)
            with monkeypatch.context() as patch:
                patch.setattr(python_runner, "run_walks", lambda *a: run_walks(*a, library=None))
                assert allowed_ids(slow) == allowed
            token = rng.choice(sorted(allowed))
            assert native.accept(token)
            assert slow.accept(token)


def test_every_end_token_is_allowed_exactly_when_the_text_is_complete(
    toy_vocab: Vocabulary, allowed_ids: Allowed
) -> None:
    """End tokens of the request replace the vocabulary's, whatever text they spell."""
    a, one = ord("a"), ord("1")
    default = toy_vocab.eos_ids[0]
    matcher = Compiler(toy_vocab).regex("a+").matcher(end_ids=[a, one, default])
    assert a not in allowed_ids(matcher)
    assert one not in allowed_ids(matcher)
    double = next(i for i, t in enumerate(toy_vocab.tokens) if t and len(t) > 1 and set(t) == {a})
    assert matcher.accept(double)
    assert {a, one, default} <= allowed_ids(matcher)
    assert matcher.accept(a)
    assert allowed_ids(matcher) == {a, one, default}
    assert not matcher.accept(double)
    assert matcher.accept(one)
    only = Compiler(toy_vocab).regex("a+").matcher(end_ids=[one])
    assert only.accept(a)
    assert default not in allowed_ids(only)
    assert not only.accept(default)


def test_special_tokens_are_no_text(allowed_ids: Allowed) -> None:
    """A control token whose spelling fits is neither allowed nor accepted; the same text in plain tokens is."""
    tokens = [bytes([i]) for i in range(256)] + [b"<|x|>", b"<|x", b"<|x|>", None]
    vocab = Vocabulary(tokens, [259], special_ids=[256])
    matcher = Compiler(vocab).regex('"[^"]*"').matcher()
    assert matcher.accept(ord('"'))
    allowed = allowed_ids(matcher)
    assert 256 not in allowed
    assert {257, 258} <= allowed
    assert not matcher.accept(256)
    assert matcher.accept(258)


def test_a_character_outside_the_vocabulary_is_reached_by_its_bytes(byte_vocab: Vocabulary) -> None:
    matcher = Compiler(byte_vocab).regex('"é"').matcher()
    assert all(map(matcher.accept, '"é"'.encode()))
    assert matcher.is_accepting
    halfway = Compiler(byte_vocab).regex(".").matcher()
    assert halfway.accept(0xC3)
    assert not halfway.is_accepting
    assert not halfway.accept(ord("a"))


def test_ids_out_of_range_are_refused_and_change_nothing(toy_vocab: Vocabulary) -> None:
    matcher = Compiler(toy_vocab).regex("a+").matcher()
    for token in (-1, toy_vocab.size, toy_vocab.size - 1, len(toy_vocab.tokens), 10**12, -(10**12)):
        assert not matcher.accept(token)
        assert not matcher.failed
    assert matcher.accept(ord("a"))


def test_a_batch_mixes_constrained_and_free_rows(toy_vocab: Vocabulary, allowed_ids: Allowed) -> None:
    compiler = Compiler(toy_vocab)
    grammars = [compiled(compiler, *pair) for pair in GRAMMARS]
    rng = random.Random(1)
    matchers: list[Matcher | None] = [g.matcher() for g in grammars for _ in range(2)] + [None, None]
    bitmask = np.full((len(matchers) + 1, toy_vocab.words), 7, np.int32)
    for _ in range(5):
        rng.shuffle(matchers)
        fill_masks(matchers, bitmask)
        for matcher, row in zip(matchers, bitmask, strict=False):
            ids = set(np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist())
            assert ids == (set(range(toy_vocab.size)) if matcher is None else allowed_ids(matcher))
            if matcher is not None and ids:
                assert matcher.accept(rng.choice(sorted(ids)))
    assert (bitmask[-1] == 7).all()
    fill_masks([None], bitmask, size=toy_vocab.size)
    assert np.unpackbits(bitmask[0].view(np.uint8)).sum() == toy_vocab.size


def test_buffers_of_the_wrong_shape_are_named(toy_vocab: Vocabulary, byte_vocab: Vocabulary) -> None:
    matcher = Compiler(toy_vocab).regex("a").matcher()
    words = toy_vocab.words
    for row in (np.zeros(words + 1, np.int32), np.zeros(words, np.int64), np.zeros(2 * words, np.int32)[::2]):
        with pytest.raises(InvalidRequest) as caught:
            matcher.fill_mask(row)
        assert caught.value.param == "row"
    for bitmask in (np.zeros(words, np.int32), np.zeros((1, words + 1), np.int32), np.zeros((0, words), np.int32)):
        with pytest.raises(InvalidRequest) as caught:
            fill_masks([matcher], bitmask)
        assert caught.value.param == "bitmask"
    with pytest.raises(InvalidRequest, match="row 1 is a str"):
        fill_masks([matcher, "a"], np.zeros((2, words), np.int32))
    other = Compiler(byte_vocab).regex("a").matcher()
    with pytest.raises(InvalidRequest):
        fill_masks([matcher, other], np.zeros((2, words), np.int32))


def test_the_rows_that_a_grammar_keeps_are_bounded(toy_vocab: Vocabulary, allowed_ids: Allowed) -> None:
    limits = GrammarLimits(mask_cache_bytes=5 * 4 * toy_vocab.words + 600)
    grammar = Compiler(toy_vocab, limits).regex("".join(map(chr, range(ord("a"), ord("z") + 1))))
    matcher = grammar.matcher()
    most = 0
    for letter in range(ord("a"), ord("z") + 1):
        assert letter in allowed_ids(matcher)
        assert matcher.accept(letter)
        most = max(most, len(grammar._current()._rows))
    assert most == 3


def test_equal_rows_are_one_row_whoever_made_them(toy_vocab: Vocabulary) -> None:
    compiler = Compiler(toy_vocab)

    def row_after(pattern: str, text: bytes) -> Row:
        automaton = compiler.regex(pattern)._current()
        return automaton.row(automaton.advance(automaton.start, text))

    rows = [row_after("(x|y)[ab]*", b"x"), row_after("(x|y)[ab]*", b"yab"), row_after("[ab]*", b"a")]
    assert rows[0] is rows[1] is rows[2]
    other = row_after("[ab]*c?", b"a")
    assert not (rows[0] == other).all()


def test_nobody_keeps_a_row_that_nobody_uses(toy_vocab: Vocabulary) -> None:
    rows = RowSet()
    bits = np.ones(toy_vocab.words, np.uint32)
    kept = rows.kept(bits, digest_of(bits))
    bits[0] = 0
    assert rows.kept(bits, digest_of(bits)).bits is not kept.bits
    bits[0] = 1
    assert rows.kept(bits, digest_of(bits)).bits is kept.bits
    assert not kept.bits.flags.writeable
    assert len(rows) == 1
    del kept
    assert len(rows) == 0


def test_a_grammar_that_grew_starts_afresh_while_old_matchers_go_on(
    toy_vocab: Vocabulary, allowed_ids: Allowed
) -> None:
    grammar = Compiler(toy_vocab, GrammarLimits(states=50)).ebnf('root ::= "{" root "}" | ""')
    old = grammar.matcher()
    for _ in range(80):
        assert old.accept(ord("{"))
    fresh = grammar.matcher()
    assert len(fresh._automaton._runner) < 50
    assert fresh.accept(ord("{"))
    assert allowed_ids(fresh) != allowed_ids(old) or fresh.is_accepting == old.is_accepting
    for _ in range(80):
        assert old.accept(ord("}"))
    assert old.is_complete


@pytest.fixture(scope="module")
def model_vocab(model_file: Path) -> Vocabulary:
    text = pytest.importorskip("radixrt.text.tokenizer")
    return Vocabulary.from_tokenizer(text.load_tokenizer(model_file))
