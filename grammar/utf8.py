"""Sets of code points: as sorted ranges, and as trees of the bytes that spell them in UTF-8.

Pure functions on tuples; nothing here knows about terms or patterns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

__all__ = ["ALL_CHARACTERS", "ByteTree", "Range", "byte_tree", "complement", "intersect", "normalized", "unite"]

Range = tuple[int, int]
"""First and last code point, both included."""

MAX_CODE_POINT = 0x10FFFF
ALL_CHARACTERS: tuple[Range, ...] = ((0, 0xD7FF), (0xE000, MAX_CODE_POINT))
"""Every code point that can be encoded."""

ByteTree = tuple[tuple[int, object], ...]
"""Branches (set of bytes as a 256-bit mask, ByteTree of what follows or None at the end of the character)."""


def normalized(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """Sort, merge and drop empty ranges."""
    merged: list[Range] = []
    for first, last in sorted(ranges):
        if first > last:
            continue
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return tuple(merged)


def unite(*sets: Iterable[Range]) -> tuple[Range, ...]:
    """The union of sets."""
    return normalized(r for ranges in sets for r in ranges)


def complement(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """All code points (surrogates included: they drop out when encoded) that are not in ``ranges``."""
    gaps, start = [], 0
    for first, last in normalized(ranges):
        gaps.append((start, first - 1))
        start = last + 1
    gaps.append((start, MAX_CODE_POINT))
    return normalized(gaps)


def intersect(left: Sequence[Range], right: Sequence[Range]) -> tuple[Range, ...]:
    """Code points in both of two normalized sets."""
    common, i, j = [], 0, 0
    while i < len(left) and j < len(right):
        common.append((max(left[i][0], right[j][0]), min(left[i][1], right[j][1])))
        if left[i][1] < right[j][1]:
            i += 1
        else:
            j += 1
    return normalized(common)


def byte_tree(ranges: Iterable[Range]) -> ByteTree:
    """The UTF-8 spellings of a set of code points, sharing equal continuations."""
    pieces: list[tuple[Range, ...]] = []
    for first, last in intersect(normalized(ranges), ALL_CHARACTERS):
        for low, high in ((0, 0x7F), (0x80, 0x7FF), (0x800, 0xFFFF), (0x10000, MAX_CODE_POINT)):
            a, b = max(first, low), min(last, high)
            if a <= b:
                pieces.extend(_byte_ranges(chr(a).encode(), chr(b).encode()))
    return _tree(pieces)


def _byte_ranges(first: bytes, last: bytes) -> list[tuple[Range, ...]]:
    """Split the interval between two spellings of one length into products of byte ranges."""
    a, b = first[0], last[0]
    if len(first) == 1:
        return [((a, b),)]
    if a == b:
        return [((a, a), *rest) for rest in _byte_ranges(first[1:], last[1:])]
    n = len(first) - 1
    low, high = b"\x80" * n, b"\xbf" * n
    pieces: list[tuple[Range, ...]] = []
    if first[1:] != low:
        pieces += [((a, a), *rest) for rest in _byte_ranges(first[1:], high)]
        a += 1
    full_to = b if last[1:] == high else b - 1
    if a <= full_to:
        pieces.append(((a, full_to), *[(0x80, 0xBF)] * n))
    if full_to < b:
        pieces += [((b, b), *rest) for rest in _byte_ranges(low, last[1:])]
    return pieces


def _tree(pieces: Iterable[tuple[Range, ...]]) -> ByteTree:
    """Group byte range products by first byte, and first bytes by what may follow them."""
    follow: dict[int, list[tuple[Range, ...]]] = {}
    for piece in pieces:
        (first, last), rest = piece[0], piece[1:]
        for byte in range(first, last + 1):
            follow.setdefault(byte, []).append(rest)
    masks: dict[tuple[tuple[Range, ...], ...], int] = {}
    for byte, rests in follow.items():
        key = tuple(rests)
        masks[key] = masks.get(key, 0) | 1 << byte
    return tuple((mask, None if key == ((),) else _tree(key)) for key, mask in masks.items())
