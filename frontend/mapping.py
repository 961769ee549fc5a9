"""``Runs``: what ``program.map`` returns. A view of the rows on their way, for threads and for event loops."""

from __future__ import annotations

import asyncio
import sys
import weakref
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator, Sized
from functools import partial
from typing import Any, Self

from radixrt.api import Usage
from radixrt.errors import InvalidRequest
from radixrt.frontend.feeding import Feed, Prepare, ProgressBar
from radixrt.frontend.run import Executor, Run
from radixrt.frontend.waiting import running_loop, spawn, wait_seconds

__all__ = ["Completed", "Runs"]


class Runs:
    """The runs of a map, in row order as they finish: ``for run in runs`` or ``async for run in runs``.

    ``runs.as_completed()`` gives them as they finish, in any order. ``runs[i]`` is the run of row i.
    ``await runs`` or ``runs.wait()`` waits for all. ``with`` cancels what is left at the end of the block, Ctrl-C
    or a cancelled task while waiting cancels everything, and so does dropping the object.
    """

    def __init__(
        self,
        rows: Iterable[Any],
        prepare: Prepare,
        function: Callable[..., Any],
        executor: Executor,
        *,
        is_async: bool,
        loop: asyncio.AbstractEventLoop | None,
        name: str,
        concurrency: int,
        progress: bool | None,
        raise_on_error: bool,
        keep: bool,
    ) -> None:
        _check(rows, concurrency, progress, raise_on_error, name)
        feed = Feed(prepare, executor, is_async=is_async, concurrency=concurrency, keep=keep)
        self._feed = feed
        self._loop = loop if is_async else None
        self._known_length = len(rows) if isinstance(rows, Sized) else None
        self._raise_on_error = raise_on_error
        self._finalizer = weakref.finalize(self, feed.cancel)
        on_terminal = bool(sys.stderr) and sys.stderr.isatty()
        shown = on_terminal if progress is None else progress
        bar = ProgressBar(shown, self._known_length, name)
        spawn(lambda: feed.run(rows, function, bar), name=f"radixrt-{name}-rows")

    def __len__(self) -> int:
        """The number of rows; a ``TypeError`` while an iterable without length is still being read."""
        if self._known_length is not None:
            return self._known_length
        if self._feed.exhausted:
            return self._feed.pulled
        raise TypeError("the number of rows is not known before the last one is read")

    # --- reading, on threads ---

    def __iter__(self) -> Iterator[Run]:
        return self._each(self._feed.row)

    def as_completed(self) -> Completed:
        """The runs as they finish, in any order. Iterate with ``for`` or ``async for``."""
        return Completed(self)

    def _each(self, ask: Callable[[int], Any]) -> Iterator[Run]:
        place = 0
        while (run := self._wait_for(partial(ask, place))) is not None:
            if run is not True:
                self._check_run(run)
                yield run
            place += 1
        self._raise_source_error()

    def __getitem__(self, index: int) -> Run:
        """The run of row ``index``. Waits for it."""
        if not self._feed.keep:
            raise InvalidRequest("runs are not kept with keep_trace=False: iterate instead", param="keep_trace")
        row = index + len(self) if index < 0 else index
        run = self._wait_for(partial(self._feed.row, row)) if row >= 0 else None
        if run is None:
            self._raise_source_error()
            raise IndexError(f"there is no row {index}")
        found: Run = run
        return found

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until all rows are finished, at most ``timeout`` seconds. True when they are."""
        seconds = wait_seconds(timeout)
        self._feed.drain()
        if not self._wait_for(self._feed.all_done, seconds):
            return False
        self._check_all()
        return True

    @property
    def errors(self) -> list[BaseException]:
        """The errors of the rows that failed, in row order. Waits for all rows.

        With ``keep_trace=False`` at most the first thousand; ``failed`` counts them all.
        """
        self._wait_for_all()
        return self._feed.errors()

    @property
    def failed(self) -> int:
        """How many rows failed. Waits for all rows."""
        self._wait_for_all()
        return self._feed.failed

    @property
    def usage(self) -> Usage:
        """Tokens of all rows. Waits for all rows."""
        self._wait_for_all()
        return self._feed.usage

    @property
    def finished(self) -> int:
        """How many rows are finished by now. Never waits."""
        return self._feed.finished

    def _wait_for_all(self) -> None:
        self._feed.drain()
        self._wait_for(self._feed.all_done)
        self._raise_source_error()

    def _wait_for(self, ask: Callable[[], Any], timeout: float | None = None) -> Any:
        if self._loop is not None and self._loop is running_loop():
            answer = self._feed.wait_for(ask, 0)
            if answer is False and timeout is None:
                raise InvalidRequest(
                    "waiting here would block the event loop the rows run on: use `async for` or `await`",
                    param="rows",
                )
            return answer
        try:
            return self._feed.wait_for(ask, timeout)
        except BaseException:  # Ctrl-C: leave no row behind
            self.cancel()
            raise

    # --- reading, in an event loop ---

    def __aiter__(self) -> AsyncIterator[Run]:
        return self._each_async(self._feed.row)

    async def _each_async(self, ask: Callable[[int], Any]) -> AsyncIterator[Run]:
        place = 0
        while (run := await self._wait_for_async(partial(ask, place))) is not None:
            if run is not True:
                self._check_run(run)
                yield run
            place += 1
        self._raise_source_error()

    def __await__(self) -> Generator[Any, None, Runs]:
        yield from self._all_async().__await__()
        return self

    async def _all_async(self) -> None:
        self._feed.drain()
        await self._wait_for_async(self._feed.all_done)
        self._check_all()

    async def _wait_for_async(self, ask: Callable[[], Any]) -> Any:
        try:
            return await self._feed.wait_for_async(ask)
        except BaseException:  # a cancelled task: leave no row behind
            self.cancel()
            raise

    # --- errors and the end ---

    def _check_run(self, run: Run) -> None:
        if self._raise_on_error and run.error is not None:
            self.cancel()
            run.raise_error()

    def _check_all(self) -> None:
        self._raise_source_error()
        errors = self._feed.errors()
        if self._raise_on_error and errors:
            raise errors[0]

    def _raise_source_error(self) -> None:
        if self._feed.source_error is not None:
            raise self._feed.source_error

    def cancel(self) -> None:
        """Pull no more rows and cancel those in flight. Harmless after the end."""
        self._feed.cancel()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.cancel()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self.cancel()

    def __repr__(self) -> str:
        total = self._known_length if self._known_length is not None else "?"
        return f"<Runs {self._feed.finished}/{total} finished>"


class Completed:
    """The runs of a map as they finish."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs

    def __iter__(self) -> Iterator[Run]:
        return self._runs._each(self._runs._feed.completed)

    def __aiter__(self) -> AsyncIterator[Run]:
        return self._runs._each_async(self._runs._feed.completed)


def _check(rows: Any, concurrency: Any, progress: Any, raise_on_error: Any, name: str) -> None:
    if isinstance(rows, str | bytes | dict) or not isinstance(rows, Iterable):
        raise InvalidRequest(
            f"{name}.map takes an iterable of dicts, one for each row, not {type(rows).__name__}", param="rows"
        )
    if isinstance(concurrency, bool) or not isinstance(concurrency, int) or concurrency < 1:
        raise InvalidRequest(f"{name}.map: concurrency must be a whole number from 1", param="concurrency")
    if progress is not None and not isinstance(progress, bool):
        raise InvalidRequest(f"{name}.map: progress must be True, False or None", param="progress")
    if not isinstance(raise_on_error, bool):
        raise InvalidRequest(f"{name}.map: raise_on_error must be True or False", param="raise_on_error")
