"""What an automaton needs of the machine below it, which is native or in Python.

``new_runner`` takes the native one for a grammar whose terms live in a native pool. States are ints, odd where the
text may end. A runner counts its work anew in every call and raises ``UnsupportedConstraint`` where it is too much.
Nothing here knows about locks, matchers or end tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from radixrt.grammar.limits import GrammarLimits
from radixrt.grammar.native_runner import NativeRunner
from radixrt.grammar.python_runner import PythonRunner
from radixrt.grammar.row_set import MaskRow
from radixrt.grammar.rules import Grammar
from radixrt.grammar.terminal_rows import SharedRows
from radixrt.grammar.vocab import Vocabulary

__all__ = ["Runner", "new_runner"]


class Runner(Protocol):
    """Runs one grammar over one vocabulary. Not thread-safe: its owner holds a lock."""

    @property
    def start(self) -> int:
        """The state before the first byte."""

    @property
    def nbytes(self) -> int:
        """Memory held, about."""

    def __len__(self) -> int: ...

    def fresh(self) -> Runner:
        """The same grammar before anything was read; shares nothing that grows but the rows of terminals."""

    def run(self, state: int, data: bytes) -> int:
        """The state after ``data``, or ``DEAD``."""

    def run_many(self, state: int, paths: Sequence[bytes]) -> list[int]:
        """The states after each of ``paths``."""

    def exits(self, state: int) -> int:
        """The bytes that may come next, as a 256-bit mask."""

    def forced(self, state: int) -> tuple[bytes, int]:
        """The bytes that follow with certainty and the state after them; stops where the text may end, and before
        bytes that no text holds."""

    def row(self, state: int) -> MaskRow:
        """The tokens that a state allows, ``Vocabulary.words`` long; equal rows are one row."""

    def early_row(self, state: int) -> MaskRow:
        """The row of a state near the start, made when the grammar is compiled, and with the fuel of that."""

    def rows(self, states: Sequence[int]) -> list[MaskRow]:
        """The same for several states, all computed together where that is cheaper."""

    def below(self, state: int, node: int) -> npt.NDArray[np.uint32]:
        """The tokens below a node of the trie (itself excluded, -1: the root) whose further bytes are allowed."""


def new_runner(grammar: Grammar, vocab: Vocabulary, limits: GrammarLimits, shared: SharedRows) -> Runner:
    """A runner at the start of a text. Spends what is left of the pool's fuel."""
    if grammar.native is not None:
        return NativeRunner.of(grammar.native, vocab, limits, shared)
    return PythonRunner.of(grammar, vocab, limits, shared)
