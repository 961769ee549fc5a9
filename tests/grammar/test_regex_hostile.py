"""Patterns made to be expensive: served within counted work, or refused by the name of a limit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from radixrt.errors import UnsatisfiableConstraint, UnsupportedConstraint
from radixrt.grammar import CompiledGrammar, Compiler, GrammarLimits, Vocabulary

LETTERS = "abcdefghijklmnopqrstuvwxyz"
FEW = GrammarLimits(compile_fuel=90_000, step_fuel=400_000)
"""Far below what unrolling, a deterministic automaton made in advance, or backtracking would need."""

SERVED = {
    "long tail after a letter": (".*a.{24}", "ab" * 20),
    "nested plus": ("(a+)+b", "a" * 30),
    "plus nested six deep": ("((((((a+)+)+)+)+)+)+b", "a" * 30),
    "the same twice": ("(a|a)*b", "a" * 30),
    "overlapping words": ("(?:a|aa|aaa)+b", "a" * 30),
    "two plus in a plus": ("(x+x+)+y", "x" * 30),
    "stars of stars": ("(?:(?:a*)*(?:b*)*)*c", "abab"),
    "forty groups": ("(" * 40 + "a" + ")*" * 40 + "b", "a" * 30),
    "counts": ("[a-z]{1,5000}", "abc" * 10),
    "counts of counts": ("(?:[a-z]{1,1000}){1,1000}", "abc" * 10),
    "counts four deep": ("(?:(?:(?:a{1,99}b){1,99}c){1,99}d){1,99}", "aabab"),
    "a huge count": ("a{1000000000}", "a" * 30),
    "a huge range": ("(?:ab|cd){3,2000000000}", "abcd" * 5),
    "counted classes of Unicode": (r"[\w\s]{10,2000}", "abc é 日本"),
    "case ignored in large classes": (r"(?i)[\w\W]{1,500}x", "aXé"),
    "case ignored in united classes": (r"(?i)(?:\w|[^\W\d]|[à-ÿ]){0,300}", "éÀx"),
    "many dot stars": (".*".join(LETTERS[:20]), "axbxc"),
    "optional copies": ("a?" * 2000 + "a" * 2000, "a" * 30),
    "words": (r"(?:\S+\s+){0,500}\S+", "one two  three"),
    "boundaries in a count": (r"(?:\b\w+\b ?){1,1000}", "one two"),
    "sixteen letters ago": ("(?:a|b)*a(?:a|b){15}", "ab" * 12),
    "a lookbehind ten letters ago": ("(?:(?<=a.{9})b|[abc])*", "abcacbbabcab"),
    "lookaheads of a password": (r"(?=.*[a-z])(?=.*[A-Z])(?=.*\d)(?=.*[^\w]).{8,64}", "abcA1"),
    "possessive copies": ("(?:a*+b)*+c", "aabab"),
    "numbers": (r"(?:\d{1,3}){1,300}\.\d{2}", "12345.1"),
}
REFUSED = {
    "a lookahead per letter": "".join(f"(?=.*{letter}.*{letter})" for letter in LETTERS) + ".{60,90}",
    "alternatives of a quarter million characters in all": "|".join("a" * i + "b" for i in range(1, 700)),
    "nested groups": "(" * 60_000 + ")" * 60_000,
    "a long pattern": "ab" * 100_000,
    "an atomic repetition that may give back": "(?>(?:a|ab)*c)d",
}


def work_along(grammar: CompiledGrammar, text: str) -> None:
    """Masks and steps along a text of single bytes, and then along whatever is allowed."""
    matcher, row = grammar.matcher(), np.zeros((grammar.vocab.size + 31) // 32, np.int32)
    for byte in text.encode():
        matcher.fill_mask(row)
        assert row[byte // 32] >> (byte % 32) & 1, bytes([byte])
        assert matcher.accept(byte), matcher.error
    matcher.fill_mask(row)
    assert row.any()
    assert matcher.error is None


@pytest.mark.parametrize("kind", SERVED)
def test_served_within_counted_work(kind: str, toy_vocab: Vocabulary) -> None:
    pattern, text = SERVED[kind]
    work_along(Compiler(toy_vocab, FEW).regex(pattern), text)


@pytest.mark.parametrize("kind", REFUSED)
def test_refused_by_the_name_of_a_limit(kind: str, toy_vocab: Vocabulary) -> None:
    with pytest.raises(UnsupportedConstraint) as caught:
        Compiler(toy_vocab).regex(REFUSED[kind])
    assert caught.value.keyword in {"compile_fuel", "terms", "nesting", "pattern_chars", "atomic group"}


SCHEMAS: dict[str, dict[str, Any]] = {
    "a thousand letters of any script": {"type": "string", "pattern": r"^\p{L}{0,1000}$"},
    "the same, searched": {"type": "string", "pattern": r"\p{L}{1000}"},
    "a tail, searched": {"type": "string", "pattern": "a.{24}"},
    "a pattern and lengths": {
        "type": "string",
        "pattern": r"^(\S+\s+){0,19}\S+$",
        "minLength": 10,
        "maxLength": 250,
    },
    "fifty excluded patterns": {"type": "string", "allOf": [{"not": {"pattern": f"x{n}y"}} for n in range(50)]},
    "huge lengths": {"type": "string", "minLength": 100_000, "maxLength": 1_000_000},
    "NUL": {"type": "string", "pattern": "^a\0[^\0]\\u0000$"},
    "control characters": {"type": "string", "pattern": "^a\x01\x1f\x7f[\n-\r]*$"},
    "a format, a length and patterns": {
        "type": "string",
        "format": "uri",
        "maxLength": 2000,
        "pattern": r"^a\+?https?://.*\.(com|org)/|^a:",
    },
    "any script's host name of a length": {"type": "string", "format": "idn-hostname", "minLength": 3},
}


@pytest.mark.parametrize("kind", SCHEMAS)
def test_patterns_of_schemas_within_counted_work(kind: str, toy_vocab: Vocabulary) -> None:
    limits = GrammarLimits(compile_fuel=400_000, step_fuel=400_000)
    grammar = Compiler(toy_vocab, limits).json_schema(SCHEMAS[kind])
    work_along(grammar, '"a')


EITHER: dict[str, list[dict[str, Any]]] = {
    "words in any order: a state for every subset": [{"pattern": f"{LETTERS[n % 26]}.*{n}"} for n in range(50)],
    "runs of fifty lengths": [{"pattern": f"[a-z]{{{n}}}"} for n in range(1, 51)],
    "letters a distance apart": [{"pattern": f"a.{{{n}}}b"} for n in range(20, 40)],
}


@pytest.mark.parametrize("kind", EITHER)
def test_many_patterns_at_once_are_served_or_refused_by_name(kind: str, toy_vocab: Vocabulary) -> None:
    try:
        grammar = Compiler(toy_vocab).json_schema({"type": "string", "allOf": EITHER[kind]})
    except UnsatisfiableConstraint:
        raise
    except UnsupportedConstraint as error:
        if error.keyword not in {"compile_fuel", "terms", "pattern", "allOf"}:
            raise
    else:
        work_along(grammar, '"')  # whatever comes later may still be too much for one step
