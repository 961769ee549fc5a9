"""What each verb records, and what it refuses at the line that is wrong."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import pytest

import radixrt as rx
from radixrt.api import ForkNode, GenNode, JoinNode, RoleNode, SelectNode, TextNode, TokensNode
from radixrt.errors import InvalidRequest


def recorded(function: Callable[..., Any]) -> list[Any]:
    """The nodes that a program records, with the ids left out."""
    return list(rx.program(function).graph().nodes)


def refused(function: Callable[..., Any]) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        rx.program(function).graph()
    return caught.value


def test_text_and_generation_stand_in_order() -> None:
    def program(s: Any) -> None:
        s += "a"
        s += rx.gen("x", max_tokens=3) + "b"
        s += rx.tokens(5, "<eos>")
        s += rx.select("y", ["p", "q"], method="greedy_token_selection")

    text, gen, text2, tokens, select = recorded(program)
    assert (text.text, text2.text) == ("a", "b")
    assert isinstance(gen, GenNode)
    assert (gen.name, gen.params.max_tokens, gen.constraint, gen.heal) == ("x", 3, None, None)
    assert isinstance(tokens, TokensNode)
    assert tokens.tokens == (5, "<eos>")
    assert isinstance(select, SelectNode)
    assert (select.name, select.choices, select.method) == ("y", ("p", "q"), "greedy_token_selection")
    assert [n.node for n in (text, gen, text2, tokens, select)] == sorted(
        n.node for n in (text, gen, text2, tokens, select)
    )


def test_neighbouring_text_is_one_node_and_empty_text_none() -> None:
    def program(s: Any) -> None:
        s += "a"
        s += ""
        s += "b" + rx.gen("x")
        s += ""

    text, gen = recorded(program)
    assert text.text == "ab"
    assert gen.name == "x"


def test_a_role_is_a_message_around_its_content() -> None:
    def short(s: Any) -> None:
        s += rx.system("a") + rx.user("b", "c") + rx.assistant(rx.gen("x"))
        s += rx.role("tool", "t")

    def long(s: Any) -> None:
        with s.system():
            s += "a"
        with s.user() as inside:
            inside += "b"
            s += "c"
        with s.assistant():
            s += rx.gen("x")
        with s.role("tool"):
            s += "t"

    def shape(nodes: list[Any]) -> list[Any]:
        return [getattr(n, "role", getattr(n, "text", getattr(n, "name", "?"))) for n in nodes]

    expected = ["system", "a", None, "user", "bc", None, "assistant", "x", None, "tool", "t", None]
    assert shape(recorded(short)) == shape(recorded(long)) == expected


def test_a_message_closes_when_its_block_raises() -> None:
    def program(s: Any) -> None:
        try:
            with s.user():
                s += "a"
                raise LookupError
        except LookupError:
            s += rx.user("b")

    assert [n.role for n in recorded(program) if isinstance(n, RoleNode)] == ["user", None, "user", None]


def test_text_and_messages_do_not_mix() -> None:
    def text_first(s: Any) -> None:
        s += "a"
        s += rx.user("b")

    def roles_first(s: Any) -> None:
        s += rx.user("b")
        s += "a"

    def gen_outside(s: Any) -> None:
        s += rx.user("b")
        s += rx.gen("x")

    def select_outside(s: Any) -> None:
        s += rx.user("b")
        s += rx.select("x", ["a"])

    def join_outside(s: Any) -> None:
        s += rx.user("b")
        b = s.fork(2)
        s.join(b)

    def nested(s: Any) -> None:
        with s.user():
            s += rx.system("b")

    def nested_blocks(s: Any) -> None:
        with s.user(), s.assistant():
            s += "b"

    for program in (text_first, roles_first, gen_outside, select_outside, join_outside, nested, nested_blocks):
        assert refused(program).param == "role", program.__name__


def test_defaults_of_the_run_fill_in_what_a_gen_leaves_open() -> None:
    @rx.program
    def program(s: Any) -> None:
        s += rx.gen("x", temperature=0.5)

    [node] = program.graph(temperature=0, max_tokens=9, top_k=3, seed=4).nodes
    assert isinstance(node, GenNode)
    assert (node.params.temperature, node.params.max_tokens, node.params.top_k) == (0.5, 9, 3)
    assert node.params.seed is None, "the seed of a run keys its streams; it is not every gen's own"
    [plain] = program.graph().nodes
    assert isinstance(plain, GenNode)
    assert plain.params.max_tokens == 128


def test_an_own_seed_stays_with_its_gen() -> None:
    def program(s: Any) -> None:
        s += rx.gen("x", seed=4)

    [node] = recorded(program)
    assert node.params.seed == 4


def test_defaults_and_a_gen_are_checked_together_at_the_gen() -> None:
    @rx.program
    def program(s: Any) -> None:
        s += rx.gen("x", max_tokens=4)

    with pytest.raises(InvalidRequest) as caught:
        program.graph(min_tokens=9)
    assert caught.value.param == "min_tokens"


def test_the_traceback_shows_the_programs_line() -> None:
    def program(s: Any) -> None:
        s += "fine"
        s += rx.gen("x", temprature=0)  # the wrong line

    error = refused(program)
    shown = "".join(traceback.format_exception(error))
    assert "# the wrong line" in shown


@pytest.mark.parametrize("value", [None, 5, ["x"], object()])
def test_only_text_and_expressions_are_appended(value: Any) -> None:
    def program(s: Any) -> None:
        s += value

    assert refused(program).param == "text"


def test_plus_without_assignment_says_what_is_meant() -> None:
    def program(s: Any) -> None:
        _ = s + "a"

    assert "s += " in str(refused(program))


def test_n_above_one_ends_its_branch_and_its_message() -> None:
    def inside(s: Any) -> None:
        s += rx.user("q")
        s += rx.assistant(rx.gen("x", n=3))

    assert isinstance(recorded(inside)[-1], GenNode), "no end of message may follow"

    def after(s: Any) -> None:
        s += rx.gen("x", n=3)
        s += "more"

    assert "n=3" in str(refused(after))

    def forked(s: Any) -> None:
        s += rx.gen("x", n=3)
        s.fork(2)

    assert "n=3" in str(refused(forked))

    def others_go_on(s: Any) -> None:
        a, b = s.fork(2)
        a += rx.gen("x", n=3)
        b += "more"
        s += "more"

    assert len(recorded(others_go_on)) == 4


def test_fork_gives_branches_with_index_and_key() -> None:
    seen: list[Any] = []

    def program(s: Any) -> None:
        s += "a"
        for f in s.fork(2):
            seen.append((f.index, f.key))
        for f in s.fork(["p", ("q", 1)]):
            seen.append((f.index, f.key))
            f += "b"
        b = s.fork(range(5, 7))
        seen.append((len(b), b[1].key, b[-1].index, [f.key for f in b[0:1]], b.branch(6).index))

    nodes = recorded(program)
    assert seen == [(0, 0), (1, 1), (0, "p"), (1, ("q", 1)), (2, 6, 1, [5], 1)]
    forks = [n for n in nodes if isinstance(n, ForkNode)]
    children = [child for fork in forks for child in fork.children]
    assert len(set(children)) == 6
    assert 0 not in children
    assert {n.branch for n in nodes if isinstance(n, TextNode)} == {0, *forks[1].children}


@pytest.mark.parametrize(
    "keys", [0, -1, 65_537, True, 1.5, None, "ab", b"ab", [], ["a", "a"], [1, 1.0], [[1]], {"a", "b"}, [{}]]
)
def test_a_fork_of_nothing_or_of_repeated_keys_is_refused(keys: Any) -> None:
    assert refused(lambda s: s.fork(keys)).param == "n_or_keys"


def test_fork_before_any_text_in_an_open_message_and_nested() -> None:
    def bare(s: Any) -> None:
        for f in s.fork(2):
            f += "a"

    assert isinstance(recorded(bare)[0], ForkNode)

    def in_message(s: Any) -> None:
        with s.assistant():
            s += "a"
            for f in s.fork(2):
                f += rx.gen("x")
                f += rx.user("next")
            s += "b"

    shape = [(n.branch, getattr(n, "role", "-")) for n in recorded(in_message) if isinstance(n, RoleNode)]
    assert shape == [
        (0, "assistant"),
        (1, None),
        (1, "user"),
        (1, None),
        (2, None),
        (2, "user"),
        (2, None),
        (0, None),
    ]

    def nested(s: Any) -> None:
        for f in s.fork(2):
            for g in f.fork(3):
                g += rx.gen("x")

    assert len([n for n in recorded(nested) if isinstance(n, GenNode)]) == 6


def test_a_fork_of_two_hundred() -> None:
    def program(s: Any) -> None:
        s += "a"
        for f in s.fork(200):
            f += f"{f.index}"
            f += rx.gen("x")

    assert len(recorded(program)) == 2 + 400


def test_branches_take_the_same_together() -> None:
    def program(s: Any) -> None:
        b = s.fork(3)
        b += "x"

    assert [n.text for n in recorded(program) if isinstance(n, TextNode)] == ["x"] * 3


def test_join_names_its_branches() -> None:
    def program(s: Any) -> None:
        s += "a"
        b = s.fork(3)
        b += rx.gen("x")
        s.join(b, sep="\n")
        c = s.fork(2)
        s.join(list(c)[:1])

    joins = [n for n in recorded(program) if isinstance(n, JoinNode)]
    assert [(j.branch, len(j.children), j.sep) for j in joins] == [(0, 3, "\n"), (0, 1, "")]


def test_join_takes_only_branches_of_its_own() -> None:
    def foreign(s: Any) -> None:
        a, _ = s.fork(2)
        s.join(a.fork(2))

    def itself(s: Any) -> None:
        s.join([s])

    def twice(s: Any) -> None:
        a, _ = s.fork(2)
        s.join([a, a])

    def nothing(s: Any) -> None:
        s.join([])

    def no_branches(s: Any) -> None:
        s.join(5)

    for program in (foreign, itself, twice, nothing, no_branches):
        assert refused(program).param == "branches", program.__name__

    def bad_separator(s: Any) -> None:
        s.join(s.fork(2), sep=None)

    assert refused(bad_separator).param == "sep"


def test_a_joined_branch_is_over() -> None:
    def program(s: Any) -> None:
        b = s.fork(2)
        s.join(b)
        b += "late"

    assert "joined" in str(refused(program))


def test_names_are_known_without_waiting() -> None:
    seen: list[bool] = []

    def program(s: Any) -> None:
        seen.append("x" in s)
        s += rx.gen("x")
        seen.append("x" in s)
        [f] = s.fork(1)
        f += rx.gen("y")
        seen.extend(("x" in f, "y" in f, "y" in s))

    recorded(program)
    assert seen == [False, True, True, True, False]
