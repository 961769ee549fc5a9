"""Vocabularies: their checks, and reading them out of tokenizers."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

from radixrt.errors import InvalidRequest
from radixrt.grammar import Compiler, Vocabulary
from radixrt.grammar.tokenizers import _byte_level_bytes


@pytest.mark.parametrize(
    ("arguments", "param"),
    [
        (([b"a"], [1]), "eos_ids"),
        (([b"a"], [-1]), "eos_ids"),
        (([b"a"], ["a"]), "eos_ids"),
        (([b"a"], [True]), "eos_ids"),
        (([b"a"], [0], [5]), "special_ids"),
        ((["a"], [0]), "tokens"),
        (([b"a", b"b"], [0], [], 1), "size"),
        (([b"a"], [0], [], 1 << 30), "size"),
        (([b"a"], [0], [], 2.0), "size"),
        (([], []), "size"),
        (([b"a" * 70000], [0]), "tokens"),
        ((None, [0]), "tokens"),
        (("ab", [0]), "tokens"),
        ((b"ab", [0]), "tokens"),
        ((iter([b"a"]), [0]), "tokens"),
        (({0: b"a"}, [0]), "tokens"),
        (([b"a", bytearray(b"b")], [0]), "tokens"),
        (([b"a"], 0), "eos_ids"),
        (([b"a"], None), "eos_ids"),
        (([b"a"], b"\0"), "eos_ids"),
        (([b"a"], {0: 0}), "eos_ids"),
        (([b"a"], [0.0]), "eos_ids"),
        (([b"a"], [0], None), "special_ids"),
        (([b"a"], [0], "0"), "special_ids"),
        (([b"a"], [0], [], True), "size"),
        (([b"a"], [0], [], "x"), "size"),
        (([b"a"], [0], [], None, "ab"), "special_names"),
        (([b"a"], [0], [], None, []), "special_names"),
        (([b"a"], [0], [], None, {"": 0}), "special_names"),
        (([b"a"], [0], [], None, {"a": 1}), "special_names"),
        (([b"a"], [0], [], None, {"a": "b"}), "special_names"),
    ],
)
def test_arguments_are_checked(arguments: Any, param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        Vocabulary(*arguments)
    assert caught.value.param == param


def test_ids_may_come_from_numpy() -> None:
    vocab = Vocabulary([b"a", None, None], np.array([1]), {np.int64(2)}, np.int32(5), {"<x>": np.uint8(2)})
    assert (vocab.eos_ids, vocab.special_ids, vocab.size, dict(vocab.special_names)) == ((1,), {2}, 5, {"<x>": 2})
    assert all(type(i) is int for i in (*vocab.eos_ids, *vocab.special_ids, vocab.size))


@pytest.mark.parametrize(
    "tokens",
    [
        [bytes([i]) + b"a" * 65_000 for i in range(256)],  # 16 MB, nearly all of them nodes of the trie
        [b"a" * 65_000] * 1100,  # 71 MB, but few nodes
    ],
    ids=["nodes", "bytes"],
)
def test_a_vocabulary_that_is_too_large_is_refused_before_it_is_built(tokens: list[bytes]) -> None:
    texts = sum(map(len, tokens))
    tracemalloc.start()
    try:
        with pytest.raises(InvalidRequest, match="the limit is") as caught:
            Vocabulary(tokens, [0])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert caught.value.param == "tokens"
    assert peak < 2 * texts + 1_000_000


def test_an_empty_token_is_never_allowed() -> None:
    vocab = Vocabulary([b"", b"a", None], [2])
    matcher = Compiler(vocab).regex("a*").matcher()
    assert not matcher.accept(0)
    assert matcher.accept(1)


def test_padding_is_part_of_the_width() -> None:
    vocab = Vocabulary([b"a", None], [1], size=70)
    assert (vocab.words, vocab.token_bytes(69), vocab.token_bytes(70), vocab.token_bytes(-1)) == (
        3,
        None,
        None,
        None,
    )


class OurTokenizer:
    vocab_size = 8
    eos_ids = (3, 4)
    special_ids = frozenset({3, 4})

    def tokens(self) -> list[bytes | None]:
        return [b"a", b"\xc3", b"\xa9", None, None]


def test_our_own_tokenizer() -> None:
    vocab = Vocabulary.from_tokenizer(OurTokenizer())
    assert (vocab.size, vocab.eos_ids, vocab.special_ids) == (8, (3, 4), {3, 4})
    assert vocab.tokens == (b"a", b"\xc3", b"\xa9", None, None)


def byte_level() -> Any:
    tokenizers = pytest.importorskip("tokenizers")
    tok = tokenizers.Tokenizer(tokenizers.models.BPE())
    tok.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tok.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=400,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<|endoftext|>"],
        show_progress=False,
    )
    tok.train_from_iterator(["the cat sat on the café mat\n\tthe end 😀"] * 20, trainer)
    tok.add_tokens(["<plain é>"])
    return tok


def metaspace() -> Any:
    tokenizers = pytest.importorskip("tokenizers")
    bytes_ = {f"<0x{b:02X}>": 3 + b for b in range(256)}
    pieces = ["▁", "a", "b", "▁a", "▁▁", "ab", "é", "▁ab"]
    vocab = {"<unk>": 0, "<s>": 1, "</s>": 2, **bytes_, **{p: 259 + i for i, p in enumerate(pieces)}}
    merges = [("▁", "a"), ("▁", "▁"), ("a", "b"), ("▁a", "b")]
    tok = tokenizers.Tokenizer(
        tokenizers.models.BPE(vocab=vocab, merges=merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True)
    )
    tok.normalizer = tokenizers.normalizers.Replace(" ", "▁")
    tok.decoder = tokenizers.decoders.Sequence(
        [tokenizers.decoders.Replace("▁", " "), tokenizers.decoders.ByteFallback(), tokenizers.decoders.Fuse()]
    )
    tok.add_special_tokens(["<s>", "</s>", "<unk>"])
    return tok


@pytest.mark.parametrize("make", [byte_level, metaspace])
def test_tokens_spell_what_the_tokenizer_decodes(make: Any) -> None:
    tok = make()
    vocab = Vocabulary.from_tokenizer(tok)
    texts = ["the cat", " café\n\t😀 x", "ab  a é", "\x00\x7f", "日本"]
    for text in texts:
        ids = tok.encode(text, add_special_tokens=False).ids
        assert b"".join(vocab.tokens[i] or b"?" for i in ids) == text.encode()
    end = next(i for s in ("<|endoftext|>", "</s>") if (i := tok.token_to_id(s)) is not None)
    assert vocab.eos_ids == (end,)
    assert vocab.tokens[end] is None
    assert vocab.size == tok.get_vocab_size()


def test_added_tokens_that_are_not_special_are_text() -> None:
    tok = byte_level()
    vocab = Vocabulary.from_tokenizer(tok)
    assert vocab.tokens[tok.token_to_id("<plain é>")] == "<plain é>".encode()


def test_transformers_tokenizer_and_overrides() -> None:
    transformers = pytest.importorskip("transformers")
    tok = transformers.PreTrainedTokenizerFast(tokenizer_object=byte_level(), eos_token="<|endoftext|>")
    vocab = Vocabulary.from_tokenizer(tok)
    assert vocab.eos_ids == (tok.eos_token_id,)
    wide = Vocabulary.from_tokenizer(tok, eos_ids=[5, 6], size=1000)
    assert (wide.eos_ids, wide.size) == ((5, 6), 1000)


def test_tokenizers_that_cannot_be_read_are_refused() -> None:
    tokenizers = pytest.importorskip("tokenizers")
    pieces = tokenizers.Tokenizer(tokenizers.models.WordPiece({"[UNK]": 0, "a": 1, "##b": 2}, unk_token="[UNK]"))
    pieces.decoder = tokenizers.decoders.WordPiece()
    for thing in (pieces, object(), None, "gpt2"):
        with pytest.raises(InvalidRequest) as caught:
            Vocabulary.from_tokenizer(thing)
        assert caught.value.param == "tokenizer"


def test_without_an_end_there_is_no_vocabulary() -> None:
    tokenizers = pytest.importorskip("tokenizers")
    tok = tokenizers.Tokenizer(tokenizers.models.BPE(vocab={"a": 0}, merges=[]))
    tok.decoder = tokenizers.decoders.ByteLevel()
    with pytest.raises(InvalidRequest) as caught:
        Vocabulary.from_tokenizer(tok)
    assert caught.value.param == "eos_ids"
    assert Vocabulary.from_tokenizer(tok, eos_ids=[0]).eos_ids == (0,)


def test_byte_level_stand_ins_cover_all_bytes() -> None:
    pre_tokenizers = pytest.importorskip("tokenizers").pre_tokenizers
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    assert sorted(_byte_level_bytes(char)[0] for char in alphabet) == list(range(256))
    assert _byte_level_bytes("ĠcafÃ©") == " café".encode()
