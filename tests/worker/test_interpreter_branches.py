"""Fork, join, cancel, deadlines, errors: who gets which event, and that it is exactly one."""

from __future__ import annotations

import random
from typing import Any

import pytest

from radixrt.api import VERSION, ForkNode, JoinNode, RoleNode, SelectNode, TextNode
from radixrt.testing.byte_tokenizer import ByteTokenizer
from radixrt.testing.scripted_model import say
from radixrt.worker.activity import caused_by
from radixrt.worker.messages import Extend, Open

B = ByteTokenizer


def test_children_continue_the_parent_and_compute_it_once(make: Any, gen: Any) -> None:
    h = make()
    children = tuple(range(1, 9))
    nodes = [TextNode(node=0, text="p" * 1000), ForkNode(node=1, children=children)]
    for child in children:
        nodes += [TextNode(node=10 * child, branch=child, text=f"<{child}>"), gen(10 * child + 1, branch=child)]
    h.do(nodes)
    assert sorted(h.contexts()) == [("p" * 1000) + f"<{c}>" for c in children]
    assert h.end().usage.computed_tokens < 1000 + 8 * 10


def test_a_fork_of_two_hundred_over_nothing(make: Any, gen: Any) -> None:
    h = make()
    children = tuple(range(1, 201))
    nodes = [ForkNode(node=0, children=children), *(gen(c, branch=c, max_tokens=2) for c in children)]
    assert len(h.do(nodes)) == 200
    assert h.end().outcome == "done"


def test_a_long_shared_context_is_not_copied_by_a_fork(make: Any, gen: Any) -> None:
    h = make(context_length=8000, total_slots=16000)
    children = tuple(range(1, 201))
    h.open([TextNode(node=0, text="x" * 5000), gen(1), ForkNode(node=2, children=children)], final=False)
    h.run()
    tree = h.interpreter._programs[(b"client", "p")]._tree
    assert len({id(tree.branches[c].context) for c in children}) == 1


def test_a_fork_tokenizes_what_is_shared_once(make: Any, gen: Any) -> None:
    h = make()
    seen: list[int] = []
    encode = h.tokenizer.encode

    def counting(pieces: Any, *, at_start: bool) -> Any:
        ids = encode(pieces, at_start=at_start)
        seen.append(len(ids))
        return ids

    h.tokenizer.encode = counting
    children = tuple(range(1, 51))
    nodes = [TextNode(node=0, text="shared text " * 100), ForkNode(node=1, children=children)]
    h.do([*nodes, *(gen(100 + c, branch=c, max_tokens=1) for c in children)])
    assert sum(seen) < 2 * 1200 + 50 * 40


def test_nested_forks_and_the_parent_goes_on(make: Any, gen: Any) -> None:
    h = make()
    h.do(
        [
            TextNode(node=0, text="a"),
            ForkNode(node=1, children=(1, 2)),
            TextNode(node=2, branch=1, text="b"),
            ForkNode(node=3, branch=1, children=(3,)),
            TextNode(node=4, branch=3, text="c"),
            gen(5, branch=3),
            gen(6, branch=2),
            TextNode(node=7, text="z"),
            gen(8),
        ]
    )
    assert sorted(h.contexts()) == ["a", "abc", "az"]


def test_a_deep_chain_of_forks_does_not_recurse(make: Any, gen: Any) -> None:
    h = make()
    depth = 3000
    nodes = [ForkNode(node=i, branch=i, children=(i + 1,)) for i in range(depth)]
    h.do([*nodes, gen(depth, branch=depth)])
    assert h.end().outcome == "done"


def test_join_appends_the_texts_since_the_fork(make: Any, gen: Any) -> None:
    h = make(script=say(b"ok", B.EOS))
    nodes = h.do(
        [
            TextNode(node=0, text="start:"),
            ForkNode(node=1, children=(1, 2)),
            TextNode(node=2, branch=1, text=" one "),
            gen(3, branch=1),
            TextNode(node=4, branch=2, text=" two "),
            gen(5, branch=2),
            JoinNode(node=6, children=(1, 2), sep=" |"),
            gen(7),
        ]
    )
    assert nodes[6].samples[0].text == " one ok | two ok"
    assert h.contexts()[-1] == "start: one ok | two ok"


def test_join_takes_what_was_sent_before_it(make: Any, gen: Any) -> None:
    """Whether or not the child has got further by the time the parent arrives at the join."""
    for early in (True, False):
        h = make(script=say(b"ok", B.EOS))
        h.open(
            [
                ForkNode(node=0, children=(1,)),
                TextNode(node=1, branch=1, text="x"),
                *([] if early else [gen(2), gen(3)]),
                JoinNode(node=4, children=(1,)),
                TextNode(node=5, branch=1, text="late"),
                gen(6, branch=1),
            ],
        )
        h.run()
        assert h.nodes()[4].samples[0].text == "x"


@pytest.mark.parametrize("children", [(), (1, 1), (7,), (0,), (2,)])
def test_a_join_of_strangers_fails_the_program(make: Any, gen: Any, children: tuple[int, ...]) -> None:
    h = make()
    h.open(
        [
            ForkNode(node=0, children=(1,)),
            ForkNode(node=1, branch=1, children=(2,)),
            gen(2, branch=1),
            JoinNode(node=3, children=children),
        ]
    )
    h.run()
    error = h.end().error
    assert error is not None
    assert (h.end().outcome, error.code, error.param) == ("failed", "invalid_request", "children")
    assert h.nodes()[2].error is not None


def test_a_failing_node_fails_its_branch_and_who_joins_it(make: Any, gen: Any) -> None:
    h = make()
    nodes = h.do(
        [
            TextNode(node=0, text="a"),
            ForkNode(node=1, children=(1, 2)),
            gen(2, branch=1, temperature=-1.0),
            gen(3, branch=1),
            SelectNode(node=4, branch=1, name="s", choices=("a", "b")),
            ForkNode(node=5, branch=1, children=(3,)),
            gen(6, branch=3),
            gen(7, branch=2),
            gen(8),
            JoinNode(node=9, children=(2,)),
            JoinNode(node=10, children=(1, 2)),
            gen(11),
        ]
    )
    failed = {node for node, event in nodes.items() if event.error is not None}
    assert failed == {2, 3, 4, 6, 10, 11}
    assert len({nodes[n].error.message for n in failed}) == 1
    assert {n: nodes[n].error.detail.get("node") for n in failed} == {
        2: None,
        **dict.fromkeys((3, 4, 6, 10, 11), 2),
    }
    assert h.end().outcome == "done"


@pytest.mark.parametrize("how", ["running", "queued", "preparing", "waiting"])
def test_cancel_ends_every_node_once_and_frees_everything(make: Any, gen: Any, how: str) -> None:
    h = make(max_running=1)
    nodes = [
        TextNode(node=0, text="a"),
        ForkNode(node=1, children=(1, 2)),
        gen(2, branch=1, max_tokens=500),
        gen(3, branch=2, max_tokens=500),
        JoinNode(node=4, children=(1, 2)),
        gen(5),
    ]
    h.pool.held = how == "preparing"
    h.open(nodes if how != "waiting" else nodes[:2], final=how != "waiting", deltas=True)
    if how == "running":
        h.run(5)
    elif how == "queued":
        h.run(1)
    h.cancel()
    stats = h.interpreter.stats()
    assert stats["running"] == stats["waiting"] == stats["held_slots"] == 0, "freed at once, not in time"
    h.pool.release()
    expected = {2, 3, 4, 5} if how != "waiting" else set()
    assert set(h.nodes()) == expected
    assert {e.error.code for e in h.nodes().values() if e.error} <= {"cancelled"}
    assert h.end().outcome == "cancelled"
    h.run()
    h.end()
    stats = h.interpreter.stats()
    assert stats["programs"] == stats["running"] == stats["waiting"] == stats["held_slots"] == 0
    assert not h.scheduler.hints
    if how == "running":
        partial = h.nodes()[2].samples or h.nodes()[3].samples
        assert partial[0].finish_reason == "cancelled"


def test_cancel_of_a_branch_takes_its_descendants_only(make: Any, gen: Any) -> None:
    h = make()
    h.open(
        [
            TextNode(node=0, text="a"),
            ForkNode(node=1, children=(1, 2)),
            gen(2, branch=1, max_tokens=300),
            ForkNode(node=3, branch=1, children=(3,)),
            gen(4, branch=3),
            gen(5, branch=2, max_tokens=10),
        ],
        final=False,
    )
    h.run(3)
    h.cancel(1)
    h.cancel(99)
    h.extend(
        [
            gen(6, branch=1),
            ForkNode(node=7, branch=3, children=(4,)),
            gen(8, branch=4),
            ForkNode(node=9, children=(99, 100)),
            gen(10, branch=99),
            gen(11, branch=100),
            gen(12),
        ],
        final=True,
    )
    h.run()
    cancelled = {n for n, e in h.nodes().items() if e.error is not None and e.error.code == "cancelled"}
    assert cancelled == {2, 4, 6, 8, 10}
    assert set(h.nodes()) - cancelled == {5, 11, 12}
    assert h.end().outcome == "done"


def test_a_deadline_fails_what_is_unfinished(make: Any, gen: Any) -> None:
    h = make()
    h.open([TextNode(node=0, text="a"), gen(1), gen(2, max_tokens=500)], timeout_s=5.0)
    h.run(20)
    assert h.interpreter.next_deadline() == 5.0
    h.clock.advance(5.5)
    h.run()
    assert h.nodes()[1].error is None
    assert h.nodes()[2].error is not None
    assert h.nodes()[2].error.code == "deadline_exceeded"
    assert (h.end().outcome, h.end().error and h.end().error.code) == ("failed", "deadline_exceeded")
    assert h.end().error.param == "timeout"
    assert h.interpreter.next_deadline() is None
    assert h.interpreter.stats()["held_slots"] == 0


@pytest.mark.parametrize("timeout", [0.0, -1.0, float("nan"), float("inf")])
def test_a_timeout_that_is_none_is_refused(make: Any, timeout: float) -> None:
    h = make()
    h.open(timeout_s=timeout)
    assert h.end().error is not None
    assert h.end().error.param == "timeout_s"


@pytest.mark.parametrize(
    ("nodes", "param"),
    [
        ([TextNode(node=0, branch=5, text="a")], "branch"),
        ([TextNode(node=0, text="a"), TextNode(node=0, text="b")], "node"),
        ([ForkNode(node=0, children=())], "children"),
        ([ForkNode(node=0, children=(1, 1))], "children"),
        ([ForkNode(node=0, children=(0,))], "children"),
        ([ForkNode(node=0, children=tuple(range(1, 20_000)))], "children"),
        ([TextNode(node=i, text="") for i in range(100_001)], "nodes"),
    ],
)
def test_a_malformed_program_fails_alone(make: Any, gen: Any, nodes: list[Any], param: str) -> None:
    h = make()
    h.open([TextNode(node=0, text="a"), gen(1, max_tokens=20)], program="good")
    h.open(nodes, program="bad")
    error = h.end("bad").error
    assert error is not None
    assert (error.code, error.param) == ("invalid_request", param)
    h.run()
    assert h.end("good").outcome == "done"


def test_versions_names_and_repeats_are_refused(make: Any, gen: Any) -> None:
    h = make()
    h.send(Open(program="new", seed=1, version=VERSION + 1))
    assert h.end("new").error.param == "version"
    h.send(Open(program="x" * 1000, seed=1))
    assert h.end("x" * 1000).error.param == "program"
    h.send(Open(program="seed", seed=-1))
    assert h.end("seed").error.param == "seed"
    for number, priority in enumerate((2**31, -(2**31) - 1, 2**40)):
        h.send(Open(program=f"urgent{number}", seed=1, priority=priority))
        assert h.end(f"urgent{number}").error.param == "priority"
    h.send(Extend(program="never"))
    assert h.end("never").error.code == "invalid_request"
    h.open(program="twice", final=False)
    h.open(program="twice", final=False)
    assert h.end("twice").error.param == "program"
    h.open([gen(0)], program="done")
    h.extend([gen(1)], program="done")
    assert h.end("done").error.param == "final"
    # What crosses the end on the wire is harmless.
    h.extend([gen(2)], program="done")
    h.cancel(program="done")
    h.end("done")


def test_a_clients_programs_are_its_own_and_end_with_it(make: Any, gen: Any) -> None:
    h = make()
    message = Open(program="p", seed=1, nodes=(TextNode(node=0, text="a"), gen(1, max_tokens=50)), final=True)
    h.send(message, client=b"one")
    h.send(message, client=b"two")
    h.run(5)
    before = len(h.interpreter.replies)
    h.interpreter.gone(b"one")
    assert len(h.interpreter.replies) == before
    h.run()
    assert {client for client, _ in h.interpreter.replies[before:]} == {b"two"}
    assert h.interpreter.stats()["held_slots"] == 0


def test_an_unforeseen_error_fails_one_program(make: Any, gen: Any, caplog: Any) -> None:
    h = make()

    def broken(*_: Any, **__: Any) -> Any:
        raise ZeroDivisionError("a bug")

    h.open([TextNode(node=0, text="a"), gen(1, max_tokens=20)], program="good")
    h.tokenizer.heal = broken
    h.do([TextNode(node=0, text="a"), gen(1)], program="bad")
    assert h.nodes("bad")[1].error.code == "internal_error"
    assert "a bug" in caplog.text
    assert h.end("good").outcome == "done"


def test_with_parallelism_off_one_node_of_a_program_runs(make: Any, gen: Any) -> None:
    peak = {}
    for flag in ("on", "off"):
        h = make(frontend_parallelism=flag)
        sizes: list[int] = []
        h.model.hook = lambda batch, sizes=sizes: sizes.append(len(batch.context_slots))
        children = (1, 2, 3, 4)
        h.do(
            [
                TextNode(node=0, text="a"),
                ForkNode(node=1, children=children),
                *(gen(10 + c, branch=c, max_tokens=8) for c in children),
                *(gen(20 + c, branch=c, max_tokens=2) for c in children),
                JoinNode(node=30, children=children),
                gen(31),
            ]
        )
        assert h.end().outcome == "done"
        assert len(h.nodes()) == 10
        peak[flag] = max(sizes)
    assert peak["off"] == 1
    assert peak["on"] == 4


def test_hints_are_given_while_branches_wait_and_taken_back(make: Any, gen: Any) -> None:
    h = make()
    h.open([TextNode(node=0, text="a" * 20), gen(1), ForkNode(node=2, children=(1, 2))], final=False)
    h.run()
    assert sum(h.scheduler.hints.values()) >= 3
    h.extend([gen(3, branch=1), gen(4, branch=2), gen(5)], final=True)
    h.run()
    assert not h.scheduler.hints
    off = make(frontend_hint="off")
    off.open([TextNode(node=0, text="a" * 20), gen(1)], final=False)
    off.run()
    assert not off.scheduler.hints


def test_a_waiting_program_holds_no_slots(make: Any, gen: Any) -> None:
    h = make(total_slots=1200)
    for i in range(100):
        h.open([TextNode(node=0, text=f"{i:03}" * 20), gen(1)], program=f"w{i}", final=False)
        h.run()
    assert h.interpreter.stats()["held_slots"] == 0
    h.do([TextNode(node=0, text="b" * 1000), gen(1)], program="big")
    assert h.nodes("big")[1].error is None
    for i in range(100):
        h.extend([gen(2)], program=f"w{i}", final=True)
    h.run()
    assert all(h.nodes(f"w{i}")[2].error is None for i in range(100))
    assert not h.scheduler.hints


def test_a_hundred_programs_cancelled_at_random_points(make: Any, gen: Any) -> None:
    rng = random.Random(5)
    h = make(max_running=8, total_slots=2000)
    alive = []
    for i in range(100):
        children = tuple(range(1, rng.randint(2, 5)))
        nodes = [TextNode(node=0, text="t" * rng.randint(0, 60)), ForkNode(node=1, children=children)]
        for child in children:
            nodes.append(gen(10 + child, branch=child, max_tokens=rng.randint(1, 30), n=rng.choice((1, 1, 2))))
        if rng.random() < 0.5:
            nodes.append(JoinNode(node=50, children=children))
        nodes.append(SelectNode(node=51, name="s", choices=("a", "bc")))
        name = f"p{i}"
        h.open(nodes, program=name, final=rng.random() < 0.7)
        alive.append((name, {n.node for n in nodes if n.__class__.__name__[:2] in ("Ge", "Se", "Jo")}))
        h.run(rng.randint(0, 6))
        victim = rng.choice(alive)[0]
        h.cancel(rng.choice([None, None, 0, 1, 2]), program=victim)
    h.run()
    for name, _ in alive:
        h.cancel(program=name)
    h.run()
    for name, expected in alive:
        h.end(name)
        assert set(h.nodes(name)) == expected
    stats = h.interpreter.stats()
    assert stats["programs"] == stats["held_slots"] == stats["waiting"] == 0
    assert not h.scheduler.hints


def test_thousands_of_short_programs(make: Any, gen: Any) -> None:
    h = make()
    for i in range(2000):
        h.open([TextNode(node=0, text=f"{i % 50}"), gen(1, max_tokens=1)], program=str(i))
    h.run()
    ends = [e for _, e in h.interpreter.replies if e.__class__.__name__ == "EndEvent"]
    assert len(ends) == 2000
    assert {e.outcome for e in ends} == {"done"}


def test_too_many_programs_are_refused(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("radixrt.worker.interpreter.MAX_PROGRAMS", 2)
    h = make()
    for name in ("a", "b", "c"):
        h.open(program=name, final=False)
    assert h.end("c").error.code == "overloaded"
    h.cancel(program="a")
    h.open(program="d", final=False)
    assert not h.events("d")


def test_a_role_in_a_model_without_template(make: Any, gen: Any) -> None:
    h = make(tokenizer=ByteTokenizer(template=None))
    nodes = h.do([RoleNode(node=0, role="user"), gen(1)])
    assert nodes[0].error.param == "role"
    assert nodes[1].error == caused_by(0, nodes[0].error)
