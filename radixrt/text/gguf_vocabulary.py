"""The tokenizer of a GGUF file, from its metadata.

Two models of tokenizer: ``gpt2`` (byte-level BPE with merges and a named cut into words) and ``llama``
(SentencePiece BPE, merges implied by the scores). Others are refused by name. No tensor is touched.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from radixrt.errors import ModelLoadError
from radixrt.formats.gguf import GGUFFile
from radixrt.text.definition import AddedToken, TokenizerDefinition
from radixrt.text.folder import MAX_VOCAB, choose_template
from radixrt.text.splits import SPLITS, pre_tokenizer_spec
from radixrt.text.vocabulary import SPACE_MARK

__all__ = ["definition_from_gguf", "definition_from_metadata"]

_PREFIX = "tokenizer.ggml."
_VARIABLES = {
    "bos_token": "bos_token_id",
    "eos_token": "eos_token_id",
    "unk_token": "unknown_token_id",
    "pad_token": "padding_token_id",
    "sep_token": "seperator_token_id",  # the file format spells it so
    "mask_token": "mask_token_id",
}
# A file names one end token; models that end turns and texts differently have the other only in their vocabulary.
_END_SPELLINGS = (
    "<|im_end|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end|>",
    "<end_of_turn>",
    "<|END_OF_TURN_TOKEN|>",
    "<｜end▁of▁sentence｜>",
)
_MAX_PIECE_CHARS = 512  # characters of a SentencePiece token for which merges are derived


class TokenKind(enum.IntEnum):
    """``tokenizer.ggml.token_type``."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


def definition_from_gguf(path: Path) -> TokenizerDefinition:
    """Read the tokenizer of a GGUF file. Raises ``ModelLoadError`` that names the key at fault."""
    file = GGUFFile.open(path)
    try:
        return definition_from_metadata(file.metadata, str(path))
    finally:
        file.close()


def definition_from_metadata(metadata: Mapping[str, Any], source: str) -> TokenizerDefinition:
    """The tokenizer that the keys ``tokenizer.*`` describe."""
    reader = _Metadata(metadata, source)
    model = reader.text("model")
    if model == "gpt2":
        spec, add_bos = _byte_level(reader)
    elif model == "llama":
        spec, add_bos = _sentencepiece(reader), True
    else:
        raise reader.error("model", f"tokenizers of kind {model!r} are not supported; 'gpt2' and 'llama' are")
    added = reader.added_tokens()
    bos = reader.token_id("bos_token_id")
    add_bos = reader.flag("add_bos_token", add_bos)
    ends = [reader.token_id(key) for key in ("eos_token_id", "eot_token_id", "eom_token_id")]
    special = {token.content: token.id for token in added if token.special}
    ends += [special.get(spelling) for spelling in _END_SPELLINGS]
    variables = {}
    for name, key in _VARIABLES.items():
        index = reader.token_id(key)
        if index is not None:
            variables[name] = reader.tokens[index]
    return TokenizerDefinition(
        source=source,
        spec=spec,
        added=added,
        size=len(reader.tokens),
        bos_id=bos,
        eos_ids=tuple(dict.fromkeys(index for index in ends if index is not None)),
        prefix_ids=(bos,) if add_bos and bos is not None else (),
        unused_ids=frozenset(i for i, kind in enumerate(reader.kinds) if kind == TokenKind.UNUSED),
        template=choose_template(metadata.get("tokenizer.chat_template"), f"{source}: tokenizer.chat_template"),
        variables=variables,
    )


class _Metadata:
    """Typed access to the tokenizer's keys."""

    def __init__(self, metadata: Mapping[str, Any], source: str) -> None:
        self._metadata = metadata
        self._source = source
        self.architecture = metadata.get("general.architecture")
        self.tokens: list[str] = self.array("tokens", str)
        if not 0 < len(self.tokens) <= MAX_VOCAB:
            raise self.error("tokens", f"there are {len(self.tokens)} tokens")
        kinds = self.array("token_type", int, optional=True) or [TokenKind.NORMAL] * len(self.tokens)
        if len(kinds) != len(self.tokens):
            raise self.error("token_type", f"{len(kinds)} types for {len(self.tokens)} tokens")
        self.kinds: list[int] = kinds

    def error(self, key: str, what: str) -> ModelLoadError:
        return ModelLoadError(f"{self._source}: {_PREFIX}{key}: {what}", param=self._source)

    def get(self, key: str) -> Any:
        return self._metadata.get(_PREFIX + key)

    def text(self, key: str, default: str | None = None) -> str:
        value = self._metadata.get(_PREFIX + key, default)
        if not isinstance(value, str):
            raise self.error(key, "missing" if value is None else "not a text")
        return value

    def flag(self, key: str, default: bool) -> bool:
        value = self._metadata.get(_PREFIX + key, default)
        if not isinstance(value, bool):
            raise self.error(key, "not a truth value")
        return value

    def array(self, key: str, kind: type, *, optional: bool = False) -> list[Any]:
        value = self.get(key)
        if value is None and optional:
            return []
        if not isinstance(value, list) or not all(type(item) is kind for item in value):
            raise self.error(key, "missing" if value is None else f"not an array of {kind.__name__}")
        return value

    def token_id(self, key: str) -> int | None:
        value = self.get(key)
        if value is None:
            return None
        if type(value) is not int or not 0 <= value < len(self.tokens):
            raise self.error(key, f"{value!r} is outside the vocabulary of {len(self.tokens)}")
        return value

    def added_tokens(self) -> tuple[AddedToken, ...]:
        """Control and unknown tokens as special ones, user-defined tokens as plain added ones."""
        special = {TokenKind.CONTROL, TokenKind.UNKNOWN}
        named = {self.token_id(key) for key in ("bos_token_id", "eos_token_id", "eot_token_id", "eom_token_id")}
        return tuple(
            AddedToken(id=index, content=text, special=kind in special or index in named)
            for index, (text, kind) in enumerate(zip(self.tokens, self.kinds, strict=True))
            if text and (kind in special or kind == TokenKind.USER_DEFINED or index in named)
        )

    def vocab(self) -> dict[str, int]:
        """Spellings to ids; of a spelling used twice the first counts."""
        found: dict[str, int] = {}
        for index, text in enumerate(self.tokens):
            if self.kinds[index] != TokenKind.UNUSED:
                found.setdefault(text, index)
        return found

    def merges(self, vocab: Mapping[str, int]) -> list[list[str]]:
        pairs = []
        for number, merge in enumerate(self.array("merges", str)):
            left, space, right = merge[:1], *_cut(merge[1:])
            pair = [left + space, right]
            if right == "" or not (pair[0] in vocab and right in vocab and pair[0] + right in vocab):
                raise self.error("merges", f"merge {number} ({merge[:80]!r}) is not of tokens in the vocabulary")
            pairs.append(pair)
        return pairs


def _cut(text: str) -> tuple[str, str]:
    head, _, tail = text.partition(" ")
    return head, tail


def _byte_level(reader: _Metadata) -> tuple[dict[str, Any], bool]:
    name = reader.text("pre", "default")
    kind = SPLITS.get(name)
    if kind is None:
        raise reader.error("pre", f"the pre-tokenizer {name!r} is not supported; these are: {', '.join(SPLITS)}")
    vocab = reader.vocab()
    spec = {
        "normalizer": {"type": "NFC"} if kind.nfc else None,
        "pre_tokenizer": pre_tokenizer_spec(kind),
        "model": {
            "type": "BPE",
            "vocab": vocab,
            "merges": reader.merges(vocab),
            "ignore_merges": kind.whole_words,
        },
        "decoder": {"type": "ByteLevel"},
    }
    return spec, kind.bos


def _sentencepiece(reader: _Metadata) -> dict[str, Any]:
    if reader.flag("remove_extra_whitespaces", False):
        raise reader.error("remove_extra_whitespaces", "not supported: it loses text")
    gemma = isinstance(reader.architecture, str) and reader.architecture.startswith("gemma")
    if gemma:
        # Its runs of blanks are written with real blanks, and its scores do not follow the order of its merges.
        reader.tokens = [SPACE_MARK * len(text) if text and not text.strip(" ") else text for text in reader.tokens]
        scores = [-float(index) for index in range(len(reader.tokens))]
    else:
        scores = reader.array("scores", float)
    if len(scores) != len(reader.tokens):
        raise reader.error("scores", f"{len(scores)} scores for {len(reader.tokens)} tokens")
    vocab = reader.vocab()
    merges = _implied_merges(vocab, scores, reader.kinds) if reader.get("merges") is None else reader.merges(vocab)
    unknown = reader.token_id("unknown_token_id")
    if unknown is None and TokenKind.UNKNOWN in reader.kinds:
        unknown = reader.kinds.index(TokenKind.UNKNOWN)
    prefix = reader.flag("add_space_prefix", True)
    spec: dict[str, Any] = {
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Metaspace",
            "replacement": SPACE_MARK,
            "prepend_scheme": "first" if prefix else "never",
            "split": False,
        },
        "model": {
            "type": "BPE",
            "vocab": vocab,
            "merges": merges,
            "unk_token": None if unknown is None else reader.tokens[unknown],
            "fuse_unk": True,
            "byte_fallback": True,
        },
        "decoder": None,
    }
    if reader.architecture == "phi3" and prefix:
        # This family puts its prefix before every run, also one that starts with a blank.
        steps = [
            {"type": "Prepend", "prepend": SPACE_MARK},
            {"type": "Replace", "pattern": {"String": " "}, "content": SPACE_MARK},
        ]
        spec |= {"normalizer": {"type": "Sequence", "normalizers": steps}, "pre_tokenizer": None}
    return spec


def _implied_merges(vocab: Mapping[str, int], scores: Sequence[float], kinds: Sequence[int]) -> list[list[str]]:
    """The merges of a SentencePiece BPE vocabulary: every way to make a token of two others, best token first."""
    whole = {text for text, index in vocab.items() if kinds[index] in (TokenKind.NORMAL, TokenKind.USER_DEFINED)}
    found: list[tuple[float, int, int, str, str]] = []
    for text, index in vocab.items():
        if text not in whole or len(text) > _MAX_PIECE_CHARS:
            continue
        for at in range(1, len(text)):
            left, right = text[:at], text[at:]
            if left in whole and right in whole:
                found.append((-scores[index], -at, at - len(text), left, right))
    # Of equal scores the longer left part goes first, then the order of the vocabulary: the sort is stable.
    found.sort(key=lambda merge: merge[:3])
    return [[left, right] for *_, left, right in found]
