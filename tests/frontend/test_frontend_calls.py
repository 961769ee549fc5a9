"""A program inside a program: on the caller's state, or as a run of its own that ends with its caller."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import radixrt as rx
from radixrt.api import GenNode
from radixrt.errors import Cancelled, DeadlineExceeded, InvalidRequest


@rx.program
def inner(s: Any, word: str = "w") -> Any:
    s += word + rx.gen("inner")
    return s["inner"]


def test_with_a_state_it_becomes_part_of_that_branch(fake: Any) -> None:
    @rx.program
    def outer(s: Any) -> Any:
        s += "a"
        first = inner(s, word="b")
        [f] = s.fork(1)
        second = inner(f, "c")
        return first, second, s["inner"], s.text(), f.text()

    engine = fake(inner=lambda context: context.upper())
    assert outer.run(engine=engine).value == ("AB", "ABABC", "AB", "abAB", "abABcABABC")
    assert len(engine.opened) == 1


def test_without_a_state_it_is_a_run_of_its_own(fake: Any) -> None:
    @rx.program
    def outer(s: Any) -> Any:
        s += rx.gen("x")
        runs = [inner(word=str(i)) for i in range(3)]
        return [run.value for run in runs]

    engine = fake(inner=lambda context: context * 2)
    result = outer.run(engine=engine, temperature=0.25, seed=7, salt="t", priority=2)
    assert result.value == ["00", "11", "22"]
    assert [child.program for child in result.children] == ["inner"] * 3
    assert {(o["salt"], o["priority"]) for o in engine.opened} == {("t", 2)}
    nodes = [n for p in engine.programs for s in p.segments for n in s if isinstance(n, GenNode)]
    assert {n.params.temperature for n in nodes} == {0.25}
    assert result.usage.completion_tokens == 4 * 4
    assert len(result.trace["calls"]) == 3


def test_seeds_of_called_programs_follow_from_the_callers(fake: Any) -> None:
    @rx.program
    def outer(s: Any) -> None:
        for _ in range(3):
            inner()

    def seeds() -> list[int]:
        return [child.seed for child in outer.run(engine=fake(), seed=7).children]

    assert seeds() == seeds()
    assert len(set(seeds())) == 3
    assert 7 not in seeds()


def test_a_run_is_over_when_the_programs_it_called_are(fake: Any) -> None:
    @rx.program
    def outer(s: Any) -> str:
        inner()
        return "value"

    result = outer.run(engine=fake(inner=fake.Waiting("late", seconds=0.05)))
    [child] = result.children
    assert child.done
    assert child["inner"] == "late"


def test_an_error_of_a_called_program_raises_where_its_value_is_read(fake: Any) -> None:
    @rx.program
    def failing(s: Any) -> None:
        raise LookupError("inside")

    @rx.program
    def reads(s: Any) -> Any:
        return failing().value

    @rx.program
    def ignores(s: Any) -> str:
        failing()
        return "fine"

    with pytest.raises(LookupError, match="inside"):
        reads.run(engine=fake())
    assert ignores.run(engine=fake()).value == "fine"


def test_called_programs_are_cancelled_with_their_caller(fake: Any, until: Any) -> None:
    engine = fake(inner=fake.Waiting())

    @rx.program
    def middle(s: Any) -> Any:
        return inner().value

    @rx.program
    def outer(s: Any) -> Any:
        return middle().value

    run = outer.start(engine=engine)
    until(lambda: "inner" in engine.held)
    run.cancel()
    assert run.wait(5)
    until(lambda: engine.ends == [("p0", "cancelled")])
    [child] = run.children
    assert isinstance(child.error, Cancelled)


def test_called_programs_are_cancelled_after_their_caller_returned(fake: Any, until: Any) -> None:
    engine = fake(inner=fake.Waiting())

    @rx.program
    def outer(s: Any) -> str:
        inner()
        return "value"

    run = outer.start(engine=engine)
    until(lambda: "inner" in engine.held)
    assert not run.wait(0.02)
    run.cancel()
    assert run.wait(5)
    assert engine.ends == [("p0", "cancelled")]


def test_called_programs_are_cancelled_when_their_caller_raises(fake: Any, until: Any) -> None:
    engine = fake(inner=fake.Waiting())

    @rx.program
    def outer(s: Any) -> None:
        inner()
        until(lambda: "inner" in engine.held)
        raise LookupError

    with pytest.raises(LookupError):
        outer.run(engine=engine)
    until(lambda: engine.ends == [("p0", "cancelled")])


def test_called_programs_have_the_callers_deadline(fake: Any) -> None:
    @rx.program
    def outer(s: Any) -> Any:
        return inner().value

    with pytest.raises(DeadlineExceeded):
        outer.run(engine=fake(inner=fake.Waiting()), timeout=0.05)


def test_calling_is_known_per_thread_of_execution(fake: Any) -> None:
    @rx.program
    def outer(s: Any) -> list[Any]:
        caught: list[Any] = []

        def work() -> None:
            with pytest.raises(InvalidRequest) as error:
                inner()
            caught.append(error.value)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return caught

    [error] = outer.run(engine=fake()).value
    assert "state as first argument" in str(error)
    with pytest.raises(InvalidRequest):
        inner()


def test_wrong_arguments_of_a_call_are_named(fake: Any) -> None:
    @rx.program
    def outer(s: Any, how: int) -> Any:
        return inner(wrod="x") if how else inner(s, wrod="x")

    for how in (0, 1):
        with pytest.raises(InvalidRequest) as caught:
            outer.run(how, engine=fake())
        assert caught.value.param == "wrod"


def test_an_async_program_cannot_be_part_of_a_plain_one(fake: Any) -> None:
    @rx.program
    async def awaiting(s: Any) -> Any:
        s += rx.gen("x")
        return await s.read("x")

    @rx.program
    def on_my_state(s: Any) -> Any:
        return awaiting(s)

    @rx.program
    def on_its_own(s: Any) -> Any:
        return awaiting().value

    with pytest.raises(InvalidRequest, match="async"):
        on_my_state.run(engine=fake())
    assert on_its_own.run(engine=fake()).value == "ok"


def test_a_recursive_program(fake: Any) -> None:
    @rx.program
    def count(s: Any, depth: int) -> int:
        s += rx.gen("x")
        return 1 + (count(depth=depth - 1).value if depth else 0)

    assert count.run(depth=10, engine=fake()).value == 11
