"""Seeded random constraints against other engines: ``re``, interegular, outlines-core, llguidance.

Where an engine is known to say something else the reason stands beside the comparison, and what it leaves out is
judged by ``re``.
"""

from __future__ import annotations

import itertools
import json
import random
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from radixrt.errors import UnsatisfiableConstraint, UnsupportedConstraint
from radixrt.grammar import CompiledGrammar, Compiler, Matcher, Vocabulary

Allowed = Callable[[Matcher], set[int]]

PLAIN = ["a", "b", "1", "é", "😀", "[ab]", "[^a]", "[a-c1]", ".", "[0-9]", r"\.", "ab", " "]
PYTHON = [
    r"\w",
    r"\W",
    r"\s",
    r"\d",
    r"\b",
    r"\B",
    "^",
    "$",
    r"\Z",
    "(?=a)",
    "(?!b)",
    "(?<=a)",
    "(?<!b)",
    "(?i:aÉ)",
]
QUANTIFIERS = ["*", "+", "?", "{2}", "{1,3}", "{0,2}", "{2,}", "+?", "*?"]
ALPHABET = 'abAB1é😀 .\n"{'


def random_pattern(rng: random.Random, depth: int, atoms: list[str]) -> str:
    kind = rng.random()
    if depth == 0 or kind < 0.3:
        return rng.choice(atoms)
    if kind < 0.55:
        return "".join(random_pattern(rng, depth - 1, atoms) for _ in range(rng.randint(1, 3)))
    if kind < 0.75:
        return f"(?:{'|'.join(random_pattern(rng, depth - 1, atoms) for _ in range(rng.randint(2, 3)))})"
    return f"(?:{random_pattern(rng, depth - 1, atoms)}){rng.choice(QUANTIFIERS)}"


def walks(grammar: CompiledGrammar, allowed_ids: Allowed, rng: random.Random, count: int) -> Iterator[bytes]:
    """Texts that the automaton itself leads to, complete or not."""
    ends = set(grammar.vocab.eos_ids)
    for _ in range(count):
        matcher, text = grammar.matcher(), b""
        for _ in range(12):
            if matcher.is_accepting and rng.random() < 0.3:
                break
            tokens = sorted(allowed_ids(matcher) - ends)
            if not tokens:
                break
            readable = [token for token in tokens if grammar.vocab.tokens[token] in (b"a", b"b", b"1", b" ", b'"')]
            token = rng.choice(readable if readable and rng.random() < 0.7 else tokens)
            assert matcher.accept(token)
            text += grammar.vocab.tokens[token] or b""
        assert matcher.is_accepting == grammar.matches(text)
        yield text


def neighbours(text: str, rng: random.Random, alphabet: str = ALPHABET) -> Iterator[str]:
    """The text, and texts one edit away from it."""
    place = rng.randint(0, len(text))
    yield text
    yield text[:place] + rng.choice(alphabet) + text[place:]
    yield text[:place] + text[place + 1 :]
    yield text[:place] + rng.choice(alphabet) + text[place + 1 :]


def as_text(data: bytes) -> str:
    return data.decode("utf-8", "ignore")


def around(grammar: CompiledGrammar, allowed_ids: Allowed, rng: random.Random, count: int) -> set[str]:
    return {
        other for text in walks(grammar, allowed_ids, rng, count) for other in neighbours(as_text(text), rng)
    } | {""}


def completed(grammar: CompiledGrammar, start: bytes) -> bytes | None:
    """A shortest complete text that begins with ``start``, over the single bytes."""
    todo, seen = [start], 0
    while todo and seen < 3000:
        text, seen = todo.pop(0), seen + 1
        if grammar.matches(text):
            return text
        matcher = grammar.matcher()
        for byte in text:
            matcher.accept(byte)
        todo += [text + bytes([byte]) for byte in b"ab1 .\x9f\x98\x80\xa9\xc3\xf0" if matcher.copy().accept(byte)]
    return None


@pytest.fixture(scope="module")
def peer_words() -> Vocabulary:
    """Bytes, words across characters and brackets, one end token."""
    rng = random.Random(17)
    words = {"".join(rng.choice('abc1é😀 {}":,[]') for _ in range(rng.randint(2, 4))).encode() for _ in range(250)}
    return Vocabulary([*(bytes([i]) for i in range(256)), *sorted(words), None], [256 + len(words)])


@pytest.fixture(scope="module")
def guidance(peer_words: Vocabulary) -> Any:
    """llguidance and its tokenizer over the same vocabulary."""
    llguidance = pytest.importorskip("llguidance")

    class Wrapped:
        eos_token_id = peer_words.eos_ids[0]
        bos_token_id = None
        tokens = [token or b"<end>" for token in peer_words.tokens]  # noqa: RUF012
        special_token_ids = list(peer_words.eos_ids)  # noqa: RUF012

        def __call__(self, text: bytes) -> list[int]:
            return list(text)

    tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(Wrapped()))

    def matcher(grammar: str) -> Any:
        found = llguidance.LLMatcher(tokenizer, grammar)
        assert not found.get_error()
        return found

    return llguidance.LLMatcher, matcher


def mask_of(theirs: Any, vocab: Vocabulary) -> set[int]:
    bias = theirs.compute_logit_bias()
    return {token for token in range(vocab.size) if bias[token]}


def walk_together(
    ours: Matcher, theirs: Any, vocab: Vocabulary, allowed_ids: Allowed, rng: random.Random, steps: int
) -> None:
    """The two masks along one random text."""
    for _ in range(steps):
        expected, allowed = mask_of(theirs, vocab), allowed_ids(ours)
        if len(expected) == 1:  # bytes that are certain: it allows their usual token alone
            assert expected <= allowed
        else:
            assert allowed == expected, sorted(vocab.tokens[i] or b"<end>" for i in allowed ^ expected)[:9]
        token = rng.choice(sorted(expected))
        assert ours.accept(token)
        if token in vocab.eos_ids:
            break
        assert theirs.consume_token(token)


# --- regular expressions ---


@pytest.mark.parametrize("seed", range(12))
def test_random_patterns_match_what_re_matches(seed: int, bytes_compiler: Compiler, allowed_ids: Allowed) -> None:
    rng, compared = random.Random(seed), 0
    for _ in range(12):
        pattern = random_pattern(rng, 3, PLAIN + PYTHON)
        expected = re.compile(pattern)
        try:
            grammar = bytes_compiler.regex(pattern)
        except UnsupportedConstraint:
            continue
        except UnsatisfiableConstraint:
            samples = {other for _ in range(9) for other in neighbours("ab é"[: rng.randint(0, 4)], rng)}
            assert not any(map(expected.fullmatch, samples)), pattern
            continue
        for text in around(grammar, allowed_ids, rng, 6):
            assert grammar.matches(text) == bool(expected.fullmatch(text)), (pattern, text)
            compared += 1
    assert compared > 50


def some_of(automaton: Any, count: int) -> Iterator[list[Any]]:
    """Shortest texts of an interegular automaton, which gives up where they lie far apart."""
    try:
        yield from itertools.islice(automaton.strings(max_iterations=400), count)
    except ValueError:
        return


@pytest.mark.parametrize("seed", range(6))
def test_random_patterns_match_what_interegular_matches(
    seed: int, bytes_compiler: Compiler, allowed_ids: Allowed
) -> None:
    interegular = pytest.importorskip("interegular")
    rng = random.Random(seed)
    for _ in range(10):
        pattern = random_pattern(rng, 3, PLAIN)
        automaton = interegular.parse_pattern(pattern).to_fsm()
        grammar = bytes_compiler.regex(pattern)
        texts = around(grammar, allowed_ids, rng, 6)
        for characters in some_of(automaton, 20):
            if all(isinstance(character, str) for character in characters):
                texts.update(neighbours("".join(characters), rng))
        for text in texts:
            assert grammar.matches(text) == automaton.accepts(text), (pattern, text)


@pytest.mark.parametrize("seed", range(6))
def test_masks_of_random_patterns_hold_those_of_outlines_core(
    seed: int, peer_words: Vocabulary, allowed_ids: Allowed
) -> None:
    outlines_core = pytest.importorskip("outlines_core")
    end, table = peer_words.eos_ids[0], dict[bytes, list[int]]()
    for token, piece in enumerate(peer_words.tokens):
        if piece:
            table.setdefault(piece, []).append(token)
    vocabulary = outlines_core.Vocabulary(end, table)
    compiler, rng = Compiler(peer_words), random.Random(seed)
    for _ in range(20):
        pattern = random_pattern(rng, 3, PLAIN)
        index = outlines_core.Index(pattern, vocabulary)
        grammar = compiler.regex(pattern)
        guide, matcher, text = outlines_core.Guide(index), grammar.matcher(), b""
        for _ in range(8):
            expected, allowed = set(guide.get_tokens()), allowed_ids(matcher)
            assert allowed >= expected, pattern
            assert matcher.is_accepting == index.is_final_state(guide.get_state()), (pattern, text)
            for token in rng.sample(sorted(allowed - expected), min(2, len(allowed - expected))):
                # Its index leaves tokens out that can be finished all the same: the whole text shows it.
                whole = completed(grammar, text + (peer_words.tokens[token] or b""))
                assert whole is None or re.fullmatch(pattern, whole.decode()), (pattern, whole)
            if not expected - {end}:
                break
            token = rng.choice(sorted(expected - {end}))
            assert matcher.accept(token)
            text += peer_words.tokens[token] or b""
            guide.advance(token)


@pytest.mark.parametrize("seed", range(6))
def test_masks_of_random_patterns_are_those_of_llguidance(
    seed: int, peer_words: Vocabulary, guidance: Any, allowed_ids: Allowed
) -> None:
    grammars, matcher = guidance
    compiler, rng = Compiler(peer_words), random.Random(seed)
    for _ in range(20):
        pattern = random_pattern(rng, 3, PLAIN)
        theirs = matcher(grammars.grammar_from_regex(pattern))
        walk_together(compiler.regex(pattern).matcher(), theirs, peer_words, allowed_ids, rng, 8)


# --- JSON schemas ---


def random_schema(rng: random.Random, depth: int) -> dict[str, Any]:
    """What both engines spell alike: closed objects, no negative zero, no blanks."""
    kind = rng.randrange(11 if depth else 7)
    if kind == 0:
        return {"type": rng.choice(["boolean", "null"])}
    if kind == 1:
        return {"enum": rng.sample([1, "a", "b", None, True, [1], {"a": 1}, "é", -3], rng.randint(1, 3))}
    if kind == 2:
        return {"type": "integer", "minimum": rng.randint(0, 5), "maximum": rng.randint(6, 200)}
    if kind == 3:
        return {"type": "string", "pattern": rng.choice(["^a+b?$", "^[a-c]{1,3}$", "^(ab|c)*$", "^é[0-9]{2,}$"])}
    if kind == 4:
        return {"type": "integer", "minimum": rng.randint(0, 1000)}
    if kind == 5:
        return {"const": rng.choice([1, "x", None, {"a": []}])}
    if kind == 6:
        return {"type": "string", "enum": rng.sample(["", "a", "ab", "1", "é😀"], 3)}
    if kind in (7, 8):
        names = rng.sample("abcd", rng.randint(1, 4))
        return {
            "type": "object",
            "properties": {name: random_schema(rng, depth - 1) for name in names},
            "required": rng.sample(names, rng.randint(0, len(names))),
            "additionalProperties": False,
        }
    if kind == 9:
        least = rng.randint(0, 2)
        items = random_schema(rng, depth - 1)
        return {"type": "array", "items": items, "minItems": least, "maxItems": rng.randint(least, 3)}
    return {"anyOf": [random_schema(rng, depth - 1) for _ in range(2)]}


@pytest.mark.parametrize("seed", range(8))
def test_masks_of_random_schemas_are_those_of_llguidance(
    seed: int, peer_words: Vocabulary, guidance: Any, allowed_ids: Allowed
) -> None:
    grammars, matcher = guidance
    compiler, rng = Compiler(peer_words), random.Random(seed)
    for _ in range(15):
        schema = json.dumps(random_schema(rng, 3))
        theirs = grammars.grammar_from_json_schema(schema, defaults={"whitespace_flexible": False})
        ours = compiler.json_schema(schema, whitespace="compact")
        walk_together(ours.matcher(), matcher(theirs), peer_words, allowed_ids, rng, 20)


@pytest.mark.parametrize("seed", range(4))
def test_texts_of_random_schemas_are_those_of_llguidance(
    seed: int, peer_words: Vocabulary, guidance: Any, allowed_ids: Allowed
) -> None:
    grammars, matcher = guidance
    compiler, rng = Compiler(peer_words), random.Random(seed)
    for _ in range(10):
        schema = json.dumps(random_schema(rng, 2))
        theirs = matcher(grammars.grammar_from_json_schema(schema, defaults={"whitespace_flexible": False}))
        ours = compiler.json_schema(schema, whitespace="compact")
        for text in around(ours, allowed_ids, rng, 5):
            # Followed by an end token: it takes all of them exactly where the text is complete.
            tokens = [*text.encode(), *peer_words.eos_ids]
            assert ours.matches(text) == (theirs.validate_tokens(tokens) == len(tokens)), (schema, text)
