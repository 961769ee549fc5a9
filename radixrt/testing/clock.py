"""A clock that moves only when it is told to.

Callable like ``time.monotonic``, so it goes wherever a ``clock`` argument is taken. It knows nothing about
threads that wait for real time to pass.
"""

from __future__ import annotations

__all__ = ["FakeClock"]


class FakeClock:
    """Seconds since an arbitrary start, advanced by hand."""

    def __init__(self, now: float = 0.0) -> None:
        self._now = now

    def __call__(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        """Move forward by ``seconds``. Raises ``ValueError`` for a negative step: clocks here are monotonic."""
        if seconds < 0:
            raise ValueError(f"a monotonic clock cannot go back by {-seconds} s")
        self._now += seconds

    def sleep(self, seconds: float) -> None:
        """Stand in for ``time.sleep``: the time passes at once."""
        self.advance(seconds)
