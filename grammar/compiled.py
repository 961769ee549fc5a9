"""A compiled grammar: immutable for its users, shared between threads and requests.

It knows its grammar and its vocabulary; where each text stands is a ``Matcher``'s business.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from radixrt.errors import InvalidRequest
from radixrt.grammar.automaton import Automaton
from radixrt.grammar.end_tokens import stranded
from radixrt.grammar.json_guard import JsonGuard
from radixrt.grammar.json_tokens import JsonTokens
from radixrt.grammar.limits import GrammarLimits
from radixrt.grammar.matcher import Encode, Matcher
from radixrt.grammar.rules import Grammar
from radixrt.grammar.runner import new_runner
from radixrt.grammar.terminal_rows import SharedRows
from radixrt.grammar.vocab import Vocabulary, checked_ids

__all__ = ["CompiledGrammar"]

_MAX_END_SETS: Final = 64


class CompiledGrammar:
    """What ``Compiler`` returns. ``matches`` tests a whole text; ``matcher`` follows one as it is generated."""

    def __init__(
        self,
        grammar: Grammar,
        vocab: Vocabulary,
        limits: GrammarLimits,
        shared: SharedRows,
        encode: Encode | None = None,
        *,
        free: bool = False,
        json_tokens: Callable[[], JsonTokens] | None = None,
    ) -> None:
        self.vocab = vocab
        self._free = free  # no constraint at all: tokens that spell no text are as good as any
        self._encode = encode
        self._lock = threading.Lock()
        self._tracks = grammar.tracks
        self._json_tokens = json_tokens or functools.partial(JsonTokens, vocab)
        self._automaton = Automaton(new_runner(grammar, vocab, limits, shared), vocab, limits)
        if not free:
            self._automaton.prepare()
        self._guard: JsonGuard | None = None
        self._stranded: dict[frozenset[int], bytes | None] = {}  # by end tokens; all of it can be found again

    def matches(self, text: str | bytes) -> bool:
        """Whether the whole of ``text`` satisfies the constraint. ``str`` is taken as UTF-8."""
        if isinstance(text, str):
            try:
                text = text.encode()
            except UnicodeEncodeError:  # a lone surrogate is no text
                return False
        elif not isinstance(text, bytes):
            raise InvalidRequest(f"text must be str or bytes, not {type(text).__name__}", param="text")
        if self._free:
            return _is_utf8(text)
        automaton = self._current()
        guard = self._guard_of(automaton)
        return automaton.accepts(text) if guard is None else guard.accepts(text)

    def matcher(
        self, end_ids: Sequence[int] | None = None, prefix: bytes = b"", prefix_ids: Sequence[int] = ()
    ) -> Matcher:
        """A matcher at the start of a text.

        ``end_ids`` are all tokens that end this text (default: the vocabulary's); they are allowed exactly when
        the text is complete, whatever text they spell. ``prefix`` must be generated first, before the constraint
        begins (token healing: the bytes that were cut off the prompt). ``prefix_ids`` are the tokens that spelled
        it: then it is generated either by these or by tokens that go beyond its end.

        Raises ``InvalidRequest`` naming the argument, for ``end_ids`` also where they leave a text no way on: see
        ``end_tokens``.
        """
        size = self.vocab.size
        ends = self.vocab.eos_ids if end_ids is None else tuple(checked_ids(end_ids, "end_ids", size))
        if not isinstance(prefix, bytes):
            raise InvalidRequest(f"prefix must be bytes, not {type(prefix).__name__}", param="prefix")
        if isinstance(prefix_ids, AbstractSet):
            raise InvalidRequest("prefix_ids must be a list: their order matters", param="prefix_ids")
        spelled = checked_ids(prefix_ids, "prefix_ids", size)
        if spelled and b"".join(self.vocab.token_bytes(token) or b"" for token in spelled) != prefix:
            raise InvalidRequest("prefix_ids must spell prefix", param="prefix_ids")
        automaton = self._current()
        guard = self._guard_of(automaton)
        if not self._free:
            self._check_ends(ends, lambda: Matcher(automaton, ends, b"", None, guard=guard), automaton)
        return Matcher(automaton, ends, prefix, self._encode, spelled, free=self._free, guard=guard)

    def _check_ends(self, ends: tuple[int, ...], new_matcher: Callable[[], Matcher], automaton: Automaton) -> None:
        key = frozenset(ends)
        if key not in self._stranded:
            if len(self._stranded) >= _MAX_END_SETS:
                self._stranded = {}
            self._stranded[key] = stranded(automaton, ends, new_matcher)
        beginning = self._stranded[key]
        if beginning is not None:
            raise InvalidRequest(
                f"after {beginning!r} nothing but the tokens that end the text could follow", param="end_ids"
            )

    @property
    def nbytes(self) -> int:
        """Memory held, about."""
        return self._automaton.nbytes

    def _current(self) -> Automaton:
        """The automaton for new texts: replaced when it has grown too large, while old matchers keep theirs."""
        with self._lock:
            if self._automaton.is_full:
                self._automaton = self._automaton.fresh()
            return self._automaton

    def _guard_of(self, automaton: Automaton) -> JsonGuard | None:
        """What keeps the texts of ``automaton`` from repeating names and items, where the grammar leaves it to
        that.
        """
        if self._tracks is None:
            return None
        with self._lock:
            if self._guard is None or self._guard.automaton is not automaton:
                self._guard = JsonGuard(automaton, self._tracks, self._json_tokens())
            return self._guard


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
