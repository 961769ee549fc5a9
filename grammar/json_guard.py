"""The automaton and the tracker side by side: what a tracked text may go on with.

A state of the automaton has a row of tokens that all its texts share; it knows nothing of repeated names and items.
``JsonGuard`` finds the few tokens that what a text has said so far could forbid (or, where an array must hold a
duplicate, allow), and decides each by running it. So a mask says of every token what accepting it says.

Where names or items come from few, a text can paint itself into a corner: ``"a`` leads nowhere once ``"ab"`` and
``"ac"`` are taken and no other name begins so. ``alive`` looks along what was seen for a way out. Counting how many
there may be at all is the grammar's part.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np

from radixrt.grammar.automaton import Automaton, Row
from radixrt.grammar.json_tokens import JsonTokens, spellings_of
from radixrt.grammar.json_tracker import DUPLICATE, Frame, JsonTracker, Mode, Spot, Text, joined, plain, scalar_key
from radixrt.grammar.machine import DEAD
from radixrt.grammar.rules import Tracks
from radixrt.grammar.seen_keys import has_key, keys_with_prefix

__all__ = ["JsonGuard"]

_LITERALS: Final = (b"true", b"false", b"null")
_WHOLE = re.compile(rb"(?:[^\\]|\\[^u]|\\u[0-9a-fA-F]{4})*", re.DOTALL)
_NUMBER_BYTES: Final = b"123456789.0eE-+"
_MAX_LOOK: Final = 4096  # states that one look for a way out may visit; beyond, there is taken to be one
_MAX_NUMBER: Final = 64  # bytes of a number that a look goes on for
_MAX_KNOWN: Final = 4096  # states whose tokens of some kind are remembered
_PIECE: Final = 64  # bytes of a given text that are read with one allowance of fuel
_LONGEST_SPELLING: Final = 6  # bytes of text for one byte of a string


class _Open(NamedTuple):
    """A string being read: the keys that it may become, how many of their bytes are there, and half an escape."""

    keys: list[bytes]
    done: int
    tail: bytes


class JsonGuard:
    """What the texts of one automaton may go on with. Holds no text; its caches may be shared between threads."""

    def __init__(self, automaton: Automaton, tracks: Tracks, tokens: JsonTokens) -> None:
        self.automaton = automaton
        self._tokens = tokens
        self._tight = tracks.tight
        self._demands = tracks.demands
        self._items = tracks.items
        self.tracker = JsonTracker(items=tracks.items, suspects=self._holding)
        self._alive: dict[tuple[int, str], tuple[int, ...]] = {}
        self._exit_bytes: dict[int, frozenset[int]] = {}

    def _holding(self, key: bytes) -> tuple[int, ...]:
        return self._tokens.holding(key, tight=self._tight)

    # --- moving --------------------------------------------------------------------------------------------------

    def after(self, state: int, spot: Spot, data: bytes) -> tuple[int, Spot] | None:
        """State and spot after ``data``; None where no complete text goes on like that."""
        run = self.tracker.run(spot, data)
        if run is None:
            return None
        following, marks = run
        state = self.automaton.advance(state, self.tracker.annotated(data, marks) if marks else data)
        if state == DEAD or (self._tight and not self.is_alive(state, following)):
            return None
        return state, following

    def accepts(self, text: bytes) -> bool:
        """Whether ``text`` is a complete text."""
        state, spot = self.automaton.start, self.tracker.start
        for begin in range(0, len(text), _PIECE):
            run = self.tracker.run(spot, piece := text[begin : begin + _PIECE])
            if run is None:
                return False
            spot, marks = run
            state = self.automaton.advance(state, self.tracker.annotated(piece, marks) if marks else piece)
            if state == DEAD:
                return False
        return self.automaton.is_accepting(state)

    def sure(self, state: int, spot: Spot, data: bytes) -> tuple[int, int]:
        """How many bytes of ``data``, which the automaton forces, are sure, and its state after them.

        The automaton alone knows nothing of marks, so nothing is sure behind one.
        """
        cut = len(data)
        run = self.tracker.run(spot, data)
        while run is None or run[1]:
            cut = cut - 1 if run is None else run[1][0]
            run = self.tracker.run(spot, data[:cut])
        return cut, self.automaton.advance(state, data[:cut])

    # --- masks ---------------------------------------------------------------------------------------------------

    def row(self, state: int, spot: Spot) -> Row:
        """The tokens that may follow; read-only."""
        base = self.automaton.row(state)
        row = self._behind_number(state, spot, base)
        suspects = self._suspects(state, spot)
        if suspects:
            row = self.decided(state, spot, row, suspects)
        return row

    def decided(self, state: int, spot: Spot, row: Row, suspects: Iterable[int]) -> Row:
        """``row`` with the bits of some tokens as running them says."""
        token_bytes = self.automaton.vocab.token_bytes
        changed: Row | None = None
        for token in suspects:
            word, bit = token >> 5, 1 << (token & 31)
            allowed = bool(int(row[word]) & bit)
            if not allowed and not self._demands:
                continue  # without the mark of a duplicate it is out, and the mark never opens a way here
            if (self.after(state, spot, token_bytes(token) or b"") is not None) != allowed:
                if changed is None:
                    changed = row.copy()
                changed[word] ^= np.uint32(bit)
        return row if changed is None else changed

    def beyond(self, state: int, prefix: bytes, row: Row) -> Row:
        """``row`` of the tokens that begin with ``prefix`` and go on with a text from its start, as far as right."""
        token_bytes = self.automaton.vocab.token_bytes
        for token in (*self._tokens.repeating, *(self._tokens.ending if self._items else ())):
            bit = np.uint32(1 << (token & 31))
            rest = (token_bytes(token) or b"")[len(prefix) :]
            if row[token >> 5] & bit and self.after(state, self.tracker.start, rest) is None:
                row[token >> 5] &= ~bit
        return row

    def _behind_number(self, state: int, spot: Spot, base: Row) -> Row:
        """``base``, where a number is a duplicate once it ends: what begins with a delimiter comes after the
        mark.
        """
        top = spot.top
        if spot.mode != Mode.SCALAR or top is None or top.is_object:
            return base
        if not has_key(top.keys, scalar_key(joined(spot.text))):
            return base
        behind = self._tokens.delimiting
        row = base & ~behind
        marked = self.automaton.advance(state, DUPLICATE)
        return row if marked == DEAD else row | (self.automaton.row(marked) & behind)

    def _suspects(self, state: int, spot: Spot) -> set[int]:
        """The tokens whose bit in the row of the state may be wrong."""
        mode, top = spot.mode, spot.top
        found = set(self._alive_of(state, "repeating"))
        if top is None:
            if self._items:
                found.update(self._alive_of(state, "ending"))
            return found
        found.update(top.suspects)
        open_ = self._open_string(spot)
        if open_ is not None:
            for key in open_.keys:
                found.update(self._tokens.finishing(key[open_.done :], open_.tail, tight=self._tight))
            found.update(self._alive_of(state, "closing"))
        if self._items:
            found.update(self._item_suspects(state, mode, top, spot.text))
        return found

    def _item_suspects(self, state: int, mode: int, top: Frame, text: Text) -> set[int]:
        found: set[int] = set()
        frame: Frame | None = top
        while frame is not None and (frame.is_object or not frame.keys):
            frame = frame.parent
        if frame is not None or mode < Mode.STRING:
            found.update(self._alive_of(state, "ending"))
        if frame is not None and self._tight:
            found.update(self._alive_of(state, "number_last"))
        if frame is top and mode < Mode.STRING:
            begun = joined(text)
            for literal in _LITERALS:
                if literal.startswith(begun) and has_key(top.keys, literal):
                    found.update(self._tokens.beginning(literal[len(begun) :]))
                    found.update(self._strictly_within(literal[len(begun) :]))
            if self._tight:
                found.update(self._alive_of(state, "numeric"))
        return found

    def _strictly_within(self, rest: bytes) -> list[int]:
        """The tokens that are a beginning of ``rest``: of a literal that is taken, nothing may be begun."""
        return [token for cut in range(1, len(rest)) for token in self._tokens.exactly(rest[:cut])]

    def _alive_of(self, state: int, kind: str) -> tuple[int, ...]:
        """The tokens of a kind that the row of a state has (all of them where a mark may open a way)."""
        known = self._alive.get((state, kind))
        if known is None:
            listed: tuple[int, ...] = getattr(self._tokens, kind)
            if self._demands:
                exits = self._exits(state)
                token_bytes = self.automaton.vocab.token_bytes
                known = tuple(token for token in listed if (token_bytes(token) or b"\xff")[0] in exits)
            else:
                row = self.automaton.row(state)
                ids = np.array(listed, np.int64)
                known = tuple(ids[(row[ids >> 5] >> (ids & 31).astype(np.uint32)) & 1 != 0].tolist())
            if len(self._alive) >= _MAX_KNOWN:
                self._alive.clear()
            self._alive[state, kind] = known
        return known

    # --- strings being read --------------------------------------------------------------------------------------

    def _open_string(self, spot: Spot) -> _Open | None:
        """The name or the string item being read, and the keys of its frame that it may become."""
        mode, top, text, _ = spot
        if top is None or text is None or mode < Mode.STRING or (mode == Mode.STRING and top.is_object):
            return None
        if isinstance(text, tuple) and text[2] > _LONGEST_SPELLING * top.longest:
            return _Open([], 0, b"")
        begun = joined(text)
        match = _WHOLE.match(begun)
        whole = len(begun) if match is None or b"\\" not in begun else match.end()
        prefix = plain(begun[:whole])
        if mode == Mode.STRING:
            prefix = b'"' + prefix
        return _Open(keys_with_prefix(top.keys, prefix), len(prefix), begun[whole:])

    # --- dead ends -----------------------------------------------------------------------------------------------

    def is_alive(self, state: int, spot: Spot) -> bool:
        """Whether what is being read can still end as something new, or where a duplicate may stand."""
        top = spot.top
        if top is None:
            return True
        open_ = self._open_string(spot)
        if open_ is not None:
            return not open_.keys or self._string_leaves(state, open_, is_name=spot.mode == Mode.NAME)
        if spot.mode == Mode.SCALAR and not top.is_object:
            return self._scalar_leaves(state, top, joined(spot.text))
        return True

    def _string_leaves(self, state: int, open_: _Open, *, is_name: bool) -> bool:
        """Whether some string that ``state`` allows is none of the keys, or may be one of them again."""
        todo = [(state, open_.keys, open_.done, open_.tail)]
        for _ in range(_MAX_LOOK):
            if not todo:
                return False
            state, keys, done, tail = todo.pop()
            expected: dict[int, list[tuple[bytes, bytes]]] = {}
            ended = False
            for key in keys:
                if len(key) == done:
                    ended = not tail
                    continue
                for form in spellings_of(key[done]):
                    if form.startswith(tail):
                        expected.setdefault(form[len(tail)], []).append((key, form))
            exits = self._exits(state)
            if not exits <= expected.keys() | ({34} if ended else set()):
                return True
            again = b'"' + DUPLICATE
            if ended and 34 in exits and not is_name and self.automaton.advance(state, again) != DEAD:
                return True
            for byte in exits & expected.keys():
                after = self.automaton.advance(state, bytes((byte,)))
                for form in dict.fromkeys(form for _, form in expected[byte]):
                    rest = [key for key, other in expected[byte] if other == form]
                    ahead = len(tail) + 1
                    if ahead == len(form):
                        todo.append((after, rest, done + 1, b""))
                    else:
                        todo.append((after, rest, done, form[:ahead]))
        return True

    def _scalar_leaves(self, state: int, top: Frame, begun: bytes) -> bool:
        """The same for a number or a literal that is an item: the shortest ways out are tried first."""
        todo = [(state, begun)]
        place = 0
        while place < len(todo) and place < _MAX_LOOK:
            state, text = todo[place]
            place += 1
            exits = self._exits(state)
            if text[:1].isalpha():
                literal = next((word for word in _LITERALS if word.startswith(text)), text)
                after = self.automaton.advance(state, literal[len(text) :])
                if not has_key(top.keys, literal):
                    return True
                return after != DEAD and self.automaton.advance(after, DUPLICATE) != DEAD
            delimiters = exits.difference(_NUMBER_BYTES)
            if not has_key(top.keys, scalar_key(text)):
                if delimiters - {DUPLICATE[0]}:
                    return True
            elif DUPLICATE[0] in delimiters:
                return True
            if len(text) < _MAX_NUMBER:
                for byte in _NUMBER_BYTES:
                    if byte in exits:
                        piece = bytes((byte,))
                        todo.append((self.automaton.advance(state, piece), text + piece))
        return place < len(todo)

    def _exits(self, state: int) -> frozenset[int]:
        """The bytes that may come next."""
        known = self._exit_bytes.get(state)
        if known is None:
            if len(self._exit_bytes) >= _MAX_KNOWN:
                self._exit_bytes.clear()
            known = self._exit_bytes[state] = frozenset(
                byte for byte in range(256) if self.automaton.advance(state, bytes((byte,))) != DEAD
            )
        return known
