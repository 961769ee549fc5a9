"""Tiny tokenizers of every kind, trained on the spot and saved as model folders."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers import processors as post

CORPUS = [
    "The quick brown fox jumps over the lazy dog, doesn't it? 12345 times.",
    "def f(x):\n    return x + 1\n\n\nprint(f(41))  # forty-two",
    "Grüße aus Köln – schöne Straße! Größe 7,5 m².",
    "你好，世界。今天天气很好，我们去公园吧。日本語もあります。",
    "Привет, мир! Как дела? end of text im_end im_start user assistant system",
    "we'll they've I'm you'd HELLO World camelCase snake_case http://example.org/a?b=c",
    "think about it. The end. The end of the end.  two  spaces   three",
] * 8

SPECIALS = ["<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>"]
SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
KINDS = ("gpt2", "whole_words", "space_first", "space_always", "space_normalizer", "unigram", "prefix_space")


def _byte_level(split: str | None, *, prefix: bool = False) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=split is None)
    if split is None:
        tokenizer.pre_tokenizer = byte_level
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Split(Regex(split), "isolated"), byte_level]
        )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=600,
        special_tokens=SPECIALS,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer


def _sentencepiece(scheme: str) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=True)
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = trainers.BpeTrainer(vocab_size=800, special_tokens=SPECIALS + bytes_, show_progress=False)
    tokenizer.train_from_iterator(CORPUS, trainer)
    data = json.loads(tokenizer.to_str())
    data["added_tokens"] = [token for token in data["added_tokens"] if token["content"] in SPECIALS]
    tokenizer = Tokenizer.from_str(json.dumps(data))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=False)
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    tokenizer.decoder = decoders.Sequence(steps)
    return tokenizer


def _unigram() -> Tokenizer:
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="always")
    trainer = trainers.UnigramTrainer(
        vocab_size=400, special_tokens=SPECIALS, unk_token="<unk>", show_progress=False
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer


def train(kind: str) -> Tokenizer:
    """A tokenizer of one of ``KINDS``, its added tokens with every flag there is."""
    if kind == "gpt2":
        tokenizer = _byte_level(None)
    elif kind == "prefix_space":
        tokenizer = _byte_level(None, prefix=True)
    elif kind == "whole_words":
        data = json.loads(_byte_level(SPLIT).to_str())
        # Words are looked up whole: one that no merges make, and one that is a control token.
        data["model"]["ignore_merges"] = True
        data["model"]["vocab"] |= {"imend": 800, "Ġunmergeable": 801}
        tokenizer = Tokenizer.from_str(json.dumps(data))
        tokenizer.add_special_tokens(["imend"])
    elif kind == "unigram":
        tokenizer = _unigram()
    elif kind == "space_normalizer":
        tokenizer = _sentencepiece("first")
        tokenizer.pre_tokenizer = None
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    else:
        tokenizer = _sentencepiece(kind.removeprefix("space_"))
    tokenizer.add_special_tokens(
        [
            AddedToken("<|end|>", rstrip=True, normalized=False),
            AddedToken("<mask>", lstrip=True, normalized=False),
            AddedToken("<|end|>x", normalized=False),
        ]
    )
    tokenizer.add_tokens(
        [
            AddedToken("<think>", normalized=False),
            AddedToken("</think>", normalized=False),
            AddedToken("WORD", single_word=True, normalized=False),
            AddedToken("<n>", normalized=True),
        ]
    )
    if kind in ("gpt2", "whole_words"):
        tokenizer.add_tokens([AddedToken("    ", normalized=False), AddedToken("\n\n\n", normalized=False)])
    return tokenizer


@pytest.fixture(scope="session")
def backends() -> Mapping[str, Tokenizer]:
    # Through their files' text, so that scores are rounded as a reader of the files sees them.
    return {kind: Tokenizer.from_str(train(kind).to_str(pretty=True)) for kind in KINDS}


@pytest.fixture(scope="session")
def save_folder() -> Callable[..., Path]:
    """Write a tokenizer and its configuration files as a model folder."""

    def save(folder: Path, backend: Tokenizer, *, bos: bool = False, **files: Any) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        if bos:
            index = backend.token_to_id("<s>")
            backend = Tokenizer.from_str(backend.to_str())
            backend.post_processor = post.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", index)])
        backend.save(str(folder / "tokenizer.json"))
        config = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "unk_token": "<unk>",
            "bos_token": "<s>",
            "eos_token": "</s>",
            "clean_up_tokenization_spaces": False,
        }
        files["tokenizer_config"] = config | files.get("tokenizer_config", {})
        for name, content in files.items():
            (folder / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
        return folder

    return save


@pytest.fixture(scope="session")
def folders(
    backends: Mapping[str, Tokenizer], save_folder: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory
) -> Mapping[str, Path]:
    root = tmp_path_factory.mktemp("tokenizers")
    return {kind: save_folder(root / kind, backend) for kind, backend in backends.items()}
