"""How many later nodes of running programs still want a prefix.

A *mark* is a prefix (token ids in a namespace) with a count. Marks live in a trie of their own, apart from
the keys and values: a prefix keeps its marks while its slots are evicted, split or computed again, and the
tree asks here for the count of any node it makes. Nothing here knows about slots or pages.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from radixrt.cache.namespaces import Namespace

__all__ = ["FutureUses", "TokenIds", "common_prefix"]

TokenIds = NDArray[np.int32]


def common_prefix(a: TokenIds, b: TokenIds) -> int:
    """Length of the longest common prefix of two 1-D arrays."""
    n = min(len(a), len(b))
    if n == 0:
        return 0
    differs = a[:n] != b[:n]
    first = int(differs.argmax())
    return first if differs[first] else n


class _Mark:
    """A trie edge with the node under it. ``count`` marks pass through or end here, ``ends`` of them end."""

    __slots__ = ("children", "count", "ends", "key")

    def __init__(self, key: TokenIds, count: int, ends: int) -> None:
        self.key = key
        self.count = count
        self.ends = ends
        self.children: dict[int, _Mark] = {}


class FutureUses:
    """A compressed trie of marks per namespace."""

    def __init__(self) -> None:
        self._roots: dict[Namespace, _Mark] = {}

    def __bool__(self) -> bool:
        return bool(self._roots)

    def add(self, namespace: Namespace, ids: TokenIds, delta: int) -> None:
        """Change the count of the mark ``ids`` by ``delta``.

        Raises ``RuntimeError``, and changes nothing, when that would take away marks that were never made.
        """
        if delta > 0:
            self._mark(namespace, ids, delta)
        elif delta < 0:
            self._unmark(namespace, ids, -delta)

    def count(self, namespace: Namespace, ids: TokenIds) -> int:
        """Marks that ``ids`` is a prefix of (or equal to)."""
        node = self._roots.get(namespace)
        position = 0
        while node is not None and position < len(ids):
            node = node.children.get(int(ids[position]))
            if node is None:
                return 0
            common = common_prefix(node.key, ids[position:])
            if common < len(node.key) and position + common < len(ids):
                return 0
            position += common
        return 0 if node is None else node.count

    def _mark(self, namespace: Namespace, ids: TokenIds, delta: int) -> None:
        node = self._roots.get(namespace)
        if node is None:
            node = self._roots[namespace] = _Mark(ids[:0], 0, 0)
        node.count += delta
        position = 0
        while position < len(ids):
            first = int(ids[position])
            child = node.children.get(first)
            if child is None:
                node.children[first] = _Mark(ids[position:].copy(), delta, delta)
                return
            common = common_prefix(child.key, ids[position:])
            if common < len(child.key):
                upper = _Mark(child.key[:common], child.count, 0)
                child.key = child.key[common:]
                upper.children[int(child.key[0])] = child
                node.children[first] = child = upper
            child.count += delta
            position += common
            node = child
        node.ends += delta

    def _unmark(self, namespace: Namespace, ids: TokenIds, delta: int) -> None:
        path = self._path(namespace, ids)
        if path is None or path[-1].ends < delta:
            raise RuntimeError("taking back a future use that was never noted")
        path[-1].ends -= delta
        for node in path:
            node.count -= delta
        if path[0].count == 0:
            del self._roots[namespace]
            return
        for parent, node in pairwise(path):
            if node.count == 0:
                del parent.children[int(node.key[0])]
                break
        for node in path[1:]:
            _absorb_only_child(node)

    def _path(self, namespace: Namespace, ids: TokenIds) -> list[_Mark] | None:
        """The nodes from the root to the end of exactly ``ids``, or None."""
        root = self._roots.get(namespace)
        if root is None:
            return None
        path, position = [root], 0
        while position < len(ids):
            child = path[-1].children.get(int(ids[position]))
            if child is None or common_prefix(child.key, ids[position:]) < len(child.key):
                return None
            position += len(child.key)
            path.append(child)
        return path


def _absorb_only_child(node: _Mark) -> None:
    """Join a node where nothing ends or branches any more with its child, so that the trie stays small."""
    while node.ends == 0 and len(node.children) == 1:
        (child,) = node.children.values()
        node.key = np.concatenate((node.key, child.key))
        node.ends = child.ends
        node.children = child.children
