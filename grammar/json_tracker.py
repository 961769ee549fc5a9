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
import re
from collections.abc import Callable
from typing import Final, NamedTuple

from radixrt.grammar.json_values import (
    LITERALS,
    Composite,
    Parts,
    Text,
    Value,
    extended,
    has_part,
    joined,
    key_of,
    plain,
    scalar_key,
)
from radixrt.grammar.seen_keys import NO_KEYS, Keys, has_key, with_key

__all__ = ["DUPLICATE", "Ahead", "Frame", "JsonTracker", "Mode", "Spot"]

DUPLICATE: Final = b"\xfe"
"""What the automaton reads behind an item that its array has already."""

_BODY = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
_BRACKETS: Final = b"{}[],"
_STRUCTURE = re.compile(rb'["{}\[\],]')
_STRUCTURE_OR_SCALAR = re.compile(rb'["{}\[\],+\-.0-9A-Za-z]')
_SCALAR = re.compile(rb"[+\-.0-9A-Za-z]+")


class Mode:
    """Where in the text a spot is. From ``STRING`` on, between quotes."""

    VALUE: Final = 0  # a value may begin here, or has just ended
    NAME_NEXT: Final = 1  # the next quote begins a name
    SCALAR: Final = 2  # in a number or a literal that somebody will ask for
    STRING: Final = 3
    NAME: Final = 4


class Ahead(NamedTuple):
    """What several finished values have at the same place.

    ``keys`` of the parts there, the ``strings`` among them, ``names`` that are not taken (both sorted), the
    ``firsts`` of their bytes, and whether one goes on or ends there.
    """

    keys: frozenset[bytes]
    strings: tuple[bytes, ...]
    names: tuple[bytes, ...]
    firsts: frozenset[int]
    goes_on: bool
    ends: bool


class Frame:
    """An open object or array, and through ``parent`` those around it.

    ``keys``: the names or the items so far. ``name``: that of the member being read. ``keeps``: values inside are
    compared with others, so their text is kept. ``parts`` (where the whole is compared): its contents so far, the
    last one first, ``size`` of them. ``composites``: the items that are arrays or objects, likewise. ``longest``:
    bytes of the longest key. ``suspects``: the tokens that could complete a key of this frame or of one around it
    from within. ``within``: some array around it has items already. ``rivals``: what the whole may still be equal
    to, once somebody has asked (``json_rivals``), and ``ahead``: what those have at the place that is read next.
    """

    __slots__ = (
        "ahead",
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
        "within",
    )

    def __init__(self, parent: Frame | None, is_object: bool, keeps: bool, suspects: frozenset[int]) -> None:
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
        self.within: bool = parent is not None and (parent.within or (not parent.is_object and bool(parent.keys)))
        self.rivals: tuple[Composite, ...] | None = None
        self.ahead: Ahead | None = None

    def copy(self) -> Frame:
        """The same, to be changed before anybody else sees it."""
        twin = Frame.__new__(Frame)
        twin.parent, twin.is_object, twin.keeps = self.parent, self.is_object, self.keeps
        twin.keys, twin.name, twin.parts, twin.size = self.keys, self.name, self.parts, self.size
        twin.composites, twin.longest, twin.suspects = self.composites, self.longest, self.suspects
        twin.within, twin.rivals, twin.ahead = self.within, self.rivals, None
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


def _no_suspects(key: bytes) -> frozenset[int]:
    return frozenset()


class JsonTracker:
    """Follows JSON texts. ``items``: whether the items of arrays matter, or only the names of objects.

    ``suspects`` gives, for a name or a string item (unescaped), the tokens that could hold the whole of it.
    """

    start: Final = Spot(Mode.VALUE, None)

    def __init__(self, *, items: bool, suspects: Callable[[bytes], frozenset[int]] = _no_suspects) -> None:
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
                        text = extended(text, data[place:] if place else data)
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
                text = extended(text or b"", data[place:stop])
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
                    mode, text = (
                        (Mode.NAME, b"") if mode == Mode.NAME_NEXT else (Mode.STRING, b"" if keeps else None)
                    )
                elif byte in _BRACKETS:
                    mode, top, again = self._after_bracket(top, byte)
                    if again:
                        marks = (*marks, place)
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

    def _after_bracket(self, top: Frame | None, byte: int) -> tuple[int, Frame | None, bool]:
        """Mode and frame after a comma or a bracket, and whether that ends an item that is there already."""
        if byte == 44:
            return (Mode.NAME_NEXT if top is not None and top.is_object else Mode.VALUE), top, False
        if byte in b"{[":
            return (Mode.NAME_NEXT if byte == 123 else Mode.VALUE), self._opened(top, byte == 123), False
        return Mode.VALUE, *self._closed(top)

    # --- what happens to frames -------------------------------------------------------------------------------

    def _opened(self, top: Frame | None, is_object: bool) -> Frame:
        keeps = self._items and (not is_object or (top is not None and top.keeps))
        return Frame(top, is_object, keeps, frozenset() if top is None else top.suspects)

    def _named(self, top: Frame | None, name: bytes) -> Frame | None:
        """The object with one more name, or None if it has that name."""
        if top is None or has_key(top.keys, name):
            return None
        longer = top.copy()
        longer.keys = with_key(top.keys, name)
        longer.name = name
        longer.longest = max(top.longest, len(name))
        longer.suspects = _with(top.suspects, self._suspects(name))
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
            longer.suspects = _with(top.suspects, self._suspects(key[1:]))
            longer.longest = max(top.longest, len(key))
        return longer, False

    def _closed(self, top: Frame | None) -> tuple[Frame | None, bool]:
        if top is None or not top.is_compared:
            return top and top.parent, False
        return self._completed(top.parent, _composite(top))


def _with(known: frozenset[int], more: frozenset[int]) -> frozenset[int]:
    """The union, which is mostly what was known: frames inside one another then share it."""
    return known if more <= known else known | more


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
