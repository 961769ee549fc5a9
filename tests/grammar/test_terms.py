"""Terms against a naive matcher: every law the constructors use, on random expressions over two letters.

All of it holds for the pool in Python and for the native one.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from functools import cache

import pytest

from radixrt.errors import UnsupportedConstraint
from radixrt.grammar.limits import Fuel
from radixrt.grammar.rx import EMPTY, NONE, Pool, PythonPool
from radixrt.grammar.utf8 import ALL_CHARACTERS, complement, intersect, normalized, unite
from radixrt.kernels.cpu.terms import NativePool

Member = Callable[[Pool, int, bytes], bool]
STRINGS = [bytes(s) for n in range(7) for s in itertools.product(b"ab", repeat=n)]
Tree = tuple  # ("set", letters) | ("cat"|"alt"|"and", left, right) | ("not", x) | ("rep", x, low, high)


@pytest.fixture(params=["python", "native"])
def make_pool(request: pytest.FixtureRequest) -> Callable[[int], Pool]:
    """Makes a pool with so much fuel, whose name is ``test``."""
    if request.param == "native":
        return lambda amount: NativePool(amount, "test")
    return lambda amount: PythonPool(Fuel(amount, "test"))


@pytest.fixture
def pool(make_pool: Callable[[int], Pool]) -> Pool:
    return make_pool(10**7)


def random_tree(rng: random.Random, depth: int) -> Tree:
    if depth == 0 or rng.random() < 0.2:
        return ("set", rng.choice([b"a", b"b", b"ab", b""]))
    kind = rng.choice(["cat", "cat", "alt", "alt", "and", "not", "rep", "rep"])
    if kind == "not":
        return (kind, random_tree(rng, depth - 1))
    if kind == "rep":
        low = rng.randint(0, 3)
        return (kind, random_tree(rng, depth - 1), low, rng.choice([None, low, low + 1, low + 2]))
    return (kind, random_tree(rng, depth - 1), random_tree(rng, depth - 1))


@cache
def naive(tree: Tree, text: bytes) -> bool:
    """Membership by definition."""
    kind = tree[0]
    if kind == "set":
        return text == b"" if tree[1] == b"" else len(text) == 1 and text in tree[1]
    if kind == "alt":
        return naive(tree[1], text) or naive(tree[2], text)
    if kind == "and":
        return naive(tree[1], text) and naive(tree[2], text)
    if kind == "not":
        return not naive(tree[1], text)
    if kind == "cat":
        return any(naive(tree[1], text[:i]) and naive(tree[2], text[i:]) for i in range(len(text) + 1))
    x, low, high = tree[1:]
    if low == 0 and text == b"":
        return True
    if high == 0:
        return False
    rest = ("rep", x, max(low - 1, 0), None if high is None else high - 1)
    first = 0 if low > 0 else 1  # a round that reads nothing counts only while rounds are owed
    return any(naive(x, text[:i]) and naive(rest, text[i:]) for i in range(first, len(text) + 1))


def build(pool: Pool, tree: Tree) -> int:
    kind = tree[0]
    if kind == "set":
        return pool.byte_set(sum(1 << b for b in tree[1])) if tree[1] else EMPTY
    if kind == "not":
        return pool.not_(build(pool, tree[1]))
    if kind == "rep":
        return pool.repeat(build(pool, tree[1]), tree[2], tree[3])
    make = {"cat": pool.concat, "alt": pool.alt, "and": pool.and_}[kind]
    return make(build(pool, tree[1]), build(pool, tree[2]))


@pytest.mark.parametrize("seed", range(120))
def test_random_expressions_mean_what_they_say(seed: int, pool: Pool, member: Member) -> None:
    tree = random_tree(random.Random(seed), 5)
    term = build(pool, tree)
    wrong = [s for s in STRINGS if member(pool, term, s) != naive(tree, s)]
    assert not wrong
    if pool.is_empty(term):
        assert not any(naive(tree, s) for s in STRINGS)


def test_arcs_have_disjoint_sets_of_bytes_and_live_targets(pool: Pool) -> None:
    for seed in range(40):
        seen, todo = set(), [build(pool, random_tree(random.Random(seed), 5))]
        while todo and len(seen) < 200:
            term = todo.pop()
            if term in seen:
                continue
            seen.add(term)
            covered = 0
            for mask, target in pool.arcs(term):
                assert mask
                assert not mask & covered
                assert target != NONE
                covered |= mask
                todo.append(target)


def test_bounds_on_length_hold(pool: Pool, member: Member) -> None:
    for seed in range(60):
        term = build(pool, random_tree(random.Random(1000 + seed), 4))
        lengths = {len(s) for s in STRINGS if member(pool, term, s)}
        assert all(pool.shortest(term) <= n <= pool.longest(term) for n in lengths)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (lambda p, a: p.repeat(p.repeat(a, 1, 1000), 1, 1000), lambda p, a: p.repeat(a, 1, 1_000_000)),
        (lambda p, a: p.plus(p.plus(a)), lambda p, a: p.plus(a)),
        (lambda p, a: p.star(p.opt(a)), lambda p, a: p.star(a)),
        (lambda p, a: p.concat(p.star(a), p.star(a)), lambda p, a: p.star(a)),
        (lambda p, a: p.concat(a, p.repeat(a, 2, 4), a), lambda p, a: p.repeat(a, 4, 6)),
        (lambda p, a: p.alt(p.repeat(a, 1, 3), p.repeat(a, 4, 9)), lambda p, a: p.repeat(a, 1, 9)),
        (lambda p, a: p.alt(a, p.repeat(a, 2, 9)), lambda p, a: p.repeat(a, 1, 9)),
        (lambda p, a: p.not_(p.not_(a)), lambda p, a: a),
        (lambda p, a: p.not_(p.not_(EMPTY)), lambda p, a: EMPTY),
        (lambda p, a: p.and_(a, p.not_(a)), lambda p, a: NONE),
        (lambda p, a: p.and_(p.repeat(a, 5, 6), p.repeat(a, 1, 4)), lambda p, a: NONE),
    ],
)
def test_equal_languages_that_must_become_one_term(
    left: Callable[[Pool, int], int], right: Callable[[Pool, int], int], pool: Pool
) -> None:
    a = pool.literal(b"a")
    assert left(pool, a) == right(pool, a)


def test_a_gap_in_nested_counts_is_kept(pool: Pool, member: Member) -> None:
    def lengths(term: int) -> list[int]:
        return [n for n in range(12) if member(pool, term, b"a" * n)]

    a = pool.literal(b"a")
    assert lengths(pool.repeat(pool.repeat(a, 3, 4), 1, 2)) == [3, 4, 6, 7, 8]
    assert lengths(pool.repeat(pool.repeat(a, 2, 3), 0, 2)) == [0, 2, 3, 4, 5, 6]
    assert lengths(pool.repeat(pool.repeat(a, 4, 5), 2, None)) == [8, 9, 10]
    assert lengths(pool.alt(pool.repeat(a, 1, 2), pool.repeat(a, 4, 5), EMPTY)) == [0, 1, 2, 4, 5]


def test_depth_costs_no_stack(pool: Pool, member: Member) -> None:
    term = pool.literal(b"a")
    for _ in range(250):
        term = pool.alt(pool.star(pool.concat(term, pool.literal(b"b"))), pool.literal(b"c"))
    assert member(pool, term, b"c")
    long = pool.concat(*(pool.opt(pool.byte_set(1 << (97 + i % 3))) for i in range(3000)))
    assert pool.nullable(long)
    assert pool.shortest(long) == 0


@pytest.mark.parametrize(
    "ranges",
    [
        ((0, 0x10FFFF),),
        ((0x61, 0x61),),
        ((0x7F, 0x80),),
        ((0x7FF, 0x800),),
        ((0xD700, 0xE001),),
        ((0xFFFF, 0x10000),),
        ((0x1F600, 0x1F64F), (0x3B1, 0x3C9)),
        ((0x10FFFF, 0x10FFFF),),
    ],
)
def test_characters_are_spelled_in_utf8(ranges: tuple[tuple[int, int], ...], pool: Pool, member: Member) -> None:
    term = pool.chars(ranges)
    edges = {c + d for r in ranges for c in r for d in (-1, 0, 1)} | {0, 0x7F, 0x80, 0x7FF, 0x800, 0xFFFF, 0x10000}
    for code in edges:
        if not 0 <= code <= 0x10FFFF:
            continue
        inside = any(a <= code <= b for a, b in ranges) and not 0xD800 <= code <= 0xDFFF
        data = chr(code).encode("utf-8", "surrogatepass")
        assert member(pool, term, data) == inside
        assert not any(member(pool, term, data[:i]) for i in range(len(data)))
    assert not any(member(pool, term, bad) for bad in (b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\x80"))


def test_sets_of_code_points() -> None:
    assert normalized([(5, 9), (1, 2), (3, 4), (20, 10)]) == ((1, 9),)
    assert unite([(1, 2)], [(2, 5)], [(7, 7)]) == ((1, 5), (7, 7))
    assert complement(complement(((3, 9), (12, 12)))) == ((3, 9), (12, 12))
    assert intersect(((1, 5), (8, 9)), ((4, 8),)) == ((4, 5), (8, 8))
    assert intersect(ALL_CHARACTERS, ((0xD7FF, 0xE000),)) == ((0xD7FF, 0xD7FF), (0xE000, 0xE000))


def test_what_lies_ahead_and_behind(pool: Pool, member: Member) -> None:
    """Words of letters between which a digit must stand exactly where behind says so."""
    letter, digit = pool.byte_set(1 << 97 | 1 << 98), pool.byte_set(1 << 49)
    after_a = pool.behind(0, True)
    before_b = pool.ahead(pool.concat(pool.literal(b"b"), pool.all))
    step = pool.alt(letter, pool.concat(after_a, digit, before_b))
    term = pool.closed(pool.star(step), (pool.concat(pool.all, pool.literal(b"a")),))
    for n in range(6):
        for s in map(bytes, itertools.product(b"ab1", repeat=n)):
            expected = all(
                s[i - 1 : i] == b"a" and s[i + 1 : i + 2] == b"b" for i in range(len(s)) if s[i : i + 1] == b"1"
            )
            assert member(pool, term, s) == expected, s


def test_a_sensitive_term_is_not_taken_for_an_ordinary_one(pool: Pool) -> None:
    from radixrt.grammar.cfg import GrammarBuilder

    with pytest.raises(ValueError, match="closed"):
        GrammarBuilder(pool).terminal(pool.ahead(pool.literal(b"a")))


@pytest.mark.parametrize("seed", range(25))
def test_substitution_spells_every_byte(seed: int, pool: Pool, member: Member) -> None:
    tree = random_tree(random.Random(seed), 4)
    images = [pool.byte_set(1 << b) for b in range(256)]
    images[92] = pool.literal(b"\\\\")
    images[97] = pool.alt(pool.literal(b"\\a"), pool.literal(b"\\x"))
    letters = pool.star(pool.byte_set(1 << 97 | 1 << 98))
    term = pool.substitute(pool.and_(letters, build(pool, tree)), images)
    for s in STRINGS[:63]:
        for spelling in (b"\\a", b"\\x"):
            assert member(pool, term, s.replace(b"a", spelling)) == naive(tree, s)
        if b"a" in s:
            assert not member(pool, term, s)


def test_fuel_runs_out_with_its_name(make_pool: Callable[[int], Pool]) -> None:
    pool = make_pool(10)
    pool.refill(2000, "compile_fuel")
    with pytest.raises(UnsupportedConstraint, match="compile_fuel") as caught:
        pool.literal(b"x" * 100_000)
    assert caught.value.keyword == "compile_fuel"
    pool.refill(20_000, "step_fuel")
    assert pool.matches(pool.literal(b"x" * 5000), b"x" * 5000)
    with pytest.raises(UnsupportedConstraint, match="step_fuel"):
        pool.spend(20_000)


def test_a_truncated_pool_is_the_pool_as_it_was(pool: Pool, member: Member) -> None:
    term = pool.concat(pool.star(pool.literal(b"ab")), pool.literal(b"c"))
    size = len(pool)
    assert member(pool, term, b"ababc")
    for count in (size, len(pool)):
        twin = pool.truncated(count)
        assert len(twin) == count
        assert member(twin, term, b"ababc")
        assert not member(twin, term, b"ab")
        assert twin.concat(twin.star(twin.literal(b"ab")), twin.literal(b"c")) == term
        assert twin.matches(twin.literal(b"x" * 100), b"x" * 100)
    assert member(pool, term, b"abc")


@pytest.mark.parametrize(
    "make",
    [lambda: PythonPool(Fuel(10**6, "test"), max_terms=100), lambda: NativePool(10**6, "test", max_terms=100)],
)
def test_a_pool_is_bounded_in_terms(make: Callable[[], Pool]) -> None:
    pool = make()
    pool.literal(b"x" * 80)
    with pytest.raises(UnsupportedConstraint) as caught:
        pool.literal(b"y" * 80)
    assert caught.value.keyword == "terms"
    assert len(pool) == 100


def test_an_alternative_that_implies_another_is_none(pool: Pool) -> None:
    x, y, z = (pool.concat(pool.all, pool.literal(data), pool.all) for data in (b"x", b"y", b"z"))
    assert pool.alt(x, pool.and_(x, y)) == x
    assert pool.alt(pool.and_(x, y, z), pool.and_(x, z)) == pool.and_(x, z)
    assert pool.alt(pool.and_(x, y), pool.and_(x, z)) not in (pool.and_(x, y), pool.and_(x, z))
    assert pool.alt(pool.and_(x, y), pool.and_(y, z), pool.and_(x, y, z)) == pool.alt(
        pool.and_(x, y), pool.and_(y, z)
    )


def test_a_search_for_an_intersection_has_a_state_for_each_set_of_its_parts(pool: Pool) -> None:
    """Not one for each order in which they come true."""
    parts = [pool.concat(pool.all, pool.literal(bytes((byte,))), pool.all) for byte in b"abcde"]
    start = pool.concat(pool.all, pool.and_(*parts))
    found, todo = {start}, [start]
    while todo:
        fresh = {arc[1] for arc in pool.arcs(todo.pop())} - found
        found |= fresh
        todo.extend(fresh)
    assert len(found) <= 2 * 2**5
