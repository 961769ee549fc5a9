"""Reading what each token stands for out of a tokenizer object.

Three kinds are understood: byte-level BPE (every byte has a printable stand-in), SentencePiece style (a marker for
the space, ``<0xNN>`` for bytes), and objects that hand out their tokens as bytes (``radixrt.text``). Tokenizers are
recognised by what they offer, so neither ``transformers`` nor ``tokenizers`` is imported. Knows nothing about
grammars.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from radixrt.errors import InvalidRequest

__all__ = ["TokenizerFacts", "read_tokenizer"]

_SPACE_MARK = "\u2581"
_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_END_SPELLINGS = (
    "<|im_end|>",
    "<|eot_id|>",
    "<|end_of_text|>",
    "<|endoftext|>",
    "<|end|>",
    "<end_of_turn>",
    "</s>",
    "<eos>",
    "<\uff5cend\u2581of\u2581sentence\uff5c>",
)
"""How common models spell the end, for ``tokenizers.Tokenizer``, which does not say it."""


class TokenizerFacts(NamedTuple):
    """The constructor arguments of ``Vocabulary``."""

    tokens: list[bytes | None]
    eos_ids: tuple[int, ...]
    special_ids: frozenset[int]
    size: int
    names: dict[str, int]
    """Added tokens by their spelling, special ones among them."""


def read_tokenizer(tokenizer: Any) -> TokenizerFacts:
    """Read a tokenizer; raises ``InvalidRequest`` (param ``tokenizer``) for kinds that are not understood."""
    if callable(getattr(tokenizer, "tokens", None)) and hasattr(tokenizer, "eos_ids"):
        tokens = list(tokenizer.tokens())
        special = frozenset(tokenizer.special_ids)
        spelled = getattr(tokenizer, "token_text", None)
        names = {name: i for i in special if (name := spelled(i))} if callable(spelled) else {}
        return TokenizerFacts(tokens, tuple(tokenizer.eos_ids), special, tokenizer.vocab_size, names)
    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if callable(getattr(backend, "to_str", None)):
        facts = _read_fast(json.loads(backend.to_str()))
        return _with_ends(facts, tokenizer)
    if hasattr(tokenizer, "sp_model") and callable(getattr(tokenizer, "get_vocab", None)):
        special = frozenset(getattr(tokenizer, "all_special_ids", ()))
        vocab = tokenizer.get_vocab()
        facts = _assemble(vocab, {}, special, _sentencepiece_bytes)
        facts = facts._replace(names={spelling: i for spelling, i in vocab.items() if i in special})
        return _with_ends(facts, tokenizer)
    raise InvalidRequest(f"cannot read the tokens of a {type(tokenizer).__name__}", param="tokenizer")


def _with_ends(facts: TokenizerFacts, tokenizer: Any) -> TokenizerFacts:
    end = getattr(tokenizer, "eos_token_id", None)
    if isinstance(end, int):
        return facts._replace(eos_ids=(end,))
    if isinstance(end, list):
        return facts._replace(eos_ids=tuple(end))
    return facts


def _read_fast(spec: Mapping[str, Any]) -> TokenizerFacts:
    """Read the JSON form of a fast tokenizer."""
    model = spec["model"]
    vocab = model.get("vocab", {})
    if isinstance(vocab, list):  # Unigram: pairs of spelling and score
        vocab = {spelling: i for i, (spelling, _) in enumerate(vocab)}
    added = {token["id"]: token for token in spec.get("added_tokens") or ()}
    special = {i for i, token in added.items() if token["special"]}
    unknown = model.get("unk_token")
    if isinstance(unknown, str) and unknown in vocab:
        special.add(vocab[unknown])
    if isinstance(model.get("unk_id"), int):
        special.add(model["unk_id"])
    texts = {i: token["content"] for i, token in added.items()}
    facts = _assemble(vocab, texts, frozenset(special), _byte_reader(spec))
    spellings = {**{s: i for s, i in vocab.items() if s in _END_SPELLINGS}, **{s: i for i, s in texts.items()}}
    end = next((spellings[s] for s in _END_SPELLINGS if s in spellings), None)
    names = {**{s: i for s, i in vocab.items() if i in special}, **{s: i for i, s in texts.items() if s}}
    return facts._replace(eos_ids=() if end is None else (end,), names=names)


def _byte_reader(spec: Mapping[str, Any]) -> Callable[[str], bytes]:
    kinds = _kinds(spec.get("decoder")) | _kinds(spec.get("pre_tokenizer"))
    if "ByteLevel" in kinds:
        return _byte_level_bytes
    if kinds & {"Metaspace", "ByteFallback"} or spec["model"].get("byte_fallback"):
        return _sentencepiece_bytes
    raise InvalidRequest(
        f"cannot read the bytes of a {spec['model'].get('type')} tokenizer with the steps {sorted(kinds)}",
        param="tokenizer",
    )


def _kinds(step: Any) -> set[str]:
    """The kinds of steps in a decoder or pre-tokenizer, those in sequences included."""
    if not isinstance(step, dict):
        return set()
    found = {str(step.get("type"))}
    for part in (*step.get("decoders", ()), *step.get("pretokenizers", ())):
        found |= _kinds(part)
    return found


def _assemble(
    vocab: Mapping[str, int],
    texts: Mapping[int, str],
    special: frozenset[int],
    to_bytes: Callable[[str], bytes],
) -> TokenizerFacts:
    size = max([*vocab.values(), *texts, -1]) + 1
    tokens: list[bytes | None] = [None] * size
    for spelling, i in vocab.items():
        tokens[i] = None if i in special else to_bytes(spelling)
    for i, text in texts.items():
        tokens[i] = None if i in special else text.encode()
    return TokenizerFacts(tokens, (), special, size, {})


def _sentencepiece_bytes(spelling: str) -> bytes:
    byte = _BYTE_TOKEN.fullmatch(spelling)
    if byte:
        return bytes([int(byte[1], 16)])
    return spelling.replace(_SPACE_MARK, " ").encode("utf-8", "replace")


def _byte_level_bytes(spelling: str) -> bytes:
    table = _byte_level_table()
    try:
        return bytes(table[char] for char in spelling)
    except KeyError:  # an added token that was merged into the vocabulary, written as it is
        return spelling.encode("utf-8", "replace")


@functools.cache
def _byte_level_table() -> dict[str, int]:
    """The stand-ins of byte-level BPE: printable Latin-1 bytes are themselves, the others count up from 256."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = (byte for byte in range(256) if byte not in printable)
    return {**{chr(b): b for b in printable}, **{chr(256 + i): b for i, b in enumerate(others)}}
