"""What a finished run tells: values by name, nodes, usage, trace, and when it is over."""

from __future__ import annotations

import asyncio
import json
import threading
import traceback
from typing import Any

import pytest

import radixrt as rx
from radixrt.api import Usage
from radixrt.errors import Cancelled, DeadlineExceeded, InvalidRequest, WorkerDied

USAGE = Usage(prompt_tokens=3, cached_tokens=1, computed_tokens=2, completion_tokens=4, decode_steps=4)


def run(function: Any, engine: Any, **options: Any) -> Any:
    return rx.program(function).run(engine=engine, **options)


def test_every_output_is_waited_for_read_or_not(fake: Any) -> None:
    def program(s: Any) -> str:
        s += rx.gen("x")
        return "done"

    result = run(program, fake(x=fake.Waiting("late", seconds=0.05)))
    assert result.done
    assert result["x"] == "late"


def test_a_name_of_the_root_is_a_value_and_one_of_branches_a_list(fake: Any) -> None:
    engine = fake(x=lambda context: context.upper())

    def program(s: Any) -> None:
        for f in s.fork(["a", "b"]):
            f += f.key + rx.gen("score")
            for g in f.fork(2):
                g += f"{g.index}" + rx.gen("x")
        s += rx.gen("root")

    result = run(program, engine)
    assert result["root"] == "ok"
    assert result["score"] == ["ok", "ok"]
    assert result["x"] == ["AOK0", "AOK1", "BOK0", "BOK1"]
    assert "x" in result
    assert "y" not in result


def test_the_list_is_in_branch_order_however_they_were_written(fake: Any) -> None:
    def program(s: Any) -> None:
        b = s.fork(3)
        for f in reversed(list(b)):
            f += f"{f.index}" + rx.gen("x")
            f += rx.gen("x")

    result = run(program, fake(x=lambda context: f"<{context}>"))
    assert result["x"] == [f"<{i}<{i}>>" for i in range(3)], "the latest of each branch, in branch order"
    assert len(result.nodes) == 6


def test_a_name_in_root_and_branches_is_the_roots(fake: Any) -> None:
    def program(s: Any) -> None:
        b = s.fork(2)
        b += "b" + rx.gen("x")
        s += "r" + rx.gen("x")

    assert run(program, fake(x=lambda context: context))["x"] == "r"


def test_usage_adds_up(fake: Any) -> None:
    def program(s: Any) -> None:
        s += rx.gen("x")
        b = s.fork(2)
        b += rx.gen("x")

    result = run(program, fake())
    assert result.usage == USAGE + USAGE + USAGE
    assert result.nodes[0].usage == USAGE


def test_the_trace_is_json_and_can_be_left_out(fake: Any) -> None:
    def program(s: Any) -> None:
        s += rx.gen("x")

    trace = run(program, fake(), seed=5).trace
    assert json.loads(json.dumps(trace)) == trace
    assert trace["seed"] == 5
    [node] = trace["nodes"]
    assert node["name"] == "x"
    assert 0 <= node["sent_s"] <= node["ended_s"]
    assert node["source"].endswith(f":{program.__code__.co_firstlineno + 1}")
    assert "nodes" not in run(program, fake(), keep_trace=False).trace


def test_a_program_without_nodes_never_reaches_the_engine(fake: Any) -> None:
    engine = fake()
    result = run(lambda s: 5, engine)
    assert result.value == 5
    assert result.usage == Usage()
    assert engine.opened == []


def test_what_a_program_raises_comes_out_with_its_own_traceback(fake: Any, until: Any) -> None:
    def program(s: Any) -> None:
        s += rx.gen("x")
        s.send()
        raise LookupError("half-way")

    engine = fake(x=fake.Waiting())
    with pytest.raises(LookupError, match="half-way") as caught:
        run(program, engine)
    assert caught.traceback[-1].name == "program"
    until(lambda: engine.ends == [("p0", "cancelled")])


def test_nothing_can_be_added_after_the_return(fake: Any) -> None:
    kept: list[Any] = []

    def program(s: Any) -> None:
        kept.append(s)
        s += rx.gen("x")

    run(program, fake())
    with pytest.raises(InvalidRequest, match="returned"):
        kept[0] += "late"
    assert kept[0]["x"] == "ok"


def test_a_deadline_ends_the_run(fake: Any) -> None:
    def program(s: Any) -> Any:
        s += rx.gen("x")
        return s["x"]

    with pytest.raises(DeadlineExceeded):
        run(program, fake(x=fake.Waiting()), timeout=0.05)


def test_a_deadline_covers_nodes_nobody_reads(fake: Any) -> None:
    def program(s: Any) -> None:
        s += rx.gen("x")

    with pytest.raises(DeadlineExceeded):
        run(program, fake(x=fake.Waiting()), timeout=0.05)


def test_a_deadline_that_passes_before_the_first_node(fake: Any) -> None:
    def program(s: Any) -> None:
        threading.Event().wait(0.03)
        s += rx.gen("x")

    engine = fake()
    with pytest.raises(DeadlineExceeded) as caught:
        run(program, engine, timeout=0.01)
    assert caught.value.param == "timeout"
    assert engine.opened == []


@pytest.mark.parametrize("is_async", [False, True])
def test_a_deadline_does_not_wait_for_a_tool(fake: Any, is_async: bool) -> None:
    go_on = threading.Event()

    @rx.program
    def plain(s: Any) -> None:
        go_on.wait(10)
        s += rx.gen("x")

    @rx.program
    async def awaiting(s: Any) -> None:
        await asyncio.sleep(10)

    program = awaiting if is_async else plain
    started = program.start(engine=fake(), timeout=0.05)
    assert started.wait(5)
    assert isinstance(started.error, DeadlineExceeded)
    [error] = program.map([{}], engine=fake(), timeout=0.05).errors
    assert isinstance(error, DeadlineExceeded)
    with pytest.raises(DeadlineExceeded):
        asyncio.run(program.arun(engine=fake(), timeout=0.05))
    go_on.set()
    engine = fake()
    assert rx.program(lambda s: 5).start(engine=engine, timeout=60).value == 5
    assert asyncio.run(awaiting_nothing.arun(engine=engine, timeout=60)).value == 5
    assert [len(program.segments) for program in engine.programs] == [2, 2], "opened empty, then told the end"


def test_a_dead_worker_fails_the_run_and_later_ones_alike(fake: Any) -> None:
    engine = fake(x=fake.Waiting())

    def program(s: Any) -> Any:
        s += rx.gen("x")
        s.send()
        engine.die()
        return s["x"]

    with pytest.raises(WorkerDied):
        run(program, engine)
    engine.close()
    with pytest.raises(WorkerDied):
        run(program, engine)


def test_an_engine_that_breaks_while_opening_leaves_no_run_behind(fake: Any, monkeypatch: Any) -> None:
    def program(s: Any) -> Any:
        s += rx.gen("x")
        return s["x"]

    engine = fake()

    def broken(*args: Any, **kwargs: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(engine, "open_program", broken)
    with pytest.raises(ZeroDivisionError):
        run(program, engine)
    started = rx.program(program).start(engine=engine)
    assert started.wait(5)
    assert "ZeroDivisionError" in repr(started.error)
    [error] = rx.program(program).map([{}], engine=engine).errors
    assert "ZeroDivisionError" in repr(error)


def test_an_engine_that_breaks_while_taking_the_end_leaves_no_run_behind(fake: Any, monkeypatch: Any) -> None:
    engine = fake()

    @rx.program
    def program(s: Any) -> None:
        s += rx.gen("x")
        _ = s["x"]

        def broken(*args: Any, **kwargs: Any) -> None:
            raise ZeroDivisionError

        monkeypatch.setattr(engine.programs[-1], "extend", broken)

    with pytest.raises(ZeroDivisionError):
        program.run(engine=engine)
    started = program.start(engine=engine)
    assert started.wait(5)
    assert isinstance(started.error, ZeroDivisionError)


@rx.program
async def awaiting_nothing(s: Any) -> int:
    return 5


# --- runs that go on beside the caller ---


@rx.program
def held(s: Any) -> Any:
    s += rx.gen("x")
    return s["x"]


def test_a_started_run_is_waited_for_when_it_is_read(fake: Any, until: Any) -> None:
    engine = fake(x=fake.Waiting())
    run = held.start(engine=engine)
    assert not run.done
    assert run.wait(0.01) is False
    until(lambda: "x" in engine.held)
    engine.release("x")
    assert run.value == "late"
    assert run.done


def test_cancel_ends_a_run_and_everything_in_it(fake: Any, until: Any) -> None:
    engine = fake(x=fake.Waiting())
    run = held.start(engine=engine)
    until(lambda: "x" in engine.held)
    run.cancel()
    with pytest.raises(Cancelled):
        _ = run.value
    with pytest.raises(Cancelled):
        run["x"]
    assert isinstance(run.error, Cancelled)
    assert run.nodes[0].finish_reason == "cancelled"
    assert engine.ends == [("p0", "cancelled")]
    run.cancel()


def test_cancel_before_anything_was_sent(fake: Any) -> None:
    go_on = threading.Event()

    @rx.program
    def program(s: Any) -> None:
        go_on.wait(5)
        s += rx.gen("x")

    engine = fake()
    run = program.start(engine=engine)
    run.cancel()
    assert run.wait(5), "the run is over although its function is still busy"
    assert isinstance(run.error, Cancelled)
    go_on.set()
    assert engine.opened == []


def test_cancel_while_the_engine_opens_the_program(fake: Any, until: Any, monkeypatch: Any) -> None:
    engine = fake(x=fake.Waiting())
    opening, go_on = threading.Event(), threading.Event()
    open_program = engine.open_program

    def slow_open(*args: Any, **kwargs: Any) -> Any:
        opening.set()
        go_on.wait(5)
        return open_program(*args, **kwargs)

    monkeypatch.setattr(engine, "open_program", slow_open)
    run = held.start(engine=engine)
    assert opening.wait(5)
    run.cancel()
    go_on.set()
    assert run.wait(5)
    assert isinstance(run.error, Cancelled)
    until(lambda: engine.ends == [("p0", "cancelled")])


def test_nodes_that_were_never_sent_end_with_the_program(fake: Any, until: Any) -> None:
    caught: list[BaseException] = []

    @rx.program
    def program(s: Any) -> None:
        s += rx.gen("x")
        s.send()
        s += rx.gen("y")
        until(lambda: bool(engine.ends))
        try:
            _ = s["y"]
        except Cancelled as error:
            caught.append(error)
            raise

    engine = fake(x=fake.Waiting())
    run = program.start(engine=engine)
    until(lambda: "x" in engine.held)
    run.cancel()
    assert run.wait(5)
    until(lambda: bool(caught))
    assert [node.name for node in run.nodes] == ["x", "y"]


def test_cancel_stops_a_program_that_is_busy_in_python(fake: Any) -> None:
    began, stopped = threading.Event(), threading.Event()

    @rx.program
    def program(s: Any) -> None:
        began.set()
        try:
            while True:
                s += "more" + rx.gen("x")
                _ = s["x"]
        finally:
            stopped.set()

    run = program.start(engine=fake())
    began.wait(5)
    run.cancel()
    assert run.wait(5)
    assert stopped.wait(5)
    assert isinstance(run.error, Cancelled)


def test_a_finished_run_keeps_its_values_after_cancel(fake: Any) -> None:
    result = held.run(engine=fake(x="v"))
    result.cancel()
    assert result.value == result["x"] == "v"


def test_cancelling_a_branch_leaves_the_others(fake: Any) -> None:
    engine = fake(x=fake.Waiting(), y="fine")

    @rx.program
    def program(s: Any) -> Any:
        a, b = s.fork(2)
        [deep] = a.fork(1)
        deep += rx.gen("x")
        b += rx.gen("y")
        assert b["y"] == "fine"
        a.cancel()
        with pytest.raises(Cancelled):
            _ = deep["x"]
        for branch in (a, deep):
            with pytest.raises(Cancelled):
                branch += "more"
        b += rx.gen("y")
        return b["y"]

    result = program.run(engine=engine)
    assert result.value == "fine"
    assert [type(e) for e in result.errors] == [Cancelled]


def test_all_branches_can_be_cancelled_together(fake: Any) -> None:
    @rx.program
    def program(s: Any) -> Any:
        b = s.fork(3)
        b += rx.gen("x")
        b.cancel()
        s += rx.gen("y")
        return s["y"]

    result = program.run(engine=fake(x=fake.Waiting()))
    assert result.value == "ok"
    assert len(result.errors) == 3


def test_interrupting_a_wait_cancels_the_run(fake: Any, until: Any, monkeypatch: Any) -> None:
    engine = fake(x=fake.Waiting())
    run = held.start(engine=engine)
    until(lambda: "x" in engine.held)

    def interrupt(timeout: float | None = None) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(run._over, "exception", interrupt)
    with pytest.raises(KeyboardInterrupt):
        _ = run.value
    until(lambda: engine.ends == [("p0", "cancelled")])


def test_an_error_raised_twice_keeps_a_short_traceback(fake: Any) -> None:
    @rx.program
    def program(s: Any) -> None:
        raise LookupError

    run = program.start(engine=fake())
    lengths = []
    for _ in range(3):
        with pytest.raises(LookupError):
            _ = run.value
        assert run.error is not None
        lengths.append(len(traceback.format_exception(run.error)))
    assert lengths[0] == lengths[2]


# --- asyncio ---


def test_run_works_where_an_event_loop_runs(fake: Any) -> None:
    async def cell() -> Any:
        return held.run(engine=fake(x="v")).value

    assert asyncio.run(cell()) == "v"


def test_arun_of_a_plain_program(fake: Any) -> None:
    async def main() -> list[Any]:
        runs = await asyncio.gather(*(held.arun(engine=engine) for _ in range(20)))
        return [run.value for run in runs]

    engine = fake(x="v")
    assert asyncio.run(main()) == ["v"] * 20


def test_arun_raises_what_the_program_raises(fake: Any) -> None:
    @rx.program
    def program(s: Any) -> None:
        raise LookupError

    with pytest.raises(LookupError):
        asyncio.run(program.arun(engine=fake()))


def test_a_cancelled_task_cancels_its_run(fake: Any, until: Any) -> None:
    engine = fake(x=fake.Waiting())

    async def main() -> None:
        task = asyncio.create_task(held.arun(engine=engine))
        while "x" not in engine.held:
            await asyncio.sleep(0.002)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    until(lambda: engine.ends == [("p0", "cancelled")])


def test_a_run_can_be_awaited(fake: Any) -> None:
    async def main() -> Any:
        run = held.start(engine=fake(x="v"))
        return (await run).value

    assert asyncio.run(main()) == "v"
