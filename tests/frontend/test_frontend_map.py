"""Many rows: order, errors, seeds, memory, threads, cancelling."""

from __future__ import annotations

import asyncio
import gc
import io
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

import radixrt as rx
from radixrt.errors import Cancelled, DeadlineExceeded, InvalidRequest
from radixrt.frontend.feeding import Feed
from radixrt.frontend.seeds import derived_seed


@rx.program
def shout(s: Any, word: str) -> Any:
    """Has a step that depends on a value, so it holds a thread until then."""
    s += word + rx.gen("x")
    return s["x"]


@rx.program
def static(s: Any, word: str) -> None:
    s += word + rx.gen("x")


@rx.program
async def shout_async(s: Any, word: str) -> Any:
    s += word + rx.gen("x")
    return await s.read("x")


def rows(count: int) -> list[dict[str, Any]]:
    return [{"word": f"w{i}"} for i in range(count)]


def upper(context: str) -> str:
    return context.upper()


PROGRAMS = [shout, static, shout_async]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)
@pytest.mark.parametrize("concurrency", [1, 3, 64])
def test_rows_come_in_order(fake: Any, program: Any, concurrency: int) -> None:
    runs = program.map(rows(40), engine=fake(x=upper), concurrency=concurrency)
    assert len(runs) == 40
    assert [run["x"] for run in runs] == [f"W{i}" for i in range(40)]
    assert [run.index for run in runs] == list(range(40)), "kept runs can be iterated again"
    assert runs.errors == []
    assert runs.failed == 0
    assert runs[3]["x"] == runs[-37]["x"] == "W3"
    assert runs.usage.completion_tokens == 160


def test_no_rows(fake: Any) -> None:
    runs = shout.map([], engine=fake())
    assert list(runs) == []
    assert len(runs) == 0
    assert runs.wait()
    assert list(runs.as_completed()) == []
    with pytest.raises(IndexError):
        runs[0]


def test_any_iterable_is_read_as_capacity_frees(fake: Any) -> None:
    engine = fake(x=fake.Waiting())
    pulled: list[int] = []

    def source() -> Iterator[dict[str, Any]]:
        for i in range(10):
            pulled.append(i)
            yield {"word": str(i)}

    runs = shout.map(source(), engine=engine, concurrency=3)
    with pytest.raises(TypeError):
        len(runs)
    finished = threading.Event()

    def release() -> None:
        while not finished.is_set():
            engine.release("x")
            time.sleep(0.002)

    time.sleep(0.05)
    assert len(pulled) == 3
    releaser = threading.Thread(target=release)
    releaser.start()
    assert [run.value for run in runs] == ["late"] * 10
    finished.set()
    releaser.join()
    assert len(runs) == 10


@pytest.mark.parametrize("program", [shout, static, shout_async], ids=lambda p: p.name)
def test_at_most_concurrency_rows_are_in_flight(fake: Any, program: Any) -> None:
    engine = fake(x=fake.Waiting("late", seconds=0.005))
    most = 0

    def watch(context: str) -> str:
        nonlocal most
        most = max(most, len(engine.programs) - len(engine.ends))
        return "v"

    engine.answers["x"].answer = watch
    program.map(rows(60), engine=engine, concurrency=7).wait()
    assert 2 <= most <= 7


def test_static_programs_take_no_thread_while_they_run(fake: Any, until: Any) -> None:
    engine = fake(x=fake.Waiting())
    before = threading.active_count()
    runs = static.map(rows(50), engine=engine, concurrency=50)
    until(lambda: len(engine.held.get("x", [])) == 50)
    assert threading.active_count() - before <= 4
    engine.release("x")
    assert runs.wait()


def test_programs_that_wait_take_at_most_concurrency_threads(fake: Any, until: Any) -> None:
    engine = fake(x=fake.Waiting())
    before = threading.active_count()
    runs = shout.map(rows(30), engine=engine, concurrency=5)
    until(lambda: len(engine.held.get("x", [])) == 5)
    assert threading.active_count() - before <= 6
    runs.cancel()
    runs.wait()
    until(lambda: threading.active_count() <= before)


def test_async_programs_run_on_one_loop(fake: Any) -> None:
    threads: set[int] = set()

    @rx.program
    async def program(s: Any, word: str) -> Any:
        threads.add(threading.get_ident())
        s += word + rx.gen("x")
        return await s.read("x")

    runs = program.map(rows(20), engine=fake(x=fake.Waiting("v", seconds=0.001)))
    assert [run.value for run in runs] == ["v"] * 20
    assert len(threads) == 1


@pytest.mark.parametrize("is_async", [False, True])
def test_a_slow_tool_in_one_row_delays_no_other(fake: Any, is_async: bool) -> None:
    go_on = threading.Event()

    @rx.program
    def plain(s: Any, i: int) -> int:
        if i == 0:
            go_on.wait(10)
        s += rx.gen("x")
        return i

    @rx.program
    async def awaiting(s: Any, i: int) -> int:
        while i == 0 and not go_on.is_set():
            await asyncio.sleep(0.002)
        s += rx.gen("x")
        return i

    program = awaiting if is_async else plain
    runs = program.map([{"i": i} for i in range(200)], engine=fake(), concurrency=4)
    order = []
    for run in runs.as_completed():
        order.append(run.value)
        if len(order) == 199:
            assert 0 not in order
            go_on.set()
    assert order[-1] == 0
    assert sorted(order) == list(range(200))


def test_as_completed_gives_each_row_once(fake: Any) -> None:
    for keep in (True, False):
        runs = shout.map(rows(50), engine=fake(x=upper), keep_trace=keep)
        assert {run.index for run in runs.as_completed()} == set(range(50))


# --- errors ---


@rx.program
def fails_on_three(s: Any, i: int) -> int:
    s += rx.gen("x")
    if i == 3:
        raise LookupError(f"row {i}")
    return i


def test_a_rows_error_stays_with_the_row(fake: Any) -> None:
    runs = fails_on_three.map([{"i": i} for i in range(6)], engine=fake())
    for i, run in enumerate(runs):
        if i == 3:
            assert isinstance(run.error, LookupError)
            with pytest.raises(LookupError):
                _ = run.value
        else:
            assert run.error is None
            assert run.value == i
    [error] = runs.errors
    assert isinstance(error, LookupError)
    assert "in row 3" in error.__notes__
    assert runs.failed == 1


def test_raise_on_error_raises_and_cancels_the_rest(fake: Any) -> None:
    engine = fake()
    runs = fails_on_three.map(({"i": i} for i in range(10_000)), engine=engine, raise_on_error=True, concurrency=2)
    seen: list[int] = []
    with pytest.raises(LookupError):
        seen.extend(run.value for run in runs)
    assert seen == [0, 1, 2]
    runs.cancel()
    assert len(engine.programs) < 10_000
    with pytest.raises(LookupError):
        runs.wait()
    with pytest.raises(LookupError):
        fails_on_three.map([{"i": 3}], engine=fake(), raise_on_error=True).wait()


@pytest.mark.parametrize(
    ("row", "param"),
    [({"wrod": "x"}, "wrod"), ({}, "word"), ("x", "rows"), (None, "rows"), ({"word": "a", "seed": -1}, "seed")],
)
def test_a_wrong_row_fails_alone_and_is_named(fake: Any, row: Any, param: str) -> None:
    runs = shout.map([{"word": "a"}, row, {"word": "b"}], engine=fake(x=upper))
    assert [run.error is None for run in runs] == [True, False, True]
    [error] = runs.errors
    assert isinstance(error, InvalidRequest)
    assert error.param == param
    assert "row 1" in str(error)


def test_an_error_of_the_rows_themselves_comes_out_after_the_good_ones(fake: Any) -> None:
    def source() -> Iterator[dict[str, Any]]:
        yield {"word": "a"}
        yield {"word": "b"}
        raise OSError("disk")

    runs = shout.map(source(), engine=fake(x=upper))
    seen: list[str] = []
    with pytest.raises(OSError, match="disk"):
        seen.extend(run.value for run in runs)
    assert seen == ["A", "B"]
    for read in (runs.wait, lambda: runs.errors, lambda: runs[2]):
        with pytest.raises(OSError, match="disk"):
            read()


@pytest.mark.parametrize(
    ("arguments", "param"),
    [
        ({"concurrency": 0}, "concurrency"),
        ({"concurrency": True}, "concurrency"),
        ({"concurrency": 1.5}, "concurrency"),
        ({"progress": "yes"}, "progress"),
        ({"raise_on_error": 1}, "raise_on_error"),
        ({"temprature": 0}, "temprature"),
        ({"temperature": "x"}, "temperature"),
        ({"word": "x"}, "word"),
        ({"max_tokens": 0}, "max_tokens"),
    ],
)
def test_a_wrong_option_of_map_is_named(fake: Any, arguments: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        shout.map([{"word": "a"}], engine=fake(), **arguments)
    assert caught.value.param == param


@pytest.mark.parametrize("wrong", ["ab", {"word": "a"}, 5, None])
def test_rows_are_an_iterable_of_dicts(fake: Any, wrong: Any) -> None:
    with pytest.raises(InvalidRequest) as caught:
        shout.map(wrong, engine=fake())
    assert caught.value.param == "rows"


def test_a_deadline_is_each_rows_own(fake: Any) -> None:
    engine = fake(x=lambda context: "v")
    engine.answers["x"] = fake.Waiting("v", seconds=0.03)
    runs = shout.map(rows(10), engine=engine, concurrency=1, timeout=0.25)
    assert runs.errors == []
    engine.answers["x"] = fake.Waiting()
    late = shout.map(rows(2), engine=engine, concurrency=2, timeout=0.05)
    assert [type(error) for error in late.errors] == [DeadlineExceeded] * 2


# --- seeds ---


def test_each_row_has_a_seed_of_its_own_unless_it_brings_one(fake: Any) -> None:
    def seeds(**options: Any) -> list[int]:
        data: list[dict[str, Any]] = [{"word": "a"}, {"word": "b", "seed": 5}, {"word": "c", "seed": None}]
        return [run.seed for run in shout.map(data, engine=fake(), **options)]

    first = seeds(seed=7)
    assert first == seeds(seed=7)
    assert first == [derived_seed(7, "row", 0), 5, derived_seed(7, "row", 2)]
    assert len({*first, *seeds(seed=8)}) == 5, "neighbouring seeds share no row"
    assert seeds()[0] != seeds()[0]


def test_a_row_can_be_repeated_by_its_seed(fake: Any) -> None:
    engine = fake()
    row = shout.map(rows(3), engine=engine, seed=7)[2]
    shout.run("w2", engine=engine, seed=row.trace["seed"])
    assert engine.opened[3]["seed"] == row.seed == engine.programs[3].engine.opened[3]["seed"]


# --- memory ---


def test_without_trace_no_finished_run_is_kept(fake: Any) -> None:
    alive: list[weakref.ref[Any]] = []
    runs = static.map(iter(rows(300)), engine=fake(), keep_trace=False, concurrency=8)
    for run in runs:
        alive.append(weakref.ref(run))
    del run
    gc.collect()
    # The fake engine keeps its programs, and with them the callbacks of their runs.
    assert len(runs._feed._runs) == 0
    assert len(runs._feed._ready) == 0
    assert len(alive) == 300
    with pytest.raises(InvalidRequest):
        runs[0]


def test_without_trace_rows_wait_until_somebody_takes_them(fake: Any, monkeypatch: Any, until: Any) -> None:
    monkeypatch.setattr("radixrt.frontend.feeding._MIN_WINDOW", 20)
    pulled: list[int] = []

    def source() -> Iterator[dict[str, Any]]:
        for i in range(500):
            pulled.append(i)
            yield {"word": str(i)}

    runs = static.map(source(), engine=fake(x=upper), keep_trace=False, concurrency=1)
    until(lambda: len(pulled) == 20)
    time.sleep(0.02)
    assert len(pulled) == 20
    assert [run["x"] for run in runs] == [str(i) for i in range(500)]

    drained = static.map(({"word": str(i)} for i in range(500)), engine=fake(), keep_trace=False, concurrency=1)
    assert drained.wait()
    assert drained.finished == 500
    assert drained.errors == []


def test_errors_stay_bounded_without_trace(fake: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("radixrt.frontend.feeding._KEPT_ERRORS", 5)
    runs = static.map(({"wrod": 1} for _ in range(50)), engine=fake(), keep_trace=False)
    assert len(runs.errors) == 5
    assert runs.failed == 50


# --- progress ---


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "progress", "shown"),
    [(Terminal, None, True), (Terminal, False, False), (io.StringIO, None, False), (io.StringIO, True, True)],
)
def test_a_bar_on_terminals_or_when_asked_for(
    fake: Any, monkeypatch: Any, until: Any, stream: Any, progress: bool | None, shown: bool
) -> None:
    screen = stream()
    monkeypatch.setattr(sys, "stderr", screen)
    before = threading.active_count()
    shout.map(rows(3), engine=fake(), progress=progress).wait()
    until(lambda: threading.active_count() <= before + 2)
    until(lambda: ("3/3" in screen.getvalue()) or not shown)
    assert ("shout" in screen.getvalue()) is shown


# --- cancelling ---


def cancelled_everywhere(engine: Any, until: Any) -> None:
    until(lambda: len(engine.ends) == len(engine.programs))
    assert {outcome for _, outcome in engine.ends} == {"cancelled"}


def test_ctrl_c_while_waiting_cancels_every_row(fake: Any, until: Any, monkeypatch: Any) -> None:
    engine = fake(x=fake.Waiting())
    runs = shout.map(rows(100), engine=engine, concurrency=8)
    until(lambda: len(engine.held.get("x", [])) == 8)

    def interrupt(self: Any, ask: Any, timeout: Any = None) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Feed, "wait_for", interrupt)
        with pytest.raises(KeyboardInterrupt):
            next(iter(runs))
    runs.wait()
    cancelled_everywhere(engine, until)
    assert len(engine.programs) == 8
    engine.answers["x"] = "again"
    assert shout.run("a", engine=engine).value == "again", "the engine serves the next call"


def test_cancel_and_the_end_of_a_with_block(fake: Any, until: Any) -> None:
    engine = fake(x=fake.Waiting())
    with shout.map(rows(20), engine=engine, concurrency=4) as runs:
        until(lambda: len(engine.held.get("x", [])) == 4)
    assert runs.wait(5)
    assert {type(error) for error in runs.errors} == {Cancelled}
    cancelled_everywhere(engine, until)


def test_a_map_that_is_dropped_is_cancelled(fake: Any, until: Any) -> None:
    engine = fake(x=lambda context: "v")
    for run in shout.map(({"word": str(i)} for i in range(10**9)), engine=engine, concurrency=2):
        if run.index == 3:
            break
    del run
    gc.collect()
    time.sleep(0.05)
    sent = len(engine.programs)
    time.sleep(0.05)
    assert len(engine.programs) == sent


def test_cancel_does_not_wait_for_tools(fake: Any) -> None:
    go_on = threading.Event()

    @rx.program
    def program(s: Any) -> None:
        go_on.wait(10)
        s += rx.gen("x")

    runs = program.map([{}] * 3, engine=fake(), concurrency=3)
    time.sleep(0.02)
    start = time.monotonic()
    runs.cancel()
    assert runs.wait(5)
    assert time.monotonic() - start < 2
    go_on.set()


# --- asyncio ---


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)
def test_amap(fake: Any, program: Any) -> None:
    async def main() -> None:
        engine = fake(x=upper)
        assert [run["x"] async for run in program.amap(rows(30), engine=engine)] == [f"W{i}" for i in range(30)]
        runs = await program.amap(rows(5), engine=engine, concurrency=2)
        assert [run["x"] for run in runs] == [f"W{i}" for i in range(5)]
        assert runs.errors == []
        found = [run.index async for run in program.amap(rows(9), engine=engine).as_completed()]
        assert sorted(found) == list(range(9))

    asyncio.run(main())


def test_amap_runs_async_programs_on_the_callers_loop(fake: Any) -> None:
    loops: set[Any] = set()

    @rx.program
    async def program(s: Any, word: str) -> Any:
        loops.add(asyncio.get_running_loop())
        s += word + rx.gen("x")
        return await s.read("x")

    async def main() -> None:
        await program.amap(rows(5), engine=fake())
        assert loops == {asyncio.get_running_loop()}
        with pytest.raises(InvalidRequest, match="await"):
            list(program.amap(rows(5), engine=fake()))

    asyncio.run(main())


def test_a_cancelled_task_cancels_all_rows(fake: Any, until: Any) -> None:
    for program in PROGRAMS:
        engine = fake(x=fake.Waiting())

        async def main(program: Any = program, engine: Any = engine) -> None:
            runs = program.amap(rows(50), engine=engine, concurrency=5)

            async def consume() -> None:
                async for _ in runs:
                    pass

            task = asyncio.create_task(consume())
            while len(engine.held.get("x", [])) < 5:
                await asyncio.sleep(0.002)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            # The loop and the runs live on: it is the cancelling itself that counts.
            while len(engine.ends) < 5:
                await asyncio.sleep(0.002)

        asyncio.run(asyncio.wait_for(main(), 10))
        cancelled_everywhere(engine, until)
        assert len(engine.programs) == 5


def test_amap_raise_on_error(fake: Any) -> None:
    async def main() -> None:
        with pytest.raises(LookupError):
            await fails_on_three.amap([{"i": i} for i in range(9)], engine=fake(), raise_on_error=True)

    asyncio.run(main())
