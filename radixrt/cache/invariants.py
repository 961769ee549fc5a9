"""What must be true of pool and tree between any two operations: the check that tests and debugging run.

``check_totals`` is cheap enough for every step; ``check_cache`` walks everything. Both raise
``InvariantError`` with what they found. They know sequences only as the slots they hold and the tips they lock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from radixrt.cache.pages import PagePool
from radixrt.cache.radix import Node, RadixTree

__all__ = ["InvariantError", "check_cache", "check_totals"]


class InvariantError(RuntimeError):
    """Pool, tree and sequences contradict each other: a bug of this package."""


def check_totals(pool: PagePool, tree: RadixTree, held_slots: int) -> None:
    """free + cached + held == total, in constant time. ``held_slots``: what sequences own privately."""
    if pool.free_slots + tree.cached_slots + held_slots != pool.total:
        raise InvariantError(
            f"{pool.free_slots} free + {tree.cached_slots} cached + {held_slots} held slots are not {pool.total}"
        )
    if not 0 <= tree.evictable_slots <= tree.cached_slots:
        raise InvariantError(f"{tree.evictable_slots} of {tree.cached_slots} cached slots are evictable")


def check_cache(
    pool: PagePool, tree: RadixTree, held: Iterable[NDArray[np.int32]], tips: Sequence[Node] = ()
) -> None:
    """Check everything: ``held`` are the private slots of each sequence, ``tips`` the locked tips, with repeats."""
    held_all = _concatenated(held)
    check_totals(pool, tree, len(held_all))
    nodes = list(_nodes(tree))
    _check_slots(pool, nodes, held_all)
    _check_locks(tree, nodes, tips)
    _check_heap(tree, nodes)
    for node in nodes:
        _check_shape(tree, node)
    if tree.n_nodes != sum(node.parent is not None for node in nodes):
        raise InvariantError("the node count is wrong")


def _nodes(tree: RadixTree) -> Iterator[Node]:
    """All nodes, roots included, parents before children."""
    stack = list(tree.roots.values())
    while stack:
        node = stack.pop()
        yield node
        stack.extend(node.children.values())


def _check_slots(pool: PagePool, nodes: list[Node], held: NDArray[np.int32]) -> None:
    free = pool.free_pages()[:, None] * pool.page_size + np.arange(pool.page_size)
    owned = np.concatenate([free.ravel(), held, *(node.slots for node in nodes)])
    counts = np.bincount(owned, minlength=pool.total)
    if len(counts) != pool.total or (counts != 1).any():
        wrong = int(np.flatnonzero(counts != 1)[0])
        raise InvariantError(f"slot {wrong} has {int(counts[wrong])} owners")


def _check_locks(tree: RadixTree, nodes: list[Node], tips: Sequence[Node]) -> None:
    expected: Counter[int] = Counter()
    for tip in tips:
        node: Node | None = tip
        while node is not None:
            expected[id(node)] += 1
            node = node.parent
    for node in nodes:
        if node.locks != expected.pop(id(node), 0):
            raise InvariantError(f"the node at {node.start} counts {node.locks} locks")
    if expected:
        raise InvariantError("a locked tip is not in the tree")
    if sum(len(node.key) for node in nodes if node.locks == 0) != tree.evictable_slots:
        raise InvariantError("evictable_slots is wrong")
    if sum(len(node.key) for node in nodes) != tree.cached_slots:
        raise InvariantError("cached_slots is wrong")


def _check_heap(tree: RadixTree, nodes: list[Node]) -> None:
    live = {id(entry[3]): entry for entry in tree.heap if entry[3].heap_serial == entry[2]}
    for node in nodes:
        if node.parent is None or node.children or node.locks:
            continue
        entry = live.get(id(node))
        if entry is None:
            raise InvariantError("an evictable leaf is not in the heap")
        if entry[:2] > (node.uses > 0 and tree.eviction == "uses-lru", node.last_use):
            raise InvariantError("a leaf stands too late in the heap")
    if len(tree.heap) > 64 + 2 * max(tree.n_nodes, len(live)) + 1:
        raise InvariantError("stale entries fill the heap")


def _check_shape(tree: RadixTree, node: Node) -> None:
    page = tree.pool.page_size
    if node.parent is None:
        if len(node.key) or tree.roots.get(node.namespace) is not node:
            raise InvariantError("a root holds tokens or is not registered")
        if not node.children and not node.locks:
            raise InvariantError("an empty root was left behind")
        return
    if not len(node.key) or len(node.key) % page or len(node.key) != len(node.slots):
        raise InvariantError(f"a node has {len(node.key)} tokens and {len(node.slots)} slots")
    if node.start != node.parent.end or node.namespace != node.parent.namespace:
        raise InvariantError("a node does not begin where its parent ends")
    first = int(node.key[0]) if page == 1 else node.key[:page].tobytes()
    if node.parent.children.get(first) is not node:
        raise InvariantError("a node is filed under another first page")
    if node.last_use > node.parent.last_use and node.parent.parent is not None:
        raise InvariantError("a prefix was used less recently than what follows it")
    parts = [node.key[:page]]
    above: Node | None = node.parent
    while above is not None:
        parts.append(above.key)
        above = above.parent
    wanted = tree.uses.count(node.namespace, np.concatenate(parts[::-1]))
    if node.uses != wanted:
        raise InvariantError(f"a node counts {node.uses} future uses, {wanted} are noted")


def _concatenated(arrays: Iterable[NDArray[np.int32]]) -> NDArray[np.int32]:
    found = list(arrays)
    return np.concatenate(found) if found else np.empty(0, np.int32)
