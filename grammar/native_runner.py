"""A native machine over one vocabulary (``kernels/cpu/machine.py``), with the fuel and the limits of a grammar."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from radixrt.grammar.limits import GrammarLimits
from radixrt.grammar.row_set import MaskRow
from radixrt.grammar.terminal_rows import SharedRows
from radixrt.grammar.vocab import Vocabulary
from radixrt.kernels.cpu.machine import Bounds, NativeMachine, NativeRules, RowJob, RowRoom, fill_rows
from radixrt.kernels.cpu.terms import OPERATIONS

__all__ = ["NativeRunner", "fill_rows"]

_LIMIT = "step_fuel"


class NativeRunner:
    """See ``runner.Runner``."""

    def __init__(
        self,
        machine: NativeMachine,
        vocab: Vocabulary,
        limits: GrammarLimits,
        shared: SharedRows,
        left: int = 0,
    ) -> None:
        self._machine = machine
        self._vocab = vocab
        self._limits = limits
        self._shared = shared
        self._tries = vocab.trie.native
        self._fuel = limits.step_fuel * OPERATIONS
        self._early_fuel = max(self._fuel, left)
        self._room = RowRoom(self._tries, vocab.words)
        self.start = machine.start

    @classmethod
    def of(cls, rules: NativeRules, vocab: Vocabulary, limits: GrammarLimits, shared: SharedRows) -> NativeRunner:
        """A runner of normalised rules."""
        bounds = Bounds(limits.states, limits.configurations, limits.table_bytes)
        machine = NativeMachine(rules.pool, rules, bounds, "compile_fuel")
        return cls(machine, vocab, limits, shared, rules.pool.fuel_left * rules.pool.operations)

    def fresh(self) -> NativeRunner:
        """The same grammar before anything was read."""
        return NativeRunner(self._machine.fresh(self._fuel, _LIMIT), self._vocab, self._limits, self._shared)

    def __len__(self) -> int:
        return len(self._machine)

    @property
    def nbytes(self) -> int:
        """Memory held, about."""
        return self._machine.nbytes

    def run(self, state: int, data: bytes) -> int:
        """The state after ``data``, or ``DEAD``."""
        return self._machine.run(state, data, self._fuel, _LIMIT)

    def run_many(self, state: int, paths: Sequence[bytes]) -> list[int]:
        """The states after each of ``paths``."""
        return self._machine.run_many(state, paths, self._fuel, _LIMIT)

    def exits(self, state: int) -> int:
        """The bytes that may come next, as a 256-bit mask."""
        return self._machine.exits(state, self._fuel, _LIMIT)

    def forced(self, state: int) -> tuple[bytes, int]:
        """The bytes that follow with certainty and the state after them."""
        return self._machine.forced(state, self._fuel, _LIMIT)

    def rows(self, states: Sequence[int]) -> list[MaskRow]:
        """The tokens that each state allows."""
        return [self.row(state) for state in states]

    def row(self, state: int) -> MaskRow:
        """The tokens that one state allows."""
        return self._row(state, self._fuel, _LIMIT)

    def early_row(self, state: int) -> MaskRow:
        """The same with what compiling left of its fuel."""
        return self._row(state, self._early_fuel, "compile_fuel")

    def _row(self, state: int, fuel: int, limit: str) -> MaskRow:
        room = self._room
        digest = self._machine.write_row(room, self._shared.native, state, fuel, limit)
        return self._shared.whole.kept(room.row, digest)

    def below(self, state: int, node: int) -> npt.NDArray[np.uint32]:
        """The tokens below a node of the trie whose further bytes are allowed."""
        row = np.zeros(self._vocab.words, np.uint32)
        self._machine.add_below(self._tries, state, node, row, self._fuel, _LIMIT)
        return row

    def job(self, state: int, room: npt.NDArray[np.uint32]) -> RowJob:
        """The making of one row in ``room``, for ``fill_rows``."""
        return RowJob(self._machine, self._tries, self._shared.native, state, room, self._fuel)

    def kept(self, bits: npt.NDArray[np.uint32], digest: bytes) -> MaskRow:
        """A row that ``fill_rows`` made."""
        return self._shared.whole.kept(bits, digest)
