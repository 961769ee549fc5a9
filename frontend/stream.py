"""``program.stream``: the events of one run, for ``for`` and ``async for`` alike."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator
from dataclasses import dataclass
from typing import Literal, Self

from radixrt.api import DeltaEvent, Event, NodeEvent
from radixrt.errors import InvalidRequest
from radixrt.frontend.live import Listener
from radixrt.frontend.recording import BranchPath, Record
from radixrt.frontend.results import NodeResult
from radixrt.frontend.run import Run
from radixrt.frontend.waiting import call_soon, waits

__all__ = ["NodeDone", "ProgramStream", "RunDone", "StreamEvent", "TextDelta"]


@dataclass(frozen=True, slots=True)
class TextDelta:
    """New text of a running gen. The texts of one sample of a node add up to its text."""

    name: str
    branch: BranchPath
    text: str
    node: int
    sample: int = 0
    kind: Literal["text"] = "text"


@dataclass(frozen=True, slots=True)
class NodeDone:
    """A gen or select has ended, perhaps with an error of its own."""

    name: str
    branch: BranchPath
    result: NodeResult
    kind: Literal["node"] = "node"


@dataclass(frozen=True, slots=True)
class RunDone:
    """The last event: the finished run."""

    run: Run
    kind: Literal["end"] = "end"


StreamEvent = TextDelta | NodeDone | RunDone


class ProgramStream:
    """Iterate over it once. Leaving the loop, ``close()`` or the end of a ``with`` block cancels the run.

    What the program raises comes out of the iteration, after the events before it.
    """

    def __init__(self, begin: Callable[[Listener, bool], Run]) -> None:
        self._begin = begin
        self._run: Run | None = None
        self._events: deque[StreamEvent] = deque()
        self._changed = threading.Condition()
        self._sleeper: tuple[asyncio.AbstractEventLoop, asyncio.Future[None]] | None = None

    @property
    def run(self) -> Run | None:
        """The run, once the iteration has begun."""
        return self._run

    def _start(self, *, on_this_loop: bool) -> Run:
        if self._run is not None:
            raise InvalidRequest("a stream can be iterated once", param="stream")
        self._run = self._begin(self._hear, on_this_loop)
        self._run.on_over(lambda _: self._wake())
        return self._run

    def _hear(self, event: Event, record: Record | None) -> None:
        """On the engine's I/O thread."""
        if record is None or record.name is None:
            return
        if isinstance(event, DeltaEvent):
            self._put(TextDelta(record.name, record.path, event.text, record.node, event.sample))
        elif isinstance(event, NodeEvent):
            self._put(NodeDone(record.name, record.path, NodeResult.of(record, event)))

    def _put(self, event: StreamEvent) -> None:
        with self._changed:
            self._events.append(event)
        self._wake()

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()
            sleeper, self._sleeper = self._sleeper, None
        if sleeper is not None:
            loop, future = sleeper
            call_soon(loop, lambda: None if future.done() else future.set_result(None))

    def _next(self, run: Run) -> StreamEvent | bool:
        """The next event; True when there will be none, False when it is still awaited. Called under the lock."""
        over = run.done  # asked first: no event follows the end
        if self._events:
            return self._events.popleft()
        return over

    def __iter__(self) -> Generator[StreamEvent, None, None]:
        run = self._start(on_this_loop=False)
        try:
            while True:
                with waits(for_program=True), self._changed:
                    while (event := self._next(run)) is False:
                        self._changed.wait()
                if isinstance(event, bool):
                    break
                yield event
            run.raise_error()
            yield RunDone(run)
        finally:
            self.close()

    async def __aiter__(self) -> AsyncGenerator[StreamEvent, None]:
        run = self._start(on_this_loop=True)
        try:
            while True:
                event = await self._next_async(run)
                if isinstance(event, bool):
                    break
                yield event
            run.raise_error()
            yield RunDone(run)
        finally:
            self.close()

    async def _next_async(self, run: Run) -> StreamEvent | bool:
        while True:
            with self._changed:
                event = self._next(run)
                if event is not False:
                    return event
                loop = asyncio.get_running_loop()
                sleeper: asyncio.Future[None] = loop.create_future()
                self._sleeper = (loop, sleeper)
            await sleeper

    def close(self) -> None:
        """Cancel the run if it is not over. Harmless otherwise."""
        if self._run is not None and not self._run.done:
            self._run.cancel()

    async def aclose(self) -> None:
        self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self.close()
