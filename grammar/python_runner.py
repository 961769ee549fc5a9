"""The machine in Python over one vocabulary: what ``NativeRunner`` means, and what stands in for it.

A row is put together from the rows of wide terminals, which are shared, and a walk along the token trie for all
that depends on the place; see ``terminal_rows.py``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from radixrt.grammar.limits import GrammarLimits
from radixrt.grammar.machine import DEAD, Machine
from radixrt.grammar.row_set import MaskRow, digest_of
from radixrt.grammar.rules import Grammar
from radixrt.grammar.rx import Rx
from radixrt.grammar.terminal_rows import SharedRows, TerminalRow
from radixrt.grammar.vocab import Vocabulary
from radixrt.kernels.cpu.trie_walk import TrieWalk, run_walks

__all__ = ["PythonRunner"]

Row = npt.NDArray[np.uint32]

_ROOT = -1
_WIDE = 32
"""From so many possible next bytes on, the row of a terminal is worth sharing."""
_MANY = 8
"""Beyond so many open terminals, one walk for all of them is cheaper."""
_MAX_FORCED_BYTES = 4096
_FIRST_PRIVATE_BYTE = 0xFE
"""Events and token symbols, which are never forced."""


class PythonRunner:
    """See ``runner.Runner``. Outside, a state is twice its number in the machine, and one more if it accepts."""

    def __init__(self, machine: Machine, vocab: Vocabulary, limits: GrammarLimits, shared: SharedRows) -> None:
        self._machine = machine
        self._vocab = vocab
        self._limits = limits
        self._shared = shared
        self.start = self._crossing(machine.start)

    @classmethod
    def of(cls, grammar: Grammar, vocab: Vocabulary, limits: GrammarLimits, shared: SharedRows) -> PythonRunner:
        """A runner of a normalised grammar."""
        return cls(Machine(grammar, limits), vocab, limits, shared)

    def fresh(self) -> PythonRunner:
        """The same grammar before anything was read."""
        self._refuel()
        return PythonRunner(self._machine.fresh(), self._vocab, self._limits, self._shared)

    def __len__(self) -> int:
        return len(self._machine)

    @property
    def nbytes(self) -> int:
        """Memory held, about."""
        return self._machine.nbytes

    def run(self, state: int, data: bytes) -> int:
        """The state after ``data``, or ``DEAD``."""
        self._refuel()
        return self._crossing(self._machine.run(state >> 1, data))

    def run_many(self, state: int, paths: Sequence[bytes]) -> list[int]:
        """The states after each of ``paths``."""
        self._refuel()
        return [self._crossing(self._machine.run(state >> 1, path)) for path in paths]

    def exits(self, state: int) -> int:
        """The bytes that may come next, as a 256-bit mask."""
        self._refuel()
        return self._machine.exits(state >> 1)

    def forced(self, state: int) -> tuple[bytes, int]:
        """The bytes that follow with certainty and the state after them."""
        self._refuel()
        data, machine, at = bytearray(), self._machine, state >> 1
        while len(data) < _MAX_FORCED_BYTES and not machine.is_accepting(at):
            exits = machine.exits(at)
            if exits.bit_count() != 1 or exits.bit_length() > _FIRST_PRIVATE_BYTE:
                break
            data.append(exits.bit_length() - 1)
            at = machine.step(at, data[-1])
        return bytes(data), self._crossing(at)

    def rows(self, states: Sequence[int]) -> list[MaskRow]:
        """The tokens that each state allows, all walked together."""
        self._refuel()
        walks = []
        for state in states:
            row = np.zeros(self._vocab.words, np.uint32)
            walks.append(TrieWalk(self._vocab.trie, row, self._starts(state >> 1, row)))
        self._walk(walks)
        return [self._shared.whole.kept(walk.row, digest_of(walk.row)) for walk in walks]

    def row(self, state: int) -> MaskRow:
        """The tokens that one state allows."""
        return self.rows([state])[0]

    def early_row(self, state: int) -> MaskRow:
        """The same as ``row``: a mask has no less fuel than compiling leaves."""
        return self.row(state)

    def below(self, state: int, node: int) -> Row:
        """The tokens below a node of the trie whose further bytes are allowed."""
        self._refuel()
        row = np.zeros(self._vocab.words, np.uint32)
        self._walk([TrieWalk(self._vocab.trie, row, [(node, state >> 1)])])
        return row

    def _crossing(self, state: int) -> int:
        return DEAD if state == DEAD else 2 * state + self._machine.is_accepting(state)

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
        trie, machine = self._vocab.trie, self._machine
        short, fingerprint = machine.fingerprint(term, trie.max_depth)
        known = self._shared.get(fingerprint)
        if known is None:
            row = np.zeros(self._vocab.words, np.uint32)
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
