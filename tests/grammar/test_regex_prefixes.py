"""Generated patterns: a constraint's texts are those that ``re`` matches, and its live prefixes are theirs."""

from __future__ import annotations

import itertools
import re

from hypothesis import given, settings
from hypothesis import strategies as st

from radixrt.errors import UnsatisfiableConstraint, UnsupportedConstraint
from radixrt.grammar import CompiledGrammar, Compiler, Matcher, Vocabulary

ALPHABET = "ab \nKé"
TEXTS = ["".join(chars) for n in range(4) for chars in itertools.product(ALPHABET, repeat=n)]
TEXTS += ["".join(chars) for n in range(4, 8) for chars in itertools.product("ab", repeat=n)]
BYTES = sorted(set("".join(ALPHABET).encode()) | set("\u212a\u017f\0_1,".encode()))
BYTE_VOCAB = Vocabulary([bytes([i]) for i in range(256)] + [None], [256])
COMPILER = Compiler(BYTE_VOCAB)

ATOMS = st.sampled_from(
    ["a", "b", "k", " ", r"\n", "é", ".", "[ab]", "[^a]", r"\w", r"\W", r"\s", r"\S", r"\d", r"[\Wb]", "[a-z]"]
)
PLACES = st.sampled_from(
    ["^", "$", r"\A", r"\Z", r"\b", r"\B", "(?<=a)", "(?<!b)", r"(?<=\b\w)", "(?<=^)", "(?<!a$)"]
)
COUNTS = st.sampled_from(
    ["*", "+", "?", "*?", "+?", "??", "{2}", "{1,3}", "{0,2}?", "{2,}", "{,2}", "{3,5}", "*+", "++", "?+", "{1,2}+"]
)
OPENERS = st.sampled_from(
    ["(?:", "(", "(?i:", "(?s:", "(?m:", "(?a:", "(?im:", "(?-i:", "(?>", "(?=", "(?!", "(?P<name>"]
)


def larger(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.lists(parts, min_size=2, max_size=3).map("".join),
        st.lists(parts, min_size=2, max_size=3).map(lambda options: f"(?:{'|'.join(options)})"),
        st.tuples(parts, COUNTS).map(lambda pair: f"(?:{pair[0]}){pair[1]}"),
        st.tuples(OPENERS, parts).map(lambda pair: f"{pair[0]}{pair[1]})"),
    )


PATTERNS = st.tuples(
    st.sampled_from(["", "", "", "(?i)", "(?m)", "(?s)", "(?a)", "(?ix)"]),
    st.recursive(st.one_of(ATOMS, ATOMS, PLACES), larger, max_leaves=9),
).map("".join)


def compiled(pattern: str) -> CompiledGrammar | None:
    """The constraint; None if it is refused by name."""
    try:
        return COMPILER.regex(pattern)
    except UnsupportedConstraint as error:
        if error.keyword not in ("atomic group", "lookbehind", "compile_fuel"):
            raise
        return None


def is_pattern(pattern: str) -> bool:
    try:
        re.compile(pattern)
    except re.error:
        return False
    return True


def live(grammar: CompiledGrammar, prefix: bytes) -> bool:
    matcher = grammar.matcher()
    return all(matcher.accept(byte) for byte in prefix)


def completion(matcher: Matcher, prefix: bytes) -> bytes | None:
    """A shortest text from here on, over a few bytes; None if none is found within some hundred tries."""
    todo = [(matcher, prefix)]
    for at in range(300):
        if at >= len(todo):
            return None
        state, text = todo[at]
        if state.is_accepting:
            return text
        for byte in BYTES:
            following = state.copy()
            if following.accept(byte):
                todo.append((following, text + bytes([byte])))
    return None


@given(PATTERNS.filter(is_pattern))
@settings(max_examples=250)
def test_texts_and_their_prefixes(pattern: str) -> None:
    """Every text that ``re`` matches is taken, byte by byte, and no other text is."""
    oracle = re.compile(pattern)
    expected = {text for text in TEXTS if oracle.fullmatch(text)}
    try:
        grammar = compiled(pattern)
    except UnsatisfiableConstraint:
        assert not expected, pattern
        return
    if grammar is None:
        return
    assert {text for text in TEXTS if grammar.matches(text)} == expected, pattern
    prefixes = {text.encode()[:end] for text in sorted(expected)[:60] for end in range(len(text.encode()) + 1)}
    assert [prefix for prefix in prefixes if not live(grammar, prefix)] == [], pattern


@given(PATTERNS.filter(is_pattern), st.lists(st.integers(0, 2**16), max_size=6))
@settings(max_examples=250)
def test_whatever_is_allowed_can_be_finished(pattern: str, choices: list[int]) -> None:
    """A walk along allowed bytes never leaves the prefixes of texts that ``re`` matches."""
    try:
        grammar = compiled(pattern)
    except UnsatisfiableConstraint:
        return
    if grammar is None:
        return
    matcher, text = grammar.matcher(), b""
    for choice in choices:
        following = [byte for byte in BYTES if matcher.copy().accept(byte)]
        if not following:
            break
        byte = following[choice % len(following)]
        matcher.accept(byte)
        text += bytes([byte])
    whole = completion(matcher, text)
    if whole is None:  # far away, or over other characters: there is at least a way on
        assert any(map(matcher.copy().accept, range(256))), (pattern, text)
    else:
        assert re.fullmatch(pattern, whole.decode()), (pattern, whole)
