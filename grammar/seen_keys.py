"""Sets of byte strings that share their past: adding one leaves the set it was added to as it was.

A text under a constraint may be rolled back or forked at any token, so whatever is remembered about it must be
immutable, and a thousand versions of one growing set must not cost a thousand sets. ``Keys`` is a tuple of sorted
tuples whose sizes at least halve from one to the next, as the digits of a binary counter: n additions hold
O(n log n) references over all versions together, and a look-up is a bisection in each of O(log n) tuples.
"""

from __future__ import annotations

from bisect import bisect_left
from heapq import merge

__all__ = ["NO_KEYS", "Keys", "has_key", "keys_with_prefix", "with_key"]

Keys = tuple[tuple[bytes, ...], ...]
"""A set of byte strings; see above."""

NO_KEYS: Keys = ()
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


def keys_with_prefix(keys: Keys, prefix: bytes) -> list[bytes]:
    """The members that begin with ``prefix``, sorted."""
    found: list[bytes] = []
    for chunk in keys:
        place = bisect_left(chunk, prefix)
        while place < len(chunk) and chunk[place].startswith(prefix):
            found.append(chunk[place])
            place += 1
    if len(keys) > 1:
        found.sort()
    return found
