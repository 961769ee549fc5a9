"""Rows of terminals: shared between places and grammars, and no different from rows computed on the spot."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

from radixrt.grammar import CompiledGrammar, Compiler, Matcher, Vocabulary, python_runner
from radixrt.grammar.limits import Fuel
from radixrt.grammar.rx import Pool, PythonPool
from radixrt.grammar.terminal_rows import SharedRows, TerminalRow

Allowed = Callable[[Matcher], set[int]]
BruteForce = Callable[[CompiledGrammar, Matcher], set[int]]
Member = Callable[[Pool, int, bytes], bool]

pytestmark = pytest.mark.usefixtures("each_pool")

STRINGS = [
    'root ::= "[" str ("," str)* "]"\nstr ::= "\\"" [^"\\x00-\\x1f]* "\\""',
    'root ::= "{" pair ("," pair)* "}"\npair ::= str ":" (str | root | [^1]+)\n'
    'str ::= "\\"" [^"\\x00-\\x1f]* "\\""',
    'root ::= (str | [^"a]* "b" | "1")+ "!"\nstr ::= "\\"" [^"\\x00-\\x1f]{0,9} "\\""',
    'root ::= x+ y\nx ::= [^a]{2,300} "a"\ny ::= .{0,300} " "',
]


@pytest.mark.parametrize("source", STRINGS)
def test_composed_rows_are_what_trying_every_token_says(
    source: str, toy_vocab: Vocabulary, allowed_ids: Allowed, brute_force: BruteForce
) -> None:
    grammar = Compiler(toy_vocab).ebnf(source)
    rng = random.Random(source)
    for _ in range(4):
        matcher = grammar.matcher()
        for _ in range(10):
            allowed = allowed_ids(matcher)
            assert allowed == brute_force(grammar, matcher)
            token = rng.choice(sorted(allowed))
            assert matcher.accept(token)
            if token in toy_vocab.eos_ids:
                break


def test_grammars_share_the_rows_of_equal_terminals(toy_vocab: Vocabulary, allowed_ids: Allowed) -> None:
    compiler = Compiler(toy_vocab)
    first, second = (compiler.ebnf(source) for source in STRINGS[:2])
    matcher = first.matcher()
    assert all(map(matcher.accept, b'["a'))
    assert allowed_ids(matcher)
    known = len(compiler._shared)
    assert known > 0
    other = second.matcher()
    assert all(map(other.accept, b'{"a'))
    assert allowed_ids(other)
    assert len(compiler._shared) == known
    assert allowed_ids(other) != allowed_ids(matcher)  # they go on differently behind the quote


def test_long_counts_share_rows(toy_vocab: Vocabulary, allowed_ids: Allowed) -> None:
    compiler = Compiler(toy_vocab)
    matcher = compiler.ebnf('root ::= "\\"" [^"]{0,5000} "\\"" "!"').matcher()
    assert matcher.accept(ord('"'))
    rows = []
    for _ in range(30):
        rows.append(allowed_ids(matcher))
        assert matcher.accept(ord("b"))
    assert all(row == rows[0] for row in rows)
    assert len(compiler._shared) == 1


def test_a_count_that_is_nearly_used_up_is_exact(toy_vocab: Vocabulary, allowed_ids: Allowed) -> None:
    matcher = Compiler(toy_vocab).ebnf('root ::= "<" [^>]{3,12} ">"').matcher()
    assert matcher.accept(ord("<"))
    for left in range(12, -1, -1):
        for token in allowed_ids(matcher):
            text = (toy_vocab.tokens[token] or b"").decode("utf-8", "ignore")
            assert len(text) <= left + 1
        assert (ord(">") in allowed_ids(matcher)) == (left <= 9)
        if left:
            assert matcher.accept(ord("b"))


@pytest.mark.parametrize("seed", range(40))
def test_clamped_terms_read_the_same_for_a_while(seed: int, pool: Pool, member: Member) -> None:
    rng = random.Random(seed)
    letters = [pool.byte_set(1 << 97), pool.byte_set(1 << 98), pool.byte_set(3 << 97)]

    def term(depth: int) -> int:
        if depth == 0:
            return rng.choice(letters)
        kind = rng.choice(["cat", "alt", "rep", "rep"])
        if kind == "rep":
            low = rng.choice([0, 1, 3, 40])
            return pool.repeat(term(depth - 1), low, rng.choice([None, low, low + 1, 90]))
        return (pool.concat if kind == "cat" else pool.alt)(term(depth - 1), term(depth - 1))

    x, depth = term(4), 4
    short = pool.clamped(x, depth)
    todo = [(x, short, 0)]
    while todo:
        a, b, length = todo.pop()
        assert pool.nullable(a) == pool.nullable(b)
        if length < depth:
            for byte in b"ab":
                after = [next((t for m, t in pool.arcs(y) if m >> byte & 1), 0) for y in (a, b)]
                assert pool.is_empty(after[0]) == pool.is_empty(after[1])
                if after[0]:
                    todo.append((after[0], after[1], length + 1))


def test_what_is_beside_an_intersection_is_clamped(pool: Pool) -> None:
    a, b = pool.literal(b"a"), pool.literal(b"b")
    both = pool.and_(pool.repeat(pool.alt(a, b), 1, 900), pool.not_(pool.repeat(a, 0, 600)))
    assert pool.clamped(pool.concat(both, pool.repeat(b, 0, 800)), 5) == pool.concat(both, pool.star(b))


def test_intersections_are_not_clamped(pool: Pool) -> None:
    """There a far count decides whether anything can follow at all."""
    a = pool.literal(b"a")
    both = pool.and_(pool.repeat(pool.alt(a, pool.literal(b"b")), 500, 900), pool.not_(pool.repeat(a, 0, 600)))
    assert pool.clamped(both, 5) == both


def test_fingerprints_tell_terms_apart_and_not_pools() -> None:
    def build(pool: Pool, variant: int) -> int:
        a, b = pool.literal(b"a"), pool.literal(b"bc")
        return [
            pool.alt(a, b),
            pool.concat(a, b),
            pool.repeat(b, 1, 3),
            pool.repeat(b, 1, 4),
            pool.not_(pool.star(b)),
            pool.closed(pool.concat(pool.star(a), pool.behind(0, True), b), (pool.concat(pool.all, a),)),
            pool.closed(pool.concat(pool.star(a), pool.behind(0, False), b), (pool.concat(pool.all, a),)),
            pool.closed(pool.concat(pool.star(pool.concat(pool.ahead(pool.all), a)), pool.ahead(a), b)),
        ][variant]

    one, other = PythonPool(Fuel(10**6, "test")), PythonPool(Fuel(10**6, "test"))
    for noise in (b"zz", b"c", b"bc", b"yy"):
        other.alt(other.literal(noise), other.plus(other.literal(noise + b"a")))
    variants = range(7)
    prints = [one.fingerprint(build(one, i)) for i in variants]
    assert len(set(prints)) == len(variants)
    assert prints == [other.fingerprint(build(other, i)) for i in variants]


def test_shared_rows_are_bounded_in_bytes() -> None:
    row = TerminalRow(np.zeros(100, np.uint32), ())
    shared = SharedRows(3 * row.nbytes)
    for i in range(6):
        shared.put(bytes([i]), row)
        assert shared.get(bytes([0])) is (row if i < 6 else None)  # 0 stays: it is asked for
    assert shared.nbytes == 3 * row.nbytes
    assert shared.get(bytes([1])) is None


def test_many_open_terminals_take_one_walk(
    toy_vocab: Vocabulary, allowed_ids: Allowed, brute_force: BruteForce, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = "root ::= " + " | ".join(f'[^{c}]+ "{c}" x' for c in "ab1{}:,") + '\nx ::= "a" x | ""'
    for many in (0, 100):
        monkeypatch.setattr(python_runner, "_MANY", many)
        grammar = Compiler(toy_vocab).ebnf(source)
        matcher = grammar.matcher()
        for byte in b"b1a":
            assert allowed_ids(matcher) == brute_force(grammar, matcher)
            assert matcher.accept(byte)
