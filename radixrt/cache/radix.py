"""The radix tree: which prefixes have their keys and values in the pool, and which may go first.

The key of a prefix is its namespace, then its token ids. A node holds the tokens and the slots of one stretch
of such a prefix; with pages of more than one slot all stretches are whole pages, and the partial last page of
a sequence stays private to it. Every slot of the pool has one owner at any time: the pool (free), the tree
(cached) or a sequence (held); each hand-over below names the interval and the new owner.

The tree does not know what a sequence is, only that somebody locks a *tip*, the node where a match ended.
"""

from __future__ import annotations

import heapq
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from radixrt.cache.namespaces import Namespace
from radixrt.cache.pages import PagePool
from radixrt.cache.uses import FutureUses, TokenIds, common_prefix

__all__ = ["Duplicate", "Inserted", "Match", "Node", "RadixTree"]

Slots = NDArray[np.int32]
RadixMode = Literal["on", "off", "table", "force-miss"]
Eviction = Literal["uses-lru", "lru"]


class Node:
    """A stretch ``[start, end)`` of a prefix. Handles stay valid while locked: a split keeps the lower part.

    ``locks`` counts the locked tips at or below this node, ``uses`` the noted future uses of (at least) its
    first page, ``last_use`` is a logical time. ``heap_serial`` names its entry in the eviction heap, 0: none.
    """

    __slots__ = (
        "children",
        "heap_serial",
        "key",
        "last_use",
        "locks",
        "namespace",
        "parent",
        "slots",
        "start",
        "uses",
    )

    def __init__(self, namespace: Namespace, parent: Node | None, start: int, key: TokenIds, slots: Slots) -> None:
        self.namespace = namespace
        self.parent = parent
        self.start = start
        self.key = key
        self.slots = slots
        self.children: dict[int | bytes, Node] = {}
        self.locks = 0
        self.last_use = 0
        self.uses = 0
        self.heap_serial = 0

    @property
    def end(self) -> int:
        return self.start + len(self.key)


class Match(msgspec.Struct, frozen=True):
    """The longest cached prefix: its length, its slots int32 ``[length]`` and the node it ends at."""

    length: int
    slots: Slots
    tip: Node


class Duplicate(msgspec.Struct, frozen=True):
    """Tokens ``[start, stop)`` of an inserted sequence were cached already, in the slots ``canonical``."""

    start: int
    stop: int
    canonical: Slots


class Inserted(msgspec.Struct, frozen=True):
    """Where the inserted prefix ends now, and which of the caller's slots turned out to be duplicates."""

    tip: Node
    duplicates: tuple[Duplicate, ...]


class RadixTree:
    """A radix tree over the slots of ``pool``.

    ``mode`` on: all prefixes count; table: only a match of everything that was asked for; force-miss: the
    tree is kept but never hit; off: nothing is kept. ``eviction`` lru ignores future uses. ``version`` grows
    whenever the length of some match may have changed.
    """

    def __init__(self, pool: PagePool, *, mode: RadixMode = "on", eviction: Eviction = "uses-lru") -> None:
        self.pool = pool
        self.mode = mode
        self.eviction = eviction
        self.version = 0
        self.cached_slots = 0
        self.evictable_slots = 0
        self.evicted_total = 0
        self.uses = FutureUses()
        self.roots: dict[Namespace, Node] = {}
        self.heap: list[tuple[bool, int, int, Node]] = []
        self.n_nodes = 0
        self._page = pool.page_size
        self._clock = 0
        self._serial = 0

    # --- match -------------------------------------------------------------------------------------------------

    def match_length(self, namespace: Namespace, ids: TokenIds, limit: int) -> int:
        """What ``match`` would return as length, without touching the tree."""
        length, _, _ = self._walk(namespace, ids, limit)
        return length if self._counts(length, limit) else 0

    def match(self, namespace: Namespace, ids: TokenIds, limit: int) -> Match:
        """Find the longest cached prefix of ``ids[:limit]``.

        The slots stay the tree's and may be evicted at the next ``evict``: lock ``tip`` before that. It counts
        as used when it is unlocked.
        """
        length, tip, inside = self._walk(namespace, ids, limit)
        if tip is None or not self._counts(length, limit):
            root = self._root(namespace)
            return Match(0, root.slots, root)
        if inside < len(tip.key):
            tip = self._split(tip, inside)
        parts: list[Slots] = []
        node = tip
        while node.parent is not None:
            parts.append(node.slots)
            node = node.parent
        slots = np.concatenate(parts[::-1]) if len(parts) != 1 else parts[0]
        return Match(length, slots, tip)

    def reaches(self, length: int, limit: int) -> bool:
        """Whether a match of ``length`` out of ``limit`` asked for would count as a hit in this mode."""
        return self._counts(length, limit)

    def _counts(self, length: int, limit: int) -> bool:
        if self.mode == "table":
            return length == limit - limit % self._page
        return self.mode == "on"

    def _walk(self, namespace: Namespace, ids: TokenIds, limit: int) -> tuple[int, Node | None, int]:
        """Follow ``ids[:limit]`` down: (whole pages matched, last node entered, how far inside it)."""
        node = self.roots.get(namespace)
        tip, inside, position = None, 0, 0
        while node is not None and position + self._page <= limit:
            node = node.children.get(self._edge(ids, position))
            if node is None:
                break
            common = common_prefix(node.key, ids[position:limit])
            common -= common % self._page
            tip, inside = node, common
            position += common
            if common < len(node.key):
                break
        return position, tip, inside

    # --- insert ------------------------------------------------------------------------------------------------

    def insert(self, tip: Node, ids: TokenIds, slots: Slots) -> Inserted:
        """Add the whole pages of ``ids``, whose prefix up to ``tip.end`` the caller has locked at ``tip``.

        Hand-over, for tokens ``[tip.end, whole pages of len(ids))``: slots whose tokens were not cached go
        from the caller to the tree. The intervals in ``duplicates`` were cached meanwhile: their slots stay
        the caller's, who points its own row at ``canonical`` and only then frees its copies. What is left,
        the partial last page, stays the caller's. Lock the returned tip before the next ``evict``.
        """
        stop = len(ids) - len(ids) % self._page
        if self.mode == "off" or stop <= tip.end:
            return Inserted(tip, ())
        duplicates: list[Duplicate] = []
        node, position = tip, tip.end
        while position < stop:
            child = node.children.get(self._edge(ids, position))
            if child is None:
                node = self._append(node, ids, slots, position, stop, own_tip=node is tip)
                break
            common = common_prefix(child.key, ids[position:stop])
            common -= common % self._page
            if common < len(child.key):
                child = self._split(child, common)
            duplicates.append(Duplicate(position, position + common, child.slots))
            node = child
            position += common
        self._touch(node)
        return Inserted(node, tuple(duplicates))

    def _append(self, node: Node, ids: TokenIds, slots: Slots, start: int, stop: int, *, own_tip: bool) -> Node:
        """Put ``[start, stop)``, which nobody has, below ``node``; return the node it ends at."""
        key, own = ids[start:stop].copy(), slots[start:stop].copy()
        uses = self._uses_of(node.namespace, ids[: start + self._page])
        self.cached_slots += len(key)
        self.version += 1
        if own_tip and node.parent is not None and not node.children and node.locks == 1 and node.uses == uses:
            # Only the caller's lock ends here: lengthen the leaf, so that a prompt of many chunks is one node.
            node.key = np.concatenate((node.key, key))
            node.slots = np.concatenate((node.slots, own))
            return node
        leaf = Node(node.namespace, node, start, key, own)
        leaf.uses = uses
        node.children[self._edge(key, 0)] = leaf
        self.n_nodes += 1
        self.evictable_slots += len(key)
        self._push(leaf)
        return leaf

    def _split(self, node: Node, at: int) -> Node:
        """Cut ``node`` after ``at`` tokens (whole pages); return the new upper part.

        The object keeps the lower part, where the locks of others end, so that their tips stay right.
        """
        upper = Node(node.namespace, node.parent, node.start, node.key[:at].copy(), node.slots[:at].copy())
        upper.locks = node.locks
        upper.last_use = node.last_use
        upper.uses = node.uses
        if node.parent is None:
            raise RuntimeError("a root has no tokens to split")
        node.parent.children[self._edge(node.key, 0)] = upper
        upper.children[self._edge(node.key, at)] = node
        if node.uses:
            node.uses = self._uses_of(node.namespace, self._path_ids(node, at + self._page))
        node.parent = upper
        node.start += at
        node.key = node.key[at:].copy()
        node.slots = node.slots[at:].copy()
        self.n_nodes += 1
        if node.heap_serial and not node.uses and upper.uses:
            self._push(node)  # its turn came nearer
        return upper

    # --- lock --------------------------------------------------------------------------------------------------

    def lock(self, tip: Node) -> None:
        """Keep ``tip`` and everything above it from eviction until ``unlock``. Locks count."""
        self._lock_below(tip, None)

    def move_lock(self, old: Node, new: Node) -> None:
        """Replace one lock of ``old`` by a lock of ``new``, which lies at or below it."""
        self._lock_below(new, old)

    def _lock_below(self, tip: Node, stop: Node | None) -> None:
        node: Node | None = tip
        while node is not stop:
            if node is None:
                raise RuntimeError("the new tip does not lie below the old one")
            if node.locks == 0:
                self.evictable_slots -= len(node.key)
            node.locks += 1
            node = node.parent

    def unlock(self, tip: Node) -> None:
        """Give back one lock; the prefix was used until now. Raises ``RuntimeError`` when there is no lock."""
        self._touch(tip)
        node: Node | None = tip
        while node is not None:
            if node.locks == 0:
                raise RuntimeError("unlocking a prefix that is not locked")
            node.locks -= 1
            if node.locks == 0:
                self.evictable_slots += len(node.key)
                if not node.children:
                    self._retire(node)
            node = node.parent

    # --- evict -------------------------------------------------------------------------------------------------

    def evict(self, n_slots: int) -> int:
        """Free at least ``n_slots`` slots if so many are unlocked; return how many were freed.

        Leaves go first that no noted future use wants, then those used least recently, and of a leaf its
        last pages first. Hand-over: the slots cut off go from the tree to the pool.
        """
        freed = 0
        while freed < n_slots and self.heap:
            used, last_use, serial, node = heapq.heappop(self.heap)
            if node.heap_serial != serial:
                continue  # a newer entry stands for the node, or it is gone
            node.heap_serial = 0
            if node.locks or node.children:
                continue  # it comes back when it is unlocked or its last child goes
            if (used, last_use) != self._priority(node):
                self._push(node)
                continue
            freed += self._cut(node, n_slots - freed)
        self.evicted_total += freed
        return freed

    def flush(self) -> int:
        """Evict everything that is not locked; return how many slots were freed."""
        return self.evict(self.evictable_slots)

    def _cut(self, leaf: Node, n_slots: int) -> int:
        """Cut whole pages for ``n_slots`` slots, or all there are, off the end of an unlocked leaf."""
        keep = max(0, len(leaf.key) - self.pool.pages_for(n_slots) * self._page)
        gone = leaf.slots[keep:]
        self.cached_slots -= len(gone)
        self.evictable_slots -= len(gone)
        self.version += 1
        if keep:
            leaf.key = leaf.key[:keep].copy()
            leaf.slots = leaf.slots[:keep].copy()
            self._push(leaf)
        else:
            parent = leaf.parent
            if parent is None:
                raise RuntimeError("a root is never evicted")
            del parent.children[self._edge(leaf.key, 0)]
            self.n_nodes -= 1
            if not parent.children and not parent.locks and not parent.heap_serial:
                self._retire(parent)
        self.pool.free(gone)
        return len(gone)

    def _retire(self, node: Node) -> None:
        """An unlocked node without children: evictable, or, if a root, not needed any more."""
        if node.parent is not None:
            self._push(node)
        elif self.roots.get(node.namespace) is node:
            del self.roots[node.namespace]

    def _priority(self, node: Node) -> tuple[bool, int]:
        return (node.uses > 0 and self.eviction == "uses-lru", node.last_use)

    def _push(self, node: Node) -> None:
        """Give the node a fresh heap entry; an older one becomes stale."""
        self._serial += 1
        node.heap_serial = self._serial
        used, last_use = self._priority(node)
        heapq.heappush(self.heap, (used, last_use, self._serial, node))
        if len(self.heap) > 64 + 2 * self.n_nodes:
            self.heap = [entry for entry in self.heap if entry[3].heap_serial == entry[2]]
            heapq.heapify(self.heap)

    # --- future uses -------------------------------------------------------------------------------------------

    def note_future_use(self, namespace: Namespace, ids: TokenIds, delta: int) -> None:
        """Say that ``delta`` more (or fewer) later nodes want the prefix ``ids``, cached or not.

        Raises ``RuntimeError`` when more is taken back than was noted for exactly this prefix.
        """
        self.uses.add(namespace, ids, delta)
        node = self.roots.get(namespace)
        position = 0
        while node is not None and position + self._page <= len(ids):
            node = node.children.get(self._edge(ids, position))
            if node is None:
                return
            common = common_prefix(node.key, ids[position:])
            common -= common % self._page
            if common < len(node.key) and delta > 0:
                node = self._split(node, common)  # what lies beyond the mark is not wanted
            node.uses += delta
            if node.heap_serial and not node.uses:
                self._push(node)  # its turn came nearer
            if common < len(node.key):
                return
            position += common

    def _uses_of(self, namespace: Namespace, ids: TokenIds) -> int:
        return self.uses.count(namespace, ids) if self.uses else 0

    # --- small things ------------------------------------------------------------------------------------------

    def _touch(self, tip: Node) -> None:
        """Mark everything down to ``tip`` as used now: a prefix is never older than what follows it."""
        self._clock += 1
        node: Node | None = tip
        while node is not None:
            node.last_use = self._clock
            node = node.parent

    def _root(self, namespace: Namespace) -> Node:
        root = self.roots.get(namespace)
        if root is None:
            empty = np.empty(0, np.int32)
            root = self.roots[namespace] = Node(namespace, None, 0, empty, empty)
        return root

    def _edge(self, ids: TokenIds, position: int) -> int | bytes:
        """The key of a child: its first page."""
        return int(ids[position]) if self._page == 1 else ids[position : position + self._page].tobytes()

    def _path_ids(self, node: Node, inside: int) -> TokenIds:
        """The prefix that ends ``inside`` tokens into ``node``."""
        parts = [node.key[:inside]]
        above = node.parent
        while above is not None:
            parts.append(above.key)
            above = above.parent
        return np.concatenate(parts[::-1])
