"""Looking for a way out: whether what a text is in the middle of can still end as something new.

Where names or items come from few, a text can paint itself into a corner: ``"a`` leads nowhere once ``"ab"`` and
``"ac"`` are taken and no other name begins so. Everything that is not taken is a way out, so a look follows what is
taken, byte by byte, and ends where the automaton allows a byte beside it; a duplicate that the automaton takes with
its mark is a way out too. How many names and items there may be at all is counted by the grammar and not asked
here.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from radixrt.grammar.automaton import Automaton
from radixrt.grammar.json_rivals import NUMBER_BYTES, expected_bytes, next_bytes, rivals_of
from radixrt.grammar.json_tokens import spellings_of
from radixrt.grammar.json_tracker import (
    DUPLICATE,
    LITERALS,
    Composite,
    Frame,
    JsonTracker,
    Mode,
    Spot,
    begun_string,
    joined,
    scalar_key,
)
from radixrt.grammar.machine import DEAD
from radixrt.grammar.seen_keys import has_key, keys_with_prefix

__all__ = ["DeadEnds", "OpenString"]

_MARK: Final = DUPLICATE[0]
_QUOTE: Final = 34
_BLANKS: Final = frozenset(b" \t\n\r")
_MAX_LOOK: Final = 1024  # states that one look for a way out may visit; beyond, there is taken to be one
_MAX_NUMBER: Final = 64  # bytes of a number that a look goes on for
_MAX_KNOWN: Final = 8192  # states whose exits are remembered
_LONGEST_SPELLING: Final = 6  # bytes of text for one byte of a string


class OpenString(NamedTuple):
    """A string being read: the keys that it may become, how many of their bytes are there, and half an escape."""

    keys: list[bytes]
    done: int
    tail: bytes


class DeadEnds:
    """Finds dead ends among the texts of one automaton. Its cache may be shared between threads."""

    def __init__(self, automaton: Automaton, tracker: JsonTracker) -> None:
        self._automaton = automaton
        self._tracker = tracker
        self._exit_bytes: dict[int, frozenset[int]] = {}

    def is_alive(self, state: int, spot: Spot) -> bool:
        """Whether what is being read can still end as something new, or where a duplicate may stand."""
        top = spot.top
        if top is None:
            return True
        rivals = rivals_of(top)
        if rivals:
            return self._value_leaves(state, spot)
        return self._item_leaves(state, spot, top)

    def exits(self, state: int) -> frozenset[int]:
        """The bytes that may come next."""
        known = self._exit_bytes.get(state)
        if known is None:
            if len(self._exit_bytes) >= _MAX_KNOWN:
                self._exit_bytes.clear()
            mask = self._automaton.exits(state)
            known = self._exit_bytes[state] = frozenset(byte for byte in range(256) if mask >> byte & 1)
        return known

    def open_string(self, spot: Spot) -> OpenString | None:
        """The name or the string item being read, and the keys of its frame that it may become."""
        mode, top, text, _ = spot
        if top is None or text is None or mode < Mode.STRING or (mode == Mode.STRING and top.is_object):
            return None
        if isinstance(text, tuple) and text[2] > _LONGEST_SPELLING * top.longest:
            return OpenString([], 0, b"")
        begun, tail = begun_string(joined(text))
        prefix = b'"' + begun if mode == Mode.STRING else begun
        return OpenString(keys_with_prefix(top.keys, prefix), len(prefix), tail)

    # --- names, strings, numbers ------------------------------------------------------------------------------

    def is_scalar_alive(self, state: int, spot: Spot) -> bool:
        """The same, where all one can run out of are literals and zero, whose spellings nothing goes on from."""
        top = spot.top
        return top is None or top.is_object or self._scalar_leaves(state, top, joined(spot.text))

    def _item_leaves(self, state: int, spot: Spot, top: Frame) -> bool:
        open_ = self.open_string(spot)
        if open_ is not None:
            return not open_.keys or self._string_leaves(state, open_, is_name=spot.mode == Mode.NAME)
        if spot.mode == Mode.SCALAR and not top.is_object:
            return self._scalar_leaves(state, top, joined(spot.text))
        return True

    def _string_leaves(self, state: int, open_: OpenString, *, is_name: bool) -> bool:
        """Whether some string that ``state`` allows is none of the keys, or may be one of them again."""
        todo = [(state, open_.keys, open_.done, open_.tail)]
        for _ in range(_MAX_LOOK):
            if not todo:
                return False
            state, keys, done, tail = todo.pop()
            exits, expected = self.exits(state), next_bytes(keys, done, tail)
            if not exits <= expected:
                return True
            if _QUOTE in expected and _QUOTE in exits and any(len(key) == done for key in keys):
                # A quote that is part of a string stands behind a backslash, so this one ends it.
                if not is_name and self._automaton.advance(state, b'"' + DUPLICATE) != DEAD:
                    return True
                expected.discard(_QUOTE)
            for byte in exits & expected:
                after = self._automaton.advance(state, bytes((byte,)))
                begun = tail + bytes((byte,))
                for form in {f for key in keys if len(key) > done for f in spellings_of(key[done])}:
                    if form.startswith(begun):
                        rest = [key for key in keys if len(key) > done and form in spellings_of(key[done])]
                        todo.append((after, rest, done + 1, b"") if form == begun else (after, rest, done, begun))
        return True

    def _scalar_leaves(self, state: int, top: Frame, begun: bytes) -> bool:
        """The same for a number or a literal that is an item: the shortest ways out are tried first."""
        if begun[:1].isalpha():
            literal = next((word for word in LITERALS if word.startswith(begun)), begun)
            if not has_key(top.keys, literal):
                return True
            return self._automaton.advance(state, literal[len(begun) :] + DUPLICATE) != DEAD
        todo = deque([(state, begun)])
        for _ in range(_MAX_LOOK):
            if not todo:
                return False
            state, text = todo.popleft()
            exits = self.exits(state)
            delimiters = exits.difference(NUMBER_BYTES)
            taken = has_key(top.keys, scalar_key(text))
            if _MARK in delimiters if taken else delimiters - {_MARK}:
                return True
            if len(text) < _MAX_NUMBER:
                for byte in NUMBER_BYTES:
                    if byte in exits:
                        piece = bytes((byte,))
                        todo.append((self._automaton.advance(state, piece), text + piece))
        return True

    # --- arrays and objects -----------------------------------------------------------------------------------

    def _value_leaves(self, state: int, spot: Spot) -> bool:
        """Whether the arrays and objects being read can become something that none of their rivals is."""
        todo = deque([(state, spot)])
        for _ in range(_MAX_LOOK):
            if not todo:
                return False
            state, spot = todo.popleft()
            rivals = self._rivals(spot)
            if not rivals:
                if spot.top is None or self._item_leaves(state, spot, spot.top):
                    return True
                continue
            exits, expected = self.exits(state), expected_bytes(spot, rivals)
            beside = exits - expected - _BLANKS - {_MARK}
            for byte in beside:
                moved = self._step(state, spot, byte)
                if moved is not None and (moved[1].top is None or self._item_leaves(*moved, moved[1].top)):
                    return True
            for byte in sorted(exits & expected):
                moved = self._step(state, spot, byte)
                if moved is not None and (moved[1].mode != Mode.SCALAR or len(joined(moved[1].text)) < _MAX_NUMBER):
                    todo.append(moved)
        return True

    @staticmethod
    def _rivals(spot: Spot) -> tuple[Composite, ...]:
        return () if spot.top is None else rivals_of(spot.top)

    def _step(self, state: int, spot: Spot, byte: int) -> tuple[int, Spot] | None:
        data = bytes((byte,))
        run = self._tracker.run(spot, data)
        if run is None:
            return None
        state = self._automaton.advance(state, self._tracker.annotated(data, run[1]) if run[1] else data)
        return None if state == DEAD else (state, run[0])
