"""Walking a token trie along a byte automaton: the native kernel, and the same thing in Python.

The result is a bit mask over tokens: bit ``t % 32`` of word ``t // 32`` is set for every token of the trie whose
bytes lead from the first state to a live one. Rows of the automaton may be unknown; a walk that meets one stops,
and goes on when it is run again. What the states mean is not known here; see ``trie_walk.cpp`` for the layout.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from radixrt.kernels.cpu.library import native
from radixrt.kernels.cpu.token_tries import NativeTries
from radixrt.kernels.cpu.trie_arrays import trie_arrays

__all__ = ["NO_NODE", "Tables", "TokenTrie", "TrieWalk", "common_prefix", "run_walks"]

NO_NODE = -2
"""Where the trie has nothing; -1 is its root."""
_ABI = 3
_UNKNOWN = -2
_TRIE_ARRAYS = ("bytes", "depth", "subtree_end", "token_start", "token_order")


class _Walk(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_void_p) for name in _TRIE_ARRAYS),
        ("table", ctypes.c_void_p),
        ("class_of", ctypes.c_void_p),
        ("accepting", ctypes.c_void_p),
        ("start_nodes", ctypes.c_void_p),
        ("start_states", ctypes.c_void_p),
        ("states", ctypes.c_void_p),
        ("row", ctypes.c_void_p),
        ("found_nodes", ctypes.c_void_p),
        ("found_states", ctypes.c_void_p),
        ("visited", ctypes.c_int64),
        ("nodes", ctypes.c_int32),
        ("classes", ctypes.c_int32),
        ("starts", ctypes.c_int32),
        ("start", ctypes.c_int32),
        ("node", ctypes.c_int32),
        ("found", ctypes.c_int32),
        ("missing", ctypes.c_int32),
    )


class Tables:
    """A byte automaton: ``table`` int32 [states, classes], ``class_of`` uint8 [256], ``accepting`` uint8 [states].

    Entries of the table are states, -1 (dead) or -2 (not known yet). Both arrays may be written to between runs.
    """

    def __init__(
        self,
        table: npt.NDArray[np.int32],
        class_of: npt.NDArray[np.uint8],
        accepting: npt.NDArray[np.uint8],
    ) -> None:
        if table.dtype != np.int32 or table.ndim != 2 or not table.flags.c_contiguous:
            raise ValueError("a transition table must be contiguous int32 [states, classes]")
        if class_of.dtype != np.uint8 or class_of.shape != (256,) or not class_of.flags.c_contiguous:
            raise ValueError("a class map must be contiguous uint8 [256]")
        if accepting.dtype != np.uint8 or accepting.shape != (len(table),) or not accepting.flags.c_contiguous:
            raise ValueError("the accepting states must be contiguous uint8 [states]")
        self.table = table
        self.class_of = class_of
        self.accepting = accepting
        self.addresses = (table.ctypes.data, class_of.ctypes.data, accepting.ctypes.data)


class TokenTrie:
    """A trie over the bytes of tokens, in depth-first order.

    ``tokens[i]`` are the bytes of token i; None and the empty string are left out. Arrays per node: ``bytes``
    uint8; ``depth`` (bytes before it) and ``subtree_end`` int32; ``token_start`` int32, one more than nodes;
    ``token_order`` int32 holds the ids, sorted by their bytes. Raises as ``trie_arrays`` does.
    """

    def __init__(self, tokens: Sequence[bytes | None]) -> None:
        self.bytes, self.depth, self.subtree_end, self.token_start, self.token_order = trie_arrays(tokens)
        self.size = len(tokens)
        self.nodes = len(self.bytes)
        self.max_depth = int(self.depth.max(initial=-1)) + 1
        self._tokens = tokens
        roots = np.flatnonzero(self.depth == 0).tolist()
        self._roots = {int(self.bytes[node]): node for node in roots}

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
        if node < 0:
            return self._roots.get(byte, NO_NODE)
        child, end = node + 1, int(self.subtree_end[node])
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

    def path(self, node: int) -> bytes:
        """The bytes from the root to ``node``."""
        if node < 0:
            return b""
        below = self._tokens[self.token_order[self.token_start[node]]] or b""
        return below[: self.depth[node] + 1]

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

    @functools.cached_property
    def native(self) -> NativeTries:
        """The tries that native machines walk; RuntimeError without native kernels."""
        library = native()
        if library is None:
            raise RuntimeError("there is no native library")
        arrays = (self.depth, self.subtree_end, self.token_start, self.token_order)
        return NativeTries(library, self.bytes, arrays, (self.size + 31) // 32)

    @functools.cached_property
    def addresses(self) -> tuple[int, ...]:
        """Where the arrays are in memory, in the order of the native structure."""
        return tuple(getattr(self, name).ctypes.data for name in _TRIE_ARRAYS)


class TrieWalk:
    """One walk: below each node of ``starts`` (-1: the whole trie) from the automaton state beside it.

    The bits of accepted tokens are added to ``row`` (uint32, at least ``ceil(size / 32)`` words). With
    ``stop_at_accepting`` the walk does not go below a node where an accepting state is reached; ``found`` lists
    those nodes, with their states, that have something below them. ``missing`` is the state whose row was unknown
    when the walk stopped, or -1; ``visited`` counts nodes.
    """

    def __init__(
        self,
        trie: TokenTrie,
        row: npt.NDArray[np.uint32],
        starts: Sequence[tuple[int, int]],
        *,
        stop_at_accepting: bool = False,
    ) -> None:
        if row.dtype != np.uint32 or row.ndim != 1 or not row.flags.c_contiguous or 32 * len(row) < trie.size:
            raise ValueError(f"the row must be contiguous uint32 with at least {(trie.size + 31) // 32} words")
        pairs = np.array(starts, np.int32).reshape(-1, 2).T
        self.start_nodes: npt.NDArray[np.int32] = np.ascontiguousarray(pairs[0])
        self.start_states: npt.NDArray[np.int32] = np.ascontiguousarray(pairs[1])
        if len(starts) and not -1 <= self.start_nodes.min() <= self.start_nodes.max() < max(trie.nodes, 1):
            raise ValueError("the trie has no such node to start from")
        self.trie = trie
        self.row = row
        self.states: npt.NDArray[np.int32] = np.empty(trie.max_depth + 1, np.int32)
        self.stop_at_accepting = stop_at_accepting
        room = trie.nodes if stop_at_accepting else 0
        self.found_nodes: npt.NDArray[np.int32] = np.empty(room, np.int32)
        self.found_states: npt.NDArray[np.int32] = np.empty(room, np.int32)
        self.start = 0
        self.node = -1
        self.count = 0
        self.missing = -1
        self.visited = 0

    @property
    def found(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """Nodes and states at which a ``stop_at_accepting`` walk stopped."""
        return self.found_nodes[: self.count], self.found_states[: self.count]

    @functools.cached_property
    def job(self) -> _Walk:
        """The walk as the native code sees it, automaton aside."""
        job = _Walk(*self.trie.addresses)
        for name in ("start_nodes", "start_states", "states", "row", "found_nodes", "found_states"):
            setattr(job, name, getattr(self, name).ctypes.data)
        job.nodes, job.starts = self.trie.nodes, len(self.start_nodes)
        return job


def run_walks(
    walks: Sequence[TrieWalk], automata: Sequence[Tables], *, library: ctypes.CDLL | str | None = "native"
) -> int:
    """Run each walk over its automaton. Returns how many stopped at an unknown row; those can be run again.

    One native call without the GIL for all of them; ``library=None`` takes the Python path. States in the walks and
    in the tables must be rows of the table (or negative in the table): that is the caller's word.
    """
    if len(walks) != len(automata):
        raise ValueError(f"{len(walks)} walks need as many automata, not {len(automata)}")
    found = native() if isinstance(library, str) else library
    if found is None:
        for walk, tables in zip(walks, automata, strict=True):
            _run_python(walk, tables)
    else:
        _run_native(found, walks, automata)
    return sum(walk.missing >= 0 for walk in walks)


def _run_native(library: ctypes.CDLL, walks: Sequence[TrieWalk], automata: Sequence[Tables]) -> None:
    if library.radixrt_trie_walk_abi() != _ABI:
        raise RuntimeError("the native kernels are of another version: reinstall radixrt")
    for walk, tables in zip(walks, automata, strict=True):
        job = walk.job
        job.table, job.class_of, accepting = tables.addresses
        job.accepting = accepting if walk.stop_at_accepting else None
        job.classes = tables.table.shape[1]
        job.start, job.node, job.found, job.visited = walk.start, walk.node, walk.count, walk.visited
    pointers = (ctypes.POINTER(_Walk) * len(walks))(*(ctypes.pointer(walk.job) for walk in walks))
    library.radixrt_trie_walk(pointers, ctypes.c_int32(len(walks)))
    for walk in walks:
        job = walk.job
        walk.start, walk.node, walk.count = job.start, job.node, job.found
        walk.missing, walk.visited = job.missing, job.visited


def _run_python(walk: TrieWalk, tables: Tables) -> None:
    """The meaning of ``trie_walk.cpp``, step for step."""
    node_bytes, depth, subtree_end, token_start, token_order = walk.trie.lists
    byte_class, states, row = tables.class_of.tolist(), walk.states.tolist(), walk.row
    rows: dict[int, list[int]] = {}
    walk.missing = -1
    while walk.start < len(walk.start_nodes):
        root = int(walk.start_nodes[walk.start])
        end = walk.trie.nodes if root < 0 else subtree_end[root]
        node = walk.node
        if node < 0:
            node = root + 1
            states[0 if root < 0 else depth[root] + 1] = int(walk.start_states[walk.start])
        while node < end:
            d = depth[node]
            if states[d] not in rows:
                rows[states[d]] = tables.table[states[d]].tolist()
            target = rows[states[d]][byte_class[node_bytes[node]]]
            if target == _UNKNOWN:
                walk.missing, walk.node = states[d], node
                walk.states[:] = states
                return
            walk.visited += 1
            if target < 0:
                node = subtree_end[node]
                continue
            states[d + 1] = target
            for token in token_order[token_start[node] : token_start[node + 1]]:
                row[token >> 5] |= np.uint32(1 << (token & 31))
            if walk.stop_at_accepting and tables.accepting[target]:
                if subtree_end[node] > node + 1:
                    walk.found_nodes[walk.count], walk.found_states[walk.count] = node, target
                    walk.count += 1
                node = subtree_end[node]
                continue
            node += 1
        walk.start, walk.node = walk.start + 1, -1


def common_prefix(left: bytes, right: bytes) -> int:
    """How many leading bytes two strings share."""
    limit = min(len(left), len(right))
    for i in range(limit):
        if left[i] != right[i]:
            return i
    return limit
