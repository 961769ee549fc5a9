"""``async def`` programs: reads are awaited, and nothing blocks the loop."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

import radixrt as rx
from radixrt.errors import Cancelled, InvalidRequest


@rx.program
async def ask(s: Any, name: str = "a") -> Any:
    s += f"{name} " + rx.gen("x")
    return await s.read("x")


def test_an_async_program_runs_from_everywhere(fake: Any) -> None:
    engine = fake(x=lambda context: f"<{context}>")

    async def in_loop() -> list[Any]:
        one = await ask.arun("p", engine=engine)
        two = ask.run("q", engine=engine)  # a notebook cell
        three = await ask.start("r", engine=engine)
        return [one.value, two.value, three.value]

    assert ask.run("o", engine=engine).value == "<o >"
    assert asyncio.run(in_loop()) == ["<p >", "<q >", "<r >"]
    assert ask.start("s", engine=engine).value == "<s >"


def test_reads_give_way_to_others(fake: Any) -> None:
    engine = fake(x=fake.Waiting("late", seconds=0.05))

    async def main() -> int:
        task = asyncio.create_task(ask.arun(engine=engine))
        ticks = 0
        while not task.done():
            await asyncio.sleep(0.001)
            ticks += 1
        assert (await task).value == "late"
        return ticks

    assert asyncio.run(main()) > 5


def test_reading_without_await_is_an_error_that_says_how(fake: Any) -> None:
    @rx.program
    async def program(s: Any) -> Any:
        s += rx.gen("x")
        return s["x"]

    engine = fake()
    with pytest.raises(InvalidRequest, match=r"await s\.read"):
        program.run(engine=engine)
    with pytest.raises(InvalidRequest, match=r"await s\.read"):
        asyncio.run(program.arun(engine=engine))


def test_what_was_awaited_can_be_read_directly(fake: Any) -> None:
    @rx.program
    async def program(s: Any) -> Any:
        s += rx.user("q")
        s += rx.assistant(rx.gen("x"))
        first = await s.read("x")
        b = s.fork(2)
        b += rx.user("r")
        b += rx.assistant(rx.gen("y"))
        await b.wait()
        assert await b.read("y") == b["y"] == ["ok", "ok"]
        with s.assistant():
            s += rx.gen("z") + "!"
        await s.wait()
        return first, s["x"], s.text(), s.messages[-1]["content"]

    assert program.run(engine=fake()).value == ("ok", "ok", "q\nok\nok!", "ok!")


def test_waiting_leaves_errors_to_the_reader(fake: Any) -> None:
    @rx.program
    async def program(s: Any) -> Any:
        a, b = s.fork(2)
        a += rx.gen("bad")
        b += rx.gen("good")
        await a.wait()
        with pytest.raises(InvalidRequest):
            _ = a["bad"]
        with pytest.raises(InvalidRequest):
            await a.read("bad")
        return await b.read("good")

    assert program.run(engine=fake(bad=InvalidRequest("no"))).value == "ok"


def test_an_exception_comes_out_and_cancels_the_nodes(fake: Any, until: Any) -> None:
    @rx.program
    async def program(s: Any) -> None:
        s += rx.gen("x")
        s.send()
        raise LookupError("half-way")

    engine = fake(x=fake.Waiting())
    with pytest.raises(LookupError) as caught:
        program.run(engine=engine)
    assert any(entry.name == "program" for entry in caught.traceback)
    until(lambda: engine.ends == [("p0", "cancelled")])


def test_a_cancelled_task_cancels_the_program(fake: Any, until: Any) -> None:
    cleaned: list[str] = []

    @rx.program
    async def program(s: Any) -> None:
        s += rx.gen("x")
        s.send()
        try:
            await asyncio.sleep(60)
        finally:
            cleaned.append("up")

    engine = fake(x=fake.Waiting())

    async def main() -> None:
        task = asyncio.create_task(program.arun(engine=engine))
        while "x" not in engine.held:
            await asyncio.sleep(0.002)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        while not cleaned:  # the loop goes on
            await asyncio.sleep(0.002)

    asyncio.run(asyncio.wait_for(main(), 10))
    until(lambda: engine.ends == [("p0", "cancelled")])
    assert cleaned == ["up"]


@pytest.mark.parametrize("how", ["cancel", "deadline"])
def test_the_end_of_a_run_stops_a_tool_that_is_awaited(fake: Any, how: str) -> None:
    stopped = threading.Event()

    @rx.program
    async def program(s: Any) -> None:
        s += rx.gen("x")
        s.send()
        try:
            await asyncio.sleep(60)
        finally:
            stopped.set()

    run = program.start(engine=fake(), timeout=0.1 if how == "deadline" else None)
    if how == "cancel":
        time.sleep(0.05)
        run.cancel()
    assert run.wait(5)
    assert run.error is not None
    assert stopped.wait(5)


def test_the_end_of_a_run_stops_its_task_while_the_loop_goes_on(fake: Any) -> None:
    @rx.program
    async def program(s: Any) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            stopped.set()

    stopped = asyncio.Event()

    async def main() -> None:
        run = program.start(engine=fake())
        await asyncio.sleep(0.01)
        run.cancel()
        await run
        assert isinstance(run.error, Cancelled)
        await asyncio.wait_for(stopped.wait(), 5)

    asyncio.run(main())


def test_nested_async_programs_share_the_loop(fake: Any) -> None:
    threads: set[int] = set()

    @rx.program
    async def inner(s: Any, word: str) -> Any:
        threads.add(threading.get_ident())
        s += word + rx.gen("x")
        return await s.read("x")

    @rx.program
    async def outer(s: Any) -> Any:
        threads.add(threading.get_ident())
        runs = [inner(word=word) for word in "abc"]
        values = [(await run).value for run in runs]
        values.append(await inner(s, word="inline"))
        return values

    engine = fake(x=lambda context: context.upper())
    assert outer.run(engine=engine).value == ["A", "B", "C", "INLINE"]
    assert len(threads) == 1


def test_reading_a_nested_run_without_await_does_not_hang(fake: Any) -> None:
    @rx.program
    async def outer(s: Any) -> Any:
        return ask(name="b").value

    with pytest.raises(InvalidRequest, match="await run"):
        outer.run(engine=fake())


def test_a_plain_program_called_from_an_async_one(fake: Any) -> None:
    @rx.program
    def plain(s: Any) -> Any:
        s += rx.gen("x")
        return s["x"]

    @rx.program
    async def outer(s: Any) -> Any:
        return (await plain()).value

    assert outer.run(engine=fake(x="v")).value == "v"


def test_cancelled_inside_the_program_is_its_own_to_handle(fake: Any) -> None:
    @rx.program
    async def program(s: Any) -> Any:
        a, b = s.fork(2)
        a += rx.gen("x")
        a.cancel()
        try:
            return await a.read("x")
        except Cancelled:
            b += rx.gen("y")
            return await b.read("y")

    assert program.run(engine=fake(x=fake.Waiting())).value == "ok"
