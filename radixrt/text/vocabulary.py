"""The bytes of every token, and questions about which bytes some token could extend.

This module does not tokenize: it undoes the spellings that tokenizers use for bytes (the byte-level alphabet, the
visible space of SentencePiece, ``<0x0A>``) and indexes the result.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from radixrt.text.definition import TokenizerDefinition

__all__ = ["ByteIndex", "byte_alphabet", "is_byte_level", "spaces_are_visible", "token_bytes", "visit"]

SPACE_MARK = "▁"
_BYTE_TOKEN = re.compile(r"<0x([0-9A-F]{2})>")


def byte_alphabet() -> dict[int, str]:
    """The printable character that stands for each byte in a byte-level vocabulary.

    Printable Latin-1 stands for itself; the other 68 bytes take the characters from U+0100 on, in order.
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = (byte for byte in range(256) if byte not in printable)
    return {byte: chr(byte) for byte in printable} | {byte: chr(0x100 + i) for i, byte in enumerate(others)}


def visit(component: Any) -> Iterable[Mapping[str, Any]]:
    """The component of a tokenizer.json and all components nested in it."""
    if isinstance(component, Mapping):
        yield component
        for key in ("pretokenizers", "normalizers", "decoders", "processors"):
            for part in component.get(key) or ():
                yield from visit(part)


def is_byte_level(spec: Mapping[str, Any]) -> bool:
    parts = [part for key in ("normalizer", "pre_tokenizer", "decoder") for part in visit(spec.get(key))]
    return any(part.get("type") == "ByteLevel" for part in parts)


def spaces_are_visible(spec: Mapping[str, Any]) -> bool:
    """Whether a space is spelled with SentencePiece's mark in the vocabulary."""
    for part in visit(spec.get("pre_tokenizer")):
        if part.get("type") == "Metaspace":
            return True
    for part in visit(spec.get("normalizer")):
        if part.get("type") == "Replace" and part.get("content") == SPACE_MARK:
            return True
    return False


def token_bytes(definition: TokenizerDefinition, vocab: Mapping[str, int]) -> list[bytes | None]:
    """The bytes of every id below ``definition.size``; None for special, unused and padding ids.

    ``vocab`` maps the spellings of the tokenizer's model to ids.
    """
    spec = definition.spec
    added = {token.id: token for token in definition.added}
    found: list[bytes | None] = [None] * definition.size
    byte_level, visible = is_byte_level(spec), spaces_are_visible(spec)
    byte_of = {char: byte for byte, char in byte_alphabet().items()}
    fallback = bool(spec["model"].get("byte_fallback"))
    for spelling, index in vocab.items():
        if index in added or index in definition.unused_ids:
            continue
        if byte_level and all(char in byte_of for char in spelling):
            found[index] = bytes([byte_of[char] for char in spelling])
        elif byte_level:
            # A spelling outside the alphabet is text as it stands; no merge leads to it, but it can be generated.
            found[index] = spelling.encode("utf-8")
        elif fallback and (match := _BYTE_TOKEN.fullmatch(spelling)):
            found[index] = bytes.fromhex(match[1])
        else:
            text = spelling.replace(SPACE_MARK, " ") if visible else spelling
            found[index] = text.encode("utf-8")
    for token in definition.added:
        if not token.special and token.id not in definition.unused_ids:
            text = token.content.replace(SPACE_MARK, " ") if visible and not byte_level else token.content
            found[token.id] = text.encode("utf-8")
    return [data or None for data in found]


class ByteIndex:
    """The distinct byte strings of a vocabulary, sorted, for questions about prefixes."""

    def __init__(self, tokens: Sequence[bytes | None]) -> None:
        self._known = {data for data in tokens if data}
        self._sorted = sorted(self._known)
        self._longest = max(map(len, self._sorted), default=0)

    def extends(self, prefix: bytes) -> bool:
        """Whether some token is longer than ``prefix`` and starts with it."""
        at = bisect.bisect_right(self._sorted, prefix)
        return at < len(self._sorted) and self._sorted[at].startswith(prefix)

    def crosses(self, left: bytes, right: bytes) -> bool:
        """Whether a token could lie across the seam of ``left`` and ``right`` followed by anything at all.

        Such a token ends with a proper beginning of it on the left; what it has on the right begins with
        ``right``, or ``right`` begins with it.
        """
        for length in range(1, min(self._longest - 1, len(left)) + 1):
            head = left[-length:]
            for taken in range(1, len(right) + 1):
                candidate = head + right[:taken]
                if candidate in self._known:
                    return True
                if not self.extends(candidate):
                    break
            else:
                return True
        return False
