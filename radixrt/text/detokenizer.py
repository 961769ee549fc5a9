"""Ids to text as they come, never half a character.

Knows one sequence, not why it is decoded or whether it ends early.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable
from typing import Protocol

__all__ = ["Detokenizer"]


class _Tokens(Protocol):
    @property
    def has_dummy_prefix(self) -> bool: ...

    def visible_bytes(self, index: int, *, skip_special: bool = True) -> bytes: ...


class Detokenizer:
    """The text of a growing sequence: all pushes and the flush together are ``tokenizer.decode`` of all ids.

    ``at_start`` and ``skip_special`` mean what they mean there.
    """

    def __init__(self, tokenizer: _Tokens, *, skip_special: bool = True, at_start: bool = False) -> None:
        self._tokenizer = tokenizer
        self._skip_special = skip_special
        self._drop_space = at_start and tokenizer.has_dummy_prefix
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def push(self, ids: Iterable[int]) -> str:
        """Take more ids; return the text that is complete now. Ids outside the vocabulary add nothing."""
        data = b"".join(self._tokenizer.visible_bytes(index, skip_special=self._skip_special) for index in ids)
        if self._drop_space and data:
            self._drop_space = False
            data = data.removeprefix(b" ")
        return self._decoder.decode(data)

    def flush(self) -> str:
        """End the sequence: a character that was never completed becomes U+FFFD."""
        return self._decoder.decode(b"", final=True)
