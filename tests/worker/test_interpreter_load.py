"""More work than fits: who is refused, who is held back, what it costs, and what is left of it afterwards."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

from radixrt.api import EndEvent, ForkNode, NodeEvent, SelectNode, TextNode, Usage
from radixrt.worker import interpreter

CHOICES = tuple(f"choice {i}" for i in range(40))


def forked(count: int, gen: Any, **params: Any) -> list[Any]:
    children = tuple(range(1, count + 1))
    fork = [TextNode(node=0, text="shared"), ForkNode(node=1, children=children)]
    return [*fork, *(gen(10 + child, branch=child, **params) for child in children)]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> int:
    """Few sequences at work at once, so that a test soon has more."""
    monkeypatch.setattr(interpreter, "MAX_SEQUENCES", 10)
    return 10


def at_work(h: Any) -> float:
    stats = h.scheduler.stats()
    return stats["running"] + stats["waiting"]


@pytest.mark.parametrize("kind", ["select", "samples", "fork", "unconditional"])
def test_one_program_may_want_more_than_the_queue_holds(make: Any, gen: Any, kind: str, small: int) -> None:
    """On an idle engine nothing that a program asks for is refused."""
    h = make(max_queued=1, max_running=2)
    method = "unconditional_likelihood_normalized" if kind == "unconditional" else "token_length_normalized"
    nodes = {
        "samples": [TextNode(node=0, text="a"), gen(11, n=50, temperature=1.0)],
        "fork": forked(300, gen),
    }.get(kind, [TextNode(node=0, text="a"), SelectNode(node=11, name="s", choices=CHOICES, method=method)])
    found = h.do(nodes)
    assert h.end().outcome == "done"
    assert not [event for event in found.values() if event.error is not None]
    assert len(found) == (300 if kind == "fork" else 1)
    assert h.interpreter.stats()["held_slots"] == 0


def test_many_programs_at_once_are_all_served(make: Any, gen: Any, small: int) -> None:
    h = make(max_running=4)
    for name in range(64):
        h.open([TextNode(node=0, text="a"), SelectNode(node=1, name="s", choices=CHOICES)], program=f"p{name}")
    h.run()
    assert {h.end(f"p{name}").outcome for name in range(64)} == {"done"}


def test_what_is_held_back_has_not_begun(make: Any, gen: Any, small: int) -> None:
    h = make(max_running=2)
    h.open(forked(100, gen, max_tokens=3))
    h.run(1)
    most = at_work(h)
    while h.scheduler.has_work():
        h.run(1)
        most = max(most, at_work(h))
    assert most == small
    assert len(h.nodes()) == 100


def test_a_batch_never_wants_for_sequences(make: Any, gen: Any, small: int) -> None:
    h = make(max_running=32)
    h.open(forked(200, gen, max_tokens=6, ignore_eos=True))
    h.run(4)
    assert h.scheduler.stats()["running"] == 32


def test_a_large_program_does_not_hold_up_a_small_one(make: Any, gen: Any, small: int) -> None:
    h = make(max_running=2)
    h.open(forked(200, gen), program="large")
    h.run(1)
    for name, priority in (("urgent", 1), ("equal", 0), ("patient", -1)):
        h.open([TextNode(node=0, text="b"), gen(1)], program=name, priority=priority)
    h.run()
    order = [e.program for _, e in h.interpreter.replies if isinstance(e, NodeEvent)]
    before = {name: order[: order.index(name)].count("large") for name in ("urgent", "equal", "patient")}
    assert before["urgent"] <= before["equal"] < 100  # the scheduler has its say in the order, too
    assert before["patient"] > 180


def test_a_program_is_refused_when_the_queue_is_full_and_accepted_later(make: Any, gen: Any) -> None:
    h = make(max_running=2, max_queued=3)
    h.open(program="idle", final=False)  # one that waits for Python takes no place in the queue
    for name in range(7):
        h.open([TextNode(node=0, text="a"), gen(1, max_tokens=30)], program=f"p{name}")
    refused = [name for name in range(7) if any(isinstance(e, EndEvent) for e in h.events(f"p{name}"))]
    assert refused == [5, 6]
    error = h.end("p5").error
    assert (error.code, error.param) == ("overloaded", "max_queued")
    h.extend([TextNode(node=0, text="b"), *(gen(i, branch=0) for i in (1, 2))], program="idle", final=True)
    h.run()
    assert {h.end(name).outcome for name in ("idle", "p0", "p1", "p2", "p3", "p4")} == {"done"}
    h.open([TextNode(node=0, text="a"), gen(1)], program="again")
    h.run()
    assert h.end("again").outcome == "done"


@pytest.mark.parametrize("how", ["cancel", "branches", "timeout", "gone"])
def test_what_is_held_back_can_be_cancelled(make: Any, gen: Any, small: int, how: str) -> None:
    h = make(max_running=2)
    h.open(forked(60, gen, max_tokens=300), timeout_s=5.0)
    h.run(2)
    if how == "cancel":
        h.cancel()
    elif how == "branches":
        for branch in range(1, 61):
            h.cancel(branch)
    elif how == "timeout":
        h.clock.advance(6.0)
        h.interpreter.expire()
    else:
        h.interpreter.gone(b"client")
    if how != "gone":
        assert len(h.nodes()) == 60
        h.end()
    assert not h.scheduler.has_work()
    own = vars(h.interpreter)
    assert not own["_backlog"]
    assert (own["_weight"], own["_at_work"], own["_begun"]) == (0, {}, set())
    h.open([TextNode(node=0, text="a"), gen(1)], program="next")
    h.run()
    assert h.end("next").outcome == "done"


# --- usage ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["cancel", "branch", "timeout"])
def test_the_usage_of_work_that_was_ended_is_told(make: Any, gen: Any, how: str) -> None:
    h = make()
    nodes = [TextNode(node=0, text="a" * 50), ForkNode(node=1, children=(1,))]
    nodes += [gen(2, branch=1, max_tokens=900, n=2, ignore_eos=True, heal=False), gen(3, max_tokens=2, heal=False)]
    h.open(nodes, timeout_s=5.0)
    h.run(12)
    if how == "cancel":
        h.cancel()
    elif how == "branch":
        h.cancel(1)
    else:
        h.clock.advance(6.0)
        h.interpreter.expire()
    h.run()
    ended = h.nodes()[2]
    assert ended.error.code in ("cancelled", "deadline_exceeded")
    usage = ended.usage
    assert usage.completion_tokens == sum(len(sample.ids) for sample in ended.samples) > 10
    assert usage.decode_steps == usage.completion_tokens
    assert usage.prompt_tokens == usage.cached_tokens + usage.computed_tokens == 100
    assert h.end().usage == usage + h.nodes()[3].usage


def test_a_sample_that_fails_does_not_hide_what_the_others_cost(make: Any, gen: Any) -> None:
    """The event of a failed node counts the sequences that it took down with it."""
    h = make()
    h.open([TextNode(node=0, text="a" * 50), gen(1, n=3, temperature=1.0, max_tokens=900, ignore_eos=True)])
    h.run(10)
    broken = h.scheduler.requests[1].sink
    broken.push = lambda tokens: 1 / 0
    h.run(3)
    event = h.nodes()[1]
    assert event.error.code == "internal_error"
    assert event.usage.prompt_tokens == 150
    assert event.usage.completion_tokens > 20
    assert h.end().usage == event.usage


def test_a_cancelled_select_has_its_usage(make: Any, gen: Any) -> None:
    h = make(chunk=10, max_running=2)
    h.open([TextNode(node=0, text="a" * 25), SelectNode(node=1, name="s", choices=CHOICES)])
    h.run(6)
    h.cancel()
    assert h.nodes()[1].usage.computed_tokens > 25
    assert h.end().usage == h.nodes()[1].usage != Usage()


# --- what is left of a program that has ended -------------------------------------------------------------------


def test_deadlines_keep_no_program_alive(make: Any, gen: Any) -> None:
    h = make()
    programs = []
    h.open(program="first", final=False, timeout_s=1.0)  # on top of the heap for all the time
    for number in range(500):
        h.open([TextNode(node=0, text="a"), gen(1, max_tokens=1)], program=f"p{number}", timeout_s=3600.0)
        programs.append(weakref.ref(h.interpreter._programs[(b"client", f"p{number}")]))
        h.run()
    h.interpreter.replies.clear()
    h.scheduler.requests.clear()
    gc.collect()
    assert not [program for program in programs if program() is not None]
    assert len(h.interpreter._deadlines) < 200
    assert h.interpreter.next_deadline() == 1.0


def test_a_name_used_again_has_its_own_deadline(make: Any, gen: Any) -> None:
    h = make()
    h.open(program="p", final=False, timeout_s=5.0)
    h.cancel()
    h.interpreter.replies.clear()
    h.open(program="p", final=False, timeout_s=50.0)
    h.clock.advance(10.0)
    h.interpreter.expire()
    assert not h.events()
    assert h.interpreter.next_deadline() == 40.0
    h.clock.advance(50.0)
    h.interpreter.expire()
    assert h.end().error.code == "deadline_exceeded"
    assert not [e for e in h.events() if isinstance(e, NodeEvent)]
