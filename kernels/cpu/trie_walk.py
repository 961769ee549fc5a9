"""Walking a token trie along a byte automaton: the native kernel, and the same thing in Python.

The result is a bit mask over tokens: bit ``t % 32`` of word ``t // 32`` is set for every token of the trie whose
bytes lead from the first state to a live one. Rows of the automaton may be unknown; a walk that meets one stops,
and goes on when it is run again. What the states mean is not known here; see ``trie_walk.cpp`` for the layout.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from radixrt.kernels.cpu.library import native

__all__ = ["NO_NODE", "TokenTrie", "TrieWalk", "common_prefix", "run_walks"]

NO_NODE = -2
"""Where the trie has nothing; -1 is its root."""
_ABI = 1
_UNKNOWN = -2


class _Walk(ctypes.Structure):
    _fields_ = (
        ("bytes", ctypes.c_void_p),
        ("depth", ctypes.c_void_p),
        ("subtree_end", ctypes.c_void_p),
        ("token_start", ctypes.c_void_p),
        ("token_order", ctypes.c_void_p),
        ("table", ctypes.c_void_p),
        ("class_of", ctypes.c_void_p),
        ("states", ctypes.c_void_p),
        ("row", ctypes.c_void_p),
        ("visited", ctypes.c_int64),
        ("classes", ctypes.c_int32),
        ("node", ctypes.c_int32),
        ("end", ctypes.c_int32),
        ("missing", ctypes.c_int32),
    )


class TokenTrie:
    """A trie over the bytes of tokens, in depth-first order.

    ``tokens[i]`` are the bytes of token i; None and the empty string are left out. Arrays per node: ``bytes``
    uint8, ``depth`` int32 (bytes before it), ``subtree_end`` int32, ``token_start`` int32 (one more than nodes);
    ``token_order`` int32 holds the ids, sorted by their bytes.
    """

    def __init__(self, tokens: Sequence[bytes | None]) -> None:
        order = sorted((data, i) for i, data in enumerate(tokens) if data)
        node_bytes = bytearray()
        depth: list[int] = []
        token_start: list[int] = []
        end: list[int] = []
        path: list[int] = []
        previous = b""
        for position, (data, _) in enumerate(order):
            shared = common_prefix(previous, data)
            for node in reversed(path[shared:]):
                end[node] = len(depth)
            del path[shared:]
            for d in range(shared, len(data)):
                path.append(len(depth))
                node_bytes.append(data[d])
                depth.append(d)
                end.append(0)
                # A node that ends no token has an empty range at the place where its subtree's tokens begin.
                token_start.append(position)
            previous = data
        for node in path:
            end[node] = len(depth)
        self.size = len(tokens)
        self.nodes = len(depth)
        self.max_depth = max(depth, default=-1) + 1
        self.bytes: npt.NDArray[np.uint8] = np.frombuffer(bytes(node_bytes), np.uint8)
        self.depth: npt.NDArray[np.int32] = np.array(depth, np.int32)
        self.subtree_end: npt.NDArray[np.int32] = np.array(end, np.int32)
        self.token_start: npt.NDArray[np.int32] = np.array([*token_start, len(order)], np.int32)
        self.token_order: npt.NDArray[np.int32] = np.array([i for _, i in order], np.int32)

    def find(self, data: bytes) -> int:
        """The node that ``data`` leads to from the root, or ``NO_NODE``."""
        node = -1
        for byte in data:
            node = self.child(node, byte)
            if node == NO_NODE:
                break
        return node

    def child(self, node: int, byte: int) -> int:
        """The child of ``node`` (-1: the root) on ``byte``, or ``NO_NODE``."""
        child, end = node + 1, self.nodes if node < 0 else int(self.subtree_end[node])
        while child < end:
            if self.bytes[child] == byte:
                return child
            if self.bytes[child] > byte:
                break
            child = int(self.subtree_end[child])
        return NO_NODE

    def tokens_at(self, node: int) -> list[int]:
        """The tokens whose bytes end at ``node``."""
        ids: list[int] = self.token_order[self.token_start[node] : self.token_start[node + 1]].tolist()
        return ids

    @functools.cached_property
    def lists(self) -> tuple[list[int], list[int], list[int], list[int], list[int]]:
        """The arrays as lists, for the path without native code."""
        return (
            self.bytes.tolist(),
            self.depth.tolist(),
            self.subtree_end.tolist(),
            self.token_start.tolist(),
            self.token_order.tolist(),
        )


class TrieWalk:
    """One walk: from automaton state ``start`` into the subtree below ``node`` (-1: the whole trie).

    The bits of accepted tokens are added to ``row`` (uint32, at least ``ceil(size / 32)`` words).
    ``missing`` is the state whose row was unknown when the walk stopped, or -1; ``visited`` counts nodes.
    """

    def __init__(self, trie: TokenTrie, start: int, row: npt.NDArray[np.uint32], node: int = -1) -> None:
        if row.dtype != np.uint32 or row.ndim != 1 or not row.flags.c_contiguous or 32 * len(row) < trie.size:
            raise ValueError(f"the row must be contiguous uint32 with at least {(trie.size + 31) // 32} words")
        if not -1 <= node < trie.nodes:
            raise ValueError(f"the trie has no node {node}")
        self.trie = trie
        self.row = row
        self.states: npt.NDArray[np.int32] = np.full(trie.max_depth + 1, -1, np.int32)
        self.states[0 if node < 0 else trie.depth[node] + 1] = start
        self.node = node + 1
        self.end = trie.nodes if node < 0 else int(trie.subtree_end[node])
        self.missing = -1
        self.visited = 0


def run_walks(
    walks: Sequence[TrieWalk],
    tables: Sequence[npt.NDArray[np.int32]],
    classes: Sequence[npt.NDArray[np.uint8]],
    *,
    library: ctypes.CDLL | str | None = "native",
) -> int:
    """Run each walk over its automaton (``tables[i]`` int32 [states, classes], ``classes[i]`` uint8 [256]).

    Returns how many stopped at an unknown row. One native call without the GIL for all of them; ``library=None``
    takes the Python path.
    """
    for table, class_of in zip(tables, classes, strict=True):
        if table.dtype != np.int32 or table.ndim != 2 or not table.flags.c_contiguous:
            raise ValueError("a transition table must be contiguous int32 [states, classes]")
        if class_of.dtype != np.uint8 or class_of.shape != (256,) or not class_of.flags.c_contiguous:
            raise ValueError("a class map must be contiguous uint8 [256]")
    found = native() if isinstance(library, str) else library
    if found is None:
        for walk, table, class_of in zip(walks, tables, classes, strict=True):
            _run_python(walk, table, class_of)
    else:
        _run_native(found, walks, tables, classes)
    return sum(walk.missing >= 0 for walk in walks)


def _run_native(
    library: ctypes.CDLL,
    walks: Sequence[TrieWalk],
    tables: Sequence[npt.NDArray[np.int32]],
    classes: Sequence[npt.NDArray[np.uint8]],
) -> None:
    if library.radixrt_trie_walk_abi() != _ABI:
        raise RuntimeError("the native kernels are of another version: reinstall radixrt")
    jobs = (_Walk * len(walks))()
    for job, walk, table, class_of in zip(jobs, walks, tables, classes, strict=True):
        trie = walk.trie
        arrays: tuple[npt.NDArray[Any], ...] = (
            trie.bytes,
            trie.depth,
            trie.subtree_end,
            trie.token_start,
            trie.token_order,
            table,
            class_of,
            walk.states,
            walk.row,
        )
        for (name, _), array in zip(_Walk._fields_, arrays, strict=False):
            setattr(job, name, array.ctypes.data)
        job.classes, job.node, job.end = table.shape[1], walk.node, walk.end
    library.radixrt_trie_walk(jobs, ctypes.c_int32(len(walks)))
    for job, walk in zip(jobs, walks, strict=True):
        walk.node, walk.missing = job.node, job.missing
        walk.visited += job.visited


def _run_python(walk: TrieWalk, table: npt.NDArray[np.int32], class_of: npt.NDArray[np.uint8]) -> None:
    """The meaning of ``trie_walk.cpp``, line for line."""
    node_bytes, depth, subtree_end, token_start, token_order = walk.trie.lists
    byte_class = class_of.tolist()
    states, row, node = walk.states.tolist(), walk.row, walk.node
    rows: dict[int, list[int]] = {}
    walk.missing = -1
    while node < walk.end:
        d = depth[node]
        state = states[d]
        if state not in rows:
            rows[state] = table[state].tolist()
        target = rows[state][byte_class[node_bytes[node]]]
        if target == _UNKNOWN:
            walk.missing = state
            break
        walk.visited += 1
        if target < 0:
            node = subtree_end[node]
            continue
        states[d + 1] = target
        for token in token_order[token_start[node] : token_start[node + 1]]:
            row[token >> 5] |= np.uint32(1 << (token & 31))
        node += 1
    walk.states[:] = states
    walk.node = node


def common_prefix(left: bytes, right: bytes) -> int:
    """How many leading bytes two strings share."""
    limit = min(len(left), len(right))
    for i in range(limit):
        if left[i] != right[i]:
            return i
    return limit
