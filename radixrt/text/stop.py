"""Stop strings in a stream of text.

Knows text only: whether a match ends a generation, and how, is the caller's business.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from radixrt.errors import InvalidRequest

__all__ = ["StopFilter"]


class StopFilter:
    """Lets text through up to the first stop string and holds back no more than could still become one.

    The first is the one completed first, however the text is cut into pushes; of several that end there, the
    longest. An Aho-Corasick automaton: a state is the longest end of the text so far that some stop string begins
    with, and its depth is exactly what must be held.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        if any(not stop for stop in stops):
            raise InvalidRequest("a stop string must not be empty", param="stop")
        self._next: list[dict[str, int]] = [{}]
        self._depth = [0]
        self._match: list[str | None] = [None]
        for stop in stops:
            self._add(stop)
        self._fail = self._link()
        self._state = 0
        self._held = ""
        self.matched: str | None = None

    def push(self, text: str) -> tuple[str, str | None]:
        """Take more text; return what is safe to show now, and the stop string once one is complete.

        What follows a match is dropped, also in later pushes.
        """
        if self.matched is not None:
            return "", self.matched
        if len(self._next) == 1:
            return text, None
        pending = self._held + text
        for at, char in enumerate(text, start=len(self._held) + 1):
            self._state = self._step(self._state, char)
            stop = self._match[self._state]
            if stop is not None:
                self.matched, self._held = stop, ""
                return pending[: at - len(stop)], stop
        safe = len(pending) - self._depth[self._state]
        self._held = pending[safe:]
        return pending[:safe], None

    def flush(self) -> str:
        """End the text: return what was held back."""
        held, self._held, self._state = self._held, "", 0
        return held

    def _add(self, stop: str) -> None:
        state = 0
        for char in stop:
            following = self._next[state].get(char)
            if following is None:
                following = len(self._next)
                self._next[state][char] = following
                self._next.append({})
                self._depth.append(self._depth[state] + 1)
                self._match.append(None)
            state = following
        self._match[state] = stop

    def _link(self) -> list[int]:
        """For every state the state of its longest proper end; matches of that end are matches of the state."""
        fail = [0] * len(self._next)
        queue = deque(self._next[0].values())
        while queue:
            state = queue.popleft()
            if self._match[state] is None:
                self._match[state] = self._match[fail[state]]
            for char, following in self._next[state].items():
                back = fail[state]
                while back and char not in self._next[back]:
                    back = fail[back]
                fail[following] = self._next[back].get(char, 0)
                queue.append(following)
        return fail

    def _step(self, state: int, char: str) -> int:
        while state and char not in self._next[state]:
            state = self._fail[state]
        return self._next[state].get(char, 0)
