"""The vocabularies that ``radixrt bench structured`` measures with, and how each splits a text into tokens.

``smollm2`` is read from the model's file. ``synthetic-128k`` and ``synthetic-256k`` stand for the larger
vocabularies of newer models, which are not at hand: all bytes, the tokens of SmolLM2 where its file is there, and
then pieces of the kinds that such vocabularies hold (digits in groups of up to three, runs of blanks, clusters of
JSON punctuation, words in three letter cases with and without a leading blank, other scripts, halves of
characters), filled up with seeded words. They are no trained BPE: a text is split by the longest token that fits.
Figures of masks depend on which tokens there are, hardly on how a text is split.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from radixrt.errors import InvalidRequest
from radixrt.grammar import Vocabulary

__all__ = ["VOCABULARIES", "BenchVocabulary", "load_vocabulary", "longest_match", "synthetic_tokens"]

VOCABULARIES: Final = ("smollm2", "synthetic-128k", "synthetic-256k")
_SIZES: Final = {"synthetic-128k": 128_256, "synthetic-256k": 262_144}
_MODEL: Final = "smollm2-135m"

_CLUSTERS: Final = (
    *('{"', '":', '": "', '":"', '","', '", "', '"},{"', '"}, {"', '":{"', '":[{"', '"]', '"]}', "}}", "},", "}]"),
    *("}]}", '":[', '":{', "[]", "{}", "[{", '[{"', ":true", ":false", ":null", "\\n"),
)
_ONSETS: Final = (*"bcdfghjklmnprstvwz", *("br", "ch", "cl", "cr", "dr", "fl", "gr", "pl", "pr", "sh", "sl", "st"))
_NUCLEI: Final = (*"aeiou", "ai", "ea", "ee", "io", "ou")
_CODAS: Final = ("", "", *"nrstlm", "nt", "st", "ck", "ng")
_SCRIPTS: Final = ((0x0430, 0x044F), (0x03B1, 0x03C9), (0x05D0, 0x05EA), (0x0627, 0x064A), (0x3041, 0x3096))
_WIDE_SCRIPTS: Final = ((0x4E00, 0x9FA5), (0xAC00, 0xD7A3), (0x1F300, 0x1F64F))


@dataclass(frozen=True)
class BenchVocabulary:
    """A vocabulary, the canonical tokens of a text under it, and in words what it is."""

    name: str
    vocab: Vocabulary
    encode: Callable[[str], list[int]]
    note: str


def load_vocabulary(name: str) -> BenchVocabulary:
    """One of ``VOCABULARIES``; ``InvalidRequest`` for another name. Fetches the model's file for ``smollm2``."""
    if name == "smollm2":
        return _smollm2()
    if name not in _SIZES:
        raise InvalidRequest(f"no vocabulary {name!r}; there are {', '.join(VOCABULARIES)}", param="vocab")
    base, origin = _base_tokens()
    tokens = synthetic_tokens(_SIZES[name], base)
    end = len(tokens)
    vocab = Vocabulary([*tokens, None], [end], [end])
    return BenchVocabulary(name, vocab, longest_match(tokens), f"{vocab.size} synthetic tokens, {origin}")


def _smollm2() -> BenchVocabulary:
    from radixrt.model.sources import resolve_model
    from radixrt.text.tokenizer import load_tokenizer

    tokenizer = load_tokenizer(resolve_model(_MODEL, progress=True).path)
    vocab = Vocabulary.from_tokenizer(tokenizer)
    return BenchVocabulary("smollm2", vocab, tokenizer.encode_text, f"{vocab.size} tokens of SmolLM2-135M-Instruct")


def _base_tokens() -> tuple[list[bytes], str]:
    """The tokens of SmolLM2 where its file is on this machine already."""
    from radixrt.model.sources import list_models

    if not any(entry.alias == _MODEL and entry.cached for entry in list_models()):
        return [], "none of them from a trained tokenizer"
    trained = [token for token in _smollm2().vocab.tokens if token]
    return trained, f"{len(trained)} of them those of SmolLM2"


def synthetic_tokens(size: int, base: list[bytes], seed: int = 0) -> list[bytes]:
    """``size - 1`` different tokens: all bytes, ``base``, then pieces by kind. The same for the same arguments."""
    found = dict.fromkeys([*(bytes([i]) for i in range(256)), *base])
    for piece in _pieces(random.Random(seed)):
        if len(found) >= size - 1:
            break
        found[piece] = None
    return list(found)[: size - 1]


def _pieces(rng: random.Random) -> Iterator[bytes]:
    """Endlessly, the rare kinds first so that all of them are in."""
    yield from (str(i).zfill(width).encode() for width in (1, 2, 3) for i in range(10**width))
    for count in range(2, 129):
        yield from (b" " * count, b"\t" * min(count, 24), b"\n" + b" " * count, b"\n" * min(count, 16))
    for cluster in _CLUSTERS:
        for front in ("", " ", "\n", "  "):
            for back in ("", "\n", " ", "\n  "):
                yield (front + cluster + back).encode()
    for script in _SCRIPTS:
        yield from (_letters(rng, script, rng.randint(1, 5), rng.random() < 0.5) for _ in range(1500))
    for script in _WIDE_SCRIPTS:
        for _ in range(3000):
            whole = _letters(rng, script, rng.randint(1, 3), False)
            yield whole
            yield whole[: rng.randint(1, len(whole))]  # a piece that ends inside a character
    while True:
        word = _word(rng)
        for spelled in (word, word.capitalize(), word.upper()) if rng.random() < 0.3 else (word,):
            yield from (spelled.encode(), b" " + spelled.encode())
        if rng.random() < 0.05:
            yield rng.choice(('"', "_", ".", "/", "-", "(", "\\")).encode() + word.encode()


def _letters(rng: random.Random, script: tuple[int, int], count: int, blank: bool) -> bytes:
    return ((" " if blank else "") + "".join(chr(rng.randint(*script)) for _ in range(count))).encode()


def _word(rng: random.Random) -> str:
    syllables = (
        rng.choice(_ONSETS) + rng.choice(_NUCLEI) + rng.choice(_CODAS)
        for _ in range(rng.choice((1, 2, 2, 3, 3, 4)))
    )
    return "".join(syllables)


def longest_match(tokens: list[bytes]) -> Callable[[str], list[int]]:
    """Splits a text by the longest token at each place; ``tokens`` hold every byte, so that always works."""
    ids = {token: i for i, token in reversed(list(enumerate(tokens)))}
    begins = {token[:length] for token in ids for length in range(1, len(token) + 1)}

    def encode(text: str) -> list[int]:
        data, found, place = text.encode(), [], 0
        while place < len(data):
            stop = end = place + 1
            while stop < len(data) and data[place : stop + 1] in begins:
                stop += 1
                if data[place:stop] in ids:
                    end = stop
            found.append(ids[data[place:end]])
            place = end
        return found

    return encode
