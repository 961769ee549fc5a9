"""The vocabulary of a model, as bytes: what each token appends to the text, and which tokens end it.

``Vocabulary`` is immutable and knows nothing about grammars, except that these can name special tokens (see
``token_symbols.py``); ``from_tokenizer`` (see ``tokenizers.py``) reads one out of a tokenizer object.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType, NoneType
from typing import Any

import numpy as np

from radixrt.errors import InvalidRequest
from radixrt.grammar.token_symbols import PRIVATE_BYTES, symbol_bytes
from radixrt.kernels.cpu.trie_walk import TokenTrie

__all__ = ["Vocabulary", "checked_ids"]

MAX_SIZE = 1 << 24
MAX_TOKEN_BYTES = 1 << 16
MAX_BYTES = 1 << 26
"""All tokens together. How many distinct beginnings they may have is said by ``MAX_NODES``."""


class Vocabulary:
    """The tokens of a model.

    ``tokens[i]`` are the bytes that token i appends, or None for tokens that stand for no text (special, unused,
    padding): those are never allowed by a grammar. Tokens with equal bytes are fine; one without bytes counts as
    None. ``eos_ids`` end a text by default. ``special_ids`` never match as text, whatever their spelling; a grammar
    can name them, by id or by the spellings in ``special_names`` (which may also name ordinary tokens).
    ``size`` is the width of the logits; ids from ``len(tokens)`` on are padding. ``words`` is the length of a mask
    row in int32. ``trie`` holds the tokens as the automaton reads them (``spelling``).

    Raises ``InvalidRequest`` with the argument as ``param``, for more tokens than ``MAX_SIZE``, more than
    ``MAX_BYTES`` in all of them or more than ``MAX_TOKEN_BYTES`` in one too.
    """

    def __init__(
        self,
        tokens: Sequence[bytes | None],
        eos_ids: Iterable[int],
        special_ids: Iterable[int] = (),
        size: int | None = None,
        special_names: Mapping[str, int] | None = None,
    ) -> None:
        if isinstance(tokens, str | bytes | Mapping) or not isinstance(tokens, Sequence):
            raise InvalidRequest(f"tokens must be a list, not {type(tokens).__name__}", param="tokens")
        self.size = len(tokens) if size is None else _integer(size, "size")
        if not len(tokens) <= self.size <= MAX_SIZE or self.size == 0:
            raise InvalidRequest(
                f"size must be from {max(len(tokens), 1)} (the number of tokens) to {MAX_SIZE}, not {self.size}",
                param="size",
            )
        self.eos_ids = _ids(eos_ids, "eos_ids", self.size)
        self.special_ids = frozenset(_ids(special_ids, "special_ids", self.size))
        _check_tokens(tokens)
        self.tokens = tuple(None if not token or i in self.special_ids else token for i, token in enumerate(tokens))
        self.special_names = MappingProxyType(_names(special_names, self.size))
        self.words = (self.size + 31) // 32
        self._spellings = _spelled(self.tokens, self.special_ids)
        try:
            self.trie = TokenTrie(self._spellings)
        except ValueError as error:
            raise InvalidRequest(f"the vocabulary is too large: {error}", param="tokens") from error

    @classmethod
    def from_tokenizer(
        cls, tokenizer: Any, *, eos_ids: Iterable[int] | None = None, size: int | None = None
    ) -> Vocabulary:
        """Read the vocabulary of a tokenizer of ``transformers``, of ``tokenizers``, or of this package.

        ``eos_ids`` and ``size`` replace what the tokenizer says. Raises ``InvalidRequest`` for a tokenizer whose
        tokens cannot be told apart from their bytes (WordPiece, for one), or that does not say how a text ends.
        """
        from radixrt.grammar.tokenizers import read_tokenizer

        found = read_tokenizer(tokenizer)
        width = max(found.size, len(found.tokens)) if size is None else _integer(size, "size")
        ends = found.eos_ids if eos_ids is None else checked_ids(eos_ids, "eos_ids", width)
        if not ends:
            raise InvalidRequest("the tokenizer does not name its end token: pass eos_ids", param="eos_ids")
        return cls(found.tokens, ends, found.special_ids, width, found.names)

    def token_bytes(self, token: int) -> bytes | None:
        """What a token appends to the text; None for special tokens, padding and ids out of range."""
        return self.tokens[token] if 0 <= token < len(self.tokens) else None

    def spelling(self, token: int) -> bytes | None:
        """What the automaton reads for a token; None for what no grammar can allow.

        That is its text, or the private bytes of a special token. Ordinary tokens that contain private bytes
        (0xFE, 0xFF) are part of no valid text.
        """
        return self._spellings[token] if 0 <= token < len(self._spellings) else None

    def find(self, name: str) -> int | None:
        """The token that is spelled ``name``: one of ``special_names``, else an ordinary token with that text."""
        known = self.special_names.get(name)
        if known is not None:
            return known
        try:
            node = self.trie.find(name.encode())
        except UnicodeEncodeError:
            return None
        found = self.trie.tokens_at(node) if node >= 0 else []
        return found[0] if found else None


def _check_tokens(tokens: Sequence[object]) -> None:
    if not all(issubclass(kind, bytes | NoneType) for kind in set(map(type, tokens))):
        index, kind = next((i, type(t)) for i, t in enumerate(tokens) if not isinstance(t, bytes | NoneType))
        raise InvalidRequest(f"token {index} must be bytes or None, not {kind.__name__}", param="tokens")
    lengths = [len(token) if isinstance(token, bytes) else 0 for token in tokens]
    if max(lengths, default=0) > MAX_TOKEN_BYTES:
        index = next(i for i, length in enumerate(lengths) if length > MAX_TOKEN_BYTES)
        raise InvalidRequest(f"token {index} has more than {MAX_TOKEN_BYTES} bytes", param="tokens")
    if sum(lengths) > MAX_BYTES:
        raise InvalidRequest(f"the tokens have {sum(lengths)} bytes, the limit is {MAX_BYTES}", param="tokens")


def _spelled(tokens: Sequence[bytes | None], special_ids: Iterable[int]) -> tuple[bytes | None, ...]:
    """What the automaton reads for each token, special ones beyond the list too."""
    found = [None if token is None or PRIVATE_BYTES.search(token) else token for token in tokens]
    for token in sorted(special_ids):
        found.extend([None] * (token + 1 - len(found)))
        found[token] = symbol_bytes(token)
    return tuple(found)


def _integer(value: object, name: str) -> int:
    """A plain int, or one of numpy, as which ids often come."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise InvalidRequest(f"{name} must be an integer, not {type(value).__name__}", param=name)
    return int(value)


def checked_ids(values: object, name: str, size: int) -> list[int]:
    """Token ids out of any iterable of integers but text and mappings; else ``InvalidRequest`` naming ``name``."""
    if isinstance(values, str | bytes | bytearray | Mapping) or not isinstance(values, Iterable):
        raise InvalidRequest(f"{name} must be a list of token ids, not {type(values).__name__}", param=name)
    ids = [_integer(value, name) for value in values]
    for i in ids:
        if not 0 <= i < size:
            raise InvalidRequest(f"{name}: {i} is not an id below {size}", param=name)
    return ids


def _ids(values: object, name: str, size: int) -> tuple[int, ...]:
    return tuple(dict.fromkeys(checked_ids(values, name, size)))


def _names(names: object, size: int) -> dict[str, int]:
    if names is None:
        return {}
    if not isinstance(names, Mapping):
        kind = type(names).__name__
        raise InvalidRequest(f"special_names must map spellings to token ids, not {kind}", param="special_names")
    for name in names:
        if not isinstance(name, str) or not name:
            raise InvalidRequest(f"special_names: {name!r} is not the spelling of a token", param="special_names")
    ids = checked_ids(list(names.values()), "special_names", size)
    return dict(zip(names, ids, strict=True))
