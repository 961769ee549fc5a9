"""What a JSON text has said so far that no automaton can remember: the names of each open object, the items of each
open array.

The tracker reads the text beside the automaton and knows nothing of the grammar. It does two things:

* a name that its object has already ends the text at its closing quote: such a text is no prefix of anything;
* an item that its array has already is followed, in what the automaton reads, by the byte ``DUPLICATE``, which
  occurs in no UTF-8 text. A grammar says with that byte where items may repeat, must or must not, so a choice
  between an array of unique items and an ordinary one stays a choice of the automaton.

Names and strings are compared unescaped, numbers by value (1, 1.0 and 1e0 are one item), arrays item by item and
objects without regard to the order of their members, as JSON Schema 2020-12 (core, 4.2.2) has it. A string or a
literal is complete at its last byte, a number at the byte behind it, so the mark of a repeated number stands before
that byte.

A ``Spot`` is immutable and shares whatever it can with the spots before it: rollback and copy cost nothing. Texts
that are no JSON are followed without complaint, for the automaton refuses them. Tokens are not known here.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Final, NamedTuple

from radixrt.grammar.seen_keys import NO_KEYS, Keys, has_key, with_key

__all__ = [
    "DUPLICATE",
    "Composite",
    "Frame",
    "JsonTracker",
    "Mode",
    "Spot",
    "Text",
    "joined",
    "number_key",
    "plain",
]

DUPLICATE: Final = b"\xfe"
"""What the automaton reads behind an item that its array has already."""

_BODY = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
_STRUCTURE = re.compile(rb'["{}\[\],]')
_STRUCTURE_OR_SCALAR = re.compile(rb'["{}\[\],+\-.0-9A-Za-z]')
_SCALAR = re.compile(rb"[+\-.0-9A-Za-z]+")
_LITERALS: Final = (b"true", b"false", b"null")
_SHORT_TEXT = 256  # bytes of one string that are kept in one piece while it is read

Text = bytes | tuple["Text", bytes, int] | None
"""A string being read: its bytes, or all but the last piece, that piece and the length; None: nobody will ask."""


class Mode:
    """Where in the text a spot is. From ``STRING`` on, between quotes."""

    VALUE: Final = 0  # a value may begin here, or has just ended
    NAME_NEXT: Final = 1  # the next quote begins a name
    SCALAR: Final = 2  # in a number or a literal that somebody will ask for
    STRING: Final = 3
    NAME: Final = 4


class Composite(NamedTuple):
    """A finished array or object: ``key`` stands for its value, ``parts`` are its items or its members by name."""

    key: bytes
    parts: tuple[bytes | Composite, ...] | dict[bytes, bytes | Composite]


Value = bytes | Composite
_Parts = tuple["_Parts", bytes, Value] | None


class Frame:
    """An open object or array, and through ``parent`` those around it.

    ``keys``: the names or the items so far. ``name``: that of the member being read. ``keeps``: values inside are
    compared with others, so their text is kept. ``parts`` (where the whole is compared): its contents so far, the
    last one first. ``composites``: the items that are arrays or objects, likewise. ``longest``: bytes of the
    longest key. ``suspects``: the tokens that could complete a key of this frame or of one around it from within.
    """

    __slots__ = ("composites", "is_object", "keeps", "keys", "longest", "name", "parent", "parts", "suspects")

    def __init__(
        self,
        parent: Frame | None,
        is_object: bool,
        keeps: bool,
        keys: Keys = NO_KEYS,
        name: bytes = b"",
        parts: _Parts = None,
        composites: _Parts = None,
        longest: int = 0,
        suspects: tuple[int, ...] = (),
    ) -> None:
        self.parent = parent
        self.is_object = is_object
        self.keeps = keeps
        self.keys = keys
        self.name = name
        self.parts = parts
        self.composites = composites
        self.longest = longest
        self.suspects = suspects

    @property
    def is_compared(self) -> bool:
        """Whether the whole array or object is part of an item of some array."""
        return self.parent is not None and self.parent.keeps


class Spot(NamedTuple):
    """Where a text stands. ``escaped``: it ends in a backslash that escapes what follows."""

    mode: int
    top: Frame | None
    text: Text = None
    escaped: bool = False


def _no_suspects(key: bytes) -> tuple[int, ...]:
    return ()


class JsonTracker:
    """Follows JSON texts. ``items``: whether the items of arrays matter, or only the names of objects.

    ``suspects`` gives, for a name or a string item (unescaped), the tokens that could hold the whole of it.
    """

    start: Final = Spot(Mode.VALUE, None)

    def __init__(self, *, items: bool, suspects: Callable[[bytes], tuple[int, ...]] = _no_suspects) -> None:
        self._items = items
        self._suspects = suspects

    def run(self, spot: Spot, data: bytes) -> tuple[Spot, tuple[int, ...]] | None:
        """The spot after ``data``, and the offsets in it before which ``DUPLICATE`` belongs; None: a name
        repeats.
        """
        mode, top, text, escaped = spot
        marks: tuple[int, ...] = ()
        place, end = 0, len(data)
        while place < end:
            if mode >= Mode.STRING:
                match = _BODY.match(data, place + escaped)
                stop = end if match is None else match.end()
                if stop >= end or data[stop] != 34:  # still inside; a last backslash is half an escape
                    escaped = stop < end
                    if text is not None:
                        text = _extended(text, data[place:] if place else data)
                    break
                if text is not None:
                    whole = joined(text) + data[place:stop]
                    if mode == Mode.STRING:
                        top, again = self._completed(top, b'"' + plain(whole))
                        if again:
                            marks = (*marks, stop + 1)
                    else:
                        named = self._named(top, plain(whole))
                        if named is None:
                            return None
                        top = named
                mode, text, escaped, place = Mode.VALUE, None, False, stop + 1
            elif mode == Mode.SCALAR:
                match = _SCALAR.match(data, place)
                stop = place if match is None else match.end()
                text = _extended(text or b"", data[place:stop])
                place = stop
                if text in _LITERALS or stop < end:
                    top, again = self._completed(top, scalar_key(joined(text)))
                    if again:
                        marks = (*marks, stop)
                    mode, text = Mode.VALUE, None
            else:
                keeps = top is not None and top.keeps
                match = (_STRUCTURE_OR_SCALAR if keeps else _STRUCTURE).search(data, place)
                if match is None:
                    break
                place = match.end()
                byte = data[place - 1]
                if byte == 34:
                    if mode == Mode.NAME_NEXT:
                        mode, text = Mode.NAME, b""
                    else:
                        mode, text = Mode.STRING, b"" if keeps else None
                elif byte == 44:
                    mode = Mode.NAME_NEXT if top is not None and top.is_object else Mode.VALUE
                elif byte in b"{[":
                    top = self._opened(top, byte == 123)
                    mode = Mode.NAME_NEXT if byte == 123 else Mode.VALUE
                elif byte in b"}]":
                    top, again = self._closed(top)
                    if again:
                        marks = (*marks, place)
                    mode = Mode.VALUE
                else:
                    mode, text, place = Mode.SCALAR, b"", place - 1
        if mode == spot.mode and text is spot.text and top is spot.top and escaped == spot.escaped:
            return spot, marks
        return Spot(mode, top, text, escaped), marks

    def annotated(self, data: bytes, marks: tuple[int, ...]) -> bytes:
        """``data`` as the automaton reads it."""
        pieces, begin = [], 0
        for mark in marks:
            pieces += [data[begin:mark], DUPLICATE]
            begin = mark
        return b"".join((*pieces, data[begin:]))

    # --- what happens to frames -----------------------------------------------------------------------------------

    def _opened(self, top: Frame | None, is_object: bool) -> Frame:
        keeps = self._items and (not is_object or (top is not None and top.keeps))
        return Frame(top, is_object, keeps, suspects=() if top is None else top.suspects)

    def _named(self, top: Frame | None, name: bytes) -> Frame | None:
        """The object with one more name, or None if it has that name."""
        if top is None:
            return self._opened(None, True)
        if has_key(top.keys, name):
            return None
        return Frame(
            top.parent,
            top.is_object,
            top.keeps,
            with_key(top.keys, name),
            name,
            top.parts,
            top.composites,
            max(top.longest, len(name)),
            top.suspects + self._suspects(name),
        )

    def _completed(self, top: Frame | None, value: Value) -> tuple[Frame | None, bool]:
        """The frame with one more value in it, and whether it is an array that has the value already."""
        if top is None or not top.keeps:
            return top, False
        parts = (top.parts, top.name, value) if top.is_compared else None
        if top.is_object:
            return _with_parts(top, parts), False
        key = value if isinstance(value, bytes) else value.key
        if has_key(top.keys, key):
            return _with_parts(top, parts), True
        composites, suspects, longest = top.composites, top.suspects, top.longest
        if isinstance(value, Composite):
            composites = (composites, b"", value)
        elif key[0] == 34:
            suspects += self._suspects(key[1:])
            longest = max(longest, len(key))
        keys = with_key(top.keys, key)
        return Frame(top.parent, False, True, keys, b"", parts, composites, longest, suspects), False

    def _closed(self, top: Frame | None) -> tuple[Frame | None, bool]:
        if top is None:
            return None, False
        if not top.is_compared:
            return top.parent, False
        return self._completed(top.parent, _composite(top))


def _with_parts(frame: Frame, parts: _Parts) -> Frame:
    return Frame(
        frame.parent,
        frame.is_object,
        frame.keeps,
        frame.keys,
        frame.name,
        parts,
        frame.composites,
        frame.longest,
        frame.suspects,
    )


def _composite(frame: Frame) -> Composite:
    """The value of a finished array or object. Its key is a digest, so that nesting does not multiply its length.
    """
    found: list[tuple[bytes, Value]] = []
    rest = frame.parts
    while rest is not None:
        rest, name, value = rest
        found.append((name, value))
    found.reverse()
    digest = hashlib.sha256()
    for name, value in sorted(found, key=lambda part: part[0]) if frame.is_object else found:
        key = value if isinstance(value, bytes) else value.key
        digest.update(b"%d:%d:" % (len(name), len(key)))
        digest.update(name)
        digest.update(key)
    if frame.is_object:
        return Composite(b"{" + digest.digest(), dict(found))
    return Composite(b"[" + digest.digest(), tuple(value for _, value in found))


# --- texts and keys of scalars -----------------------------------------------------------------------------------


def _extended(text: Text, piece: bytes) -> Text:
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


def scalar_key(spelled: bytes) -> bytes:
    """The key of a number or a literal."""
    return spelled if spelled in _LITERALS else number_key(spelled)


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
        return b"00"
    return f"0{'-' if sign else ''}{short}e{power + len(text) - len(short)}".encode()
