"""Texts and values of JSON: what is begun of a string or a number, and keys that are equal for equal values.

A key of a string is a quote and its UTF-8, of a literal the literal, of a number ``0`` and its digits, of an array
or object a bracket and a digest. What is spelled wrong has some key too; it is not for these functions to refuse.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal, InvalidOperation
from typing import Final, NamedTuple

__all__ = [
    "LITERALS",
    "ZERO",
    "Composite",
    "Parts",
    "Text",
    "Value",
    "begun_string",
    "extended",
    "has_exponent",
    "has_part",
    "joined",
    "key_of",
    "number_key",
    "part_of",
    "plain",
    "scalar_key",
    "stays_zero",
]

ZERO: Final = b"00"
"""The key of the number zero."""
LITERALS: Final = (b"true", b"false", b"null")
_WHOLE = re.compile(rb"(?:[^\\]|\\[^u]|\\u[0-9a-fA-F]{4})*", re.DOTALL)
_SHORT_TEXT = 256  # bytes of one string that are kept in one piece while it is read

Text = bytes | tuple["Text", bytes, int] | None
"""A string being read: its bytes, or all but the last piece, that piece and the length; None: nobody will ask."""


class Composite(NamedTuple):
    """A finished array or object: ``key`` stands for its value, ``parts`` are its items or its members by name."""

    key: bytes
    parts: tuple[bytes | Composite, ...] | dict[bytes, bytes | Composite]


Value = bytes | Composite
"""A finished value: the key of a scalar, or a composite."""
Parts = tuple["Parts", bytes, Value] | None
"""Values with their names (if any), the last one first."""


def key_of(value: Value) -> bytes:
    """What is equal for equal values."""
    return value if isinstance(value, bytes) else value.key


def part_of(whole: Composite, name: bytes, place: int) -> Value | None:
    """The member or the item of a value at a place, if it has one."""
    if isinstance(whole.parts, dict):
        return whole.parts.get(name)
    return whole.parts[place] if place < len(whole.parts) else None


def has_part(whole: Composite, name: bytes, place: int, value: Value) -> bool:
    """Whether a value has this member, or this item at this place."""
    part = part_of(whole, name, place)
    return part is not None and key_of(part) == key_of(value)


def extended(text: Text, piece: bytes) -> Text:
    """A longer text. Long ones become chains, so that a long string does not cost the square of its length."""
    if isinstance(text, tuple):
        return (text, piece, text[2] + len(piece))
    known = text or b""
    return known + piece if len(known) + len(piece) <= _SHORT_TEXT else (known, piece, len(known) + len(piece))


def joined(text: Text) -> bytes:
    """The bytes of a text being read."""
    pieces: list[bytes] = []
    while isinstance(text, tuple):
        text, piece, _ = text
        pieces.append(piece)
    pieces.append(text or b"")
    return b"".join(reversed(pieces))


def plain(spelled: bytes) -> bytes:
    """The UTF-8 of a string from its JSON spelling without quotes (what is no JSON stands for itself)."""
    if b"\\" not in spelled:
        return spelled
    try:
        value: str = json.loads(b'"' + spelled + b'"', strict=False)
        return value.encode("utf-8", "surrogatepass")
    except ValueError:
        return spelled


def begun_string(spelled: bytes) -> tuple[bytes, bytes]:
    """The UTF-8 of the beginning of a string, and the half escape that its spelling ends with, if any."""
    if b"\\" not in spelled:
        return spelled, b""
    match = _WHOLE.match(spelled)
    whole = len(spelled) if match is None else match.end()
    return plain(spelled[:whole]), spelled[whole:]


def scalar_key(spelled: bytes) -> bytes:
    """The key of a number or a literal."""
    return spelled if spelled in LITERALS else number_key(spelled)


def stays_zero(spelled: bytes) -> bool:
    """Whether what is begun of a number is zero so far, which an exponent does not change."""
    return spelled.lstrip(b"-0.")[:1] in (b"", b"e", b"E")


def has_exponent(spelled: bytes) -> bool:
    """Whether what is begun of a number is in its exponent."""
    return b"e" in spelled or b"E" in spelled


def number_key(spelled: bytes) -> bytes:
    """``0``, a sign, the digits without zeros at either end, ``e`` and the exponent: one key for each number."""
    try:
        sign, digits, exponent = Decimal(spelled.decode("latin-1")).as_tuple()
        power = int(exponent)
    except (InvalidOperation, ValueError):  # ValueError: the exponent of what spells an infinity
        return b"0?" + spelled
    text = "".join(map(str, digits)).lstrip("0")
    short = text.rstrip("0")
    if not short:
        return ZERO
    return f"0{'-' if sign else ''}{short}e{power + len(text) - len(short)}".encode()
