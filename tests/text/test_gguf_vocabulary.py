"""Tokenizers from GGUF metadata: against the same vocabulary read otherwise, and damaged in every way."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import regex  # type: ignore[import-untyped]
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Backend
from tokenizers import pre_tokenizers

from radixrt.errors import ModelLoadError
from radixrt.text.gguf_vocabulary import definition_from_metadata
from radixrt.text.pieces import TextPiece
from radixrt.text.splits import SPLITS, pre_tokenizer_spec
from radixrt.text.tokenizer import Tokenizer, load_tokenizer

Metadata = dict[str, Any]
SAMPLES = [
    "The quick brown fox, doesn't it? HELLO'S 12345 times.\n\n\n  Tabs\tand   blanks \r\n end ",
    "Größe 7,5 m² ½ e\u0301 你好，世界。日本語ｶﾅ 한국어 Привет мир ١٢٣ 🎉👩‍🚀 x86_64 http://a.b/c?d=e#f",
    "   leading",
    "trailing   ",
    "\n",
    "'s't're",
    "a'LL b'Ve",
    "1234567 12 1",
    "camelCaseWORDand HTMLParser",
    "~~~ !!! ...\n...",
]
WORDS = [
    *[
        "The quick",
        " unmergeable",
        "brown fox",
        "doesn't",
        " ",
        "  ",
        "\n",
        "123",
        "你好",
        "é",
        "🎉",
        "HELLO",
        "x",
        "▁",
        "<0x0A>",
        ",",
        ".",
        "end of",
    ],
    *SAMPLES,
]
texts = st.lists(st.sampled_from(WORDS), max_size=8).map("".join)
quick = settings(
    max_examples=100,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def gguf_of_byte_level(backend: Backend, pre: str) -> Metadata:
    """The metadata that a converter writes for a byte-level tokenizer."""
    vocab = backend.get_vocab(with_added_tokens=True)
    size = max(vocab.values()) + 1
    tokens = [f"[PAD{index}]" for index in range(size)]
    kinds = [5] * size
    added = {token.content: token.special for token in backend.get_added_tokens_decoder().values()}
    for spelling, index in vocab.items():
        tokens[index] = spelling
        kinds[index] = (3 if added[spelling] else 4) if spelling in added else 1
    merges = [" ".join(pair) for pair in json.loads(backend.to_str())["model"]["merges"]]
    return {
        "general.architecture": "llama",
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": kinds,
        "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.bos_token_id": vocab["<s>"],
        "tokenizer.ggml.eos_token_id": vocab["</s>"],
    }


def gguf_of_sentencepiece(backend: Backend) -> Metadata:
    """The metadata of a SentencePiece BPE vocabulary: a token's score is the rank of its first merge."""
    model = json.loads(backend.to_str())["model"]
    size = max(model["vocab"].values()) + 1
    tokens, kinds, scores = [""] * size, [1] * size, [0.0] * size
    ranks: dict[str, int] = {}
    for left, right in model["merges"]:
        ranks.setdefault(left + right, len(ranks))
    for spelling, index in model["vocab"].items():
        tokens[index] = spelling
        scores[index] = -float(ranks.get(spelling, 100_000 + index))
        if spelling in ("<s>", "</s>", "<|im_start|>", "<|im_end|>"):
            kinds[index] = 3
        elif spelling == "<unk>":
            kinds[index] = 2
        elif spelling.startswith("<0x"):
            kinds[index] = 6
    return {
        "general.architecture": "llama",
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": kinds,
        "tokenizer.ggml.scores": scores,
        "tokenizer.ggml.bos_token_id": tokens.index("<s>"),
        "tokenizer.ggml.eos_token_id": tokens.index("</s>"),
        "tokenizer.ggml.unknown_token_id": tokens.index("<unk>"),
    }


def tokenizer_of(metadata: Mapping[str, Any]) -> Tokenizer:
    return Tokenizer(definition_from_metadata(metadata, "made.gguf"))


class TestByteLevel:
    @quick
    @given(text=texts)
    def test_encodes_as_the_tokenizer_it_was_made_of(self, backends: Mapping[str, Backend], text: str) -> None:
        for kind, pre in (("gpt2", "gpt-2"), ("whole_words", "llama-bpe")):
            tokenizer = tokenizer_of(gguf_of_byte_level(backends[kind], pre))
            assert tokenizer.encode_text(text) == backends[kind].encode(text, add_special_tokens=False).ids
            break_up = tokenizer.encode([TextPiece("<|im_start|>", literal=True), TextPiece(text)], at_start=True)
            assert break_up[0] == tokenizer.id_of("<|im_start|>")
            assert tokenizer.decode(break_up) == text

    def test_ends_bos_and_template(self, backends: Mapping[str, Backend]) -> None:
        metadata = gguf_of_byte_level(backends["gpt2"], "llama-bpe")
        metadata["tokenizer.chat_template"] = "{{ bos_token }}{{ eos_token }}"
        metadata["tokenizer.ggml.eot_token_id"] = 3
        tokenizer = tokenizer_of(metadata)
        ids = {text: tokenizer.id_of(text) for text in ("</s>", "<|im_start|>", "<|im_end|>", "<|end|>")}
        assert set(tokenizer.eos_ids) == set(ids.values())
        assert tokenizer.eos_ids[0] == ids["</s>"]
        assert tokenizer.prefix_ids == (tokenizer.bos_id,)
        assert tokenizer.chat is not None
        assert tokenizer.chat.render([]) == [TextPiece("<s></s>", literal=True)]
        for pre, flag, expected in (("gpt-2", None, ()), ("gpt-2", True, (1,)), ("llama-bpe", False, ())):
            metadata["tokenizer.ggml.pre"] = pre
            metadata.pop("tokenizer.ggml.add_bos_token", None)
            if flag is not None:
                metadata["tokenizer.ggml.add_bos_token"] = flag
            assert tokenizer_of(metadata).prefix_ids == expected

    @pytest.mark.parametrize("name", SPLITS)
    def test_every_kind_of_split_keeps_text_and_cuts_as_its_patterns_say(
        self, name: str, backends: Mapping[str, Backend]
    ) -> None:
        tokenizer = tokenizer_of(gguf_of_byte_level(backends["gpt2"], name))
        spec = pre_tokenizer_spec(SPLITS[name])
        whole = Backend.from_str(json.dumps({"version": "1.0", "pre_tokenizer": spec, "model": EMPTY}))
        for text in SAMPLES:
            parts = [part for part, _ in whole.pre_tokenizer.pre_tokenize_str(text)]
            expected = [text]
            for pattern in SPLITS[name].patterns:
                expected = [cut for part in expected for cut in isolated(pattern, part)]
            spelled = [
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False).pre_tokenize_str(part)
                for part in expected
            ]
            assert parts == [part for pieces in spelled for part, _ in pieces], name
            if not SPLITS[name].nfc:
                assert tokenizer.decode(tokenizer.encode_text(text)) == text

    @pytest.mark.parametrize("name", SPLITS)
    def test_prefixes_are_stable_under_every_kind_of_split(
        self, name: str, backends: Mapping[str, Backend]
    ) -> None:
        tokenizer = tokenizer_of(gguf_of_byte_level(backends["gpt2"], name))
        generator = random.Random(3)
        for _ in range(60):
            text = "It was the end of " + "".join(generator.choices(WORDS, k=4)) + " the th"
            cut = tokenizer.stable_prefix(text, at_start=True)
            assert cut > 0
            for more in ("", *generator.choices(WORDS, k=4), "'s", "e", "1", "\u0301", " "):
                split = tokenizer.encode_text(text[:cut]) + tokenizer.encode_text(text[cut:] + more)
                assert split == tokenizer.encode_text(text + more), (name, text[:cut], text[cut:], more)


EMPTY = {"type": "BPE", "vocab": {}, "merges": []}


def isolated(pattern: str, text: str) -> list[str]:
    # In Oniguruma, which the package uses, $ is also the end of a line.
    compiled = regex.compile(pattern.replace("$", r"(?=\n|\Z)") if pattern.endswith("+$") else pattern)
    parts, at = [], 0
    for match in compiled.finditer(text):
        parts += [text[at : match.start()], match.group()]
        at = match.end()
    return [part for part in [*parts, text[at:]] if part]


def best_pairs(text: str, scores: Mapping[str, float]) -> list[str]:
    """SentencePiece BPE as it is defined: join the neighbours whose token has the best score, leftmost first."""
    symbols = list(text)
    while True:
        best = max(
            (
                (scores[left + right], -at)
                for at, (left, right) in enumerate(itertools.pairwise(symbols))
                if left + right in scores
            ),
            default=None,
        )
        if best is None:
            return symbols
        at = -best[1]
        symbols[at : at + 2] = [symbols[at] + symbols[at + 1]]


@pytest.fixture(scope="module")
def sentencepiece(backends: Mapping[str, Backend]) -> Metadata:
    return gguf_of_sentencepiece(backends["space_first"])


@pytest.fixture(scope="module")
def made(sentencepiece: Metadata) -> Tokenizer:
    return tokenizer_of(sentencepiece)


@pytest.fixture(scope="module")
def theirs(sentencepiece: Metadata) -> Any:
    from transformers import LlamaTokenizer
    from transformers.convert_slow_tokenizer import generate_merges  # type: ignore[attr-defined]

    vocab = {token: index for index, token in enumerate(sentencepiece["tokenizer.ggml.tokens"])}
    scores = dict(zip(vocab, sentencepiece["tokenizer.ggml.scores"], strict=True))
    return LlamaTokenizer(vocab=vocab, merges=generate_merges(vocab, scores)).backend_tokenizer


class TestSentencePiece:
    @quick
    @given(text=texts)
    def test_encodes_as_sentencepiece_is_defined(self, sentencepiece: Metadata, made: Tokenizer, text: str) -> None:
        tokens, kinds = sentencepiece["tokenizer.ggml.tokens"], sentencepiece["tokenizer.ggml.token_type"]
        scores = {
            t: s for t, s, k in zip(tokens, sentencepiece["tokenizer.ggml.scores"], kinds, strict=True) if k == 1
        }
        ids: list[int] = []
        for symbol in best_pairs(text.replace(" ", "▁"), scores):
            known = symbol in tokens and kinds[tokens.index(symbol)] == 1
            ids += (
                [tokens.index(symbol)] if known else [tokens.index(f"<0x{byte:02X}>") for byte in symbol.encode()]
            )
        assert made.encode_text(text) == ids
        assert made.decode(ids) == text.replace("▁", " ")

    @quick
    @given(text=texts)
    def test_encodes_as_transformers_does(self, theirs: Any, made: Tokenizer, text: str) -> None:
        assert made.encode_text(text, at_start=True) == theirs.encode(text, add_special_tokens=False).ids

    def test_prefix_and_spelled_bytes(self, sentencepiece: Metadata, made: Tokenizer) -> None:
        assert made.prefix_ids == (made.bos_id,)
        assert made.decode(made.encode_text("the", at_start=True)) == " the"
        newline = sentencepiece["tokenizer.ggml.tokens"].index("<0x0A>")
        assert made.token_bytes(newline) == b"\n"
        assert newline not in made.encode_text("<0x0A>")
        without = tokenizer_of({**sentencepiece, "tokenizer.ggml.add_space_prefix": False})
        assert without.decode(without.encode_text("the", at_start=True)) == "the"
        assert not without.has_dummy_prefix
        phi = tokenizer_of({**sentencepiece, "general.architecture": "phi3"})
        assert phi.decode(phi.encode_text(" the", at_start=True)) == "  the"

    def test_gemma_orders_merges_by_place_and_keeps_runs_of_blanks(self, sentencepiece: Metadata) -> None:
        tokens = [*sentencepiece["tokenizer.ggml.tokens"], "  ", "\n\n"]
        gemma = {
            **sentencepiece,
            "general.architecture": "gemma3",
            "tokenizer.ggml.tokens": tokens,
            "tokenizer.ggml.token_type": [*sentencepiece["tokenizer.ggml.token_type"], 4, 4],
            "tokenizer.ggml.scores": [0.0] * len(tokens),
        }
        tokenizer = tokenizer_of(gemma)
        assert tokenizer.encode_text("  ") == [len(tokens) - 2]
        assert tokenizer.encode_text("\n\n") == [len(tokens) - 1]
        assert tokenizer.token_bytes(len(tokens) - 2) == b"  "


class TestDamage:
    @pytest.mark.parametrize("model", ["bert", "t5", "rwkv", "plamo2", "gemma4", "none", "", 5, None])
    def test_other_models_are_refused_by_name(self, model: Any, backends: Mapping[str, Backend]) -> None:
        metadata = gguf_of_byte_level(backends["gpt2"], "gpt-2") | {"tokenizer.ggml.model": model}
        with pytest.raises(ModelLoadError, match=r"tokenizer\.ggml\.model") as caught:
            tokenizer_of(metadata)
        assert str(model) in str(caught.value) or model in (None, 5)

    @pytest.mark.parametrize("pre", ["no-such", "", 7])
    def test_unknown_splits_are_refused_by_name(self, pre: Any, backends: Mapping[str, Backend]) -> None:
        with pytest.raises(ModelLoadError, match=r"tokenizer\.ggml\.pre"):
            tokenizer_of(gguf_of_byte_level(backends["gpt2"], pre))

    @pytest.mark.parametrize(
        ("key", "value"),
        [
            ("tokens", None),
            ("tokens", []),
            ("tokens", "x"),
            ("tokens", [1, 2]),
            ("token_type", [1]),
            ("token_type", ["a"]),
            ("merges", None),
            ("merges", ["ab"]),
            ("merges", ["no such"]),
            ("merges", [""]),
            ("merges", [" "]),
            ("merges", ["a "]),
            ("merges", [3]),
            ("bos_token_id", -1),
            ("bos_token_id", 10**9),
            ("eos_token_id", "2"),
            ("eos_token_id", True),
            ("add_bos_token", "yes"),
            ("eot_token_id", 1.5),
        ],
    )
    def test_a_bad_value_names_its_key(self, key: str, value: Any, backends: Mapping[str, Backend]) -> None:
        metadata = gguf_of_byte_level(backends["gpt2"], "gpt-2") | {f"tokenizer.ggml.{key}": value}
        with pytest.raises(ModelLoadError, match=key) as caught:
            tokenizer_of(metadata)
        assert caught.value.param == "made.gguf"

    @pytest.mark.parametrize("scores", [None, [0.0], ["x"], 5])
    def test_bad_scores(self, scores: Any, backends: Mapping[str, Backend]) -> None:
        metadata = gguf_of_sentencepiece(backends["space_first"]) | {"tokenizer.ggml.scores": scores}
        with pytest.raises(ModelLoadError, match="scores"):
            tokenizer_of(metadata)

    def test_a_token_outside_the_alphabet_is_text_as_it_stands(self, backends: Mapping[str, Backend]) -> None:
        metadata = gguf_of_byte_level(backends["gpt2"], "gpt-2")
        metadata["tokenizer.ggml.tokens"].append("a blank")
        metadata["tokenizer.ggml.token_type"].append(1)
        tokenizer = tokenizer_of(metadata)
        assert tokenizer.tokens()[-1] == b"a blank"
        assert tokenizer.vocab_size - 1 not in tokenizer.encode_text("a blank")

    def test_a_bad_template(self, backends: Mapping[str, Backend]) -> None:
        for template in ("{% for", 5, [{"name": "a"}]):
            metadata = gguf_of_byte_level(backends["gpt2"], "gpt-2") | {"tokenizer.chat_template": template}
            with pytest.raises(ModelLoadError):
                tokenizer_of(metadata)


def test_a_written_file(backends: Mapping[str, Backend], tmp_path: Path) -> None:
    import gguf

    metadata = gguf_of_byte_level(backends["gpt2"], "gpt-2")
    path = tmp_path / "tiny.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(metadata["tokenizer.ggml.tokens"])
    writer.add_token_types(metadata["tokenizer.ggml.token_type"])
    writer.add_token_merges(metadata["tokenizer.ggml.merges"])
    writer.add_eos_token_id(2)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    tokenizer = load_tokenizer(path)
    assert tokenizer.encode_text(SAMPLES[0]) == backends["gpt2"].encode(SAMPLES[0]).ids
    assert tokenizer.vocab_size == len(metadata["tokenizer.ggml.tokens"])
