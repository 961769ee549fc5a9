"""What an unfinished JSON value may still turn out to be equal to.

The *rivals* of an open array or object are the finished values, items of the arrays around it or parts of such
items, that agree with everything it holds so far. While it has none, nothing it can become is a duplicate. Names
and strings are compared in their UTF-8, so every spelling of an escape counts; blanks and the order of members do
not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from radixrt.grammar.json_tokens import spellings_of
from radixrt.grammar.json_tracker import Ahead, Frame, Mode, Spot
from radixrt.grammar.json_values import (
    LITERALS,
    Composite,
    Value,
    begun_string,
    has_part,
    joined,
    key_of,
    part_of,
    scalar_key,
)
from radixrt.grammar.seen_keys import Ranges, by_next_byte, has_key, with_prefix

__all__ = ["NUMBER_BYTES", "ahead_of", "expected_bytes", "expected_texts", "next_bytes", "rivals_of"]

NUMBER_BYTES: Final = b"+-Ee0.123456789"
_QUOTE: Final = 34
_NUMBER_FIRST: Final = b"-0123456789"


def rivals_of(frame: Frame) -> tuple[Composite, ...]:
    """The rivals of an open array or object; remembered in the frame."""
    path = [frame]
    while path[-1].rivals is None and path[-1].parent is not None and path[-1].is_compared:
        path.append(path[-1].parent)
    for open_ in reversed(path):
        if open_.rivals is None:
            open_.rivals = tuple(_rivals(open_)) if open_.is_compared else ()
    return frame.rivals or ()


def _rivals(frame: Frame) -> Iterator[Composite]:
    """The rivals of a frame whose parent knows its own."""
    parent = frame.parent
    if parent is None:
        return
    found: list[Value | None] = [part_of(rival, parent.name, parent.size) for rival in parent.rivals or ()]
    rest = None if parent.is_object else parent.composites
    while rest is not None:
        rest, _, value = rest
        found.append(value)
    held: list[tuple[bytes, Value]] = []
    parts = frame.parts
    while parts is not None:
        parts, name, value = parts
        held.append((name, value))
    held.reverse()
    for whole in found:
        if not isinstance(whole, Composite) or isinstance(whole.parts, dict) != frame.is_object:
            continue
        if all(has_part(whole, name, place, part) for place, (name, part) in enumerate(held)):
            yield whole


# --- what a rival would go on with -------------------------------------------------------------------------------


def ahead_of(frame: Frame) -> Ahead:
    """What the rivals of a frame have next, at the place it has come to; remembered in the frame."""
    known = frame.ahead
    if known is None:
        rivals = rivals_of(frame)
        parts = [part for rival in rivals if (part := part_of(rival, frame.name, frame.size)) is not None]
        keys = frozenset(map(key_of, parts))
        names: set[bytes] = set()
        if frame.is_object:
            names.update(*(rival.parts for rival in rivals if isinstance(rival.parts, dict)))
            names = {name for name in names if not has_key(frame.keys, name)}
        firsts: set[int] = set()
        for key in keys:
            firsts.update(_NUMBER_FIRST if key[0] == 48 else key[:1])
        known = frame.ahead = Ahead(
            keys,
            tuple(sorted(key[1:] for key in keys if key[0] == _QUOTE)),
            tuple(sorted(names)),
            frozenset(firsts),
            any(len(rival.parts) > frame.size for rival in rivals),
            any(len(rival.parts) == frame.size for rival in rivals),
        )
    return known


def expected_texts(spot: Spot, top: Frame) -> tuple[Ranges, int, bytes]:
    """For a name or a string being read: the texts that rivals have there, and what is begun of them.

    That is the number of bytes that are there, and the half escape that the text ends with.
    """
    begun, tail = begun_string(joined(spot.text))
    ahead = ahead_of(top)
    texts = ahead.names if spot.mode == Mode.NAME else ahead.strings
    return with_prefix((texts,), begun), len(begun), tail


def next_bytes(texts: Ranges, done: int, tail: bytes) -> set[int]:
    """The bytes that may come next in the spelling of one of ``texts``, after ``done`` bytes and half an escape."""
    following, ended = by_next_byte(texts, done)
    forms = (form for byte in following for form in spellings_of(byte))
    found = {form[len(tail)] for form in forms if form.startswith(tail)}
    return found | {_QUOTE} if ended and not tail else found


def expected_bytes(spot: Spot, top: Frame) -> set[int]:
    """The bytes (blanks aside) after which some rival may be left."""
    mode = spot.mode
    if mode >= Mode.STRING:
        return next_bytes(*expected_texts(spot, top))
    ahead = ahead_of(top)
    closing = {125 if top.is_object else 93} if ahead.ends else set()
    comma = {44} if ahead.goes_on else set()
    if mode == Mode.NAME_NEXT:
        return closing | ({_QUOTE} if ahead.names else set())
    if mode == Mode.SCALAR:
        return _after_scalar(joined(spot.text), ahead.keys, top.is_object)
    if not top.is_object:
        return closing | comma | ahead.firsts
    if top.parts is None or top.parts[1] != top.name:
        return {58} | ahead.firsts
    return closing | comma


def _after_scalar(begun: bytes, keys: frozenset[bytes], in_object: bool) -> set[int]:
    if begun[:1].isalpha():
        words = [word for word in LITERALS if word in keys and word.startswith(begun)]
        return {word[len(begun)] for word in words if len(word) > len(begun)}
    # Any number may be spelled in many ways, so only the end of one says that it is another.
    ends = {44, 125 if in_object else 93} if scalar_key(begun) in keys else set()
    return ends | set(NUMBER_BYTES)
