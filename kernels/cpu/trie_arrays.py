"""Building the arrays of a token trie, by columns instead of node by node.

Sorted by their bytes, the tokens of a subtree stand side by side, and each token adds the nodes that go beyond what
it shares with the token before it: its *chain*. So all that is needed is the sorted order and the lengths of shared
beginnings. Thirteen bytes for each node are held at the end, and a small multiple of that on the
way. What the tokens mean, and who walks the trie, is not known here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["MAX_DEPTH", "MAX_NODES", "TrieArrays", "trie_arrays"]

MAX_DEPTH: Final = 1 << 16
"""Bytes of one token."""
MAX_NODES: Final = 1 << 23
"""Distinct beginnings of tokens; the largest vocabularies that are in use have about two million."""
_COLUMNS: Final = 32  # bytes of a beginning that are compared for all tokens at once

Int32s = npt.NDArray[np.int32]


class TrieArrays(NamedTuple):
    """Nodes in depth-first order, children by their bytes; see ``trie_walk.TokenTrie``."""

    bytes: npt.NDArray[np.uint8]
    depth: Int32s
    subtree_end: Int32s
    token_start: Int32s
    token_order: Int32s


def trie_arrays(tokens: Sequence[bytes | None]) -> TrieArrays:
    """The trie of ``tokens``; None and the empty string are left out.

    Raises ``ValueError`` for a token longer than ``MAX_DEPTH``, and for tokens with more than ``MAX_NODES``
    distinct beginnings, before anything of that size is made.
    """
    data = [token or b"" for token in tokens]
    order = sorted((i for i, text in enumerate(data) if text), key=data.__getitem__)
    texts = [data[i] for i in order]
    count = len(texts)
    lengths = np.fromiter(map(len, texts), np.int32, count)
    if count and int(lengths.max()) > MAX_DEPTH:
        raise ValueError(f"a token of more than {MAX_DEPTH} bytes")
    shared = _shared(texts, lengths)
    fresh = lengths - shared
    nodes = int(fresh.sum(dtype=np.int64))
    if nodes > MAX_NODES:
        raise ValueError(f"the tokens have {nodes} distinct beginnings, the limit is {MAX_NODES}")
    tails = b"".join([text[start:] for text, start in zip(texts, shared.tolist(), strict=True)])
    first = np.zeros(count + 1, np.int32)  # the first node of each chain
    np.cumsum(fresh, out=first[1:])
    depth = np.arange(nodes, dtype=np.int32)
    depth -= np.repeat(first[:-1] - shared, fresh)
    return TrieArrays(
        bytes=np.frombuffer(tails, np.uint8),
        depth=depth,
        subtree_end=_subtree_ends(depth, first, shared, fresh),
        # A node that ends no token has an empty range at the place where its subtree's tokens begin.
        token_start=np.append(np.repeat(np.arange(count, dtype=np.int32), fresh), np.int32(count)),
        token_order=np.array(order, np.int32),
    )


def _shared(texts: Sequence[bytes], lengths: Int32s) -> Int32s:
    """How many leading bytes each text shares with the one before it."""
    shared = np.zeros(len(texts), np.int32)
    flat = np.frombuffer(b"".join(texts), np.uint8)
    starts = np.cumsum(lengths, dtype=np.int64) - lengths
    shortest = np.minimum(lengths[1:], lengths[:-1])
    alike = np.arange(1, len(texts))
    for column in range(_COLUMNS):
        alike = alike[shortest[alike - 1] > column]
        alike = alike[flat[starts[alike] + column] == flat[starts[alike - 1] + column]]
        shared[alike] += 1
    for index in alike.tolist():
        shared[index] = _common(texts[index - 1], texts[index], _COLUMNS)
    return shared


def _common(left: bytes, right: bytes, known: int) -> int:
    """How many leading bytes two strings share, of which ``known`` are known."""
    low, high = known, min(len(left), len(right))
    while low < high:
        middle = (low + high + 1) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _subtree_ends(depth: Int32s, first: Int32s, shared: Int32s, fresh: Int32s) -> Int32s:
    """The node after each node's subtree.

    The subtree of a node at depth d ends with the chain before the next token that shares at most d bytes. For the
    part of a chain that the next token does not share, that is the next token. The others, the *inner* nodes, are
    done by depth: the next token that shares exactly d bytes, or where the subtree of the parent ends.
    """
    nodes = len(depth)
    ends = np.repeat(first[1:], fresh)
    inner = np.flatnonzero(depth < np.repeat(np.append(shared, np.int32(0))[1:], fresh)).astype(np.int32)
    levels = _by_value(inner, depth[inner])
    asked = shared < len(levels)
    starts = _by_value(first[:-1][asked], shared[asked], len(levels))
    above = np.full(1, -1, np.int32)
    for level, chains in zip(levels, starts, strict=False):
        following = np.append(chains, np.int32(nodes))[np.searchsorted(chains, level, side="right")]
        parents = above[np.searchsorted(above, level) - 1]
        ends[level] = np.minimum(following, np.where(parents < 0, np.int32(nodes), ends[parents]))
        above = level
    return ends


def _by_value(items: Int32s, values: Int32s, count: int = 0) -> list[Int32s]:
    """Items in order, in groups of equal values below 2**16: 0, 1, ... (at least ``count`` groups)."""
    order = np.argsort(values.astype(np.uint16), kind="stable")  # a radix sort for short integers
    sizes = np.bincount(values, minlength=count)
    return np.split(items[order], np.cumsum(sizes)[:-1]) if len(sizes) else []
