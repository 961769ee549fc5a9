"""Sets of byte strings that share their past: adding one leaves the set it was added to as it was.

A text under a constraint may be rolled back or forked at any token, so whatever is remembered about it must be
immutable, and a thousand versions of one growing set must not cost a thousand sets. ``Keys`` is a tuple of sorted
tuples whose sizes at least halve from one to the next, as the digits of a binary counter: n additions hold
O(n log n) references over all versions together, and a look-up is a bisection in each of O(log n) tuples.
"""

from __future__ import annotations

from bisect import bisect_left
from heapq import merge

__all__ = ["NO_KEYS", "Keys", "Ranges", "by_next_byte", "has_key", "with_key", "with_prefix"]

Keys = tuple[tuple[bytes, ...], ...]
"""A set of byte strings; see above."""

Ranges = tuple[tuple[tuple[bytes, ...], int, int], ...]
"""Some members, none of which has the byte 0xff: of each tuple, those from one place up to another."""

NO_KEYS: Keys = ()
_HIGHEST = b"\xff"
_SMALL = 32  # up to so many, a copy is cheaper than another tuple to look into


def with_key(keys: Keys, key: bytes) -> Keys:
    """``keys`` and one more, which must not be in it yet."""
    if not keys:
        return ((key,),)
    last = keys[-1]
    if len(last) < _SMALL:
        place = bisect_left(last, key)
        return (*keys[:-1], (*last[:place], key, *last[place:]))
    chunks = list(keys)
    while len(chunks) > 1 and len(chunks[-2]) <= len(chunks[-1]):
        last = chunks.pop()
        chunks[-1] = tuple(merge(chunks[-1], last))
    return (*chunks, (key,))


def has_key(keys: Keys, key: bytes) -> bool:
    """Whether ``key`` is in the set."""
    for chunk in keys:
        place = bisect_left(chunk, key)
        if place < len(chunk) and chunk[place] == key:
            return True
    return False


def with_prefix(keys: Keys, prefix: bytes) -> Ranges:
    """The members that begin with ``prefix``."""
    found: list[tuple[tuple[bytes, ...], int, int]] = []
    for chunk in keys:
        low = bisect_left(chunk, prefix)
        if low < len(chunk) and chunk[low].startswith(prefix):
            found.append((chunk, low, bisect_left(chunk, prefix + _HIGHEST, low)))
    return tuple(found)


def by_next_byte(ranges: Ranges, done: int) -> tuple[dict[int, Ranges], bool]:
    """Members that share ``done`` bytes, by the byte that follows, and whether one of them ends there."""
    found: dict[int, list[tuple[tuple[bytes, ...], int, int]]] = {}
    ended = False
    for chunk, low, high in ranges:
        if len(chunk[low]) == done:
            ended, low = True, low + 1
        while low < high:
            byte = chunk[low][done]
            begin, low = low, bisect_left(chunk, chunk[low][:done] + bytes((byte,)) + _HIGHEST, low)
            found.setdefault(byte, []).append((chunk, begin, low))
    return {byte: tuple(parts) for byte, parts in found.items()}, ended
