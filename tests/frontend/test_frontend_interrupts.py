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


async def in_loop(runs: Any) -> None:
    async for _ in runs:
        pass


async def amap(engine: Any, kept: list[Any]) -> None:
    kept.append(awaiting.amap([{}] * 20, engine=engine, concurrency=3))
    await in_loop(kept[0])


def mapped(program: Any, read: Callable[[Any], object]) -> Callable[[Any, list[Any]], object]:
    """Keeps the runs, since dropping them would cancel them as well."""

    def wait(engine: Any, kept: list[Any]) -> object:
        kept.append(program.map([{}] * 20, engine=engine, concurrency=3))
        return read(kept[0])

    return wait


WAITS: dict[str, Callable[[Any, list[Any]], object]] = {
    "run": lambda engine, _: plain.run(engine=engine),
    "run, waiting for unread nodes": lambda engine, _: unread.run(engine=engine),
    "run of an async program": lambda engine, _: awaiting.run(engine=engine),
    "run of a program that calls one": lambda engine, _: calling.run(engine=engine),
    "value of a started run": lambda engine, _: plain.start(engine=engine).value,
    "name of a started run": lambda engine, _: unread.start(engine=engine)["x"],
    "map": mapped(plain, list),
    "map of an async program": mapped(awaiting, list),
    "as_completed": mapped(unread, lambda runs: list(runs.as_completed())),
    "errors of a map": mapped(unread, lambda runs: runs.errors),
    "amap": lambda engine, kept: asyncio.run(amap(engine, kept)),
    "stream": lambda engine, _: list(plain.stream(engine=engine)),
}


@pytest.mark.parametrize("where", WAITS)
def test_ctrl_c_cancels_everything_and_the_engine_serves_on(fake: Any, until: Any, where: str) -> None:
    main = threading.main_thread()
    if threading.current_thread() is not main:
        pytest.skip("signals reach the main thread only")
    engine = fake(x=fake.Waiting())
    begun = threading.Event()
    kept: list[Any] = []

    def press() -> None:
        until(lambda: bool(engine.held.get("x")))
        begun.set()
        assert main.ident is not None
        signal.pthread_kill(main.ident, signal.SIGINT)

    finger = threading.Thread(target=press)
    finger.start()
    with pytest.raises(KeyboardInterrupt):
        WAITS[where](engine, kept)
    finger.join()
    assert begun.is_set()
    until(lambda: len(engine.ends) == len(engine.programs))
    assert {outcome for _, outcome in engine.ends} == {"cancelled"}
    assert len(engine.programs) <= 3
    engine.answers["x"] = "again"
    assert plain.run(engine=engine).value == "again"
