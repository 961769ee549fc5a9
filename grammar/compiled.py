"""A compiled grammar: immutable for its users, shared between threads and requests.

It knows its grammar and its vocabulary; where each text stands is a ``Matcher``'s business.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable, Sequence

from radixrt.errors import InvalidRequest
from radixrt.grammar.automaton import Automaton
from radixrt.grammar.json_guard import JsonGuard
from radixrt.grammar.json_tokens import JsonTokens
from radixrt.grammar.limits import GrammarLimits
from radixrt.grammar.matcher import Encode, Matcher
from radixrt.grammar.rules import Grammar
from radixrt.grammar.runner import new_runner
from radixrt.grammar.terminal_rows import SharedRows
from radixrt.grammar.vocab import Vocabulary

__all__ = ["CompiledGrammar"]


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
        """
        ends = self.vocab.eos_ids if end_ids is None else self._ids(end_ids, "end_ids")
        if not isinstance(prefix, bytes):
            raise InvalidRequest(f"prefix must be bytes, not {type(prefix).__name__}", param="prefix")
        spelled = self._ids(prefix_ids, "prefix_ids")
        if spelled and b"".join(self.vocab.token_bytes(token) or b"" for token in spelled) != prefix:
            raise InvalidRequest("prefix_ids must spell prefix", param="prefix_ids")
        automaton = self._current()
        guard = self._guard_of(automaton)
        return Matcher(automaton, ends, prefix, self._encode, spelled, free=self._free, guard=guard)

    def _ids(self, tokens: Sequence[int], param: str) -> tuple[int, ...]:
        if isinstance(tokens, str | bytes) or not isinstance(tokens, Iterable):
            raise InvalidRequest(f"{param} must be a list of token ids, not {type(tokens).__name__}", param=param)
        ids = tuple(tokens)
        for token in ids:
            if type(token) is not int or not 0 <= token < self.vocab.size:
                raise InvalidRequest(f"{param}: {token!r} is not a token id below {self.vocab.size}", param=param)
        return ids

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
