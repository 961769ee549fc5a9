"""What a tokenizer is, whatever file it came from: the one shape that the loaders make and the tokenizer takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

__all__ = ["AddedToken", "TokenizerDefinition"]


class AddedToken(msgspec.Struct, frozen=True, kw_only=True):
    """A token that is matched in text by its spelling, before the model of the tokenizer sees the text.

    ``lstrip`` and ``rstrip`` swallow the whitespace on that side, ``single_word`` asks for no word character on
    either side, ``normalized`` lets the tokens without it match first.
    """

    id: int
    content: str
    special: bool
    lstrip: bool = False
    rstrip: bool = False
    single_word: bool = False
    normalized: bool = False

    @property
    def is_control(self) -> bool:
        """Whether only template text may spell it.

        An added token of nothing but whitespace (runs of spaces, also in SentencePiece's spelling, blank lines)
        that is not marked special is layout: every text may contain it.
        """
        return self.special or bool(self.content.replace("▁", " ").strip())


class TokenizerDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """A tokenizer in the terms of the ``tokenizers`` package.

    ``spec`` holds the keys normalizer, pre_tokenizer, model and decoder of a tokenizer.json. ``size`` is the
    vocabulary size of the model, which may exceed the tokens there are. ``prefix_ids`` is what stands before a raw
    prompt. ``variables`` are the template variables that spell tokens (bos_token and so on). ``source`` names the
    file in errors.
    """

    source: str
    spec: Mapping[str, Any]
    added: tuple[AddedToken, ...]
    size: int
    bos_id: int | None
    eos_ids: tuple[int, ...]
    prefix_ids: tuple[int, ...] = ()
    unused_ids: frozenset[int] = frozenset()
    template: str | None = None
    variables: Mapping[str, str] = {}
