"""Grammars in Lark notation."""

from __future__ import annotations

from typing import Any

import pytest

from radixrt.errors import InvalidRequest, UnsatisfiableConstraint, UnsupportedConstraint
from radixrt.grammar import Compiler, Vocabulary
from radixrt.grammar.lark_terminals import COMMON, _laziness

CASES: dict[str, tuple[list[str], list[str]]] = {
    'start: "a" | "b"': (["a", "b"], ["", "ab"]),
    'start: start "a" | "b"': (["b", "baa"], ["", "a", "ab"]),
    'start: "(" start ")" |': (["", "()", "((()))"], ["(", "())"]),
    'start: a\na: a "x" | b | ""\nb: a': (["", "x", "xxxx"], ["y"]),
    'start: ("list" | "listen") "ed"': (["listed", "listened"], ["list", "listeneed"]),
    'start: A B\nA: "a" | "ab"\nB: "b"': (["ab", "abb"], ["a", "abbb"]),
    'start: "select"i NAME\nNAME: /[a-z]+/i': (["SELECTx", "SelectAb"], ["select", "selec"]),
    'start: "K"i': (["k", "K", "\u212a"], ["x"]),
    "start: /a.c/s /x/i": (["a\ncX", "abcx"], ["acx"]),
    "start: /(?i)ab/m": (["AB"], ["b"]),
    "start: /a b # c\\n/x": (["ab"], ["a b"]),
    'start: "a"~3 "b"~1..2': (["aaab", "aaabb"], ["aab", "aaabbb"]),
    'start: "a"{3} "b"{1,2} "c"{,1} "d"{2,}': (["aaabdd", "aaabbcddd"], ["aaabd", "aaabccdd"]),
    'start: "a" ~ 0..1 b?\nb: "b"+': (["", "abb"], ["aa"]),
    'start: ["a" "b"] ("c" | "d")*': (["", "abcd", "dc"], ["a", "ac"]),
    'start: "a".."c" "\\u00e9".."\\u00eb"': (["bê"], ["dé", "bf"]),
    'start: "\\x41\\n\\t\\"\\\\\\/\\u00e9\\ud83d\\ude00\\U0001F600"': (['A\n\t"\\/é😀😀'], ["A"]),
    '?start: x | _y -> other\n!x.2: A\nA.-1: "a"\n?!_y.3: "b"\n': (["a", "b"], ["ab"]),
    'start: a -> first\n    | b -> second\n\n    | "c"\na: "a"\nb: "b"': (["a", "b", "c"], ["d"]),
    'start: ("a"\n   | "b"\n  ) "c" // note\n# more\n': (["ac", "bc"], ["c"]),
    'start: sep{/[0-9]/, ","}\nsep{x, s}: x (s x)*': (["1", "1,2,3"], ["", "1,", "12"]),
    'start: pair{word, pair{D, "-"}}\npair{x, y}: x y\nword: "a"\nD: "1"': (["a1-"], ["a1", "1-"]),
    'start: n{"x"}\nn{a}: a | "(" n{a} ")"': (["x", "((x))"], ["(x", "()"]),
    'start: r{A}\nr{y}: y r{B} | y\nA: "a"\nB: "b"': (["a", "ab", "abb"], ["b", "aa"]),
    "%import common.INT\n%import common (WS, WORD)\n%import common.INT -> N\n%ignore WS\nstart: WORD INT N": (
        ["a 12", " ab\t1 2 ", "a123"],
        ["a1", "1 a", "a 1 2 3 x"],
    ),
    'start: "a" "b"\n%ignore " "\n%ignore /#[^\\n]*\\n/': (["ab", " a # x\n b ", "#\nab"], ["a#b"]),
    "start: A\nA: /[0-9]+/ & ~/0.*/ | B\nB: ~(/.*/ | C)+ & /[a\\n]{2}/\nC: /a\\n/": (
        ["1", "10", "\n\n", "\na"],
        ["0", "01", "", "aa", "a\n"],
    ),
    'start: A\nA: "a" "b" & /a./ | ~~"x"': (["ab", "x"], ["a", "xx"]),
    "start: A B\nA: ~/x*/ & /x?y?/\nB: ~B1\nB1: /.+/s": (["y", "xy"], ["", "x", "yy"]),
    'start: head tail\nhead[lazy]: /.*/s "<x>"\ntail: /.*/': (["<x>", "a<x>", "<<x>b<x>"], ["", "<x>\n", "<x"]),
    'start: text "!"\ntext[suffix="aa"]: /a*/': (["aa!"], ["a!", "aaa!", "aaaa!"]),
    'start: t\nt[lazy, suffix=E]: /[a-z]*/\nE: ";"': (["ab;"], ["ab", "a;;"]),
    'start: C "x"\nC: /\\/\\*(.|\\n)*?\\*\\//': (["/**/x", "/* a\n*/x"], ["/* */ */x", "/*/x"]),
    'start: /".*?"/ /a{2}/': (['"b"aa'], ['"b""aa']),
    'start: %json {"type": "array", "items": {"const": 1}} "!"': (["[1, 1]!", "[]!"], ["[1]", "[2]!"]),
    'start[capture]: a\na[capture="x", lazy]: /[a-z]*;/': (["ab;"], ["ab", "a;;"]),
    "start: /[[\\]:alph]/ /[:a]/": ([":a", "[:"], ["b:"]),
    'start: %json {  # {one}\n "enum": ["#a", "//"]  // "two"\n, "title": "/" # }\n}\n': (
        ['"#a"', '"//"'],
        ['"a"'],
    ),
    'start: a | b\na: %json {"enum": ["{\\"}"]}\nb: %json true\n': (['"{\\"}"', "[1]"], ["x"]),
    '%ignore " "\nstart: %json {"type": "null"} ","': (["null ,", " null,"], ["n ull,"]),
    'start: S\nS: %regex {"substring_chunks": ["ab", "c", "d"]}': (["", "ab", "cd", "abcd"], ["b", "abd"]),
    'start: %regex {"substring_words": "to be, or"}': (["to be", " be,", "or"], ["o be", "e"]),
    'start: %regex {"substring_chars": "abca"}': (["bc", "ca", "a"], ["ac"]),
    'start: my-rule\nmy-rule: "a"->x': (["a"], ["b"]),
    'start: "a" dead | "b"\ndead: "x" dead': (["b"], ["ax"]),
    'start: A?\nA: "a"?': (["", "a"], ["aa"]),
    '%llguidance {}\n%llguidance { "no_forcing": true }\nstart: "a"': (["a"], []),
    'start: a |\na: "a" | | "b"': (["", "a", "b"], ["ab"]),
    'start: "a"\r\n  | "b"\r\n': (["a", "b"], []),
    'start: x x\nx: ("a" | "b"+)? "c"': (["cc", "acbbc"], ["c", "abcc"]),
}


@pytest.mark.parametrize("text", CASES)
def test_features(text: str, bytes_compiler: Compiler) -> None:
    grammar = bytes_compiler.lark(text)
    good, bad = CASES[text]
    assert [t for t in good if not grammar.matches(t)] == []
    assert [t for t in bad if grammar.matches(t)] == []


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("INT", ["0", "12"], ["", "-1"]),
        ("SIGNED_INT", ["+1", "-1", "1"], ["1.0"]),
        ("DECIMAL", ["1.", ".5", "1.5"], ["1", "."]),
        ("FLOAT", ["1.5", "1e5", ".5E-3", "1."], ["1"]),
        ("NUMBER", ["1", "1.5e+3"], ["-1", "e3"]),
        ("SIGNED_NUMBER", ["-1", "+.5"], ["--1"]),
        ("ESCAPED_STRING", ['""', '"a\\"b"', '"\\\\"'], ['"', '"a"b"', '"\\"', '"\n"']),
        ("WORD", ["aB"], ["a1"]),
        ("CNAME", ["_a1"], ["1a"]),
        ("WS", [" \t\r\n\f"], [""]),
        ("WS_INLINE", [" \t"], ["\n"]),
        ("NEWLINE", ["\n", "\r\n\n"], ["\r"]),
        ("HEXDIGIT", ["f", "A", "0"], ["g"]),
        ("C_COMMENT", ["/**/", "/***/", "/* a * b */"], ["/*/", "/**/*/"]),
        ("SH_COMMENT", ["# a"], ["# a\n"]),
        ("SQL_COMMENT", ["-- a"], ["- a"]),
        ("CPP_COMMENT", ["// a"], ["/ a"]),
    ],
)
def test_the_common_library(name: str, good: list[str], bad: list[str], bytes_compiler: Compiler) -> None:
    grammar = bytes_compiler.lark(f"%import common.{name}\nstart: {name}")
    assert [t for t in good if not grammar.matches(t)] == []
    assert [t for t in bad if grammar.matches(t)] == []


def test_the_whole_library_can_be_imported(bytes_compiler: Compiler) -> None:
    imports = "\n".join(f"%import common.{name}" for name in COMMON)
    assert bytes_compiler.lark(f"{imports}\nstart: {' '.join(name + '?' for name in COMMON)}").matches("")


@pytest.mark.parametrize(
    ("text", "place", "problem"),
    [
        ("start: a", "1:8", "'a' is used but not defined"),
        ("start: A", "1:8", "'A' is used but not defined"),
        ('start: A\nA: "x" B', "2:8", "'B' is used but not defined"),
        ('start: "a"\nstart: "b"', "2:1", "twice"),
        ('%import common.INT\nINT: "a"\nstart: INT', "2:1", "twice"),
        ('root: "a"', "1:1", "no rule 'start'"),
        ("", "1:1", "no rule 'start'"),
        ("start: A\nA: A", "2:1", "made of itself"),
        ('start: A\nA: "x" | B\nB: A', "3:1", "made of itself"),
        ('start: "a', "1:8", "not closed"),
        ("start: /a", "1:8", "not closed"),
        ('start: ("a"', "1:8", "missing )"),
        ('start: ("a"]', "1:12", "unbalanced ]"),
        ('start: "a")', "1:11", "unbalanced )"),
        ('start "a"', "1:7", "expected ':'"),
        ('start: "a"{3,2}', "1:11", "out of order"),
        ('start: "a"~3..2', "1:11", "out of order"),
        ('start: "a"{-1}', "1:12", "counted from 0"),
        ('start: "b".."a"', "1:8", "out of order"),
        ('start: "bc".."d"', "1:8", "one character"),
        ('start: "\\q"', "1:9", "escape"),
        ('start: "\\u12"', "1:9", "escape"),
        ("start: /(/", "1:8", "regular expression"),
        ("start: /a/q", "1:8", "flag 'q'"),
        ("start: *", "1:8", "unexpected '*'"),
        ("start: $", "1:8", "unexpected '$'"),
        ('start: "a" -> ', "1:15", "expected an alias"),
        ('start: "a" -> b "c"', "1:12", "end of an alternative"),
        ('start: "a" & "b"', "1:8", "belong in terminals"),
        ('start: ~"a"', "1:8", "belong in terminals"),
        ('start: A\nA: "a" ~', "2:8", "stands before"),
        ('start: A\nA: b\nb: "b"', "2:4", "made of strings"),
        ("start: A\nA: <[1]>", "2:4", "made of strings"),
        ("start: A\nA: %json {}", "2:4", "made of strings"),
        ("start: t\nt{x}: x", "1:8", "needs arguments"),
        ('start: t{"a", "b"}\nt{x}: x', "1:8", "takes 1 arguments"),
        ('start: t{"a"}', "1:8", "no template"),
        ("start: t{A}\nt{x, x}: x", "2:1", "twice"),
        ("start[lazy: /a/", "1:11", "',' or ']'"),
        ("start[odd]: /a/", "1:7", "'odd' is not known"),
        ("start[lazy]: b\nb: /a/", "1:14", "made of strings"),
        ("A[lazy]: /a/\nstart: A", "1:1", "no attributes"),
        ("%import common.NOTHING", "1:16", "no terminal 'NOTHING'"),
        ("%import common.INT x", "1:20", "end of the line"),
        ("%what\nstart:", "1:1", "'%what'"),
        ('start: %json {"a": [}', "1:8", "braces that are closed"),
        ('start: %json {"type": 5}', "1:8", "type"),
        ("start: %regex {", "1:8", "braces that are closed"),
        ('start: %regex {"substring_words": 5}', "1:8", "takes a string"),
        ("start: <nothing>", "1:8", "no token"),
    ],
)
def test_errors_say_where(text: str, place: str, problem: str, bytes_compiler: Compiler) -> None:
    with pytest.raises(InvalidRequest) as caught:
        bytes_compiler.lark(text)
    assert not isinstance(caught.value, UnsupportedConstraint)
    assert caught.value.param == "grammar"
    assert problem in caught.value.message
    assert caught.value.message.endswith(f" at {place}")


@pytest.mark.parametrize(
    ("text", "keyword", "place"),
    [
        ("%declare _INDENT\nstart: _INDENT", "%declare", "1:1"),
        ('%override start: "a"', "%override", "1:1"),
        ('%extend start: "a"', "%extend", "1:1"),
        ("%import python.NAME\nstart: NAME", "%import", "1:1"),
        ("%import .other.NAME\nstart: NAME", "%import", "1:1"),
        ('%llguidance {"skip_repetition": "once"}\nstart: "a"', "%llguidance", "1:1"),
        ("start: @other", "grammar reference", "1:8"),
        ("start: a\na::_: b", "parametric rule", "2:1"),
        ("start[max_tokens=5]: /a*/", "max_tokens", "1:7"),
        ("start[lazy, temperature=1]: /a*/", "temperature", "1:13"),
        ("start[capture, min_tokens=1]: /a*/", "min_tokens", "1:16"),
        ('start: %lark {"a"}', "%lark", "1:8"),
        ('%grammar_options {"a": 1}\nstart: "a"', "%grammar_options", "1:1"),
        ("start: A\nA: /[a[:digit:]]+/", "POSIX class", "2:4"),
        ("start: /x[[:^alpha:]]/", "POSIX class", "1:8"),
        ("%import common._STRING_ESC_INNER\nstart: _STRING_ESC_INNER", "lazy repetition", "1:16"),
        ('start[stop="x"]: /a*/', "stop", "1:7"),
        ("start: /(a)\\1/", "back-reference", "1:8"),
        ("start: /a+b*?/", "lazy repetition", "1:8"),
        ('start: %json {"$ref": "https://example.com/x"}', "$ref", "1:8"),
        ('start: %regex {"pattern": "a"}', "%regex", "1:8"),
        ('start: A{"a"}\nA{X}: X', "template", "1:8"),
        ("start: <[256]>", "token symbol", "1:8"),
        ("start: <[*]>{2}", "token symbol", "1:13"),
        ('start: f{"a"}\nf{x}: x f{g{x}}\ng{x}: x x', "template", "2:9"),
        ("start: " + "t{" * 100 + '"a"' + "}" * 100, "nesting", "1:72"),
    ],
)
def test_what_is_beyond_the_engine_is_refused_by_name(
    text: str, keyword: str, place: str, bytes_compiler: Compiler
) -> None:
    with pytest.raises(UnsupportedConstraint) as caught:
        bytes_compiler.lark(text)
    assert (caught.value.keyword, caught.value.location, caught.value.param) == (keyword, place, "grammar")


@pytest.mark.parametrize("text", ['start: start "a"', "start: A\nA: /a/ & /b/", 'start: "a" b\nb: b'])
def test_a_grammar_without_texts_is_unsatisfiable(text: str, bytes_compiler: Compiler) -> None:
    with pytest.raises(UnsatisfiableConstraint):
        bytes_compiler.lark(text)


@pytest.mark.parametrize(
    "text",
    [
        "start: " + "(" * 60_000 + '"a"' + ")" * 60_000,
        "start: " + "[" * 60_000 + '"a"' + "]" * 60_000,
        "start: A\nA: " + "(" * 60_000 + '"a"' + ")" * 60_000,
        "start: A0\n" + "\n".join(f"A{i}: A{i + 1}" for i in range(5_000)) + '\nA5000: "a"',
        "start: a0\n" + "\n".join(f"a{i}: a{i + 1}" for i in range(5_000)) + '\na5000: "a"',
        "start: " + '"a" | ' * 20_000 + '"b"',
        "start: " + '"a"? ' * 20_000,
        "// x\n" * 50_000 + 'start: "a"',
    ],
    ids=lambda text: text[:20],
)
def test_depth_and_length_cost_no_stack(text: str, bytes_compiler: Compiler) -> None:
    assert bytes_compiler.lark(text).matches("a")


def test_ignored_text_is_not_ignored_inside_terminals_and_json(bytes_compiler: Compiler) -> None:
    grammar = bytes_compiler.lark('%ignore "_"\nstart: "ab" A %json {"type": "string"}\nA: "c" "d"')
    assert grammar.matches('_ab__cd_"a_"_')
    for text in ('a_bcd""', 'abc_d""', 'abcd"_a'):
        assert not grammar.matches(text)


def test_token_symbols_may_be_ignored_around() -> None:
    vocab = Vocabulary([bytes([i]) for i in range(128)] + [None, None], [128], [129], special_names={"<|t|>": 129})
    matcher = Compiler(vocab).lark('%ignore " "\nstart: "a" <|t|> "b" <[^129]>*').matcher()
    for token in (ord("a"), 32, 129, 32, ord("b"), ord("x")):
        assert matcher.accept(token)
    assert not matcher.accept(129)
    assert matcher.is_accepting


@pytest.mark.parametrize(
    ("pattern", "lazy"),
    [
        ("a*?b", {True}),
        ("a+b", {False}),
        ("(?:a|b)*?c", {True}),
        ("[*?]+?", {True}),
        ("[]*]x", set()),
        ("a{3}b{2,2}", set()),
        ("a{2,3}?", {True}),
        (r"\*?x\+??", {True, False}),
        ("(?P<n>x)??(?#a*)", {True}),
        ("#a*?", {True}),
        ("x*+", {False}),
    ],
)
def test_laziness_of_patterns(pattern: str, lazy: set[bool]) -> None:
    assert _laziness(pattern, verbose=False) == lazy


@pytest.mark.parametrize("value", [None, 5, b"start: A"])
def test_a_grammar_is_a_string(value: Any, bytes_compiler: Compiler) -> None:
    with pytest.raises(InvalidRequest) as caught:
        bytes_compiler.lark(value)
    assert caught.value.param == "grammar"
