"""Looking for a way out: whether what a text is in the middle of can still end as something new.

Where names or items come from few, a text can paint itself into a corner: ``"a`` leads nowhere once ``"ab"`` and
``"ac"`` are taken and no other name begins so. Everything that is not taken is a way out, so a look follows what is
taken, byte by byte, and ends where the automaton allows a byte beside it; a duplicate that the automaton takes with
its mark is a way out too. How many names and items there may be at all is counted by the grammar and not asked
here.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from radixrt.grammar.automaton import Automaton
from radixrt.grammar.json_rivals import NUMBER_BYTES, expected_bytes, rivals_of
from radixrt.grammar.json_tokens import spellings_of
from radixrt.grammar.json_tracker import DUPLICATE, Frame, JsonTracker, Mode, Spot
from radixrt.grammar.json_values import LITERALS, begun_string, has_exponent, joined, scalar_key, stays_zero
from radixrt.grammar.machine import DEAD
from radixrt.grammar.seen_keys import Ranges, by_next_byte, has_key, with_prefix

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

    keys: Ranges
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
            known = self._exit_bytes[state] = frozenset(_members(mask))
        return known

    def open_string(self, spot: Spot) -> OpenString | None:
        """The name or the string item being read, and the keys of its frame that it may become."""
        mode, top, text, _ = spot
        if top is None or text is None or mode < Mode.STRING or (mode == Mode.STRING and top.is_object):
            return None
        if isinstance(text, tuple) and text[2] > _LONGEST_SPELLING * top.longest:
            return OpenString((), 0, b"")
        begun, tail = begun_string(joined(text))
        prefix = b'"' + begun if mode == Mode.STRING else begun
        return OpenString(with_prefix(top.keys, prefix), len(prefix), tail)

    # --- names, strings, numbers ------------------------------------------------------------------------------

    def is_scalar_alive(self, state: int, spot: Spot) -> bool:
        """The same, where all one can run out of are literals, zero, whose spellings nothing goes on from, and
        the exponents, which have an end.
        """
        top, begun = spot.top, joined(spot.text)
        if top is None or top.is_object:
            return True
        if not (begun[:1].isalpha() or stays_zero(begun) or has_exponent(begun)):
            return True
        return self._scalar_leaves(state, top, begun)

    def _item_leaves(self, state: int, spot: Spot, top: Frame) -> bool:
        open_ = self.open_string(spot)
        if open_ is not None:
            return not open_.keys or self._string_leaves(state, open_, is_name=spot.mode == Mode.NAME)
        if spot.mode == Mode.SCALAR and not top.is_object:
            return self._scalar_leaves(state, top, joined(spot.text))
        return True

    def _string_leaves(self, state: int, open_: OpenString, *, is_name: bool) -> bool:
        """Whether some string that ``state`` allows is none of the keys, or may be one of them again."""
        todo = [(state, *open_)]
        for _ in range(_MAX_LOOK):
            if not todo:
                return False
            state, keys, done, tail = todo.pop()
            exits, (following, ended) = self.exits(state), by_next_byte(keys, done)
            expected: dict[int, list[tuple[Ranges, int, bytes]]] = {}
            for byte, rest in following.items():
                for form in spellings_of(byte):
                    if form.startswith(tail):
                        begun = form[: len(tail) + 1]
                        ahead = (rest, done + 1, b"") if begun == form else (rest, done, begun)
                        expected.setdefault(begun[-1], []).append(ahead)
            ended = ended and not tail and _QUOTE in exits
            if not exits <= expected.keys() | ({_QUOTE} if ended else set()):
                return True
            if ended and not is_name and self._automaton.advance(state, b'"' + DUPLICATE) != DEAD:
                return True
            for byte in exits & expected.keys():
                after = self._automaton.advance(state, bytes((byte,)))
                todo.extend((after, *ahead) for ahead in expected[byte])
        return True

    def _scalar_leaves(self, state: int, top: Frame, begun: bytes) -> bool:
        """The same for a number or a literal that is an item."""
        if begun[:1].isalpha():
            literal = next((word for word in LITERALS if word.startswith(begun)), begun)
            if not has_key(top.keys, literal):
                return True
            return self._automaton.advance(state, literal[len(begun) :] + DUPLICATE) != DEAD
        todo = [(state, begun)]
        for _ in range(_MAX_LOOK):
            if not todo:
                return False
            state, text = todo.pop()
            exits = self.exits(state)
            delimiters = exits.difference(NUMBER_BYTES)
            if _MARK in delimiters if has_key(top.keys, scalar_key(text)) else delimiters - {_MARK}:
                return True
            following: bytes = NUMBER_BYTES if len(text) < _MAX_NUMBER else b""
            if stays_zero(text) and text.strip(b"-0."):  # whatever the exponent, it is zero
                following = b"1" if text[-1:] in b"eE+-" else b""
            for byte in following:  # the last one is tried first: high digits are taken late
                if byte in exits:
                    piece = bytes((byte,))
                    todo.append((self._automaton.advance(state, piece), text + piece))
        return True

    # --- arrays and objects -----------------------------------------------------------------------------------

    def _value_leaves(self, state: int, spot: Spot) -> bool:
        """Whether the arrays and objects being read can become something that none of their rivals is."""
        todo = [(state, spot)]
        for _ in range(_MAX_LOOK):
            if not todo:
                return False
            state, spot = todo.pop()
            top = spot.top
            if top is None or not rivals_of(top):
                if top is None or self._item_leaves(state, spot, top):
                    return True
                continue
            exits, expected = self.exits(state), expected_bytes(spot, top)
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

    def _step(self, state: int, spot: Spot, byte: int) -> tuple[int, Spot] | None:
        data = bytes((byte,))
        run = self._tracker.run(spot, data)
        if run is None:
            return None
        state = self._automaton.advance(state, self._tracker.annotated(data, run[1]) if run[1] else data)
        return None if state == DEAD else (state, run[0])


def _members(mask: int) -> list[int]:
    """The bits of a mask."""
    bits = np.frombuffer(mask.to_bytes(32, "little"), np.uint8)
    found: list[int] = np.flatnonzero(np.unpackbits(bits, bitorder="little")).tolist()
    return found
