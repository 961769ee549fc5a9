"""Masked sampling draws from the model's distribution over what the constraint allows, and from nothing else.

The toy model gives every token a weight that depends on the two tokens before it. The oracle knows all texts of a
small language from ``re`` or ``json`` alone: a token may come where some text goes on with it, the end where the
text is whole. So each token sequence has an exact probability, and samples are compared with these by chi-square.
"""

from __future__ import annotations

import itertools
import json
import math
import random
import re
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from radixrt.grammar import CompiledGrammar, Compiler, Vocabulary, fill_masks

WORDS = [b"ab", b"ba", b"aab", b"bc", b'"a', b'a"', b"1,", b'{"', b'":', b"[1", b"1]", b"12", "é".encode()]
VOCAB = Vocabulary([*(bytes([i]) for i in range(256)), *WORDS, None, None], [256 + len(WORDS), 257 + len(WORDS)])
SAMPLES = 3000
Sequences = dict[tuple[int, ...], float]


def weights(before: Sequence[int]) -> np.ndarray:
    """The model: fixed weights for each context, no two contexts alike."""
    context = tuple(before[-2:])
    return np.random.default_rng([len(context), *context]).gamma(0.7, size=VOCAB.size) + 1e-3


def exact_probabilities(texts: set[bytes]) -> Sequences:
    """Every token sequence of the language with its probability; the language is finite."""
    begins = {text[:length] for text in texts for length in range(len(text) + 1)}
    found: Sequences = {}
    todo: list[tuple[tuple[int, ...], bytes, float]] = [((), b"", 1.0)]
    while todo:
        tokens, text, probability = todo.pop()
        held = weights(tokens)
        allowed = [i for i, token in enumerate(VOCAB.tokens) if token and text + token in begins]
        if text in texts:
            allowed += VOCAB.eos_ids
        whole = held[allowed].sum()
        for token in allowed:
            then = probability * held[token] / whole
            if token in VOCAB.eos_ids:
                found[(*tokens, token)] = then
            else:
                todo.append(((*tokens, token), text + (VOCAB.tokens[token] or b""), then))
    return found


def draw(grammar: CompiledGrammar, count: int, rng: np.random.Generator) -> Counter[tuple[int, ...]]:
    """``count`` token sequences, sampled side by side with one mask call a step."""
    drawn: Counter[tuple[int, ...]] = Counter()
    matchers = [grammar.matcher() for _ in range(count)]
    written: list[list[int]] = [[] for _ in range(count)]
    while matchers:
        masks = np.zeros((len(matchers), VOCAB.words), np.int32)
        fill_masks(matchers, masks)
        bits = np.unpackbits(masks.view(np.uint8), axis=1, bitorder="little")[:, : VOCAB.size]
        going = []
        for matcher, tokens, allowed in zip(matchers, written, bits, strict=True):
            held = weights(tokens) * allowed
            token = int(rng.choice(VOCAB.size, p=held / held.sum()))
            assert matcher.accept(token)
            tokens.append(token)
            if token in VOCAB.eos_ids:
                drawn[tuple(tokens)] += 1
            else:
                going.append((matcher, tokens))
        matchers, written = [m for m, _ in going], [t for _, t in going]
    return drawn


def chi_square(drawn: Counter[tuple[int, ...]], exact: Sequences) -> float:
    """How far the counts are from the probabilities, as a standard normal (Wilson and Hilferty 1931).

    Sequences that are expected fewer than five times are one class.
    """
    total = sum(drawn.values())
    classes = {tokens: total * p for tokens, p in exact.items() if total * p >= 5}
    rare = total - sum(classes.values())
    statistic = sum((drawn[tokens] - mean) ** 2 / mean for tokens, mean in classes.items())
    if rare >= 5:
        seen = total - sum(drawn[tokens] for tokens in classes)
        statistic += (seen - rare) ** 2 / rare
    freedom = len(classes) - (rare < 5)
    cut = 2 / (9 * freedom)
    return ((statistic / freedom) ** (1 / 3) - (1 - cut)) / math.sqrt(cut)


def matching(pattern: str, alphabet: str, longest: int) -> set[bytes]:
    found = ("".join(t) for n in range(longest + 1) for t in itertools.product(alphabet, repeat=n))
    return {text.encode() for text in found if re.fullmatch(pattern, text)}


def regex_case(pattern: str, alphabet: str, longest: int) -> Callable[[], tuple[CompiledGrammar, set[bytes]]]:
    return lambda: (Compiler(VOCAB).regex(pattern), matching(pattern, alphabet, longest))


def schema_case(schema: object, values: Sequence[object]) -> Callable[[], tuple[CompiledGrammar, set[bytes]]]:
    texts = {json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode() for value in values}
    return lambda: (Compiler(VOCAB).json_schema(schema, whitespace="compact"), texts)  # type: ignore[arg-type]


CASES = {
    "tokens across alternatives": regex_case("(ab|a|ba){1,3}c?", "abc", 7),
    "a text that may end early": regex_case("a(b(a(bc?)?)?)?", "abc", 6),
    "characters of two bytes": regex_case("(é|a){0,2}b", "éab", 3),
    "look-around": regex_case(r"(?!aa)[ab]{1,4}(?<!b)", "ab", 4),
    "an array": schema_case(
        {"type": "array", "items": {"enum": [1, 12, "a"]}, "maxItems": 2},
        [[], *([a] for a in (1, 12, "a")), *([a, b] for a in (1, 12, "a") for b in (1, 12, "a"))],
    ),
    "an object": schema_case(
        {"properties": {"a": {"enum": [1, 2]}, "b": {"const": "ab"}}, "required": ["b"], "type": "object"}
        | {"additionalProperties": False},
        [{"b": "ab"}, {"a": 1, "b": "ab"}, {"a": 2, "b": "ab"}],
    ),
    "choices": lambda: (Compiler(VOCAB).choices(["a", "ab", "abc", "ba"]), {b"a", b"ab", b"abc", b"ba"}),
    "a recursive grammar": lambda: (
        Compiler(VOCAB).ebnf('root ::= "a" | "b" one\none ::= root2 | "1"\nroot2 ::= "a" "b"? | ""'),
        {b"a", b"ba", b"bab", b"b", b"b1"},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_samples_have_the_exact_distribution(case: str) -> None:
    grammar, texts = CASES[case]()
    exact = exact_probabilities(texts)
    assert math.isclose(sum(exact.values()), 1.0)
    drawn = draw(grammar, SAMPLES, np.random.default_rng(20))
    assert drawn.keys() <= exact.keys()
    assert abs(chi_square(drawn, exact)) < 4


def test_the_comparison_notices_a_mask_that_is_one_token_short() -> None:
    grammar, texts = CASES["tokens across alternatives"]()
    exact = exact_probabilities(texts)
    drawn = draw(grammar, SAMPLES, np.random.default_rng(20))
    kept = Counter({tokens: count for tokens, count in drawn.items() if 256 not in tokens})
    assert kept != drawn
    assert chi_square(kept, exact) > 10


@pytest.mark.parametrize("seed", range(3))
def test_a_mask_does_not_depend_on_how_the_text_was_reached(seed: int) -> None:
    """All tokenizations of one text lead to the same mask, rollbacks and copies on the way included."""
    rng = random.Random(seed)
    grammar, texts = CASES["tokens across alternatives"]()
    masks: dict[bytes, bytes] = {}
    row = np.zeros(VOCAB.words, np.int32)
    for _ in range(200):
        matcher, text = grammar.matcher(), b""
        while True:
            matcher.fill_mask(row)
            assert masks.setdefault(text, row.tobytes()) == row.tobytes()
            bits = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))
            options = [int(i) for i in bits if i not in VOCAB.eos_ids]
            if not options:
                break
            token = rng.choice(options)
            assert matcher.accept(token)
            if rng.random() < 0.3:
                matcher.rollback(1)
                matcher = matcher.copy()
                assert matcher.accept(token)
            text += VOCAB.tokens[token] or b""
    assert len(masks) > 30
    assert {text for text in masks if grammar.matches(text)} <= texts
