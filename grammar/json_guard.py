"""The automaton and the tracker side by side: what a tracked text may go on with.

A state of the automaton has a row of tokens that all its texts share; it knows nothing of repeated names and items.
``JsonGuard`` finds the few tokens that what a text has said so far could forbid (or, where an array must hold a
duplicate, allow), and decides each by running it. So a mask says of every token what accepting it says.

Where names or items come from few, a token may also lead to a dead end, which ``json_dead_ends`` finds.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from radixrt.grammar.automaton import Automaton, Row
from radixrt.grammar.json_dead_ends import DeadEnds
from radixrt.grammar.json_rivals import expected_bytes, expected_texts, rivals_of
from radixrt.grammar.json_tokens import JsonTokens
from radixrt.grammar.json_tracker import DUPLICATE, Frame, JsonTracker, Mode, Spot
from radixrt.grammar.json_values import LITERALS, ZERO, has_exponent, joined, scalar_key, stays_zero
from radixrt.grammar.machine import DEAD
from radixrt.grammar.rules import Tracks
from radixrt.grammar.seen_keys import has_key

__all__ = ["JsonGuard"]

_MAX_KNOWN: Final = 8192  # states whose tokens of some kind are remembered
_BLANKS: Final = (b" ", b"\t", b"\n", b"\r")
_PIECE: Final = 64  # bytes of a given text that are read with one allowance of fuel


class JsonGuard:
    """What the texts of one automaton may go on with. Holds no text; its caches may be shared between threads."""

    def __init__(self, automaton: Automaton, tracks: Tracks, tokens: JsonTokens) -> None:
        self.automaton = automaton
        self._tokens = tokens
        self._tight = tracks.tight
        self._demands = tracks.demands
        self._items = tracks.items
        self.tracker = JsonTracker(items=tracks.items, suspects=self._holding)
        self._ends = DeadEnds(automaton, self.tracker)
        self._alive: dict[tuple[int, str], tuple[int, ...]] = {}

    def _holding(self, key: bytes) -> frozenset[int]:
        return self._tokens.holding(key, tight=self._tight)

    # --- moving -----------------------------------------------------------------------------------------------

    def after(self, state: int, spot: Spot, data: bytes) -> tuple[int, Spot] | None:
        """State and spot after ``data``; None where no complete text goes on like that."""
        run = self.tracker.run(spot, data)
        if run is None:
            return None
        following, marks = run
        state = self.automaton.advance(state, self.tracker.annotated(data, marks) if marks else data)
        if state == DEAD:
            return None
        if self._tight:
            alive = self._ends.is_alive(state, following)
        elif following.mode == Mode.SCALAR:
            alive = self._ends.is_scalar_alive(state, following)
        else:  # behind a blank there may be nothing but the closing bracket
            alive = (
                following.mode != Mode.VALUE or data[-1:] not in _BLANKS or self._ends.is_alive(state, following)
            )
        return (state, following) if alive else None

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

    # --- masks ------------------------------------------------------------------------------------------------

    def row(self, state: int, spot: Spot) -> Row:
        """The tokens that may follow; read-only."""
        base = self.automaton.row(state)
        row = self._behind_number(state, spot, base)
        suspects = self._suspects(state, spot, row)
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
        """The part of ``row`` that is right, of tokens that begin with ``prefix`` and go on with a text's start."""
        token_bytes = self.automaton.vocab.token_bytes
        for token in (
            *self._tokens.repeating,
            *(self._tokens.several if self._items else ()),
            *self._tokens.scalar_last,
        ):
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

    def _suspects(self, state: int, spot: Spot, row: Row) -> set[int]:
        """The tokens whose bit in the row of the state may be wrong."""
        top, inside = spot.top, spot.mode >= Mode.STRING
        found = set(self._alive_of(state, "repeating", inside))
        if self._items:
            found.update(self._alive_of(state, "several", inside))
            found.update(self._alive_of(state, "scalar_last", inside))
        if top is None:
            return found
        found.update(top.suspects)
        open_ = self._ends.open_string(spot)
        if open_ is not None:
            if open_.keys:
                found.update(self._tokens.finishing(*open_, tight=self._tight))
            found.update(self._alive_of(state, "closing", inside))
        if self._tight:
            found.update(self._alive_of(state, "quote_last", inside))
            if not inside:
                found.update(self._tokens.exactly(b'"'))
        if self._items:
            found.update(self._item_suspects(state, spot, top))
            ending = self._alive_of(state, "ending", inside)
            if (self._tight or ending) and rivals_of(top):
                found.update(ending)
                if self._tight:
                    found.update(self._rival_suspects(spot, top, row))
        return found

    def _item_suspects(self, state: int, spot: Spot, top: Frame) -> set[int]:
        """The tokens that could complete an item that is taken already, or leave no other end to one."""
        found: set[int] = set()
        inside = spot.mode >= Mode.STRING
        direct = not top.is_object and bool(top.keys)
        if self._tight and (direct or top.within):
            found.update(self._alive_of(state, "opening", inside))
        elif self._tight:
            found.update(self._alive_of(state, "reopening", inside))
        elif top.within:
            found.update(self._alive_of(state, "blank_last", inside))
        elif direct:
            found.update(self._alive_of(state, "opening_blank", inside))
        if not direct:
            return found
        found.update(self._alive_of(state, "whole", inside))
        if not inside:
            begun = joined(spot.text)
            for word in LITERALS:
                if word.startswith(begun) and has_key(top.keys, word):
                    rest = word[len(begun) :]
                    found.update(self._tokens.beginning(rest))
                    found.update(token for cut in range(1, len(rest)) for token in self._tokens.exactly(rest[:cut]))
            numeric = self._alive_of(state, "numeric", inside)
            if self._tight:
                found.update(numeric)
            else:
                token_bytes = self.automaton.vocab.token_bytes
                if stays_zero(begun) and has_key(top.keys, ZERO):
                    found.update(token for token in numeric if stays_zero(token_bytes(token) or b"1"))
                found.update(token for token in numeric if has_exponent(begun + (token_bytes(token) or b"")))
        return found

    def _rival_suspects(self, spot: Spot, top: Frame, row: Row) -> set[int]:
        """The tokens after which an array or object could still become a duplicate."""
        if spot.mode >= Mode.STRING:
            return set(self._tokens.finishing(*expected_texts(spot, top), tight=True))
        expected = expected_bytes(spot, top)
        expected.add(0x20)  # a blank ends what is read, and behind some only a closing bracket may come
        firsts = self._tokens.firsts
        bits = np.unpackbits(row.view(np.uint8), bitorder="little").view(np.bool_)
        found: set[int] = set(np.flatnonzero(np.isin(firsts, list(expected)) & bits[: len(firsts)]).tolist())
        return found

    def _alive_of(self, state: int, kind: str, inside: bool) -> tuple[int, ...]:
        """The tokens of a kind that the row of a state has (where a mark may open a way: that could be right).

        ``inside`` a string, only those with a quote count: the others do not leave it.
        """
        if not self._demands:
            return self._tokens.alive(kind, self.automaton.mask_row(state), inside=inside)
        known = self._alive.get((state, kind))
        if known is None:
            token_bytes = self.automaton.vocab.token_bytes
            exits = self._ends.exits(state)
            listed = self._tokens.listed(kind, inside=inside)
            known = tuple(token for token in listed if (token_bytes(token) or b"\xff")[0] in exits)
            if len(self._alive) >= _MAX_KNOWN:
                self._alive.clear()
            self._alive[state, kind] = known
        return known
