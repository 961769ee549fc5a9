"""The vocabulary of a model, as bytes: what each token appends to the text, and which tokens end it.

``Vocabulary`` is immutable and knows nothing about grammars, except that these can name special tokens (see
``token_symbols.py``); ``from_tokenizer`` (see ``tokenizers.py``) reads one out of a tokenizer object.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from radixrt.errors import InvalidRequest
from radixrt.grammar.token_symbols import PRIVATE_BYTES, symbol_bytes
from radixrt.kernels.cpu.trie_walk import TokenTrie

__all__ = ["Vocabulary"]

MAX_SIZE = 1 << 24
MAX_TOKEN_BYTES = 1 << 16


class Vocabulary:
    """The tokens of a model.

    ``tokens[i]`` are the bytes that token i appends, or None for tokens that stand for no text (special, unused,
    padding): those are never allowed by a grammar. Tokens with equal bytes are fine; one without bytes counts as
    None. ``eos_ids`` end a text by default. ``special_ids`` never match as text, whatever their spelling; a grammar
    can name them, by id or by the spellings in ``special_names`` (which may also name ordinary tokens).
    ``size`` is the width of the logits; ids from ``len(tokens)`` on are padding. ``words`` is the length of a mask
    row in int32. ``trie`` holds the tokens as the automaton reads them (``spelling``).
    """

    def __init__(
        self,
        tokens: Sequence[bytes | None],
        eos_ids: Iterable[int],
        special_ids: Iterable[int] = (),
        size: int | None = None,
        special_names: Mapping[str, int] | None = None,
    ) -> None:
        self.size = len(tokens) if size is None else _integer(size, "size")
        if not len(tokens) <= self.size <= MAX_SIZE or self.size == 0:
            raise InvalidRequest(
                f"size must be from {max(len(tokens), 1)} (the number of tokens) to {MAX_SIZE}, not {self.size}",
                param="size",
            )
        self.eos_ids = _ids(eos_ids, "eos_ids", self.size)
        self.special_ids = frozenset(_ids(special_ids, "special_ids", self.size))
        self.tokens = tuple(self._checked(i, token) for i, token in enumerate(tokens))
        self.special_names = MappingProxyType(_names(special_names or {}, self.size))
        self.words = (self.size + 31) // 32
        readable = max([len(tokens), *(token + 1 for token in self.special_ids)])
        self._spellings = tuple(map(self._spelled, range(readable)))
        self.trie = TokenTrie(self._spellings)

    def _checked(self, index: int, token: bytes | None) -> bytes | None:
        if token is not None and not isinstance(token, bytes):
            raise InvalidRequest(f"token {index} must be bytes or None, not {type(token).__name__}", param="tokens")
        if token is not None and len(token) > MAX_TOKEN_BYTES:
            raise InvalidRequest(f"token {index} has more than {MAX_TOKEN_BYTES} bytes", param="tokens")
        return None if not token or index in self.special_ids else token

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
        ends = found.eos_ids if eos_ids is None else tuple(eos_ids)
        if not ends:
            raise InvalidRequest("the tokenizer does not name its end token: pass eos_ids", param="eos_ids")
        width = max(found.size, len(found.tokens)) if size is None else size
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

    def _spelled(self, token: int) -> bytes | None:
        if token in self.special_ids:
            return symbol_bytes(token)
        data = self.token_bytes(token)
        return None if data is None or PRIVATE_BYTES.search(data) else data

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


def _integer(value: object, name: str) -> int:
    if type(value) is not int:
        raise InvalidRequest(f"{name} must be an integer, not {type(value).__name__}", param=name)
    return value


def _ids(values: Iterable[int], name: str, size: int) -> tuple[int, ...]:
    return tuple(dict.fromkeys(_each_id(values, name, size)))


def _each_id(values: Iterable[int], name: str, size: int) -> list[int]:
    ids = [_integer(value, name) for value in values]
    for i in ids:
        if not 0 <= i < size:
            raise InvalidRequest(f"{name}: {i} is not an id below {size}", param=name)
    return ids


def _names(names: Mapping[str, int], size: int) -> dict[str, int]:
    for name in names:
        if not isinstance(name, str) or not name:
            raise InvalidRequest(f"special_names: {name!r} is not the spelling of a token", param="special_names")
    return dict(zip(names, _each_id(names.values(), "special_names", size), strict=True))
