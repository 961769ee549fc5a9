"""Compiled grammars by what they were made from: each made once, by one thread, while the others wait.

Failures are remembered too, so a hostile constraint costs its work once; a bug is not, it is raised to all who
wait. Bounded in entries and in bytes, the least recently used goes first. It does not know what a constraint is.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Final

from radixrt.errors import ErrorInfo, RadixrtError
from radixrt.grammar.compiled import CompiledGrammar

__all__ = ["CompileCache"]

_Made = CompiledGrammar | ErrorInfo

_FAILURE_BYTES: Final = 1024
_MEASURED: Final = 4
"""Grammars grow while they are used: so many are measured again whenever one is added."""


class CompileCache:
    """Thread-safe. ``max_entries`` and ``max_bytes`` bound what is kept; what was made last is kept in any case.

    Keys are not counted: they must be small, whatever they stand for.
    """

    def __init__(self, max_entries: int, max_bytes: int) -> None:
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._entries: OrderedDict[Hashable, Future[_Made]] = OrderedDict()
        self._sizes: OrderedDict[Hashable, int] = OrderedDict()  # of the finished ones, measured longest ago first
        self._total = 0

    def get(self, key: Hashable, make: Callable[[], CompiledGrammar]) -> CompiledGrammar:
        """What ``make`` returned, or raises what it raised, now or when ``key`` was first asked for."""
        with self._lock:
            known = self._entries.get(key)
            if known is not None:
                self._entries.move_to_end(key)
            else:
                future: Future[_Made] = Future()
                self._entries[key] = future
        if known is None:
            self._make(key, future, make)
            known = future
        found = known.result()
        if isinstance(found, ErrorInfo):
            raise found.to_exception()
        return found

    def _make(self, key: Hashable, future: Future[_Made], make: Callable[[], CompiledGrammar]) -> None:
        made: _Made
        try:
            made = make()
        except RadixrtError as error:
            made = error.to_info()
        except BaseException as error:  # noqa: BLE001  # handed to all who wait, raised there
            with self._lock:
                self._entries.pop(key, None)
            future.set_exception(error)
            return
        future.set_result(made)
        with self._lock:
            self._sizes[key] = 0
            for _ in range(min(_MEASURED, len(self._sizes) - 1)):
                self._measure(next(iter(self._sizes)))
            self._measure(key)
            self._evict(key)

    def _measure(self, key: Hashable) -> None:
        """Know the size of a finished entry as it is now."""
        made = self._entries[key].result()
        size = made.nbytes if isinstance(made, CompiledGrammar) else _FAILURE_BYTES + 4 * len(made.message)
        self._total += size - self._sizes[key]
        self._sizes[key] = size
        self._sizes.move_to_end(key)

    def _evict(self, latest: Hashable) -> None:
        while len(self._entries) > self._max_entries or self._total > self._max_bytes:
            oldest = next((key for key in self._entries if key in self._sizes and key != latest), None)
            if oldest is None:  # the others are being made
                return
            self._total -= self._sizes.pop(oldest)
            del self._entries[oldest]

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def nbytes(self) -> int:
        """Memory of all that is kept, about, each as large as when it was last measured."""
        return self._total
