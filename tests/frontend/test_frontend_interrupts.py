"""Ctrl-C as the operating system sends it, while the main thread waits in each of the places that wait."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest

import radixrt as rx


@rx.program
def plain(s: Any) -> Any:
    s += rx.gen("x")
    return s["x"]


@rx.program
def unread(s: Any) -> None:
    s += rx.gen("x")


@rx.program
async def awaiting(s: Any) -> Any:
    s += rx.gen("x")
    return await s.read("x")


@rx.program
def calling(s: Any) -> Any:
    return plain().value


async def in_loop(engine: Any) -> None:
    async for _ in awaiting.amap([{}] * 20, engine=engine, concurrency=3):
        pass


WAITS: dict[str, Callable[[Any], object]] = {
    "run": lambda engine: plain.run(engine=engine),
    "run, waiting for unread nodes": lambda engine: unread.run(engine=engine),
    "run of an async program": lambda engine: awaiting.run(engine=engine),
    "run of a program that calls one": lambda engine: calling.run(engine=engine),
    "value of a started run": lambda engine: plain.start(engine=engine).value,
    "name of a started run": lambda engine: unread.start(engine=engine)["x"],
    "map": lambda engine: list(plain.map([{}] * 20, engine=engine, concurrency=3)),
    "map of an async program": lambda engine: list(awaiting.map([{}] * 20, engine=engine, concurrency=3)),
    "as_completed": lambda engine: list(unread.map([{}] * 20, engine=engine, concurrency=3).as_completed()),
    "errors of a map": lambda engine: unread.map([{}] * 20, engine=engine, concurrency=3).errors,
    "amap": lambda engine: asyncio.run(in_loop(engine)),
    "stream": lambda engine: list(plain.stream(engine=engine)),
}


@pytest.mark.parametrize("where", WAITS)
def test_ctrl_c_cancels_everything_and_the_engine_serves_on(fake: Any, until: Any, where: str) -> None:
    main = threading.main_thread()
    if threading.current_thread() is not main:
        pytest.skip("signals reach the main thread only")
    engine = fake(x=fake.Waiting())
    begun = threading.Event()

    def press() -> None:
        until(lambda: bool(engine.held.get("x")))
        begun.set()
        assert main.ident is not None
        signal.pthread_kill(main.ident, signal.SIGINT)

    finger = threading.Thread(target=press)
    finger.start()
    with pytest.raises(KeyboardInterrupt):
        WAITS[where](engine)
    finger.join()
    assert begun.is_set()
    until(lambda: len(engine.ends) == len(engine.programs))
    assert {outcome for _, outcome in engine.ends} == {"cancelled"}
    assert len(engine.programs) <= 3
    engine.answers["x"] = "again"
    assert plain.run(engine=engine).value == "again"
