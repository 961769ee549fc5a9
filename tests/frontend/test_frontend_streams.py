"""``program.stream``: events in order, the end once, closing cancels."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import radixrt as rx
from radixrt.errors import InvalidRequest, WorkerDied
from radixrt.frontend import NodeDone, RunDone, TextDelta


@rx.program
def story(s: Any) -> Any:
    s += rx.gen("x")
    b = s.fork(2)
    b += rx.gen("y")
    s += rx.select("z", ["p", "q"])
    return s["x"]


@rx.program
async def story_async(s: Any) -> Any:
    s += rx.gen("x")
    b = s.fork(2)
    b += rx.gen("y")
    s += rx.select("z", ["p", "q"])
    return await s.read("x")


@rx.program
def endless(s: Any) -> None:
    while True:
        s += rx.gen("x")
        _ = s["x"]


async def collected(stream: Any) -> list[Any]:
    return [event async for event in stream]


@pytest.mark.parametrize("program", [story, story_async], ids=lambda p: p.name)
@pytest.mark.parametrize("how", ["sync", "async", "sync in a loop"])
def test_events_tell_the_whole_run(fake: Any, program: Any, how: str) -> None:
    stream = program.stream(engine=fake(x="abc", y=["de"], z="q"))
    if how == "sync":
        events = list(stream)
    elif how == "async":
        events = asyncio.run(collected(stream))
    else:

        async def cell() -> list[Any]:
            return list(stream)

        events = asyncio.run(cell())
    *rest, end = events
    assert isinstance(end, RunDone)
    assert end.run.value == "abc"
    nodes = [event for event in rest if isinstance(event, NodeDone)]
    assert sorted((e.name, e.branch, e.result.text) for e in nodes) == [
        ("x", (), "abc"),
        ("y", ((0, 0),), "de"),
        ("y", ((0, 1),), "de"),
        ("z", (), "q"),
    ]
    for done in nodes[:-1]:
        pieces = [e.text for e in rest if isinstance(e, TextDelta) and e.node == done.result.record.node]
        assert "".join(pieces) == (done.result.text if done.result.kind == "gen" else "")
        place = rest.index(done)
        assert all(
            rest.index(e) < place for e in rest if isinstance(e, TextDelta) and e.node == done.result.record.node
        )
    assert [event.kind for event in events][-1] == "end"


def test_samples_are_told_apart(fake: Any) -> None:
    @rx.program
    def program(s: Any) -> None:
        s += rx.gen("x", n=2)

    found = {0: "", 1: ""}
    for event in program.stream(engine=fake(x=["ab", "cd"])):
        if isinstance(event, TextDelta):
            found[event.sample] += event.text
    assert found == {0: "ab", 1: "cd"}


def test_the_run_begins_with_the_iteration_and_arguments_are_checked_before(fake: Any) -> None:
    engine = fake()
    stream = story.stream(engine=engine)
    assert stream.run is None
    assert engine.opened == []
    with pytest.raises(InvalidRequest):
        story.stream(engine=engine, nonsense=1)
    list(stream)
    with pytest.raises(InvalidRequest, match="once"):
        list(stream)


def test_leaving_the_loop_cancels(fake: Any, until: Any) -> None:
    engine = fake()
    for event in endless.stream(engine=engine):
        if isinstance(event, NodeDone):
            break
    until(lambda: engine.ends == [("p0", "cancelled")])


def test_closing_cancels(fake: Any, until: Any) -> None:
    engine = fake()
    with endless.stream(engine=engine) as stream:
        next(iter(stream))
    until(lambda: engine.ends == [("p0", "cancelled")])
    stream.close()


def test_leaving_an_async_loop_or_cancelling_its_task_cancels(fake: Any, until: Any) -> None:
    engine = fake()

    async def leaves() -> None:
        async with endless.stream(engine=engine) as stream:
            async for _ in stream:
                break

    asyncio.run(leaves())
    until(lambda: engine.ends == [("p0", "cancelled")])
    waiting = fake(x=fake.Waiting())

    async def main() -> None:
        task = asyncio.create_task(collected(story.stream(engine=waiting)))
        while "x" not in waiting.held:
            await asyncio.sleep(0.002)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    until(lambda: waiting.ends == [("p0", "cancelled")])


def test_what_ends_the_program_comes_out_of_the_loop(fake: Any) -> None:
    @rx.program
    def program(s: Any) -> None:
        s += rx.gen("x")
        _ = s["x"]
        raise LookupError

    seen: list[Any] = []
    with pytest.raises(LookupError):
        seen.extend(program.stream(engine=fake()))
    assert isinstance(seen[-1], NodeDone)
    engine = fake()
    engine.close()
    with pytest.raises(WorkerDied):
        list(story.stream(engine=engine))


def test_a_nodes_own_error_is_in_its_event(fake: Any) -> None:
    @rx.program
    def program(s: Any) -> None:
        s += rx.gen("x")

    done, end = program.stream(engine=fake(x=InvalidRequest("no")))
    assert isinstance(done, NodeDone)
    assert isinstance(done.result.error, InvalidRequest)
    assert isinstance(end, RunDone)
    assert end.run.error is None
