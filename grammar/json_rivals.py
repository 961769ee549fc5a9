"""What an unfinished JSON value may still turn out to be equal to.

The *rivals* of an open array or object are the finished values, items of the arrays around it or parts of such
items, that agree with everything it holds so far. While it has none, nothing it can become is a duplicate. Names
and strings are compared in their UTF-8, so every spelling of an escape counts; blanks and the order of members do
not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from radixrt.grammar.json_tokens import spellings_of
from radixrt.grammar.json_tracker import (
    LITERALS,
    Composite,
    Frame,
    Mode,
    Spot,
    Value,
    begun_string,
    has_part,
    joined,
    part_of,
    scalar_key,
)

__all__ = ["NUMBER_BYTES", "expected_bytes", "expected_texts", "next_bytes", "rivals_of"]

NUMBER_BYTES: Final = b"123456789.0eE-+"
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
    for value in found:
        if not isinstance(value, Composite) or isinstance(value.parts, dict) != frame.is_object:
            continue
        if all(has_part(value, name, place, part) for place, (name, part) in enumerate(held)):
            yield value


# --- what a rival would go on with ----------------------------------------------------------------------------


def expected_texts(spot: Spot, rivals: Iterable[Composite]) -> tuple[set[bytes], bytes, bytes]:
    """For a name or a string being read: the strings that rivals have there, and what is begun of one.

    The beginning is its UTF-8 so far, and the half escape that it ends with.
    """
    begun, tail = begun_string(joined(spot.text))
    top = spot.top
    texts: set[bytes] = set()
    if top is None:
        return texts, begun, tail
    if spot.mode == Mode.NAME:
        taken = {key for chunk in top.keys for key in chunk}
        texts = {name for rival in rivals for name in rival.parts if isinstance(name, bytes) and name not in taken}
    else:
        parts = (part_of(rival, top.name, top.size) for rival in rivals)
        texts = {part[1:] for part in parts if isinstance(part, bytes) and part[0] == _QUOTE}
    return {text for text in texts if text.startswith(begun)}, begun, tail


def next_bytes(texts: Iterable[bytes], done: int, tail: bytes) -> set[int]:
    """The bytes that may come next in the spelling of one of ``texts``, after ``done`` bytes and half an escape."""
    found: set[int] = set()
    for text in texts:
        if len(text) == done:
            if not tail:
                found.add(_QUOTE)
        else:
            found.update(form[len(tail)] for form in spellings_of(text[done]) if form.startswith(tail))
    return found


def expected_bytes(spot: Spot, rivals: tuple[Composite, ...]) -> set[int]:
    """The bytes (blanks aside) after which some rival may be left."""
    top, mode = spot.top, spot.mode
    if top is None:
        return set()
    if mode >= Mode.STRING:
        texts, begun, tail = expected_texts(spot, rivals)
        return next_bytes(texts, len(begun), tail)
    longer = any(len(rival.parts) > top.size for rival in rivals)
    closing = {125 if top.is_object else 93} if any(len(rival.parts) == top.size for rival in rivals) else set()
    if mode == Mode.NAME_NEXT:
        return closing | ({_QUOTE} if longer else set())
    parts = [part for rival in rivals if (part := part_of(rival, top.name, top.size)) is not None]
    if mode == Mode.SCALAR:
        return _after_scalar(joined(spot.text), parts, top.is_object)
    if not top.is_object:
        return closing | ({44} if longer else set()) | _first_bytes(parts)
    if top.parts is None or top.parts[1] != top.name:
        return {58} | _first_bytes(parts)
    return closing | ({44} if longer else set())


def _after_scalar(begun: bytes, parts: list[Value], in_object: bool) -> set[int]:
    if begun[:1].isalpha():
        words = [part for part in parts if isinstance(part, bytes) and part in LITERALS and part.startswith(begun)]
        return {word[len(begun)] for word in words if len(word) > len(begun)}
    # Any number may be spelled in many ways, so only the end of one says that it is another.
    ends = {44, 125 if in_object else 93} if scalar_key(begun) in parts else set()
    return ends | set(NUMBER_BYTES)


def _first_bytes(parts: Iterable[Value]) -> set[int]:
    found: set[int] = set()
    for part in parts:
        key = part if isinstance(part, bytes) else part.key
        found.update(_NUMBER_FIRST if key[0] == 48 else key[:1])
    return found
