"""Grammars against languages computed by definition: every kind of recursion, nullability, counters."""

from __future__ import annotations

import itertools
import random

import pytest

from radixrt.errors import UnsatisfiableConstraint
from radixrt.grammar.cfg import Grammar, GrammarBuilder
from radixrt.grammar.leftrec import left_corners, nullable_rules
from radixrt.grammar.limits import GrammarLimits
from radixrt.grammar.machine import DEAD, Machine
from radixrt.grammar.stacks import END, Stacks

LENGTH = 6
STRINGS = ["".join(s) for n in range(LENGTH + 1) for s in itertools.product("ab", repeat=n)]
TERMINALS = [{"a"}, {"b"}, {""}, {"", "a"}, {"ab"}, {"b", "ba"}, set()]
Part = int | frozenset[str]
Rules = dict[int, list[list[Part] | tuple[Part, int, int | None]]]


def random_rules(rng: random.Random) -> Rules:
    count = rng.randint(1, 5)

    def part() -> Part:
        return rng.choice([rng.randrange(count), frozenset(rng.choice(TERMINALS))])

    rules: Rules = {}
    for name in range(count):
        rules[name] = []
        for _ in range(rng.randint(1, 3)):
            if rng.random() < 0.15:
                low = rng.randint(0, 2)
                rules[name].append((part(), low, rng.choice([None, low, low + 1, low + 3])))
            else:
                rules[name].append([part() for _ in range(rng.randint(0, 3))])
    return rules


def languages(rules: Rules) -> dict[int, set[str]]:
    """The strings up to LENGTH of every rule, as a least fixed point."""
    found: dict[int, set[str]] = {name: set() for name in rules}

    def then(left: set[str], part: Part) -> set[str]:
        right = found[part] if isinstance(part, int) else part
        return {x + y for x in left for y in right if len(x + y) <= LENGTH}

    changed = True
    while changed:
        changed = False
        for name, alternatives in rules.items():
            for alternative in alternatives:
                current, new = {""}, set()
                if isinstance(alternative, tuple):
                    part, low, high = alternative
                    for n in range(low + LENGTH + 1 if high is None else high + 1):
                        new |= current if n >= low else set()
                        current = then(current, part)
                else:
                    for part in alternative:
                        current = then(current, part)
                    new = current
                changed = changed or not new <= found[name]
                found[name] |= new
    return found


def build(builder: GrammarBuilder, rules: Rules) -> Grammar:
    names = [builder.declare(str(name)) for name in rules]

    def symbol(part: Part) -> int:
        if isinstance(part, int):
            return names[part]
        return builder.terminal(builder.pool.alt(*(builder.pool.literal(s.encode()) for s in part)))

    for name, alternatives in rules.items():
        builder.define(
            names[name],
            *(
                [builder.repeat(symbol(a[0]), a[1], a[2])] if isinstance(a, tuple) else [symbol(part) for part in a]
                for a in alternatives
            ),
        )
    return builder.build(names[0])


def accepts(machine: Machine, text: str) -> bool:
    state = machine.run(machine.start, text.encode())
    return state != DEAD and machine.is_accepting(state)


@pytest.mark.parametrize("seed", range(150))
def test_random_grammars_produce_what_they_should(seed: int, builder: GrammarBuilder) -> None:
    rules = random_rules(random.Random(seed))
    expected = languages(rules)[0]
    try:
        machine = Machine(build(builder, rules), GrammarLimits())
    except UnsatisfiableConstraint:
        assert not expected
        return
    assert {s for s in STRINGS if accepts(machine, s)} == expected


@pytest.mark.parametrize("seed", range(60))
def test_no_rule_of_a_normalised_grammar_reaches_itself_without_reading(seed: int, builder: GrammarBuilder) -> None:
    try:
        grammar = build(builder, random_rules(random.Random(seed)))
    except UnsatisfiableConstraint:
        return
    assert not any(left_corners(grammar.table).cyclic)


@pytest.mark.parametrize("seed", range(60))
def test_every_state_is_alive(seed: int, builder: GrammarBuilder) -> None:
    """From any state that can be reached, some continuation is accepted."""
    try:
        machine = Machine(build(builder, random_rules(random.Random(seed))), GrammarLimits())
    except UnsatisfiableConstraint:
        return
    rng = random.Random(seed)
    for _ in range(10):
        state = machine.start
        for _ in range(rng.randint(0, 12)):
            options = [s for s in (machine.step(state, b) for b in b"ab") if s != DEAD]
            if not options:
                break
            state = rng.choice(options)
        frontier, seen = {state}, {state}
        for _ in range(60):
            if any(map(machine.is_accepting, frontier)):
                break
            frontier = {t for s in frontier for t in (machine.step(s, b) for b in b"ab") if t != DEAD} - seen
            seen |= frontier
        else:
            pytest.fail("no accepted continuation within 60 bytes")
        assert frontier


def one_rule(builder: GrammarBuilder, *alternatives: list[str]) -> Machine:
    """``S`` in an alternative is the rule itself."""
    rule = builder.declare("S")
    builder.define(rule, *([rule if part == "S" else builder.literal(part) for part in a] for a in alternatives))
    return Machine(builder.build(rule), GrammarLimits())


def test_nesting_goes_as_deep_as_the_text(builder: GrammarBuilder) -> None:
    machine = one_rule(builder, ["(", "S", ")"], [])
    deep = 5000
    assert accepts(machine, "(" * deep + ")" * deep)
    assert not accepts(machine, "(" * deep + ")" * (deep - 1))


def test_lists_do_not_grow_the_stack(builder: GrammarBuilder) -> None:
    for alternatives in ([["a", ",", "S"], ["a"]], [["S", ",", "a"], ["a"]]):
        machine = one_rule(GrammarBuilder(builder.pool), *alternatives)
        assert accepts(machine, "a," * 500 + "a")
        assert len(machine) < 10


def test_ambiguity_does_not_blow_up(builder: GrammarBuilder) -> None:
    machine = one_rule(builder, ["S", "S"], ["S", "+", "S"], ["a"], ["(", "S", ")"], [])
    assert accepts(machine, "a+(aa+a)" * 100)
    assert len(machine) < 20


def test_alternatives_that_differ_only_below_share_their_stacks(builder: GrammarBuilder) -> None:
    """2**n ways to stack n pops must stay n frames."""
    rule, p, q = builder.declare("S"), builder.literal("p"), builder.literal("q")
    either = [builder.alt(builder.seq(x, builder.literal("z")), x) for x in (p, q)]
    boxed = [builder.declare("box") for _ in either]
    for box, x in zip(boxed, either, strict=True):
        builder.define(box, [x])
    x = builder.literal("x")
    builder.define(rule, [x, rule, boxed[0]], [x, rule, boxed[1]], [])
    machine = Machine(builder.build(rule), GrammarLimits())
    assert accepts(machine, "x" * 60 + "pzq" * 30)
    assert not accepts(machine, "x" * 60 + "pzq" * 29)


@pytest.mark.parametrize(("low", "high"), [(2, 5000), (0, 3), (3, 3), (1, None)])
def test_repetition_counts_instead_of_unrolling(low: int, high: int | None, builder: GrammarBuilder) -> None:
    value = builder.declare("value")
    items = builder.repeat(value, low, high)
    builder.define(value, [builder.literal("x")], [builder.literal("["), items, builder.literal("]")])
    grammar = builder.build(items)
    assert len(grammar.table.rules) < 10
    machine = Machine(grammar, GrammarLimits())
    for count in (low - 1, low, low + 1, high or 50, (high or 50) + 1):
        if count >= 0:
            expected = low <= count and (high is None or count <= high)
            assert accepts(machine, "x" * count) == expected
            assert accepts(machine, "[" * bool(low) + "x" * count + "]" * bool(low)) == (expected and low <= 1)


def test_what_produces_nothing_is_refused_and_dropped(builder: GrammarBuilder) -> None:
    ring, rule = builder.declare("ring"), builder.declare("rule")
    builder.define(ring, [builder.literal("a"), ring])
    builder.define(rule, [ring], [builder.literal("b"), builder.opt(ring)])
    grammar = builder.build(rule)
    machine = Machine(grammar, GrammarLimits())
    assert accepts(machine, "b")
    assert machine.step(machine.start, ord("a")) == DEAD
    other = GrammarBuilder(builder.pool)
    ring = other.declare("ring")
    other.define(ring, [ring, other.literal("a")])
    with pytest.raises(UnsatisfiableConstraint):
        other.build(ring)


def test_a_terminal_that_cannot_be_finished_is_dead_at_once(builder: GrammarBuilder) -> None:
    pool = builder.pool
    impossible = pool.and_(pool.repeat(pool.literal(b"a"), 3, None), pool.not_(pool.star(pool.literal(b"a"))))
    machine = Machine(
        builder.build(builder.alt(builder.terminal(impossible), builder.literal("b"))), GrammarLimits()
    )
    assert machine.step(machine.start, ord("a")) == DEAD


def test_nullable_rules_are_found_through_each_other(builder: GrammarBuilder) -> None:
    a, b, c = (builder.declare(name) for name in "abc")
    builder.define(a, [b, b])
    builder.define(b, [c], [builder.literal("x"), c])
    builder.define(c, [builder.literal("y"), a], [])
    table = builder.build(a).table
    assert len(nullable_rules(table)) == len(table.rules)


def test_a_rule_must_be_defined_once(builder: GrammarBuilder) -> None:
    rule = builder.declare("item")
    with pytest.raises(ValueError, match="'item' was declared but not defined"):
        builder.build(rule)
    builder.define(rule, [])
    with pytest.raises(ValueError, match="waits for its definition"):
        builder.define(rule, [])


def test_a_fresh_machine_starts_over(builder: GrammarBuilder) -> None:
    machine = one_rule(builder, ["(", "S", ")"], [])
    assert accepts(machine, "((()))")
    fresh = machine.fresh()
    assert len(fresh) < len(machine)
    assert accepts(fresh, "((()))")
    assert not accepts(fresh, "(()")


def test_a_star_on_itself_is_one_only_where_nothing_else_is_below(builder: GrammarBuilder) -> None:
    stacks = Stacks(builder.build(builder.star(_boxed(builder, "x"))).table)
    star = stacks.item(0, END)
    under_star = stacks.push(star, stacks.make(False, frozenset({(stacks.item(~1, END), stacks.bottom)})))
    assert stacks.push(star, under_star) == under_star
    mixed = stacks.unite({under_star, stacks.bottom})
    assert stacks.push(star, mixed) not in (mixed, under_star)


def _boxed(builder: GrammarBuilder, text: str) -> int:
    """A rule, so that it does not melt into its surroundings."""
    rule = builder.declare(text)
    builder.define(rule, [builder.literal("("), rule, builder.literal(")")], [builder.literal(text)])
    return rule
