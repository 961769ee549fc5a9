"""The native pool of terms against the one in Python, and what hostile terms cost it."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

import pytest

from radixrt.errors import UnsupportedConstraint
from radixrt.grammar.limits import Fuel
from radixrt.grammar.regex import ecma_search, regex_term
from radixrt.grammar.rx import EMPTY, Pool, PythonPool
from radixrt.kernels.cpu.terms import NativePool

FULL = (1 << 256) - 1
Build = Callable[[Pool], int]


def native(amount: int = 10**9) -> NativePool:
    return NativePool(amount, "test")


def python(amount: int = 10**9) -> PythonPool:
    return PythonPool(Fuel(amount, "test"))


def random_pattern(rng: random.Random, depth: int) -> str:
    """A pattern over a few characters, with look-around, boundaries and counts."""
    if depth == 0:
        return rng.choice(["a", "b", "é", "[ab]", "[^a]", r"\w", r"\W", ".", "^", "$", r"\b", r"\B", "", "ab"])
    kind = rng.choice(["cat", "cat", "cat", "alt", "star", "count", "ahead", "behind", "opt"])
    x = random_pattern(rng, depth - 1)
    if kind == "cat":
        return x + random_pattern(rng, depth - 1)
    if kind == "alt":
        return f"(?:{x}|{random_pattern(rng, depth - 1)})"
    if kind == "behind":
        before = rng.choice(["a", "b", "[^b]", "ab", "(?<!a)b", r"\bb"])
        return f"(?<{rng.choice('=!')}{before})"
    low = rng.randint(0, 3)
    return {
        "star": f"(?:{x})*",
        "count": f"(?:{x}){{{low},{low + rng.randint(0, 2)}}}",
        "ahead": f"(?{rng.choice('=!')}{x})",
        "opt": f"(?:{x})?",
    }[kind]


def random_text(rng: random.Random) -> str:
    return "".join(rng.choice("aab é\n") for _ in range(rng.randint(0, 6)))


@pytest.mark.parametrize("seed", range(300))
def test_random_patterns_mean_the_same_in_both(seed: int) -> None:
    rng = random.Random(seed)
    pattern = random_pattern(rng, 4)
    for read in (regex_term, ecma_search):
        pools: list[Pool] = [python(), native()]
        found: list[int | str] = []
        for pool in pools:
            try:
                found.append(read(pool, pattern))
            except UnsupportedConstraint as error:
                found.append(str(error.keyword))
        if isinstance(found[0], str) or isinstance(found[1], str):
            assert found[0] == found[1], pattern
            continue
        here, there = pools[1].is_empty(found[1]), pools[0].is_empty(found[0])
        assert here == there, pattern
        for _ in range(30):
            text = random_text(rng)
            expected = pools[0].matches(found[0], text.encode())
            assert pools[1].matches(found[1], text.encode()) == expected, (pattern, text)
            if read is regex_term:
                assert expected == (re.fullmatch(pattern, text) is not None), (pattern, text)


def reachable(pool: Pool, term: int, most: int) -> list[int]:
    """The terms that derivatives lead to, in the order of a search."""
    seen, todo = {term}, [term]
    for x in todo:
        for _, y in pool.arcs(x):
            if y not in seen and len(seen) < most:
                seen.add(y)
                todo.append(y)
    return todo


PATTERNS = [
    r"(foo|bar)*baz",
    r"[a-z]{1,5000}",
    r"(?:[a-z]{1,1000}){1,1000}",
    r"(a+)+b",
    r"(?=.*\d)(?=.*[a-z])\w{4,8}",
    r"(?!.*admin)[a-z]+@[a-z]+\.(com|org)",
    r"(\S+\s+){0,19}\S+",
    r"\bcat\b.*(?<=x)y",
    r"[\u0400-\u04ff]+|[\u4e00-\u9fff]{2,3}",
    r".*a.{6}",
    r"[ab]{3,5}c?",
]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_both_have_as_many_derivatives(pattern: str) -> None:
    counts = []
    for pool in (python(), native()):
        counts.append(len(reachable(pool, regex_term(pool, pattern), 400)))
    assert counts[1] <= counts[0]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_both_tell_the_same_bytes_apart(pattern: str) -> None:
    first, second = (sorted(pool.byte_classes([regex_term(pool, pattern)])) for pool in (python(), native()))
    assert first == second
    assert sum(first) == FULL


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("depth", [1, 2, 3, 4, 5, 6, 7, 40])
def test_a_clamped_term_reads_the_same_within_its_depth(pattern: str, depth: int) -> None:
    pool = native()
    term = regex_term(pool, pattern)
    short = pool.clamped(term, depth)
    assert pool.clamped(short, depth) == short
    rng = random.Random(depth)
    for _ in range(30):
        x, y = term, short
        for read in range(depth + 1):
            assert pool.nullable(x) == pool.nullable(y)
            if read == depth:
                break
            arcs = pool.arcs(x)
            assert sum(mask for mask, _ in arcs) == sum(mask for mask, _ in pool.arcs(y))
            if not arcs:
                break
            mask = rng.choice(arcs)[0]
            byte = rng.choice([b for b in range(256) if mask >> b & 1])
            x, y = (next(target for found, target in pool.arcs(z) if found >> byte & 1) for z in (x, y))


def test_fingerprints_are_those_of_equal_terms() -> None:
    one, other = native(), native()
    other.literal(b"something before")
    a = [regex_term(one, pattern) for pattern in PATTERNS]
    b = [regex_term(other, pattern) for pattern in reversed(PATTERNS)][::-1]
    prints = list(map(one.fingerprint, a))
    assert prints == list(map(other.fingerprint, b))
    assert len(set(prints)) == len(PATTERNS)
    assert all(len(found) == 16 for found in prints)
    assert one.fingerprint(one.repeat(a[0], 2, 3)) != one.fingerprint(one.repeat(a[0], 2, 4))


@pytest.mark.parametrize("seed", range(40))
def test_characters_are_spelled_alike(seed: int) -> None:
    rng = random.Random(seed)
    edges = [0, 0x7F, 0x80, 0x7FF, 0x800, 0xD7FF, 0xD800, 0xDFFF, 0xE000, 0xFFFF, 0x10000, 0x10FFFF]
    ranges = []
    for _ in range(rng.randint(1, 6)):
        first = max(0, rng.choice([rng.choice(edges) + rng.randint(-3, 3), rng.randrange(0x11000)]))
        ranges.append((first, first + rng.choice([0, 1, 63, 64, 5000, 70_000])))
    pools = python(), native()
    terms = [pool.chars(ranges) for pool in pools]
    for code in {c + d for r in ranges for c in r for d in (-65, -64, -1, 0, 1, 63, 64, 65)} | set(edges):
        if 0 <= code <= 0x10FFFF:
            data = chr(code).encode("utf-8", "surrogatepass")
            inside = any(a <= code <= b for a, b in ranges) and not 0xD800 <= code <= 0xDFFF
            assert [pool.matches(term, data) for pool, term in zip(pools, terms, strict=True)] == [inside, inside]
    assert len(reachable(pools[1], terms[1], 999)) == len(reachable(pools[0], terms[0], 999))


def test_a_chain_of_a_hundred_thousand_terms_costs_no_stack() -> None:
    pool = NativePool(10**8, "test", max_terms=10**7)
    letters = [pool.byte_set(1 << byte) for byte in b"abc"]
    term = EMPTY
    for i in range(100_000):
        term = pool.alt(pool.concat(letters[i % 3], term), letters[(i + 1) % 3])
    assert not pool.is_empty(term)
    assert pool.shortest(term) == 1
    nested = letters[0]
    for i in range(100_000):
        nested = pool.repeat(pool.concat(nested, letters[i % 3]), 0, 2 + i % 2)
    assert pool.nullable(nested)
    assert pool.matches(nested, b"")
    assert pool.arcs(nested)
    images = [pool.byte_set(1 << byte) for byte in range(256)]
    images[98] = pool.literal(b"\\b")
    for whole in (term, nested):
        assert len(pool.fingerprint(whole)) == 16
        assert pool.clamped(whole, 5) > EMPTY
        assert pool.substitute(whole, images) > EMPTY
        assert pool.byte_classes([whole])
    sensitive = pool.behind(0, True)
    for i in range(50_000):
        sensitive = pool.concat(pool.alt(sensitive, letters[i % 3]), pool.alt(EMPTY, letters[0]))
    assert pool.zero_width(sensitive) == pool.behind(0, True)
    pool.refill(10**6, "test")
    with pytest.raises(UnsupportedConstraint):
        pool.closed(pool.repeat(sensitive, 10**9, None), [pool.all])


def test_many_alternatives() -> None:
    pool = native(10**7)
    words = [f"{i * 7919 % 99_991:05d}-{i}".encode() for i in range(10_000)]
    flat, tree = pool.alt(*map(pool.literal, words)), pool.one_of(words)
    for term in (flat, tree):
        assert all(pool.matches(term, word) for word in words[::97])
        assert not pool.matches(term, words[0] + b"0")
        assert pool.longest(term) == max(map(len, words))
    assert pool.is_empty(pool.and_(flat, pool.not_(tree)))
    assert pool.is_empty(pool.and_(tree, pool.not_(flat)))


def test_enormous_counts() -> None:
    pool = native(10**5)
    a = pool.literal(b"a")
    for high in (10**9, 10**18, 10**30, None):
        term = pool.repeat(a, 10**9, high)
        assert pool.shortest(term) == 10**9
        assert not pool.nullable(term)
        longer = pool.and_(term, pool.not_(pool.repeat(a, 0, 10**9)))
        assert not pool.proved_empty(longer, 10_000)
        assert pool.fuel_left > 0
        with pytest.raises(UnsupportedConstraint):
            pool.is_empty(longer)
        pool.refill(10**5, "test")
        nested = pool.repeat(pool.repeat(term, 10**9, high), 10**9, high)
        assert pool.shortest(nested) >= 1 << 61  # the end of the scale
        assert pool.arcs(nested)
    assert pool.concat(pool.repeat(a, 10**30, None), pool.repeat(a, 10**30, None)) > EMPTY
    assert pool.not_(pool.repeat(pool.any_byte, 5, 10**30)) > EMPTY


def _states_explode(pool: NativePool) -> None:
    """Strings with two different letters at one place from the end: there are none, and 2^18 states know it."""
    pool.is_empty(
        pool.and_(
            *(pool.concat(pool.all, pool.literal(x), pool.repeat(pool.any_byte, 18, 18)) for x in (b"a", b"b"))
        )
    )


HOSTILE: list[Callable[[NativePool], object]] = [
    lambda p: p.literal(b"a" * 10**7),
    lambda p: p.one_of([bytes([i % 256]) * 5000 for i in range(5000)]),
    lambda p: p.alt(*[p.literal(str(i).encode()) for i in range(10**6)]),
    lambda p: p.closed(p.repeat(p.alt(EMPTY, p.behind(0, True)), 10**9, None), [p.all]),
    lambda p: [p.chars(((i, i + 1000), (i + 2000, i + 70_000))) for i in range(10**6)],
    lambda p: p.matches(p.all, b"x" * 10**7),
    lambda p: p.byte_classes([p.byte_set((i * 0x9E3779B97F4A7C15) ** 4 & FULL) for i in range(1, 10**6)]),
    lambda p: [p.substitute(p.literal(b"ab" * 400), [p.literal(b"x" * (1 + i % 9))] * 256) for i in range(9999)],
    lambda p: reachable(p, regex_term(p, r".*a.{24}(?<!b.)"), 10**7),
    lambda p: reachable(p, regex_term(p, r"(?=.*a.{15}b)(?!.*b.{17}a).*c.{16}.*"), 10**7),
    _states_explode,
]


@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_every_loop_runs_out_of_fuel_and_the_pool_goes_on(number: int) -> None:
    pool = native(300_000)
    with pytest.raises(UnsupportedConstraint) as caught:
        HOSTILE[number](pool)
    assert caught.value.keyword == "test"
    assert pool.fuel_left < 0
    pool.refill(10_000, "more")
    term = regex_term(pool, r"(?!foo)\w{3}|[0-9]+")
    assert [pool.matches(term, s) for s in (b"bar", b"foo", b"12345")] == [True, False, True]
    assert pool.nbytes < 200 * 2**20


@pytest.mark.parametrize("amount", [5, 20, 60, 150, 400, 1000, 3000])
def test_a_pool_that_was_stopped_anywhere_is_still_right(amount: int) -> None:
    pattern = r"(?=.*\d)(?:[a-z]{2,9}|\b\d+\b)*(?<!xx)"
    pool = native()
    for _ in range(200):  # less and less is left to do
        pool.refill(amount, "test")
        try:
            term = regex_term(pool, pattern)
            pool.is_empty(pool.not_(term))
            pool.substitute(term, [pool.byte_set(1 << b) for b in range(256)])
            break
        except UnsupportedConstraint:
            continue
    pool.refill(10**7, "test")
    term = regex_term(pool, pattern)
    for text in ("ab1", "1", "ab", "abc 1", "xx", "1xx", "ab12"):
        assert pool.matches(term, text.encode()) == (re.fullmatch(pattern, text) is not None)


def test_misuse_is_refused() -> None:
    pool = native()
    for wrong in (-1, len(pool), 2**31 - 1):
        with pytest.raises(ValueError, match="no term"):
            pool.concat(EMPTY, wrong)
        with pytest.raises(ValueError, match="no term"):
            pool.alt(EMPTY, pool.all, wrong)
        with pytest.raises(ValueError, match="no term"):
            pool.longest(wrong)
    with pytest.raises(ValueError, match="256"):
        pool.substitute(EMPTY, [EMPTY])
    with pytest.raises(ValueError, match="repetition"):
        pool.repeat(pool.all, 3, 2)
    with pytest.raises(ValueError, match="closed"):
        pool.is_empty(pool.ahead(pool.literal(b"a")))
    with pytest.raises(ValueError, match="number of terms"):
        pool.truncated(len(pool) + 1)
    with pytest.raises(OverflowError):
        pool.byte_set(1 << 256)


@pytest.mark.parametrize("make", [python, native])
def test_more_lookbehinds_than_bits_are_refused_in_words(make: Callable[[], Pool]) -> None:
    pool = make()
    watched = [pool.literal(bytes([i])) for i in range(64)]
    all_of_them = pool.alt(*(pool.concat(pool.literal(b"x"), pool.behind(i, True)) for i in range(64)))
    assert not pool.matches(pool.closed(all_of_them, watched), b"x")
    with pytest.raises(UnsupportedConstraint, match="64") as caught:
        pool.behind(64, False)
    assert caught.value.keyword == "lookbehind"


def test_a_copy_is_independent() -> None:
    pool = native()
    term = regex_term(pool, r"(?=.*\d)\w+(?<!9)")
    assert pool.matches(term, b"a1")
    twins = [pool.truncated(len(pool)) for _ in range(3)]
    fresh = [twin.literal(bytes([65 + i]) * 50) for i, twin in enumerate(twins)]
    del pool
    for i, (twin, literal) in enumerate(zip(twins, fresh, strict=True)):
        assert twin.matches(term, b"a1")
        assert not twin.matches(term, b"a9")
        assert twin.matches(literal, bytes([65 + i]) * 50)
