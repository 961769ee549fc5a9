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
    "LITERALS",
    "Composite",
    "Frame",
    "JsonTracker",
    "Mode",
    "Spot",
    "Value",
    "begun_string",
    "has_part",
    "joined",
    "key_of",
    "number_key",
    "part_of",
    "plain",
    "scalar_key",
]

DUPLICATE: Final = b"\xfe"
"""What the automaton reads behind an item that its array has already."""

_BODY = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
_STRUCTURE = re.compile(rb'["{}\[\],]')
_STRUCTURE_OR_SCALAR = re.compile(rb'["{}\[\],+\-.0-9A-Za-z]')
_SCALAR = re.compile(rb"[+\-.0-9A-Za-z]+")
LITERALS: Final = (b"true", b"false", b"null")
_WHOLE = re.compile(rb"(?:[^\\]|\\[^u]|\\u[0-9a-fA-F]{4})*", re.DOTALL)
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
"""A finished value: the key of a scalar, or a composite."""
Parts = tuple["Parts", bytes, Value] | None
"""Values with their names (if any), the last one first."""


class Frame:
    """An open object or array, and through ``parent`` those around it.

    ``keys``: the names or the items so far. ``name``: that of the member being read. ``keeps``: values inside are
    compared with others, so their text is kept. ``parts`` (where the whole is compared): its contents so far, the
    last one first, ``size`` of them. ``composites``: the items that are arrays or objects, likewise. ``longest``:
    bytes of the longest key. ``suspects``: the tokens that could complete a key of this frame or of one around it
    from within. ``rivals``: what the whole may still be equal to, once somebody has asked (``json_rivals``).
    """

    __slots__ = (
        "composites",
        "is_object",
        "keeps",
        "keys",
        "longest",
        "name",
        "parent",
        "parts",
        "rivals",
        "size",
        "suspects",
    )

    def __init__(self, parent: Frame | None, is_object: bool, keeps: bool, suspects: tuple[int, ...]) -> None:
        self.parent = parent
        self.is_object = is_object
        self.keeps = keeps
        self.keys: Keys = NO_KEYS
        self.name = b""
        self.parts: Parts = None
        self.size = 0
        self.composites: Parts = None
        self.longest = 0
        self.suspects = suspects
        self.rivals: tuple[Composite, ...] | None = None

    def copy(self) -> Frame:
        """The same, to be changed before anybody else sees it."""
        twin = Frame.__new__(Frame)
        twin.parent, twin.is_object, twin.keeps = self.parent, self.is_object, self.keeps
        twin.keys, twin.name, twin.parts, twin.size = self.keys, self.name, self.parts, self.size
        twin.composites, twin.longest, twin.suspects = self.composites, self.longest, self.suspects
        twin.rivals = self.rivals
        return twin

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
                if text in LITERALS or stop < end:
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

    # --- what happens to frames -------------------------------------------------------------------------------

    def _opened(self, top: Frame | None, is_object: bool) -> Frame:
        keeps = self._items and (not is_object or (top is not None and top.keeps))
        return Frame(top, is_object, keeps, () if top is None else top.suspects)

    def _named(self, top: Frame | None, name: bytes) -> Frame | None:
        """The object with one more name, or None if it has that name."""
        if top is None or has_key(top.keys, name):
            return None
        longer = top.copy()
        longer.keys = with_key(top.keys, name)
        longer.name = name
        longer.longest = max(top.longest, len(name))
        longer.suspects += self._suspects(name)
        return longer

    def _completed(self, top: Frame | None, value: Value) -> tuple[Frame | None, bool]:
        """The frame with one more value in it, and whether it is an array that has the value already."""
        if top is None or not top.keeps or (top.is_object and not top.is_compared):
            return top, False
        longer = top.copy()
        if top.is_compared:
            longer.parts = (top.parts, top.name, value)
            longer.size += 1
            if top.rivals:
                longer.rivals = tuple(rival for rival in top.rivals if has_part(rival, top.name, top.size, value))
        if top.is_object:
            return longer, False
        key = key_of(value)
        if has_key(top.keys, key):
            return longer, True
        longer.keys = with_key(top.keys, key)
        if isinstance(value, Composite):
            longer.composites = (top.composites, b"", value)
        elif key[0] == 34:
            longer.suspects += self._suspects(key[1:])
            longer.longest = max(top.longest, len(key))
        return longer, False

    def _closed(self, top: Frame | None) -> tuple[Frame | None, bool]:
        if top is None or not top.is_compared:
            return top and top.parent, False
        return self._completed(top.parent, _composite(top))


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


def _composite(frame: Frame) -> Composite:
    """The value of a finished array or object. Its key is a digest: nesting does not multiply its length."""
    found: list[tuple[bytes, Value]] = []
    rest = frame.parts
    while rest is not None:
        rest, name, value = rest
        found.append((name, value))
    found.reverse()
    digest = hashlib.sha256()
    for name, value in sorted(found, key=lambda part: part[0]) if frame.is_object else found:
        key = key_of(value)
        digest.update(b"%d:%d:" % (len(name), len(key)))
        digest.update(name)
        digest.update(key)
    if frame.is_object:
        return Composite(b"{" + digest.digest(), dict(found))
    return Composite(b"[" + digest.digest(), tuple(value for _, value in found))


# --- texts and keys of scalars --------------------------------------------------------------------------------


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
