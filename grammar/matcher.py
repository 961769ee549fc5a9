"""Following one text as it is generated: masks, acceptance, rollback, forced tokens.

A matcher is live or failed. Whatever goes wrong inside makes it failed, with the cause in ``error``; it never
raises into a decoding loop. A failed matcher allows nothing and accepts nothing. It does not know about sampling.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from radixrt.errors import InvalidRequest
from radixrt.grammar.automaton import Automaton, Row, free_row
from radixrt.grammar.json_guard import JsonGuard
from radixrt.grammar.json_tracker import JsonTracker, Spot
from radixrt.grammar.machine import DEAD
from radixrt.grammar.token_symbols import SYMBOL_MARK
from radixrt.kernels.cpu.trie_walk import NO_NODE

__all__ = ["Encode", "Matcher"]

Encode = Callable[[str], list[int]]
"""The canonical tokens of a text in mid-sequence."""

_T = TypeVar("_T")
_INT32 = np.dtype(np.int32)
_CONTEXT_TOKENS = (16, 8, 4)
_HOLD_BACK = 4
_MAX_FORCED_TOKENS = 64


class _Place(NamedTuple):
    """Where a text stands: bytes of the prefix read, state after it, whether it has ended, what a tracker knows."""

    prefix: int
    state: int
    ended: bool
    spot: Spot = JsonTracker.start


class Matcher:
    """One text under a compiled grammar. Not thread-safe; different matchers of one grammar may run in parallel.

    After an end token the text is over: only end tokens are allowed then, and ``is_accepting`` stays true. A
    ``free`` text is under no constraint once its prefix is read: every id below the vocabulary's size is allowed
    at any time, as without a matcher. With a ``guard``, the automaton alone allows too much: see ``json_guard``.
    """

    def __init__(
        self,
        automaton: Automaton,
        end_ids: Sequence[int],
        prefix: bytes,
        encode: Encode | None,
        prefix_ids: Sequence[int] = (),
        *,
        free: bool = False,
        guard: JsonGuard | None = None,
    ) -> None:
        self.error: Exception | None = None
        """Why the matcher failed, or None."""
        self._automaton = automaton
        self._guard = guard
        self._end_ids = tuple(dict.fromkeys(end_ids))
        self._end_bits = _places_of(self._end_ids)
        # Only a token that spells something can be in the row of a state.
        self._spelled_end_bits = _places_of(t for t in self._end_ids if automaton.vocab.spelling(t) is not None)
        self._prefix = prefix
        self._prefix_ids = tuple(prefix_ids)
        self._encode = encode
        self._free = free
        self._place = _Place(0, automaton.start, False)
        self._places: list[_Place] = []
        self._tokens: list[int] = []

    def copy(self) -> Matcher:
        """An independent matcher at the same place."""
        twin = Matcher(
            self._automaton,
            self._end_ids,
            self._prefix,
            self._encode,
            self._prefix_ids,
            free=self._free,
            guard=self._guard,
        )
        twin.error = self.error
        twin._place = self._place
        twin._places = list(self._places)
        twin._tokens = list(self._tokens)
        return twin

    # --- state ---------------------------------------------------------------------------------------------------

    @property
    def failed(self) -> bool:
        """Whether something went wrong inside; see ``error``."""
        return self.error is not None

    @property
    def is_accepting(self) -> bool:
        """Whether the text so far is complete, so that an end token is allowed."""
        return not self.failed and self._accepting(self._place)

    @property
    def is_complete(self) -> bool:
        """Whether the text is complete and nothing but an end token can follow."""
        place = self._place
        if place.ended or not self.is_accepting:
            return self.is_accepting
        return self._safely(lambda: self._automaton.is_final(place.state), False)

    def _safely(self, work: Callable[[], _T], fallback: _T) -> _T:
        """The result of ``work``; ``fallback`` when the matcher has failed or fails now."""
        if self.failed:
            return fallback
        try:
            return work()
        except Exception as error:  # noqa: BLE001  # kept in .error: the contract is never to raise into a loop
            self.error = error
            return fallback

    def _accepting(self, place: _Place) -> bool:
        return place.ended or (place.prefix == len(self._prefix) and self._automaton.is_accepting(place.state))

    # --- moving --------------------------------------------------------------------------------------------------

    def accept(self, token: int) -> bool:
        """Append a token. False, and nothing changes, when it is not allowed (or is no token at all)."""
        if not isinstance(token, int | np.integer) or isinstance(token, bool):
            return False
        token = int(token)
        following = self._safely(lambda: self._after_token(token), None)
        if following is None:
            return False
        self._places.append(self._place)
        self._tokens.append(token)
        self._place = following
        return True

    def _is_free(self, place: _Place) -> bool:
        return self._free and place.prefix == len(self._prefix)

    def _after_token(self, token: int) -> _Place | None:
        if self._is_free(self._place):
            return self._place if 0 <= token < self.vocab_size else None
        if token in self._end_ids:
            return self._place._replace(ended=True) if self._accepting(self._place) else None
        place = self._place
        data = self._automaton.vocab.spelling(token)
        if data is None or place.ended:
            return None
        if self._prefix_ids and len(data) <= len(self._prefix) - place.prefix and token != self._usual_token(place):
            return None
        return self._after_bytes(place, data)

    def _usual_token(self, place: _Place) -> int | None:
        """The token of ``prefix_ids`` that begins where the prefix has been read to."""
        begin = 0
        for token in self._prefix_ids:
            if begin == place.prefix:
                return token
            begin += len(self._automaton.vocab.token_bytes(token) or b"")
        return None

    def rollback(self, count: int) -> None:
        """Take back the last ``count`` accepted tokens, end tokens included. A failed matcher stays failed."""
        if not isinstance(count, int | np.integer) or isinstance(count, bool):
            raise InvalidRequest(f"count must be an integer, not {type(count).__name__}", param="count")
        if not 0 <= count <= len(self._places):
            raise InvalidRequest(f"cannot take back {count} of {len(self._places)} tokens", param="count")
        if count:
            self._place = self._places[-count]
            del self._places[-count:]
            del self._tokens[-count:]

    def _after_bytes(self, place: _Place, data: bytes) -> _Place | None:
        rest = self._prefix[place.prefix :]
        if rest:
            shared = min(len(rest), len(data))
            if data[:shared] != rest[:shared]:
                return None
            place, data = place._replace(prefix=place.prefix + shared), data[shared:]
        if self._guard is None:
            state = self._automaton.advance(place.state, data)
            return None if state == DEAD else _Place(place.prefix, state, False)
        moved = self._guard.after(place.state, place.spot, data)
        return None if moved is None else _Place(place.prefix, moved[0], False, moved[1])

    # --- masks ---------------------------------------------------------------------------------------------------

    def fill_mask(self, row: npt.NDArray[np.int32]) -> None:
        """Write which tokens are allowed next: bit ``i % 32`` of word ``i // 32`` is 1 for an allowed token ``i``.

        ``row`` is 1-D contiguous int32 with ``ceil(size / 32)`` words, else ``InvalidRequest``. Padding bits are 0.
        """
        words = self._automaton.vocab.words
        try:
            flags = row.flags
            fits = row.dtype == _INT32 and row.shape == (words,) and flags.c_contiguous and flags.writeable
        except AttributeError:  # no array at all
            fits = False
        if not fits:
            raise InvalidRequest(f"a mask row must be a contiguous int32 array of {words} words", param="row")
        allowed = self._safely(self._allowed, None)
        if allowed is None:
            row[:] = 0
            return
        bits = row.view(np.uint32)
        bits[:] = allowed
        if self._accepting(self._place):
            for word, bit in self._end_bits:
                bits[word] |= bit
        else:
            for word, bit in self._spelled_end_bits:
                bits[word] &= ~bit

    @property
    def vocab_size(self) -> int:
        """The width of the logits this matcher masks."""
        return self._automaton.vocab.size

    def _pending_state(self) -> int | None:
        """The state whose row ``fill_mask`` would have to compute."""
        place = self._place
        if self.failed or place.ended or self._free or place.prefix < len(self._prefix):
            return None
        return None if self._automaton.has_row(place.state) else place.state

    def _allowed(self) -> Row:
        """The allowed tokens, end tokens aside."""
        place = self._place
        if place.ended:
            return np.zeros(self._automaton.vocab.words, np.uint32)
        if place.prefix < len(self._prefix):
            return self._healing_row(place)
        if self._free:
            return free_row(self.vocab_size).view(np.uint32)
        return self._row(place)

    def _row(self, place: _Place) -> Row:
        if self._guard is None:
            return self._automaton.row(place.state)
        return self._guard.row(place.state, place.spot)

    def _healing_row(self, place: _Place) -> Row:
        """Tokens that go beyond the rest of the prefix in a way that the state allows, and those that stay within.

        Of the latter only the usual one where ``prefix_ids`` says which: any other would spell the prefix in
        tokens that the model has hardly ever seen side by side.
        """
        trie = self._automaton.vocab.trie
        row = np.zeros(self._automaton.vocab.words, np.uint32)
        usual = self._usual_token(place)
        within = [] if usual is None else [usual]
        node = -1
        for byte in self._prefix[place.prefix :]:
            node = trie.child(node, byte)
            if node == NO_NODE:
                break
            if not self._prefix_ids:
                within.extend(trie.tokens_at(node))
        for token in within:
            row[token >> 5] |= np.uint32(1 << (token & 31))
        if node == NO_NODE:
            return row
        beyond = self._automaton.below(place.state, node)
        if self._guard is not None:
            beyond = self._guard.beyond(place.state, self._prefix[place.prefix :], beyond)
        return row | beyond

    # --- forced tokens -------------------------------------------------------------------------------------------

    def forced_tokens(self) -> list[int]:
        """The tokens that follow with certainty, tokenized as the finished text would be. Does not advance.

        With an ``encode`` function: the bytes that are certain are tokenized together with the tokens before them,
        and trailing tokens are held back where a longer token that is still possible could begin inside them.
        Without one: tokens while exactly one is allowed.
        """
        return self._safely(self._forced, [])

    def _forced(self) -> list[int]:
        place = self._place
        if place.ended or place.prefix < len(self._prefix):
            return []
        tokens = self._only_tokens(place) if self._encode is None else self._canonical(place)
        ends = next((i for i, token in enumerate(tokens) if token in self._end_ids), len(tokens))
        return tokens[:ends]

    def _only_tokens(self, place: _Place) -> list[int]:
        tokens: list[int] = []
        while len(tokens) < _MAX_FORCED_TOKENS and not self._automaton.is_accepting(place.state):
            row = self._row(place)
            words = np.flatnonzero(row)
            if len(words) != 1 or int(row[words[0]]).bit_count() != 1:
                break
            token = int(words[0]) * 32 + int(row[words[0]]).bit_length() - 1
            if token in self._end_ids:
                break
            following = self._after_bytes(place, self._automaton.vocab.spelling(token) or b"")
            if following is None:
                break
            tokens.append(token)
            place = following
        return tokens

    def _canonical(self, place: _Place) -> list[int]:
        state = place.state
        data, state_after = self._automaton.forced(state)
        if self._guard is not None and data:
            cut, state_after = self._guard.sure(state, place.spot, data)
            data = data[:cut]
        if not data:
            # A special token is no text: where nothing else can follow, it is certain as it stands.
            is_symbol = self._automaton.exits(state) == 1 << SYMBOL_MARK and not self._automaton.is_accepting(state)
            return self._only_tokens(place)[:1] if is_symbol else []
        tokens = self._tokenize(data)
        vocab = self._automaton.vocab
        pieces = [vocab.token_bytes(token) for token in tokens]
        if None in pieces:
            tokens = tokens[: pieces.index(None)]
            pieces = pieces[: len(tokens)]
        covered = b"".join(piece or b"" for piece in pieces)
        if not data.startswith(covered):
            return []
        if covered != data:
            state_after = self._automaton.advance(state, covered)
        return tokens[: self._settled([piece or b"" for piece in pieces], covered, state_after)]

    def _tokenize(self, data: bytes) -> list[int]:
        """Tokens of certain bytes after the tokens so far; none when those would come out otherwise."""
        encode = self._encode
        if encode is None:
            return []
        vocab = self._automaton.vocab
        recent = self._tokens[-_CONTEXT_TOKENS[0] :]
        text = itertools.takewhile(lambda token: vocab.token_bytes(token) is not None, reversed(recent))
        room = len(list(text))  # a special token parts what is before it from what comes
        for count in dict.fromkeys(min(n, room) for n in _CONTEXT_TOKENS):
            context = self._tokens[len(self._tokens) - count :]
            spelled = _text(b"".join(vocab.token_bytes(token) or b"" for token in context) + data)
            if spelled is None:
                continue
            tokens = encode(spelled)
            if tokens[:count] == context:
                return tokens[count:]
        return []

    def _settled(self, pieces: list[bytes], data: bytes, state: int) -> int:
        """How many of the tokens ``pieces`` of ``data`` no continuation that ``state`` allows could change."""
        trie = self._automaton.vocab.trie
        start = len(data)
        first = len(pieces)
        begins = []
        while first > 0 and len(pieces) - first < _HOLD_BACK:
            first -= 1
            start -= len(pieces[first])
            begins.append((first, start))
        for index, begin in reversed(begins):
            for position in range(begin, begin + len(pieces[index])):
                node = trie.find(data[position:])
                if node != NO_NODE and self._automaton.extends(state, node):
                    return index
        return len(pieces)


def _places_of(tokens: Iterable[int]) -> tuple[tuple[int, np.uint32], ...]:
    """Where the bits of tokens are in a mask row: the word, and the bit in it."""
    return tuple((token >> 5, np.uint32(1 << (token & 31))) for token in tokens)


def _text(data: bytes) -> str | None:
    """``data`` without an unfinished last character; None when it is no text otherwise."""
    for cut in range(4):
        try:
            return data[: len(data) - cut].decode()
        except UnicodeDecodeError:
            continue
    return None
