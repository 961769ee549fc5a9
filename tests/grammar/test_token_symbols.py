"""Special tokens named in a grammar: allowed where a symbol names them, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from radixrt.errors import InvalidRequest, UnsupportedConstraint
from radixrt.grammar import CompiledGrammar, Compiler, Matcher, Vocabulary, fill_masks
from radixrt.grammar.token_symbols import PRIVATE_BYTES, symbol_bytes
from radixrt.testing.byte_tokenizer import ByteTokenizer

END, THINK, UNTHINK, PAD, LOUD, SHOUT = range(256, 262)
NAMES = {"<end>": END, "<think>": THINK, "</think>": UNTHINK, "<|pad|>": PAD, "[LOUD]": LOUD}


@pytest.fixture(scope="module")
def compiler() -> Compiler:
    """Every byte is a token, then the end, four special tokens that spell themselves, an ordinary long token."""
    tokens = [bytes([i]) for i in range(256)]
    named = [name.encode() for name in NAMES]
    return Compiler(Vocabulary([*tokens, *named, b"<shout>"], [END], range(END, SHOUT), special_names=NAMES))


def accepts(grammar: CompiledGrammar, *pieces: str | int) -> bool:
    """Whether a matcher takes text (byte by byte) and ids, mask and acceptance agreeing at every step."""
    matcher = grammar.matcher()
    row = np.zeros(grammar.vocab.words, np.int32)
    ids = [token for piece in pieces for token in (list(piece.encode()) if isinstance(piece, str) else [piece])]
    for token in ids:
        matcher.fill_mask(row)
        allowed = bool(row[token // 32] >> (token % 32) & 1)
        assert matcher.accept(token) == allowed
        if not allowed:
            return False
    return matcher.is_accepting


@pytest.mark.parametrize(
    ("text", "good", "bad"),
    [
        ('root ::= <think> "a" </think>', [(THINK, "a", UNTHINK)], [("a",), ("<think>a</think>",), (THINK, "a")]),
        ("root ::= <[257]> <[258-259]>", [(THINK, UNTHINK), (THINK, PAD)], [(THINK,), (THINK, THINK)]),
        ("root ::= <[257,259]>{2}", [(PAD, PAD), (THINK, PAD)], [(THINK,), (UNTHINK, PAD)]),
        ("root ::= <think> !</think>* </think>", [(THINK, UNTHINK), (THINK, "aé", PAD, UNTHINK)], [("a", UNTHINK)]),
        ("root ::= <[^258]>+ <[258]>", [("a", THINK, UNTHINK)], [(UNTHINK,), (UNTHINK, UNTHINK)]),
        ("root ::= <[*]>*", [(), ("a", THINK, UNTHINK, "é")], [(0xC3,)]),
        ("root ::= <[256-258]>", [(THINK,), (UNTHINK,)], [(PAD,), (END,)]),
        ("root ::= ( <think> | [a-z] )+", [("ab", THINK, "c")], [("<think>A",)]),
        ("root ::= <shout> <[65]>", [("<shout>A",), (SHOUT, ord("A"))], [("<shout>",)]),
        ("root ::= [<] <think>? [^a]*", [("<", THINK, "b"), ("<<think>",)], [("<", THINK, THINK), ("<", UNTHINK)]),
    ],
)
def test_symbols(text: str, good: list[Any], bad: list[Any], compiler: Compiler) -> None:
    grammar = compiler.ebnf(text)
    assert [pieces for pieces in good if not accepts(grammar, *pieces)] == []
    assert [pieces for pieces in bad if accepts(grammar, *pieces)] == []


@pytest.mark.parametrize(
    ("text", "place", "problem"),
    [
        ("root ::= <nothing>", "1:10", "no token '<nothing>'"),
        ('root ::=\n  "a" <[9999]>', "2:7", "9999 is not a token id below 262"),
        ("root ::= <[1-9999]>", "1:10", "9999 is not a token id below 262"),
        ("root ::= <[x]>", "1:10", "'x' is neither"),
        ("root ::= <[]>", "1:10", "'' is neither"),
        ("root ::= <[3-2]>", "1:10", "out of order"),
        ("root ::= <think", "1:10", "expected a token symbol"),
        ("root ::= !", "1:10", "expected a token symbol"),
        ("root ::= !<[*]>*", "1:10", "none of all"),
    ],
)
def test_malformed_symbols(text: str, place: str, problem: str, compiler: Compiler) -> None:
    with pytest.raises(InvalidRequest) as caught:
        compiler.ebnf(text)
    assert problem in caught.value.message
    assert caught.value.message.endswith(f" at {place}")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("root ::= <end>", "1:10"),
        ("root ::= <[256]>", "1:10"),
        ("root ::= !<think>", "1:18"),
        ("root ::= !<think>?", "1:18"),
        ("root ::= !<think>{3}", "1:18"),
        ("root ::= !<think>{0,3}", "1:18"),
        ("root ::= <[*]>", "1:15"),
        ("root ::= !<shout>*", "1:10"),
        ("root ::= <[255]>", "1:10"),
        ("root ::= <[195]>", "1:10"),
    ],
)
def test_symbols_that_mean_nothing_exact_are_refused(text: str, place: str, compiler: Compiler) -> None:
    with pytest.raises(UnsupportedConstraint) as caught:
        compiler.ebnf(text)
    assert (caught.value.keyword, caught.value.location, caught.value.param) == ("token symbol", place, "grammar")


@pytest.mark.parametrize(
    "compile_",
    [
        lambda c: c.regex(r"(?s).*"),
        lambda c: c.regex(r"(?s)(?!<think>).*"),
        lambda c: c.regex(r"[^a]*(?<!b)"),
        lambda c: c.ebnf("root ::= [^a]*"),
        lambda c: c.ebnf("root ::= .*"),
        lambda c: c.json_schema({"not": {"type": "object"}}),
        lambda c: c.json_schema({"type": "string", "not": {"pattern": "a"}}),
    ],
)
def test_without_a_symbol_no_special_token_is_allowed(
    compile_: Callable[[Compiler], CompiledGrammar], compiler: Compiler, allowed_ids: Callable[[Matcher], set[int]]
) -> None:
    grammar = compile_(compiler)
    for text in ("", '"', '"<think', "<think"):
        matcher = grammar.matcher()
        if all(map(matcher.accept, text.encode())):
            assert not allowed_ids(matcher) & {THINK, UNTHINK, PAD, LOUD}
            assert not allowed_ids(matcher) & {0xFE, 0xFF}


def test_end_tokens_keep_their_meaning(compiler: Compiler, allowed_ids: Callable[[Matcher], set[int]]) -> None:
    matcher = compiler.ebnf("root ::= <think> [a]? </think>").matcher()
    assert allowed_ids(matcher) == {THINK}
    assert matcher.accept(THINK)
    assert allowed_ids(matcher) == {ord("a"), UNTHINK}
    assert matcher.accept(UNTHINK)
    assert allowed_ids(matcher) == {END}
    assert matcher.accept(END)
    matcher.rollback(2)
    assert allowed_ids(matcher) == {ord("a"), UNTHINK}
    twin = matcher.copy()
    assert twin.accept(UNTHINK)
    assert twin.is_complete
    assert not matcher.is_accepting


def test_symbols_in_a_batch_and_as_forced_tokens(compiler: Compiler) -> None:
    grammar = compiler.ebnf('root ::= "a" <think> "b" </think>')
    matchers = [grammar.matcher() for _ in range(3)]
    assert matchers[0].forced_tokens() == [ord("a"), THINK, ord("b"), UNTHINK]
    for token in (ord("a"), THINK):
        assert matchers[1].accept(token)
    assert matchers[2].accept(ord("a"))
    masks = np.zeros((3, grammar.vocab.words), np.int32)
    fill_masks(matchers, masks)
    bits = np.unpackbits(masks.view(np.uint8), axis=1, bitorder="little")
    assert [np.flatnonzero(row).tolist() for row in bits] == [[ord("a")], [ord("b")], [THINK]]


def test_forced_text_after_a_special_token_is_tokenized_by_itself() -> None:
    vocab = Vocabulary([b"a", b"b", b"ab", b"x", None, None], [4], [4, 5])

    def encode(text: str) -> list[int]:
        ids = []
        while text:
            piece = "ab" if text.startswith("ab") else text[0]
            ids.append({"a": 0, "b": 1, "ab": 2, "x": 3}[piece])
            text = text.removeprefix(piece)
        return ids

    matcher = Compiler(vocab, encode=encode).ebnf('root ::= "a" <[5]> "ab" [xb]').matcher()
    for token in (0, 5, 2):
        assert matcher.forced_tokens() == [token]
        assert matcher.accept(token)
    assert matcher.forced_tokens() == []


def test_tokens_with_private_bytes_are_never_allowed(allowed_ids: Callable[[Matcher], set[int]]) -> None:
    tokens = [b"a", b"\xff", b"a\xfe", symbol_bytes(5), b"b", None, None]
    vocab = Vocabulary(tokens, [6], [5])
    matcher = Compiler(vocab).ebnf("root ::= <[5]> .*").matcher()
    assert allowed_ids(matcher) == {5}
    assert not any(map(matcher.accept, (1, 2, 3)))
    assert matcher.accept(5)
    assert allowed_ids(matcher) == {0, 4, 6}


def test_symbols_are_told_apart_and_are_no_text() -> None:
    ids = [*range(70), 4095, 4096, 1 << 18, (1 << 24) - 1]
    spellings = {symbol_bytes(token) for token in ids}
    assert len(spellings) == len(ids)
    assert {len(data) for data in spellings} == {5}
    assert all(PRIVATE_BYTES.findall(data) == [b"\xff"] for data in spellings)


def test_special_tokens_beyond_the_named_ones_have_ids() -> None:
    vocab = Vocabulary([b"a", None], [1], special_ids=[1, 6], size=8)
    grammar = Compiler(vocab).ebnf('root ::= <[6]> "a"')
    matcher = grammar.matcher()
    assert matcher.accept(6)
    assert matcher.accept(0)
    with pytest.raises(UnsupportedConstraint, match="stands for no text"):
        Compiler(vocab).ebnf("root ::= <[7]>")


@pytest.mark.parametrize("names", [{"a": 9}, {"a": -1}, {"a": "b"}, {"a": True}, {"": 1}, {1: 1}])
def test_names_are_checked(names: Any) -> None:
    with pytest.raises(InvalidRequest) as caught:
        Vocabulary([b"a", None], [1], special_names=names)
    assert caught.value.param == "special_names"


def test_our_tokenizer_names_its_special_tokens() -> None:
    vocab = Vocabulary.from_tokenizer(ByteTokenizer())
    assert vocab.find("<|im_start|>") == ByteTokenizer.IM_START
    matcher = Compiler(vocab).ebnf('root ::= <|im_start|> "x"').matcher()
    assert matcher.accept(ByteTokenizer.IM_START)
    assert not matcher.accept(ByteTokenizer.IM_START)


def test_a_tokenizers_added_tokens_can_be_named() -> None:
    tokenizers = pytest.importorskip("tokenizers")
    tok = tokenizers.Tokenizer(tokenizers.models.BPE(vocab={"a": 0, "b": 1}, merges=[]))
    tok.decoder = tokenizers.decoders.ByteLevel()
    tok.add_special_tokens(["<|endoftext|>", "<|tool|>"])
    tok.add_tokens(["<think>"])
    vocab = Vocabulary.from_tokenizer(tok)
    matcher = Compiler(vocab).ebnf('root ::= <|tool|> <think> "a"').matcher()
    for name in ("<|tool|>", "<think>", "a"):
        assert matcher.accept(tok.token_to_id(name))
    assert matcher.is_complete
