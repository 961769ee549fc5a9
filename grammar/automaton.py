"""A machine shared by many matchers: one lock, one transition table, one cache of mask rows.

Rows depend on the state alone, so every matcher of a grammar that comes to a state takes the same row. End tokens
are not in the rows: each matcher has its own. Nothing here knows where a text begins or ends.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from radixrt.grammar.limits import GrammarLimits
from radixrt.grammar.machine import DEAD, Machine
from radixrt.grammar.rx import Rx
from radixrt.grammar.terminal_rows import SharedRows, TerminalRow
from radixrt.grammar.vocab import Vocabulary
from radixrt.kernels.cpu.trie_walk import TrieWalk, run_walks

__all__ = ["Automaton", "Row", "free_row"]

Row = npt.NDArray[np.uint32]
"""Bits of allowed tokens, read-only, ``Vocabulary.words`` long."""

_ROOT = -1
_WIDE = 32
"""From so many possible next bytes on, the row of a terminal is worth sharing."""
_MANY = 8
"""Beyond so many open terminals, one walk for all of them is cheaper."""
_MAX_FORCED_BYTES = 4096
_PIECE = 64


class Automaton:
    """Thread-safe view of one machine over one vocabulary."""

    def __init__(self, machine: Machine, vocab: Vocabulary, limits: GrammarLimits, shared: SharedRows) -> None:
        self.start = machine.start
        self.vocab = vocab
        self._machine = machine
        self._limits = limits
        self._shared = shared
        self._lock = threading.RLock()
        self._rows: dict[int, Row] = {}
        self._room = max(1, limits.mask_cache_bytes // (4 * vocab.words))

    @property
    def is_full(self) -> bool:
        """Whether the machine has grown so much that new matchers should start with a fresh one."""
        return len(self._machine) > self._limits.states

    @property
    def nbytes(self) -> int:
        """Memory of the rows and tables, about."""
        return self._machine.nbytes + 4 * self.vocab.words * len(self._rows)

    def fresh(self) -> Automaton:
        """The same grammar before anything was read; shares nothing that grows."""
        with self._lock:
            self._refuel()
            return Automaton(self._machine.fresh(), self.vocab, self._limits, self._shared)

    def advance(self, state: int, data: bytes) -> int:
        """The state after ``data``, or ``DEAD``."""
        with self._lock:
            self._refuel()
            return self._machine.run(state, data)

    def accepts(self, text: bytes) -> bool:
        """Whether ``text`` is a complete text of the grammar."""
        state = self.start
        for begin in range(0, len(text), _PIECE):  # each with its own fuel: a long text is not a hard one
            state = self.advance(state, text[begin : begin + _PIECE])
            if state == DEAD:
                return False
        return self.is_accepting(state)

    def is_accepting(self, state: int) -> bool:
        """Whether the text that led to ``state`` is complete."""
        return self._machine.is_accepting(state)

    def is_final(self, state: int) -> bool:
        """Whether the text is complete and nothing can follow."""
        with self._lock:
            self._refuel()
            return self._machine.is_accepting(state) and not self._machine.exits(state)

    def forced(self, state: int) -> tuple[bytes, int]:
        """The bytes that follow with certainty, and the state after them. Stops where the text may end."""
        data = bytearray()
        with self._lock:
            self._refuel()
            while len(data) < _MAX_FORCED_BYTES and not self._machine.is_accepting(state):
                byte = self._machine.sole_byte(state)
                if byte is None:
                    break
                data.append(byte)
                state = self._machine.step(state, byte)
        return bytes(data), state

    def row(self, state: int) -> Row:
        """The tokens that ``state`` allows."""
        row = self._rows.get(state)
        if row is not None:
            return row
        return self.rows([state])[0]

    def has_row(self, state: int) -> bool:
        """Whether the row of ``state`` is at hand."""
        return state in self._rows

    def rows(self, states: Sequence[int]) -> list[Row]:
        """The rows of several states, missing ones computed together."""
        with self._lock:
            self._refuel()
            missing = [state for state in dict.fromkeys(states) if state not in self._rows]
            fresh = dict(zip(missing, self._compose(missing), strict=True))
            result = [fresh[state] if state in fresh else self._rows[state] for state in states]
            self._rows.update(fresh)
            while len(self._rows) > self._room:  # the oldest goes first: it is cheap to make again
                del self._rows[next(iter(self._rows))]
        return result

    def extends(self, state: int, node: int) -> bool:
        """Whether ``state`` allows what some token below ``node`` of the trie adds to it."""
        return bool(self.below(state, node).any())

    def below(self, state: int, node: int) -> Row:
        """The tokens below ``node`` of the trie (node excluded) whose further bytes ``state`` allows."""
        with self._lock:
            self._refuel()
            row = np.zeros(self.vocab.words, np.uint32)
            self._walk([TrieWalk(self.vocab.trie, row, [(node, state)])])
            return row

    def _compose(self, states: Sequence[int]) -> list[Row]:
        """Rows of states: what their wide terminals say anywhere, and a walk for all that depends on the place."""
        walks = []
        for state in states:
            row = np.zeros(self.vocab.words, np.uint32)
            walks.append(TrieWalk(self.vocab.trie, row, self._starts(state, row)))
        self._walk(walks)
        for walk in walks:
            walk.row.flags.writeable = False
        return [walk.row for walk in walks]

    def _starts(self, state: int, row: Row) -> list[tuple[int, int]]:
        """Add to ``row`` what the wide terminals of a state allow; return where to walk for the rest."""
        machine = self._machine
        parts = machine.parts(state)
        wide = [] if len(parts) > _MANY else [p for p in parts if machine.first_bytes(p[0]) >= _WIDE]
        if not wide:
            return [(_ROOT, state)]
        starts = []
        for part in wide:
            terminal = self._terminal_row(part[0])
            np.bitwise_or(row, terminal.bits, out=row)
            alone = state if len(parts) == 1 else machine.state_of([part])
            for path, nodes in terminal.exits:
                after = machine.run(alone, path)
                starts += [(node, after) for node in nodes.tolist()]
        narrow = [part for part in parts if part not in wide]
        if narrow:
            starts.append((_ROOT, machine.state_of(narrow)))
        return starts

    def _terminal_row(self, term: Rx) -> TerminalRow:
        trie, machine = self.vocab.trie, self._machine
        short, fingerprint = machine.fingerprint(term, trie.max_depth)
        known = self._shared.get(fingerprint)
        if known is None:
            row = np.zeros(self.vocab.words, np.uint32)
            walk = TrieWalk(trie, row, [(_ROOT, machine.terminal_state(short))], stop_at_accepting=True)
            self._walk([walk])
            nodes, ends = walk.found
            order = np.argsort(ends, kind="stable")
            groups = np.split(nodes[order], np.flatnonzero(np.diff(ends[order])) + 1) if len(nodes) else []
            known = TerminalRow(row, tuple((trie.path(int(group[0])), group) for group in groups))
            self._shared.put(fingerprint, known)
        return known

    def _walk(self, walks: Sequence[TrieWalk]) -> None:
        """Run walks to their end; the machine fills in the rows that the native code misses."""
        active = walks
        while active:
            run_walks(active, [self._machine.tables] * len(active))
            active = [walk for walk in active if walk.missing >= 0]
            for walk in active:
                self._machine.expand(walk.missing)

    def _refuel(self) -> None:
        self._machine.refuel(self._limits.step_fuel, "step_fuel")


def free_row(size: int) -> npt.NDArray[np.int32]:
    """The mask row of a text without a constraint: ones for every id below ``size``, zeros in the padding."""
    row = np.full((size + 31) // 32, -1, np.int32)
    if size % 32:
        row[-1] = (1 << size % 32) - 1
    return row
