"""How many threads programs take, by counting them; and that no bound, however low, makes anybody wait for ever."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

import radixrt as rx
from radixrt.errors import Cancelled, DeadlineExceeded
from radixrt.frontend import threads


class Counter:
    def __init__(self) -> None:
        self.started = 0
        self.alive: set[threading.Thread] = set()
        self.most = 0


@pytest.fixture
def counter(monkeypatch: Any) -> Iterator[Counter]:
    """Counts the threads of pools, and takes time out of the rule: what a test sees is no accident of speed."""
    counter = Counter()

    class Counted(threads.PoolThread):
        def start(self) -> None:
            counter.started += 1
            counter.alive = {thread for thread in counter.alive if thread.is_alive()} | {self}
            super().start()
            counter.most = max(counter.most, len(counter.alive))

    monkeypatch.setattr(threads, "PoolThread", Counted)
    monkeypatch.setattr(threads, "_TICKS", 10**9)
    yield counter
    deadline = time.monotonic() + 5
    while any(thread.is_alive() for thread in counter.alive):
        assert time.monotonic() < deadline, "threads end with their pool"
        time.sleep(0.002)


@rx.program
def inner(s: Any, i: int = 0) -> Any:
    s += str(i) + rx.gen("x")
    return s["x"]


@rx.program
def static(s: Any, i: int = 0) -> None:
    s += str(i) + rx.gen("x")


@rx.program
async def inner_async(s: Any, i: int = 0) -> Any:
    s += str(i) + rx.gen("x")
    return await s.read("x")


def echo(context: str) -> str:
    return context


def rows(count: int) -> list[dict[str, Any]]:
    return [{"i": i} for i in range(count)]


# --- functions that do not read ---


def test_rows_that_read_nothing_share_one_thread(fake: Any, counter: Counter) -> None:
    runs = static.map(rows(300), engine=fake(x=fake.Waiting(echo, seconds=0.001)), concurrency=50)
    assert [run["x"] for run in runs] == [str(i) for i in range(300)]
    assert counter.started <= 2, "one that works, one that stands by"


def test_called_programs_that_read_nothing_share_one_thread(fake: Any, counter: Counter) -> None:
    @rx.program
    def outer(s: Any) -> None:
        for i in range(100):
            static(i)

    run = outer.run(engine=fake(x=echo))
    assert [child["x"] for child in run.children] == [str(i) for i in range(100)]
    assert counter.started <= 2


# --- functions that read ---


def test_rows_that_wait_are_joined_by_others_at_once(fake: Any, counter: Counter, until: Any) -> None:
    engine = fake(x=fake.Waiting(echo))
    runs = inner.map(rows(30), engine=engine, concurrency=5)
    for begun in range(5, 31, 5):
        until(lambda begun=begun: len(engine.contexts) == begun and len(engine.held.get("x", [])) == 5)
        engine.release("x")
    assert [run.value for run in runs] == [str(i) for i in range(30)]
    assert counter.started == 5


@pytest.mark.parametrize("concurrency", [1, 2, 8])
@pytest.mark.parametrize("order", [1, -1])
def test_rows_and_the_programs_they_call_share_the_bound(
    fake: Any, counter: Counter, concurrency: int, order: int
) -> None:
    @rx.program
    def outer(s: Any, i: int) -> Any:
        calls = [inner(100 * i + j) for j in range(20)]
        s += rx.gen("x")
        return [call.value for call in calls[::order]]

    engine = fake(x=fake.Waiting(echo, seconds=0.0005))
    runs = outer.map(rows(16), engine=engine, concurrency=concurrency)
    assert [run.value for run in runs] == [[str(100 * i + j) for j in range(20)][::order] for i in range(16)]
    assert counter.most <= concurrency


def test_called_programs_wait_for_the_model_side_by_side(fake: Any, counter: Counter, until: Any) -> None:
    @rx.program
    def outer(s: Any) -> Any:
        return [call.value for call in [inner(i) for i in range(20)]]

    engine = fake(x=fake.Waiting(echo))
    run = outer.start(engine=engine)
    until(lambda: len(engine.held.get("x", [])) == 20)
    engine.release("x")
    assert run.value == [str(i) for i in range(20)]


# --- no bound makes anybody wait for ever ---


def test_programs_deep_inside_programs(fake: Any, counter: Counter) -> None:
    @rx.program
    def count(s: Any, i: int) -> int:
        s += rx.gen("x")
        return 1 + (count(i - 1).value if i else 0)

    runs = count.map([{"i": 200}, {"i": 3}], engine=fake(), concurrency=1)
    assert [run.value for run in runs] == [201, 4]
    assert counter.most <= 1 + 200 // 16 + 1


def test_waiting_with_a_time_limit_lets_the_program_begin(fake: Any, counter: Counter) -> None:
    @rx.program
    def outer(s: Any, i: int) -> Any:
        call = inner(i)
        assert call.wait(10)
        return call.value

    assert [run.value for run in outer.map(rows(5), engine=fake(x=echo), concurrency=1)] == list("01234")


def test_plain_and_async_programs_in_turn(fake: Any, counter: Counter) -> None:
    @rx.program
    async def middle(s: Any, i: int) -> Any:
        calls = [turns(i - 1) for _ in range(2)]
        return 1 + sum([(await call).value for call in calls])

    @rx.program
    def turns(s: Any, i: int) -> Any:
        return 1 + middle(i).value if i > 0 else 1

    runs = turns.map(rows(4), engine=fake(), concurrency=1)
    assert [run.value for run in runs] == [1, 4, 10, 22]
    runs = middle.map(rows(4), engine=fake(), concurrency=1)
    assert [run.value for run in runs] == [3, 3, 9, 21]


def test_a_sibling_waits_for_a_sibling(fake: Any, counter: Counter) -> None:
    @rx.program
    def waits(s: Any, other: Any) -> Any:
        return other.value + "!"

    @rx.program
    def outer(s: Any, i: int) -> Any:
        last = inner(i)
        for _ in range(5):
            last = waits(last)
        return last.value

    assert [run.value for run in outer.map(rows(3), engine=fake(x=echo), concurrency=1)] == [
        f"{i}!!!!!" for i in range(3)
    ]


def test_async_rows_call_plain_programs(fake: Any, counter: Counter) -> None:
    @rx.program
    async def outer(s: Any, i: int) -> Any:
        calls = [inner(10 * i + j) for j in range(10)]
        return [(await call).value for call in calls]

    runs = outer.map(rows(8), engine=fake(x=fake.Waiting(echo, seconds=0.0005)), concurrency=4)
    assert [run.value for run in runs] == [[str(10 * i + j) for j in range(10)] for i in range(8)]
    assert counter.most <= 4


def test_async_programs_called_by_plain_ones_share_a_loop(fake: Any, counter: Counter) -> None:
    loops: set[Any] = set()

    @rx.program
    async def awaiting(s: Any) -> Any:
        loops.add(asyncio.get_running_loop())
        s += rx.gen("x")
        return await s.read("x")

    @rx.program
    def outer(s: Any) -> Any:
        return [call.value for call in [awaiting() for _ in range(20)]]

    assert [run.value for run in outer.map([{}] * 3, engine=fake(), concurrency=2)] == [["ok"] * 20] * 3
    assert len(loops) == 1


def test_a_map_or_a_stream_inside_rows(fake: Any, counter: Counter) -> None:
    engine = fake(x=echo)

    @rx.program
    def outer(s: Any, i: int) -> Any:
        texts = [event.text for event in inner.stream(i, engine=engine) if event.kind == "text"]
        return texts + [run.value for run in inner.map(rows(3), engine=engine, concurrency=1)]

    runs = outer.map(rows(4), engine=engine, concurrency=2)
    assert [run.value for run in runs] == [[str(i), "0", "1", "2"] for i in range(4)]


# --- code that is busy with something else ---


def test_tools_run_side_by_side_up_to_the_bound(fake: Any) -> None:
    together = threading.Barrier(16)

    @rx.program
    def outer(s: Any, i: int) -> int:
        together.wait(10)  # nobody passes before all sixteen are here
        s += rx.gen("x")
        return i

    assert [run.value for run in outer.map(rows(16), engine=fake(), concurrency=16)] == list(range(16))


def test_tools_of_called_programs_run_side_by_side(fake: Any) -> None:
    together = threading.Barrier(8)

    @rx.program
    def tool(s: Any) -> None:
        together.wait(10)

    @rx.program
    def outer(s: Any) -> None:
        for _ in range(8):
            tool()

    run = outer.run(engine=fake())
    assert [child.error for child in run.children] == [None] * 8


# --- ends ---


def test_what_was_cancelled_before_it_began_never_begins(fake: Any, counter: Counter, until: Any) -> None:
    begun: list[int] = []

    @rx.program
    def called(s: Any, i: int) -> Any:
        begun.append(i)
        s += rx.gen("x")
        return s["x"]

    @rx.program
    def outer(s: Any) -> Any:
        calls = [called(i) for i in range(5)]
        return [call.value for call in calls]

    engine = fake(x=fake.Waiting())
    runs = outer.map([{}], engine=engine, concurrency=1)
    until(lambda: len(engine.held.get("x", [])) == 1)
    runs.cancel()
    [error] = runs.errors
    assert isinstance(error, Cancelled)
    assert begun == [0]


def test_a_deadline_reaches_a_program_run_on_the_spot(fake: Any, counter: Counter) -> None:
    @rx.program
    def outer(s: Any) -> Any:
        return inner().value

    [error] = outer.map([{}], engine=fake(x=fake.Waiting()), concurrency=1, timeout=0.05).errors
    assert isinstance(error, DeadlineExceeded)


@pytest.mark.parametrize("read", ["value", "error", "wait"])
def test_ctrl_c_in_a_program_run_on_the_spot_reaches_the_caller(
    fake: Any, counter: Counter, until: Any, read: str
) -> None:
    busy = threading.Event()

    @rx.program
    def holds(s: Any) -> None:
        busy.wait(10)

    @rx.program
    def interrupted(s: Any) -> None:
        raise KeyboardInterrupt

    @rx.program
    def outer(s: Any) -> Any:
        holds()  # keeps the one thread that begins, so that the next one is run on the spot
        call = interrupted()
        try:
            call.wait() if read == "wait" else getattr(call, read)
        finally:
            busy.set()
        return "went on"

    with pytest.raises(KeyboardInterrupt):
        outer.run(engine=fake())
