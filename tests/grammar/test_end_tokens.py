"""End tokens that spell text: where they would leave a text no way on, the matcher is refused, and nowhere else."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from radixrt.errors import InvalidRequest
from radixrt.grammar import CompiledGrammar, Compiler, Matcher, Vocabulary


def allowed(matcher: Matcher) -> list[int]:
    row = np.zeros((matcher.vocab_size + 31) // 32, np.int32)
    matcher.fill_mask(row)
    return np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist()


def has_dead_end(matcher: Matcher, depth: int) -> bool:
    """By trying all texts up to so many tokens."""
    tokens = allowed(matcher)
    if not tokens:
        return True
    followers = []
    for token in tokens:
        after = matcher.copy()
        assert after.accept(token)
        followers.append(after)
    return depth > 0 and any(has_dead_end(after, depth - 1) for after in followers)


@pytest.mark.parametrize(
    ("pattern", "tokens", "ends", "beginning"),
    [
        ("ab", [b"a", b"b", None], [1], b"a"),
        ("ab", [b"a", b"b", None], [1, 2], b"a"),
        ("ab", [b"a", b"b", b"b", None], [1, 2], b"a"),
        ("[ac]*b", [b"a", b"b", b"c", None], [1], None),
        ("[ac]{3}b", [b"a", b"b", b"c", None], [1], b"aaa"),
        ("b", [b"a", b"b", None], [1], b""),
        ("ab?", [b"a", b"b", None], [1], None),
        ("a[bc]", [b"a", b"b", b"c", None], [1], None),
        ("ab", [b"a", b"b", b"b", None], [1], None),
        ("abc", [b"a", b"b", b"bc", None], [1], None),
        ("abc", [b"a", b"b", b"bc", None], [2], None),
        ("ab", [b"a", b"b", None], [2], None),
        ("ab", [b"a", b"b", None], [], None),
    ],
)
def test_end_tokens_that_strand_a_text_are_refused(
    pattern: str, tokens: list[bytes | None], ends: list[int], beginning: bytes | None
) -> None:
    grammar = Compiler(Vocabulary(tokens, [len(tokens) - 1])).regex(pattern)
    for _ in range(2):  # found and remembered
        if beginning is None:
            grammar.matcher(ends)
            continue
        with pytest.raises(InvalidRequest, match="tokens that end the text") as caught:
            grammar.matcher(ends)
        assert caught.value.param == "end_ids"
        assert repr(beginning) in str(caught.value)


def test_a_newline_may_end_json_that_needs_none() -> None:
    vocab = Vocabulary([*(bytes([i]) for i in range(256)), None], [256])
    grammar = Compiler(vocab).json_schema({"type": "object"})
    grammar.matcher([10])
    grammar.matcher([10, ord("\t")])
    with pytest.raises(InvalidRequest, match="nothing but"):
        grammar.matcher([ord("{")])
    with pytest.raises(InvalidRequest, match="nothing but"):
        grammar.matcher([ord(":")])


def test_what_only_a_tracker_reads_is_no_way_on() -> None:
    vocab = Vocabulary([*(bytes([i]) for i in range(128)), None], [128])
    schema = {"type": "array", "uniqueItems": True, "items": {"enum": [1, 2]}, "minItems": 2, "maxItems": 2}
    grammar = Compiler(vocab).json_schema(schema, whitespace="compact")
    with pytest.raises(InvalidRequest, match=r"b'\[1,2'"):
        grammar.matcher([ord("]")])


def some_grammar(rng: random.Random, compiler: Compiler) -> CompiledGrammar:
    parts = [
        "".join(rng.choices(["a", "b", "c", "[ab]", "[bc]", "(?:ab|c)", "(?:a|bc)?", "c?"], k=3)) for _ in "xy"
    ]
    return compiler.regex("|".join(parts))


@pytest.mark.parametrize("seed", range(30))
def test_what_is_refused_and_what_is_not_is_what_trying_all_texts_says(seed: int) -> None:
    rng = random.Random(seed)
    longer = rng.sample([b"ab", b"bc", b"ca", b"abc", b"b"], 2)
    vocab = Vocabulary([b"a", b"b", b"c", *longer, None], [5])
    compiler = Compiler(vocab)
    grammar = some_grammar(rng, compiler)
    for ends in itertools.combinations(range(5), 2):
        try:
            matcher = grammar.matcher([*ends, 5])
        except InvalidRequest:
            stuck = Matcher(grammar._automaton, [*ends, 5], b"", None)
            assert has_dead_end(stuck, 7)
        else:
            bytes_left = {token for token in range(3) if token not in ends}
            if len(bytes_left) == 3:
                assert not has_dead_end(matcher, 7)
