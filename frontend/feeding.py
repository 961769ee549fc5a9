"""The rows of a map on their way: pulled as capacity frees, begun, finished, handed out.

One daemon thread feeds. It holds this object but never the ``Runs`` that people hold, so that a map nobody looks
at any more can be noticed and cancelled.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from radixrt.api import Usage
from radixrt.frontend.notes import note
from radixrt.frontend.run import Executor, Run
from radixrt.frontend.waiting import call_soon, waits

__all__ = ["Feed", "Prepare", "ProgressBar"]

Prepare = Callable[[int, Any], tuple[Run, dict[str, Any] | None]]  # a row without arguments has failed already

_KEPT_ERRORS = 1000
_MIN_WINDOW = 1024
_END = object()


class Feed:
    """State shared by the feeding thread, the threads that end runs, and those that wait for rows.

    With ``keep`` every run stays. Without, at most ``window`` rows are pulled and not yet handed out, a run is
    handed out once, and of the errors the first thousand are kept.
    """

    def __init__(
        self, prepare: Prepare, executor: Executor, *, is_async: bool, concurrency: int, keep: bool
    ) -> None:
        self._prepare = prepare
        self._executor = executor
        self._is_async = is_async
        self._concurrency = concurrency
        self._window = max(_MIN_WINDOW, 16 * concurrency)
        self._changed = threading.Condition()
        self._sleepers: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []
        self._runs: dict[int, Run] = {}
        # Rows in the order they finished. Without keep only those not handed out, and so a dict: they go from
        # the middle.
        self._completed: list[int] = []
        self._ready: dict[int, None] = {}
        self._in_flight = 0
        self._handed_out = 0
        self._errors: list[tuple[int, BaseException]] = []
        self._draining = False
        self.keep = keep
        self.pulled = 0
        self.finished = 0
        self.failed = 0
        self.usage = Usage()
        self.cancelled = False
        self.exhausted = False
        self.source_error: BaseException | None = None

    # --- feeding, on its own thread ---

    def run(self, rows: Iterable[Any], function: Callable[..., Any], bar: ProgressBar) -> None:
        """Pull and begin rows until there are no more, then wait for the last. The thread's whole life."""
        try:
            self._pull(rows, function, bar)
        except BaseException as error:  # noqa: BLE001  (the rows' own error: whoever iterates gets it)
            self.source_error = error
        try:
            with self._changed:
                self.exhausted = True
                self._wake()
                while self._in_flight:
                    self._changed.wait()
                    bar.show(self.finished)
        finally:
            bar.close()
            self._executor.close()

    def _pull(self, rows: Iterable[Any], function: Callable[..., Any], bar: ProgressBar) -> None:
        iterator = iter(rows)
        while self._wait_for_room(bar):
            row = next(iterator, _END)
            if row is _END:
                return
            self._begin(row, function)

    def _wait_for_room(self, bar: ProgressBar) -> bool:
        """False when nothing more is wanted."""
        with self._changed:
            while not self.cancelled:
                bar.show(self.finished)
                waiting = self.pulled - self._handed_out
                if self._in_flight < self._concurrency and (self.keep or self._draining or waiting < self._window):
                    return True
                self._changed.wait()
            return False

    def _begin(self, row: Any, function: Callable[..., Any]) -> None:
        index = self.pulled
        run, arguments = self._prepare(index, row)
        with self._changed:
            self._runs[index] = run
            self.pulled += 1
            self._in_flight += 1
            cancelled = self.cancelled
        run.on_over(self._on_over)
        if cancelled:
            run.cancel()
        elif arguments is not None:
            run.begin()
            self._executor.submit(run, function, arguments, is_async=self._is_async)

    def _on_over(self, run: Run) -> None:
        index = run.index if run.index is not None else 0
        usage, error = run.usage_now(), run.error
        with self._changed:
            self._in_flight -= 1
            self.finished += 1
            self.usage += usage
            if self.keep:
                self._completed.append(index)
            else:
                self._ready[index] = None
            if error is not None:
                self.failed += 1
                if self.keep or len(self._errors) < _KEPT_ERRORS:
                    note(error, "row", f"in row {index}")
                    self._errors.append((index, error))
            if self._draining and not self.keep:
                self._hand_out(index)
            self._wake()

    def _wake(self) -> None:
        self._changed.notify_all()
        sleepers, self._sleepers = self._sleepers, []
        for loop, sleeper in sleepers:
            call_soon(loop, partial(_end_sleep, sleeper))

    # --- handing out ---

    def _hand_out(self, index: int) -> Run:
        if self.keep:
            return self._runs[index]
        self._handed_out += 1
        del self._ready[index]
        self._changed.notify_all()
        return self._runs.pop(index)

    def row(self, index: int) -> Run | bool | None:
        """Row ``index`` if it is finished; None if it will never be; False if it is still awaited.

        True stands for a row that was handed out before. Called through ``wait_for``.
        """
        run = self._runs.get(index)
        if run is not None:
            return self._hand_out(index) if self._is_finished(index, run) else False
        if index < self.pulled:
            return True
        return None if self.exhausted else False

    def _is_finished(self, index: int, run: Run) -> bool:
        return run.done if self.keep else index in self._ready

    def completed(self, place: int) -> Run | bool | None:
        """The run that finished as number ``place``, with the same answers as ``row``."""
        if self.keep:
            if place < len(self._completed):
                return self._runs[self._completed[place]]
        elif self._ready:
            return self._hand_out(next(iter(self._ready)))
        return None if self.exhausted and not self._in_flight else False

    def all_done(self) -> bool:
        """Whether nothing is left to do. Called through ``wait_for``."""
        return self.exhausted and not self._in_flight

    def drain(self) -> None:
        """Without ``keep``: let finished rows go, because somebody waits for the end instead of taking them."""
        with self._changed:
            if not self.keep and not self._draining:
                self._draining = True
                for index in list(self._ready):
                    self._hand_out(index)
                self._wake()

    def wait_for(self, ask: Callable[[], Any], timeout: float | None = None) -> Any:
        """Ask under the lock until the answer is not False, or the time is up."""
        answer: Any = False

        def answered() -> bool:
            nonlocal answer
            answer = ask()
            return answer is not False

        with self._changed:
            if answered():
                return answer
        with waits(for_program=True), self._changed:
            self._changed.wait_for(answered, timeout)
            return answer

    async def wait_for_async(self, ask: Callable[[], Any]) -> Any:
        """The same without blocking the loop."""
        while True:
            with self._changed:
                answer = ask()
                if answer is not False:
                    return answer
                loop = asyncio.get_running_loop()
                sleeper: asyncio.Future[None] = loop.create_future()
                self._sleepers.append((loop, sleeper))
            await sleeper

    def errors(self) -> list[BaseException]:
        with self._changed:
            return [error for _, error in sorted(self._errors, key=lambda pair: pair[0])]

    def cancel(self) -> None:
        """Pull no more and cancel every row in flight."""
        with self._changed:
            self.cancelled = True
            open_runs = [run for run in self._runs.values() if not run.done]
            self._wake()
        for run in open_runs:
            run.cancel()


def _end_sleep(sleeper: asyncio.Future[None]) -> None:
    if not sleeper.done():
        sleeper.set_result(None)


class ProgressBar:
    """A bar on stderr, or with ``shown`` False nothing at all."""

    def __init__(self, shown: bool, total: int | None, name: str) -> None:
        self._bar: Any = None
        if shown:
            from tqdm import tqdm

            self._bar = tqdm(total=total, desc=name, unit="row", file=sys.stderr)

    def show(self, finished: int) -> None:
        if self._bar is not None and finished > self._bar.n:
            self._bar.update(finished - self._bar.n)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
