"""The ``pattern`` of JSON Schema: ECMAScript's dialect, searching."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable

import pytest

from radixrt.errors import InvalidRequest, UnsupportedConstraint
from radixrt.grammar.limits import GrammarLimits
from radixrt.grammar.regex import ecma_search
from radixrt.grammar.rx import Pool

Member = Callable[[Pool, int, bytes], bool]

CASES: dict[str, tuple[list[str], list[str]]] = {
    "b": (["b", "abc", "\nb\n"], ["", "ac"]),
    "^b": (["b", "bc"], ["ab", "a\nb"]),
    "b$": (["b", "ab"], ["bc", "b\n"]),
    "^cat$|^dog$": (["cat", "dog"], ["catdog", "cow", "cats", ""]),
    "^(a|b)$": (["a", "b"], ["ab", ""]),
    "(^a|b)c": (["ac", "xbc", "acx"], ["xac", "c"]),
    "^a|b$": (["ax", "xb"], ["xa", "bx"]),
    "": (["", "anything\n"], []),
    r"^\d+$": (["0", "123"], ["٣", "", "1\n"]),
    r"^\w$": (["a", "_", "9"], ["é", "-"]),
    r"^\s$": ([" ", "\t", "\u2029", "\ufeff", "\u3000"], ["\x85", "\x1c", "\u180e"]),
    r"^\S\W\D$": (["a-x"], ["abx", " -x"]),
    "^.$": (["a", "\x85", "😀"], ["\n", "\r", "\u2028", "\u2029", ""]),
    "^[^]$": (["a", "\n"], [""]),
    r"^\u00e9\x41\u{1F600}\uD83D\uDE00\cJ\0\t\/$": (["éA😀😀\n\0\t/"], ["éA"]),
    r"^[\w.-]+@[a-z\d-]+$": (["a.b-c@d-1"], ["@d", "a@"]),
    r"^[a-\d]$": (["a", "-", "5"], ["b"]),
    r"^[\b\]\\^-]$": (["\b", "]", "\\", "^", "-"], ["b"]),
    "^{.*}$": (["{}", "{a}"], ["a"]),
    r"^\p{Lu}\p{L}*\P{L}$": (["Éa1", "A-"], ["ea1", "AB"]),
    r"^\p{ASCII}$": (["a"], ["é"]),
    r"^\p{gc=Nd}\p{Letter}$": (["٣é"], ["aa"]),
    "^(?<year>[0-9]{4})-(?:0[1-9]|1[0-2])$": (["2024-12"], ["2024-13"]),
    "^(?=.*[A-Z])(?!.*x).{3,}$": (["abC"], ["abc", "aCx"]),
    r"(?<!a)b": (["b", "cb", "abb"], ["ab", "a"]),
    r"(?<=a.*)b": (["ab", "axxb"], ["b", "ba"]),
    r"\bfoo\b": (["foo", "a foo!", "éfoo"], ["afoo", "foo_"]),
    r"^\B$": ([""], ["a"]),
    "a{2}b{1,}c{0,1}d*?": (["aab", "aaabbcd"], ["ab"]),
    r"^\$\{[a-z]+\}$": (["${a}"], ["$a"]),
    r"^\-\_\!\#$": (["-_!#"], ["!"]),
    "^a{,b}${": ([], ["a{,b}{"]),
    "^a{,b}{1}$": (["a{,b}"], ["ab"]),
    r"^\_\-\@\/\é\😀$": (["_-@/é😀"], [r"\_"]),
    "^a\x00[\x00-\x02]$": (["a\0\1"], ["a", "a\0"]),
    "^(?i:k[^s])x$": (["Kax", "\u212aax", "kax"], ["kSx", "k\u017fx", "kaX"]),
    r"^(?i:\w)(?i:\W)$": (["\u017f-", "\u212a-"], ["-\u017f", "a\u212a"]),
    r"^(?i:ß|ǰ|ᾈ|İ)$": (["ß", "ẞ", "ǰ", "ᾀ", "ᾈ", "İ"], ["SS", "ss", "i", "ı"]),
    r"(?m:^a$)": (["x\na\ny", "a", "\u2028a", "a\r"], ["xa", "ax"]),
    r"^(?s:.(?-s:.))$": (["\na"], ["\n\n", "a\u2028"]),
    r"^[^\uD800-\uDFFF]$": (["a", "😀"], [""]),
    r"^[a\uD800-\uDFFF]$": (["a"], ["😀"]),
    r"^[\uD83D\uDE00-\uD83D\uDE4F]$": (["😀"], ["a"]),
    r"^[😀-🙏]$": (["😀"], ["a"]),
    r"^\p{Lowercase}\P{Upper}\p{White_Space}$": (["aa ", "ªa\x85"], ["Aa ", "aA "]),
    r"^\u{0000000000000000000000061}$": (["a"], []),
    r"^(?<$é_1>a)$": (["a"], []),
    r"^[\w-a]$": (["-", "b"], ["."]),
    r"^[]|a$": (["a"], ["", "b"]),
    r"(?=^a*$)(?=b)*": (["", "aa"], ["b"]),
}


@pytest.mark.parametrize("pattern", CASES)
def test_features(pattern: str, pool: Pool, member: Member) -> None:
    term = ecma_search(pool, pattern)
    good, bad = CASES[pattern]
    assert [t for t in good if not member(pool, term, t.encode())] == []
    assert [t for t in bad if member(pool, term, t.encode())] == []


@pytest.mark.parametrize("seed", range(60))
def test_random_searches_find_what_re_finds(seed: int, pool: Pool, member: Member) -> None:
    """On what the two dialects share."""
    rng = random.Random(seed)

    def pattern(depth: int) -> str:
        roll = rng.random()
        if depth == 0 or roll < 0.3:
            return rng.choice(["a", "b", "[ab]", "[^a]", r"\w", r"\W", r"\d", "c"])
        if roll < 0.5:
            return pattern(depth - 1) + pattern(depth - 1)
        if roll < 0.62:
            return f"(?:{pattern(depth - 1)}|{pattern(depth - 1)})"
        if roll < 0.75:
            return f"(?:{pattern(depth - 1)})" + rng.choice(["*", "+", "?", "{2}", "{1,2}", "*?"])
        if roll < 0.9:
            return rng.choice(["^", r"\b"]) + pattern(depth - 1) + rng.choice(["", r"(?!\n)$"])
        return rng.choice(["(?=", "(?!", "(?<=a|b", "(?<!a"]) + ")" + pattern(depth - 1)

    source = pattern(4)
    oracle = re.compile(source.replace("$", r"\Z"), re.ASCII)
    term = ecma_search(pool, source)
    for n in range(5):
        for text in map("".join, itertools.product("abc ", repeat=n)):
            assert member(pool, term, text.encode()) == bool(oracle.search(text)), (source, text)


@pytest.mark.parametrize(
    ("pattern", "keyword"),
    [
        (r"(a)\1", "back-reference"),
        (r"(?<q>a)\k<q>", "back-reference"),
        (r"\p{Script=Greek}", "property"),
        (r"\p{Emoji}", "property"),
        (r"\pL", "property"),
        ("(?i)a", "group"),
        ("(?P<x>a)", "group"),
        ("(?>a)", "group"),
        (r"\Aa\Z", "escape"),
        (r"\Z", "escape"),
        (r"[\k]", "escape"),
        (r"\p", "property"),
        (r"\p{gc=Lower}", "property"),
        ("a{,3}", "repetition"),
        ("{,3}", "repetition"),
        ("a{" + "1" * 5000 + "}", "repetition"),
        (r"\01", "escape"),
        (r"\ud800", "surrogate"),
        (r"\u{dfff}", "surrogate"),
        ("[\ud800]", "surrogate"),
        ("a\udc00", "surrogate"),
        (r"[\uD800-\uDBFF][\uDC00-\uDFFF]", "surrogate"),
        ("(" * 200 + ")" * 200, "nesting"),
        ("a{99999999999}", "repetition"),
    ],
)
def test_refusals_name_their_construct(pattern: str, keyword: str, pool: Pool) -> None:
    with pytest.raises(UnsupportedConstraint) as caught:
        ecma_search(pool, pattern)
    assert caught.value.keyword == keyword
    assert caught.value.param == "pattern"
    assert caught.value.location is not None


@pytest.mark.parametrize(
    "pattern",
    [
        *("(a", "a)", "[a", "*a", "a**", "^*", "a{2,1}", "[b-a]", "\\", r"\x4", r"\u12", r"\u{110000}", "{2}"),
        *("(?q:a)", "(?ii:a)", "(?i-i:a)", "(?-:a)", "a{2}{3}", "a*+", "(" * 99),
    ],
)
def test_errors_of_syntax(pattern: str, pool: Pool) -> None:
    with pytest.raises(InvalidRequest) as caught:
        ecma_search(pool, pattern)
    assert caught.value.param == "pattern"
    assert "column" in caught.value.message


def test_nesting_limit_is_a_limit_and_not_a_crash(pool: Pool, member: Member) -> None:
    deep = GrammarLimits().nesting
    term = ecma_search(pool, "^" + "(" * deep + "a" + ")*" * deep + "$")
    assert member(pool, term, b"aaa")
