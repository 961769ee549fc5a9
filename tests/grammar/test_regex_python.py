"""Regular expressions of Python's dialect against ``re.fullmatch``."""

from __future__ import annotations

import itertools
import random
import re
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from radixrt.errors import InvalidRequest, UnsatisfiableConstraint, UnsupportedConstraint
from radixrt.grammar import Compiler, GrammarLimits, Vocabulary
from radixrt.grammar.charsets import ignoring_case, python_class

ALPHABET = ["a", "b", "A", "\n", " ", "é", "1", "_", "ſ", "k"]
SHORT = [""] + ["".join(t) for n in (1, 2) for t in itertools.product(ALPHABET, repeat=n)]
ATOMS = [
    "a",
    "b",
    "A",
    r"\n",
    " ",
    ".",
    "[ab]",
    "[^a]",
    r"\w",
    r"\W",
    r"\s",
    r"\S",
    r"\d",
    r"[^\w]",
    "é",
    "[a-é]",
    "1",
]
ATOMS += ["_", "ſ", "K"]
BEHIND = ["a", "b", "ab", r"\w", r"\W\w", r"\n", "^", r"\b", r"a\b", "^a", r"\ba", "a$", r"b(?!\w)"]


def random_pattern(rng: random.Random, depth: int) -> str:
    roll = rng.random()

    def sub() -> str:
        return random_pattern(rng, depth - 1)

    if depth <= 0 or roll < 0.25:
        return rng.choice(ATOMS)
    if roll < 0.45:
        return sub() + sub()
    if roll < 0.55:
        return f"(?:{sub()}|{sub()})"
    if roll < 0.7:
        return f"(?:{sub()})" + rng.choice(["*", "+", "?", "{2}", "{1,3}", "{0,2}", "*?", "+?", "{2,}", "??"])
    if roll < 0.76:
        return rng.choice(["^", "$", r"\A", r"\Z", r"\b", r"\B"])
    if roll < 0.82:
        return rng.choice(["(?=", "(?!"]) + sub() + ")"
    if roll < 0.87:
        return rng.choice(["(?<=", "(?<!"]) + rng.choice(BEHIND) + ")"
    if roll < 0.9:
        return rng.choice(["(?i:", "(?s:", "(?m:", "(?a:", "(?-i:", "(?im:", "(?u:", "(?x: "]) + sub() + ")"
    if roll < 0.94:
        return rng.choice(
            [f"(?>{sub()})", f"(?:{sub()})" + rng.choice(["*+", "++", "?+", "{1,2}+"]), f"(?>{sub()}|a){sub()}"]
        )
    return sub() + rng.choice(["", "|" + sub()])


@pytest.mark.parametrize("seed", range(140))
def test_random_patterns_match_what_re_matches(seed: int, byte_vocab: Vocabulary) -> None:
    rng = random.Random(seed)
    pattern = rng.choice(["", "", "", "(?i)", "(?m)", "(?s)", "(?a)", "(?im)", "(?x)"]) + random_pattern(rng, 4)
    try:
        oracle = re.compile(pattern)
    except re.error:
        with pytest.raises(InvalidRequest):
            Compiler(byte_vocab).regex(pattern)
        return
    try:
        matches = Compiler(byte_vocab).regex(pattern).matches
    except UnsatisfiableConstraint:
        matches = lambda text: False  # noqa: E731
    except UnsupportedConstraint as error:
        if error.keyword not in ("atomic group", "lookbehind") or not re.search(r"\(\?>|[*+?}]\+", pattern):
            raise
        return
    texts = SHORT + ["".join(rng.choice(ALPHABET) for _ in range(rng.randint(3, 8))) for _ in range(40)]
    wrong = [text for text in texts if matches(text) != (oracle.fullmatch(text) is not None)]
    assert not wrong, pattern


CASES = {
    "(a|b)*c": ["", "c", "abac", "abab"],
    "a{2,4}": ["a", "aa", "aaaa", "aaaaa"],
    "a{,2}b": ["b", "aab", "aaab", "a{,2}b"],
    "a{x}": ["a{x}", "a"],
    r"\d+(?:\.\d+)?": ["1", "1.", "1.5", "٣", "x"],
    r"[^\W\d_]+": ["abc", "é", "1", "_", "日本"],
    r"\S+": ["[", "a]b", "(x)", "é", "", " ", "\x1c", "\x85"],
    r"[\]\-^a]": ["]", "-", "^", "a", "\\"],
    r"[^]a]": ["]", "a", "b"],
    r"\x41\u00e9\U0001F600\101\0": ["Aé😀A\0", "Aé😀A0"],
    r"(?P<x>a)(?P<y>b)": ["ab", "a"],
    "(?i)straße": ["STRAßE", "strasse", "straẞe", "STRASSE"],
    "(?i)[k-l]": ["K", "k", "K", "L", "ł"],
    "(?i)[^k]": ["K", "k", "K", "x"],
    "(?i)ſ": ["s", "S", "ſ"],
    "(?i)ς": ["σ", "Σ", "ς"],
    "(?ia)[k-s]": ["K", "K", "ſ", "s", "S"],
    "(?i)İ": ["i", "İ", "I", "ı", "i̇"],
    r"(?i)\u0390": ["\u0390", "\u1fd3"],
    "(?s).+": ["a\nb", ""],
    ".+": ["a\nb", "a\rb", "\u2028"],
    "(?m)^a$\n^b$": ["a\nb", "a\n\nb"],
    "a$": ["a", "a\n"],
    "a$\n": ["a\n", "a"],
    r"a\Z\n?": ["a", "a\n"],
    "(?:a$\n)+": ["a\n", "a\na\n"],
    "(?x) a  b # comment \n c": ["abc", "a b c"],
    "(?i:a)b": ["Ab", "AB", "ab"],
    "(?i)a(?-i:b)": ["AB", "Ab"],
    r"\b\w+\b(?: \b\w+\b)*": ["one two", "one  two", "", "é_1"],
    r"\B": ["", "a"],
    r"\Ba?": ["", "a"],
    r".\B.": ["ab", "a ", "  "],
    r"(?=.*\d)(?=.*[a-z]).{4,8}": ["abc1", "abcd", "1234", "abc1abc1a", "1z\n1"],
    r"(?!.*\.\.)[a-z.]+": ["a.b", "a..b", "."],
    r"[a-z]+(?<!end)": ["bend", "bends", "en", "end"],
    r"(?:(?<=a)b|(?<!a)c|a)*": ["ab", "acb", "aab", "abcc", "b", "cab", "ac"],
    r"(?:(?=ab)a|b)*": ["ab", "aab", "abab", "ba", "b"],
    r"(?:(?=a)|b){2}c": ["bbc", "c", "bc", "abc"],
    r"(?:(?=c)|b){2}c": ["bbc", "c", "bc", "bbbc"],
    r"(?:\b|x)*y": ["y", "xy", "xxy"],
    r"(?:a(?!b)|b(?=a))+": ["ba", "bba", "aaba", "ab", "a", "b"],
    r"(?<=^)a|(?<=b)c": ["a", "c"],
    r"(?:(?<=\ba)b|[ac ])*": ["ab", "a ab", "cab", "aab", "c ab c", " ab"],
    r"(?:(?<!(?<=c)a)b|[ac])*": ["ab", "cab", "aab", "caab", "b"],
    r"(?:(?<=a$)\n|a)*": ["a\n", "aa", "a\na", "\n"],
    "x*+y": ["y", "xxy", "xx"],
    "x*+": ["", "xxx"],
    "[ab]++c": ["abac", "c"],
    "(?>ab)c": ["abc", "ab"],
    "(?>x+)y": ["xxy", "y"],
    "(?>a|ab)c": ["ac", "abc", "abac"],
    "(?>ab|a)c": ["ac", "abc"],
    "a*+a": ["a", "aa"],
    "(?:ab)*+c": ["c", "ababc", "abac"],
    "a*+(?:b|a)": ["b", "aab", "aaa"],
    "(?:ab|a)*+b": ["b", "ab", "abb", "aab", "aabb"],
    "(?>(?:ab|a)?b)a": ["ba", "aba", "abba"],
    "a{1,3}+a": ["a", "aa", "aaaa", "aaaaa"],
    "(?:a{1,2}+b)*a": ["a", "aba", "aab", "aabaa"],
    "(?>a{0,3}[ab])b": ["ab", "aab", "bb", "aaab", "abb"],
    "(?>a*?b|a)b?": ["aab", "aabb", "a", "b"],
    "(?>a+?)a": ["a", "aa", "aaa"],
    "(?>a*?[ab])b": ["ab", "aab", "bb"],
    r"(?>\w+\b|a) ?x": ["a x", "ax", "ab x"],
    r"(?<=(?>a|b))c|ac|(?<!(?>a))b": ["ac", "c", "b"],
    "(?>(?>a|ab)c|a)b": ["ab", "acb", "abcb"],
    "": ["", "a"],
    "|a": ["", "a", "b"],
    "()*": ["", "a"],
    "(a?)*?b": ["b", "aab"],
    "[\x00-\x1f]": ["\x00", "\x1f", " "],
    "a\x00b": ["a\x00b", "ab"],
    "[^a]": ["b", "\U0010ffff", "\x00", "a", "ab"],
    "[😀-🙏]+": ["😨", "😀🙏", "", "a", "😨a", "🚀"],
}


@pytest.mark.parametrize("pattern", CASES)
def test_features(pattern: str, bytes_compiler: Compiler) -> None:
    expected = [text for text in CASES[pattern] if re.fullmatch(pattern, text)]
    try:
        matches = bytes_compiler.regex(pattern).matches
    except UnsatisfiableConstraint:  # \\B alone, before Python 3.14
        assert not expected
        return
    for text in CASES[pattern]:
        assert matches(text) == (re.fullmatch(pattern, text) is not None), text


@pytest.mark.parametrize(
    ("pattern", "keyword", "column"),
    [
        (r"(a)\1", "back-reference", "3"),
        (r"[\1(](a)\1", "back-reference", "8"),
        (r"(?P<q>['\"]).*(?P=q)", "back-reference", "14"),
        (r"(a)?(?(1)b|c)", "conditional", "4"),
        (r"(?>(?:a|ab)*c)d", "atomic group", "0"),
        (r"(?>(?:a|ab){2,})b", "atomic group", "0"),
        (r"(?>a{1,100}[ab])b", "atomic group", "0"),
        (r"(?>(?:a|b*)*)c", "atomic group", "0"),
        (r"(?<=a(?=b)c)d", "lookbehind", "0"),
        ("\\ud800", "surrogate", "0"),
        ("a\udc00", "surrogate", "1"),
        ("[\\ud800-\\udbff]", "surrogate", "1"),
        (r"\\\ud800", "surrogate", "2"),
        (r"a(?:[(]|b)(?>(?:ab?)*b)c", "atomic group", "10"),
        ("(" * 101 + ")" * 101, "nesting", "100"),
        ("(" * 60000 + "a" + ")" * 60000, "nesting", "100"),
    ],
)
def test_what_is_not_regular_is_refused_by_name(
    pattern: str, keyword: str, column: str | None, bytes_compiler: Compiler
) -> None:
    with pytest.raises(UnsupportedConstraint) as caught:
        bytes_compiler.regex(pattern)
    assert caught.value.keyword == keyword
    assert caught.value.location == column


@pytest.mark.parametrize(
    "pattern",
    [
        "[a-z",
        "(a",
        "a)",
        "*a",
        "a**",
        "(?P<x>a)(?P<x>b)",
        "\\",
        "[b-a]",
        "(?<=a+)b",
        "a{3,2}",
        "(?z)",
        r"\8",
        "(?L)a",
    ],
)
def test_what_re_refuses_is_a_bad_request(pattern: str, bytes_compiler: Compiler) -> None:
    with pytest.raises(re.error):
        re.compile(pattern)
    with pytest.raises(InvalidRequest) as caught:
        bytes_compiler.regex(pattern)
    assert caught.value.param == "regex"
    assert not isinstance(caught.value, UnsatisfiableConstraint)


@pytest.mark.parametrize("pattern", ["(?!)", "a(?=b)c", "[^\\s\\S]", r"a\bb", "(?=b)a", "a^b", "(?<=x)a"])
def test_what_matches_nothing_is_unsatisfiable(pattern: str, bytes_compiler: Compiler) -> None:
    with pytest.raises(UnsatisfiableConstraint):
        bytes_compiler.regex(pattern)


@pytest.mark.parametrize("value", [b"a", None, 3, ["a"]])
def test_a_pattern_is_a_string(value: Any, bytes_compiler: Compiler) -> None:
    with pytest.raises(InvalidRequest) as caught:
        bytes_compiler.regex(value)
    assert caught.value.param == "regex"


@pytest.mark.parametrize("pattern", ["[[a]", "[a||b]", "[a&&b]", "[a~~b]"])
def test_warnings_of_the_parser_are_not_raised(pattern: str, bytes_compiler: Compiler) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        oracle = re.compile(pattern)
    grammar = bytes_compiler.regex(pattern)
    assert all(grammar.matches(c) == bool(oracle.fullmatch(c)) for c in "[]ab-|&~")


@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        ("[a-z]{1,5000}", "a" * 5000, "a" * 5001),
        ("(?:[a-z]{1,1000}){1,1000}", "a" * 5001, ""),
        ("(a{1,50}b){1,1000}", "ab" * 1000, "ab" * 1001),
        ("a{3000}", "a" * 3000, "a" * 2999),
        ("(a+)+b", "a" * 2000 + "b", "a" * 2000),
        ("(a|aa)+b", "a" * 2000 + "b", "a" * 2000),
        ("(x+x+)+y", "x" * 2000 + "y", "x" * 2000),
        (".*a.{24}", "b" * 50 + "a" + "c" * 24, "b" * 76),
        ("(?:a?b?){20000}c", "ab" * 99 + "c", "ab"),
        ("(.*)*=", "a=a=", "a=a"),
    ],
)
def test_what_backtracks_or_unrolls_elsewhere_is_quick(
    pattern: str, good: str, bad: str, byte_vocab: Vocabulary
) -> None:
    """The work is counted, so a limit far below an unrolled automaton is a test without a clock."""
    grammar = Compiler(byte_vocab, GrammarLimits(compile_fuel=20_000)).regex(pattern)
    assert grammar.matches(good)
    assert not grammar.matches(bad)


def test_too_much_work_is_refused_and_not_endless(byte_vocab: Vocabulary) -> None:
    compiler = Compiler(byte_vocab, GrammarLimits(compile_fuel=20_000))
    for pattern in ("(a|b)?c?" * 5000, "|".join(f"word{i}" for i in range(9000))):
        with pytest.raises(UnsupportedConstraint) as caught:
            compiler.regex(pattern)
        assert caught.value.keyword == "compile_fuel"


def test_what_is_too_hard_from_the_start_is_refused_when_it_is_compiled(byte_vocab: Vocabulary) -> None:
    pattern = "".join(f"(?:{chr(97 + i % 26)})?" for i in range(1500))
    with pytest.raises(UnsupportedConstraint):
        Compiler(byte_vocab, GrammarLimits(compile_fuel=5_000)).regex(pattern)


def test_bytes_that_are_no_text_do_not_match(bytes_compiler: Compiler) -> None:
    grammar = bytes_compiler.regex("(?s).*")
    assert grammar.matches("é".encode())
    assert not any(grammar.matches(bad) for bad in (b"\xff", b"\xc3", b"\xed\xa0\x80", "a\ud800"))


def test_named_classes_are_those_of_re() -> None:
    rng = random.Random(3)
    for letter, ascii_only in itertools.product("dws", (False, True)):
        ranges = python_class(letter, ascii_only)
        oracle = re.compile(rf"\{letter}", re.ASCII if ascii_only else 0)
        for code in [*range(700), *(rng.randrange(0x110000) for _ in range(500))]:
            assert any(a <= code <= b for a, b in ranges) == bool(oracle.match(chr(code)))


@pytest.mark.parametrize("ascii_only", [False, True])
def test_case_is_ignored_as_re_does(ascii_only: bool) -> None:
    flags = re.IGNORECASE | (re.ASCII if ascii_only else 0)
    rng = random.Random(5)
    cased = [c for c in map(chr, range(0x1E944)) if c.lower() != c or c.upper() != c]
    for _ in range(60):
        first = ord(rng.choice(cased))
        last = first + rng.choice([0, 0, 1, 5, 40])
        ranges = ignoring_case([(first, last)], (), ascii_only)
        span = f"{re.escape(chr(first))}-{re.escape(chr(last))}" if first < last else re.escape(chr(first))
        oracle = re.compile(f"[{span}]", flags)
        for char in [*rng.sample(cased, 300), chr(first), chr(first).lower()[0], chr(first).upper()[0]]:
            assert any(a <= ord(char) <= b for a, b in ranges) == bool(oracle.match(char))


@pytest.mark.corpus
def test_corpus_of_patterns(corpus_rows: Callable[[str], Iterator[dict[str, Any]]], byte_vocab: Vocabulary) -> None:
    right = total = 0
    wrong: list[str] = []
    for row in corpus_rows("regex_cases.jsonl"):
        total += 1
        try:
            grammar = Compiler(byte_vocab).regex(row["pattern"])
        except UnsupportedConstraint:
            continue
        if any(map(grammar.matches, row["no_full_match"])) or not all(map(grammar.matches, row["full_match"])):
            wrong.append(row["id"])
        else:
            right += 1
    assert not wrong
    assert right >= 0.98 * total


@pytest.mark.corpus
def test_corpus_of_reported_bugs(
    corpus_rows: Callable[[str], Iterator[dict[str, Any]]], bytes_compiler: Compiler
) -> None:
    for row in corpus_rows("grammar_bug_cases.jsonl"):
        if row["kind"] not in ("regex", "ebnf"):
            continue
        compile_ = getattr(bytes_compiler, row["kind"])
        if row["expect"] == "compile_error":
            with pytest.raises(InvalidRequest):
                compile_(row["grammar"])
            continue
        grammar = compile_(row["grammar"])
        assert all(map(grammar.matches, row["accept"])), row["id"]
        assert not any(map(grammar.matches, row["reject"])), row["id"]


def test_long_patterns_cost_what_their_length_says_or_are_refused() -> None:
    compiler = Compiler(Vocabulary([*(bytes([i]) for i in range(256)), None], [256]))
    began = time.monotonic()
    assert compiler.regex("a" * 80_000).matches("a" * 80_000)
    assert time.monotonic() - began < 10  # about one second; fifteen when every part looks at all that follow
    with pytest.raises(UnsupportedConstraint) as caught:
        compiler.regex("a" * 1_000_000)
    assert caught.value.keyword == "pattern_chars"
    assert time.monotonic() - began < 12
