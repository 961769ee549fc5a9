"""Where blanks may stand between the tokens of JSON text.

``"flexible"``: after ``{``, ``[`` and ``,`` and before a closing bracket nothing, one space, or a line break with
an indentation of at most 64 spaces or 16 tabs; after ``:`` nothing or one space. That takes compact text and
``json.dumps`` with its usual separators and with ``indent``, and no run of blanks goes on for ever.
``"compact"``: no blanks at all.
"""

from __future__ import annotations

from typing import Final

from radixrt.grammar.rx import EMPTY, Pool, Rx

__all__ = ["WHITESPACE", "Spacing"]

WHITESPACE: Final = ("flexible", "compact")
MAX_SPACES: Final = 64
MAX_TABS: Final = 16


class Spacing:
    """The punctuation of arrays and objects as terms, with the blanks around it."""

    def __init__(self, pool: Pool, whitespace: str) -> None:
        self.pool = pool
        breaks, space = EMPTY, EMPTY
        if whitespace == "flexible":
            spaces = pool.repeat(pool.literal(b" "), 0, MAX_SPACES)
            tabs = pool.repeat(pool.literal(b"\t"), 1, MAX_TABS)
            line = pool.concat(pool.literal(b"\n"), pool.alt(spaces, tabs))
            space = pool.opt(pool.literal(b" "))
            breaks = pool.alt(space, line)
        self.comma = pool.concat(pool.literal(b","), breaks)
        self.colon = pool.concat(pool.literal(b":"), space)
        self._brackets: dict[str, Rx] = {}
        for pair in ("[]", "{}"):
            opening, closing = (pool.literal(bracket.encode()) for bracket in pair)
            self._brackets[pair[0]] = pool.concat(opening, breaks)
            self._brackets[pair[1]] = closing = pool.concat(breaks, closing)
            self._brackets[pair] = pool.concat(opening, closing)

    def opening(self, bracket: str) -> Rx:
        return self._brackets[bracket]

    def closing(self, bracket: str) -> Rx:
        return self._brackets[bracket]

    def empty(self, brackets: str) -> Rx:
        """An array or object without content."""
        return self._brackets[brackets]
