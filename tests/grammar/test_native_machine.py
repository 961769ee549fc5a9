"""The native machine against the one in Python: languages, rows bit for bit, errors, threads, hard input."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from radixrt.errors import UnsatisfiableConstraint, UnsupportedConstraint
from radixrt.grammar import GrammarLimits, Vocabulary
from radixrt.grammar.automaton import Automaton, prepare_rows
from radixrt.grammar.cfg import GrammarBuilder
from radixrt.grammar.limits import Fuel
from radixrt.grammar.machine import DEAD
from radixrt.grammar.regex import regex_term
from radixrt.grammar.runner import new_runner
from radixrt.grammar.rx import Pool, PythonPool
from radixrt.grammar.terminal_rows import SharedRows
from radixrt.kernels.cpu.library import native
from radixrt.kernels.cpu.terms import NativePool

pytestmark = pytest.mark.skipif(native() is None, reason="without native kernels there is nothing to compare")

LIMITS = GrammarLimits(step_fuel=500_000)
Build = Callable[[GrammarBuilder], int]


def automaton_of(pool: Pool, build: Build, vocab: Vocabulary, limits: GrammarLimits = LIMITS) -> Automaton:
    builder = GrammarBuilder(pool)
    grammar = builder.build(build(builder))
    return Automaton(new_runner(grammar, vocab, limits, SharedRows(2**24)), vocab, limits)


def both(build: Build, vocab: Vocabulary) -> tuple[Automaton, Automaton] | None:
    """The same grammar in Python and native; None where both say that no text satisfies it."""
    made: list[Automaton] = []
    for pool in (PythonPool(Fuel(10**8, "test")), NativePool(10**8, "test")):
        try:
            made.append(automaton_of(pool, build, vocab))
        except UnsatisfiableConstraint:
            continue
    assert len(made) in (0, 2)
    return (made[0], made[1]) if made else None


def random_term(rng: random.Random, pool: Pool, depth: int) -> int:
    quote = pool.literal(b'"')
    plain = pool.chars([(0x20, 0x21), (0x23, 0x5B), (0x5D, 0x10FFFF)])
    if depth == 0:
        return rng.choice(
            [
                pool.literal(rng.choice([b"a", b"ab", b"b", b'"', b":", b"", "é".encode()])),
                pool.byte_set(rng.choice([3 << 97, 1 << 34, (1 << 128) - (1 << 32)])),
                plain,
                pool.star(pool.literal(b" ")),
            ]
        )
    x, y = (random_term(rng, pool, depth - 1) for _ in range(2))
    low = rng.choice([0, 0, 1, 2, 70])
    return [
        lambda: pool.concat(x, y),
        lambda: pool.alt(x, y),
        lambda: pool.repeat(x, low, rng.choice([None, low, low + 2, low + 90])),
        lambda: pool.concat(pool.repeat(plain, 0, rng.choice([None, 3, 300])), quote, y),
        lambda: pool.and_(pool.repeat(plain, rng.choice([0, 1, 4]), rng.choice([2, 90, 400]) + 3), x),
        lambda: pool.and_(pool.star(plain), pool.not_(x)),
        lambda: pool.concat(pool.star(plain), x, pool.repeat(plain, 3, 3)),
        lambda: pool.concat(pool.repeat(pool.literal(b" "), 0, 64), x),
    ][rng.randrange(8)]()


def random_grammar(seed: int) -> Build:
    """Rules over random terms: recursion of every kind, counters, nullable parts."""

    def build(builder: GrammarBuilder) -> int:
        rng = random.Random(seed)
        rules = [builder.declare(str(i)) for i in range(rng.randint(1, 4))]

        def part() -> int:
            if rng.random() < 0.4:
                return rng.choice(rules)
            return builder.terminal(random_term(rng, builder.pool, rng.randint(0, 2)))

        for rule in rules:
            alternatives = [[part() for _ in range(rng.randint(0, 3))] for _ in range(rng.randint(1, 3))]
            if rng.random() < 0.3:
                low = rng.randint(0, 2)
                alternatives.append([builder.repeat(part(), low, rng.choice([None, low + 1, low + 40]))])
            builder.define(rule, *alternatives)
        return rules[0]

    return build


def pairs(python: Automaton, other: Automaton, rng: random.Random, count: int) -> Iterator[tuple[int, int]]:
    """States that the same bytes lead to, in a random search; checks that the same bytes lead on from both."""
    todo = [(python.start, other.start)]
    seen = set(todo)
    while todo and count:
        count -= 1
        a, b = todo.pop(rng.randrange(len(todo)))
        yield a, b
        exits = python.exits(a)
        assert exits == other.exits(b)
        live = [byte for byte in range(256) if exits >> byte & 1]
        for byte in rng.sample(live, min(len(live), 5)):
            pair = python.advance(a, bytes([byte])), other.advance(b, bytes([byte]))
            assert DEAD not in pair
            if pair not in seen:
                seen.add(pair)
                todo.append(pair)


@pytest.mark.parametrize("seed", range(120))
def test_random_grammars_are_the_same_machine(seed: int, toy_vocab: Vocabulary) -> None:
    found = both(random_grammar(seed), toy_vocab)
    if found is None:
        return
    python, other = found
    rng = random.Random(seed)
    for a, b in pairs(python, other, rng, 12):
        assert python.is_accepting(a) == other.is_accepting(b)
        assert (python.row(a) == other.row(b)).all()
        node = rng.randrange(-1, toy_vocab.trie.nodes)
        assert (python.below(a, node) == other.below(b, node)).all()
        (forced, after), (other_forced, other_after) = python.forced(a), other.forced(b)
        assert forced == other_forced
        assert python.exits(after) == other.exits(other_after)
        assert python.is_final(a) == other.is_final(b)
        paths = [toy_vocab.spelling(token) or b"" for token in rng.sample(range(300), 5)]
        dead = [state == DEAD for state in python.run_many(a, paths)]
        assert dead == [state == DEAD for state in other.run_many(b, paths)]


def test_private_bytes_are_never_forced(toy_vocab: Vocabulary) -> None:
    """An event or a token symbol is nobody's text, however sure it is."""

    def build(builder: GrammarBuilder) -> int:
        pool = builder.pool
        return builder.terminal(pool.concat(pool.literal(b"ab"), pool.byte_set(1 << 0xFE), pool.literal(b"c\xff")))

    for automaton in both(build, toy_vocab) or ():
        data, state = automaton.forced(automaton.start)
        assert data == b"ab"
        assert automaton.exits(state) == 1 << 0xFE
        data, state = automaton.forced(automaton.advance(state, b"\xfe"))
        assert data == b"c"


def regex(pattern: str, limits: GrammarLimits = LIMITS) -> Build:
    return lambda builder: builder.terminal(regex_term(builder.pool, pattern, limits))


HARD = [
    r".*a.{24}",
    r"(a+)+b",
    r"[a-z]{1,5000}",
    r"([a-z]{1,1000}){1,1000}",
    r"(\S+\s+){0,19}\S+",
    r".*(foo|bar|baz).*(x|y){3,900}",
    r"(?=.{0,250}$)(\S+\s+){0,19}\S+",
    r"(a|ab|abc|b|bc|c)*abcabc.{3}",
    r"(?!.*(secret|password))[^\n]{0,400}",
]


@pytest.mark.parametrize("pattern", HARD)
@pytest.mark.parametrize("quoted", [False, True])
def test_hard_patterns_cost_little_fuel(pattern: str, quoted: bool, toy_vocab: Vocabulary) -> None:
    """Every mask and step along a text takes a tenth of what is allowed."""
    limits = GrammarLimits(step_fuel=50_000)

    def build(builder: GrammarBuilder) -> int:
        inner = regex(pattern)(builder)
        quote = builder.literal('"')
        return builder.seq(quote, inner, quote, builder.literal("!")) if quoted else inner

    automaton = automaton_of(NativePool(LIMITS.compile_fuel, "compile_fuel"), build, toy_vocab, limits)
    state = automaton.advance(automaton.start, b'"') if quoted else automaton.start
    rng = random.Random(pattern)
    for _ in range(60):
        row = automaton.row(state)
        tokens = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist()
        token = rng.choice(tokens) if tokens else None
        if token is None or not automaton.exits(state):
            break
        following = automaton.advance(state, toy_vocab.spelling(token) or b"")
        assert following != DEAD
        state = following


@pytest.mark.parametrize("pattern", HARD[:7])
def test_rows_of_hard_patterns_are_exact(pattern: str, toy_vocab: Vocabulary) -> None:
    """Where a row is not walked but known, it says of each token what running it says."""
    automaton = automaton_of(NativePool(10**7, "test"), regex(pattern), toy_vocab)
    rng = random.Random(pattern)
    state = automaton.start
    for _ in range(6):
        paths = [toy_vocab.spelling(token) or b"" for token in range(toy_vocab.size)]
        runs = automaton.run_many(state, paths)
        allowed = {t for t, (path, after) in enumerate(zip(paths, runs, strict=True)) if path and after != DEAD}
        row = automaton.row(state)
        assert set(np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist()) == allowed
        if not allowed:
            break
        state = runs[rng.choice(sorted(allowed))]


def test_what_is_too_much_names_its_limit_and_leaves_the_machine_whole(toy_vocab: Vocabulary) -> None:
    tight = GrammarLimits(step_fuel=2)
    automaton = automaton_of(NativePool(10**6, "compile_fuel"), regex(r"(?:[ab]{1,40} ){1,40}é"), toy_vocab, tight)
    with pytest.raises(UnsupportedConstraint) as caught:
        automaton.row(automaton.start)
    assert caught.value.keyword == "step_fuel"
    assert automaton.advance(automaton.start, b"a") != DEAD
    few = automaton_of(NativePool(10**6, "compile_fuel"), _nested, toy_vocab, GrammarLimits(states=20))
    with pytest.raises(UnsupportedConstraint) as caught:
        few.advance(few.start, b"(" * 3000)
    assert caught.value.keyword == "states"
    assert few.advance(few.start, b"()") != DEAD
    with pytest.raises(UnsupportedConstraint) as caught:
        automaton_of(NativePool(100, "compile_fuel"), _ambiguous, toy_vocab)
    assert caught.value.keyword == "compile_fuel"
    wide = GrammarLimits(configurations=2)
    with pytest.raises(UnsupportedConstraint) as caught:
        automaton_of(NativePool(10**6, "test"), _ambiguous, toy_vocab, wide)
    assert caught.value.keyword == "configurations"


def _nested(builder: GrammarBuilder) -> int:
    rule = builder.declare("nested")
    builder.define(rule, [builder.literal("("), rule, builder.literal(")")], [])
    return rule


def _ambiguous(builder: GrammarBuilder) -> int:
    rules = [builder.declare(name) for name in "xyz"]
    for i, rule in enumerate(rules):
        builder.define(
            rule, [builder.literal("a" * (i + 1)), rule, builder.literal(str(i))], [builder.literal("!")]
        )
    return builder.alt(*rules)


def test_a_fresh_machine_has_read_nothing(toy_vocab: Vocabulary) -> None:
    automaton = automaton_of(NativePool(10**6, "test"), _nested, toy_vocab, GrammarLimits(states=50))
    deep = automaton.advance(automaton.start, b"(" * 80)
    assert automaton.is_full
    fresh = automaton.fresh()
    assert not fresh.is_full
    assert fresh.accepts(b"((()))")
    assert not fresh.accepts(b"((())")
    assert automaton.is_accepting(automaton.advance(deep, b")" * 80))
    again = fresh.fresh()
    del automaton, fresh
    assert again.accepts(b"()")


def test_threads_fill_rows_of_the_same_and_of_different_machines(toy_vocab: Vocabulary) -> None:
    """Batches in different orders, so that locks taken carelessly would wait for each other."""
    expected, automata = {}, []
    for i, pattern in enumerate([r'"[^"]*" [ab]{0,30}', r"(?:ab|é){2,40}.*", r"[^1]{0,90}1", r"\w+ \d+"]):
        single = automaton_of(NativePool(10**7, "test"), regex(pattern), toy_vocab)
        expected[i] = single.row(single.start).tobytes()
        automata.append(automaton_of(NativePool(10**7, "test"), regex(pattern), toy_vocab))
    errors: list[BaseException] = []

    def work(seed: int) -> None:
        rng = random.Random(seed)
        try:
            for _ in range(60):
                chosen = rng.sample(range(4), 3)
                prepare_rows({automata[i]: [automata[i].start] for i in chosen})
                for i in chosen:
                    automaton, state = automata[i], automata[i].start
                    assert automaton.row(state).tobytes() == expected[i]
                    for _ in range(4):
                        row = automaton.row(state)
                        tokens = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist()
                        if not tokens:
                            break
                        state = automaton.advance(state, toy_vocab.spelling(rng.choice(tokens)) or b"")
                        assert state != DEAD
        except BaseException as error:  # noqa: BLE001  # shown by the test
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert not errors


def test_a_batch_leaves_out_what_costs_too_much(toy_vocab: Vocabulary) -> None:
    cheap = automaton_of(NativePool(10**6, "test"), regex("[ab]+"), toy_vocab)
    tight = GrammarLimits(step_fuel=2)
    dear = automaton_of(NativePool(10**6, "test"), regex(r"(?:[ab]{1,40} ){1,40}é"), toy_vocab, tight)
    prepare_rows({dear: [dear.start], cheap: [cheap.start]})
    assert cheap.has_row(cheap.start)
    assert not dear.has_row(dear.start)


def test_states_that_are_not_there_are_refused(toy_vocab: Vocabulary) -> None:
    automaton = automaton_of(NativePool(10**6, "test"), regex("ab"), toy_vocab)
    for state in (10**6, -5):
        assert automaton.advance(state, b"a") == DEAD
        with pytest.raises(ValueError, match="not there"):
            automaton.row(state)
    with pytest.raises(ValueError, match="not there"):
        automaton.below(automaton.start, toy_vocab.trie.nodes)
