"""Text as it comes: iterators over the deltas of one call.

An iterator owns its call: closing it, or dropping the last reference to it, cancels the call. The events arrive
on the engine's thread and wait in a queue that the engine, not the iterator, refers to.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Self

from radixrt.api import DeltaEvent, EndEvent, Event, NodeEvent
from radixrt.client.generation import Generation
from radixrt.client.protocol import EventCallback, ProgramHandle
from radixrt.errors import RadixrtError

__all__ = ["AsyncTextStream", "Opener", "TextStream"]

Opener = Callable[[EventCallback], ProgramHandle]

Reader = Callable[[NodeEvent | EndEvent], Generation]
"""Makes the result of the event that ends the call, or raises the call's error."""


class _Stream:
    """What both kinds share: the state after an event."""

    def __init__(self, result: Reader) -> None:
        self.generation: Generation | None = None
        self._result = result
        self._over = False
        self._error: RadixrtError | None = None

    def _take(self, event: Event) -> str | None:
        """The text of a delta; None for other events, whose meaning is kept."""
        if isinstance(event, DeltaEvent):
            return event.text
        if self.generation is None and self._error is None:
            try:
                self.generation = self._result(event)
            except RadixrtError as error:
                self._error = error
        self._over = isinstance(event, EndEvent)
        return None

    def _raise_error(self) -> None:
        """Once: afterwards the stream is simply over."""
        error, self._error = self._error, None
        if error is not None:
            raise error


class TextStream(_Stream):
    """A plain iterator of pieces of text. ``generation`` is the whole result once it is exhausted."""

    def __init__(self, opener: Opener, result: Reader) -> None:
        super().__init__(result)
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        handle = opener(self._events.put)
        self._cancel = weakref.finalize(self, handle.cancel)
        self._cancel.atexit = False

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> str:
        while not self._over:
            try:
                text = self._take(self._events.get())
            except BaseException:
                self.close()
                raise
            if text is not None:
                return text
        self._raise_error()
        raise StopIteration

    def close(self) -> None:
        """Cancel the call. The iterator is exhausted."""
        self._over = True
        self._cancel()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncTextStream(_Stream):
    """An asynchronous iterator of pieces of text, for the loop that runs when it is made."""

    def __init__(self, opener: Opener, result: Reader) -> None:
        super().__init__(result)
        loop = asyncio.get_running_loop()
        events: asyncio.Queue[Event] = asyncio.Queue()

        def on_event(event: Event) -> None:
            # A loop that has been closed has nobody left who waits.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(events.put_nowait, event)

        self._events = events
        handle = opener(on_event)
        self._cancel = weakref.finalize(self, handle.cancel)
        self._cancel.atexit = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        while not self._over:
            try:
                text = self._take(await self._events.get())
            except BaseException:
                await self.aclose()
                raise
            if text is not None:
                return text
        self._raise_error()
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Cancel the call. The iterator is exhausted."""
        self._over = True
        self._cancel()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
