"""Grammars in GBNF notation."""

from __future__ import annotations

from typing import Any

import pytest

from radixrt.errors import InvalidRequest, UnsatisfiableConstraint, UnsupportedConstraint
from radixrt.grammar import Compiler, GrammarLimits, Vocabulary
from radixrt.grammar.cfg import GrammarBuilder
from radixrt.grammar.ebnf import ebnf_symbol
from radixrt.grammar.rules import is_terminal
from radixrt.grammar.token_symbols import TokenSymbols

CASES: dict[str, tuple[list[str], list[str]]] = {
    'root ::= "a" | "b"': (["a", "b"], ["", "ab"]),
    'root ::= root "a" | "b"': (["b", "ba", "baaaa"], ["", "a", "ab", "bb"]),
    'root ::= "(" root ")" | ""': (["", "()", "((()))"], ["(", "())", ")("]),
    'root ::= a\na ::= a "x" | b | ""\nb ::= a': (["", "x", "xxxx"], ["y", "xy"]),
    'root ::= a "z"\na ::= b "x" | "p"\nb ::= a "y" | "q"': (["pz", "qxz", "pyxz", "qxyxz"], ["pxz", "z", "qz"]),
    'root ::= n root "x" | "y"\nn ::= "" | "n"': (["y", "yx", "nyx", "nnyxx"], ["ny", "x"]),
    "root ::= [а-я]+": (["привет", "а"], ["", "hello", "ПРИВЕТ", "приветz"]),
    'root ::= [^a-z\\n"]*': (["", "A1é😀"], ["a", "\n", '"']),
    'root ::= "\\x41\\u00e9\\U0001F600\\n\\t\\\\\\"" [\\x00-\\x1f\\]\\-\\^]': (
        ['Aé😀\n\t\\"]', 'Aé😀\n\t\\"-'],
        ["A"],
    ),
    "root ::= 'it''s'": (["its"], ["it's"]),
    "root ::= [a-]": (["a", "-"], ["b"]),
    "root ::= .": (["a", "\n", "😀"], ["", "ab"]),
    'root ::= ("a" | "b" "c")* "d"?': (["", "abcad", "d"], ["b", "dd"]),
    'root ::= "a"{2}': (["aa"], ["a", "aaa"]),
    'root ::= "a"{2,}': (["aa", "aaaa"], ["a"]),
    'root ::= "a"{1,3}': (["a", "aaa"], ["", "aaaa"]),
    'root ::= "a"{,2}': (["", "aa"], ["aaa"]),
    'root ::= ("(" root ")"){2,3} | "x"': (["x", "(x)(x)", "(x)(x)((x)(x))"], ["(x)", "", "(x)(x)(x)(x)"]),
    'root ::= item (", " item)*\nitem ::= "x" | "[" root "]"': (["x", "x, x", "[x, [x]], x"], ["x,", "[]"]),
    '# head\nroot ::= # first\n  "a" # more\n  | b-1\n\n\nb-1\n ::= "b"\n  "c"': (["a", "bc"], ["b", "c"]),
    "root ::= \n": ([""], ["a"]),
    'root ::= "" | "a" root': (["", "aa"], ["b"]),
    'root ::= ("a"?)* "b"': (["b", "aab"], ["", "a"]),
    'root ::= (r*)* "b"\nr ::= "" | "a" r "c"': (["b", "acacb", "aaccb"], ["acab"]),
    'root ::= dead | "a"\ndead ::= dead "x"': (["a"], ["x", "ax"]),
    'root ::= "a"\nunused ::= other\nother ::= "b"': (["a"], ["b"]),
    'root ::= "\\x00"': (["\0"], [""]),
    'root ::= b n\nb ::= c n\nc ::= "c"\nn ::= "(" n ")" | ""': (["c", "c()()", "c(())()"], ["c()()()", "()"]),
    'root ::= b n\nb ::= c n\nc ::= "c"\nn ::= "(" n ")" n | ""': (["c", "c()()()", "c(())()"], ["c(", "()"]),
}


@pytest.mark.parametrize("text", CASES)
def test_features(text: str, bytes_compiler: Compiler) -> None:
    grammar = bytes_compiler.ebnf(text)
    good, bad = CASES[text]
    assert [t for t in good if not grammar.matches(t)] == []
    assert [t for t in bad if grammar.matches(t)] == []


@pytest.mark.parametrize(
    ("text", "place", "problem"),
    [
        ('root ::= "a" | b', "1:16", "not defined"),
        ('root ::= "a"\nroot ::= "b"', "2:1", "twice"),
        ('start ::= "a"', "1:1", "no rule 'root'"),
        ("", "1:1", "no rule 'root'"),
        ('root ::= "a', "1:10", "not closed"),
        ('root ::= "a\nb"', "1:10", "not closed"),
        ("root ::= [a", "1:10", "not closed"),
        ('root ::= ("a"', "1:10", "missing )"),
        ('root ::= "a")', "1:13", "unbalanced"),
        ('root ::= "a"{2', "1:13", "expected {m}"),
        ('root ::= "a"{3,2}', "1:13", "out of order"),
        ("root ::= [b-a]", "1:12", "out of order"),
        ('root ::= "\\q"', "1:11", "escape"),
        ('root ::= "\\x4"', "1:11", "escape"),
        ('root ::= "\\U00110000"', "1:11", "10FFFF"),
        ('root ::= "\\ud800"', "1:11", "surrogate"),
        ('root = "a"', "1:1", "expected a rule"),
        ('root ::= "a"\n  %', "2:3", "unexpected"),
        ("root ::= *", "1:10", "unexpected"),
        ('root ::= "a"{4294967296}', "1:13", "more than"),
    ],
)
def test_errors_say_where(text: str, place: str, problem: str, bytes_compiler: Compiler) -> None:
    with pytest.raises(InvalidRequest) as caught:
        bytes_compiler.ebnf(text)
    assert caught.value.param == "grammar"
    assert problem in caught.value.message
    assert caught.value.message.endswith(f" at {place}")


@pytest.mark.parametrize("text", ['root ::= root "a"', "root ::= a\na ::= b\nb ::= a", "root ::= []"])
def test_a_grammar_without_texts_is_unsatisfiable(text: str, bytes_compiler: Compiler) -> None:
    with pytest.raises(UnsatisfiableConstraint):
        bytes_compiler.ebnf(text)


def test_nesting_is_served_without_recursion(bytes_compiler: Compiler) -> None:
    deep = 60_000
    grammar = bytes_compiler.ebnf("root ::= " + "(" * deep + '"a" | "b"' + ")" * deep)
    assert grammar.matches("b")


def test_chains_of_rules_are_served_without_recursion(bytes_compiler: Compiler) -> None:
    links = 5_000
    rules = "\n".join(f"r{i} ::= r{i + 1}" for i in range(links))
    assert bytes_compiler.ebnf(f'root ::= r0\n{rules}\nr{links} ::= "a"').matches("a")
    rules = "\n".join(f'r{i} ::= "(" r{i + 1} ")" | "x"' for i in range(links))
    assert bytes_compiler.ebnf(f'root ::= r0\n{rules}\nr{links} ::= "a"').matches("((x))")


@pytest.mark.parametrize("text", ['root ::= "a"\n  (?=b)', 'root ::= "a"\n  (= "b")', 'root ::= "a"\n  (?!b)'])
def test_lookahead_is_refused_by_name(text: str, bytes_compiler: Compiler) -> None:
    with pytest.raises(UnsupportedConstraint) as caught:
        bytes_compiler.ebnf(text)
    assert (caught.value.keyword, caught.value.location) == ("lookahead", "2:3")


@pytest.mark.parametrize(
    ("text", "matching"),
    [
        ("root ::= a" + " " * 100_000 + "\na ::= []", False),
        ("root ::= a " + "#" * 100_000 + '\na ::= "a"', True),
        ("root ::= " + "# x\n" * 50_000 + '"a"', True),
        ("root ::= " + "a " * 50_000 + '\na ::= "a"?', True),
        ("root ::= " + '"a" | ' * 50_000, True),
    ],
)
def test_blanks_and_long_bodies_cost_no_more_than_their_length(
    text: str, matching: bool, bytes_compiler: Compiler
) -> None:
    if matching:
        assert bytes_compiler.ebnf(text).matches("a")
    else:
        with pytest.raises(UnsatisfiableConstraint):
            bytes_compiler.ebnf(text)


def test_rules_that_are_regular_become_terminals(builder: GrammarBuilder, byte_vocab: Vocabulary) -> None:
    text = 'root ::= digit{2} (sep digit){3}\nsep ::= "-" | gap\ngap ::= " "\ndigit ::= [0-9]'
    symbol = ebnf_symbol(builder, text, GrammarLimits(), TokenSymbols(builder.pool, byte_vocab))
    assert is_terminal(symbol)


@pytest.mark.parametrize("value", [None, 5, b"root ::= []"])
def test_a_grammar_is_a_string(value: Any, bytes_compiler: Compiler) -> None:
    with pytest.raises(InvalidRequest) as caught:
        bytes_compiler.ebnf(value)
    assert caught.value.param == "grammar"


@pytest.mark.parametrize("name", ["Token", "ExcludeToken", "TagDispatch", "TokenTagDispatch"])
def test_calls_of_another_notation_are_refused_by_name(name: str, bytes_compiler: Compiler) -> None:
    with pytest.raises(UnsupportedConstraint) as caught:
        bytes_compiler.ebnf(f'root ::= "a"\n  {name}(("x", root))')
    assert (caught.value.keyword, caught.value.location) == (name, "2:3")
    own = bytes_compiler.ebnf(f'root ::= {name}("b")\n{name} # a rule of that name\n ::= "a"')
    assert own.matches("ab")
