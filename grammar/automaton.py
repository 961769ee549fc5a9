"""A machine shared by many matchers: one lock, one cache of mask rows.

Rows depend on the state alone, so every matcher of a grammar that comes to a state takes the same row. End tokens
are not in the rows: each matcher has its own. Nothing here knows where a text begins or ends.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack

import numpy as np
import numpy.typing as npt

from radixrt.errors import RadixrtError
from radixrt.grammar.limits import GrammarLimits
from radixrt.grammar.machine import DEAD
from radixrt.grammar.native_runner import NativeRunner, fill_rows
from radixrt.grammar.row_set import MaskRow
from radixrt.grammar.runner import Runner
from radixrt.grammar.vocab import Vocabulary

__all__ = ["Automaton", "Row", "free_row", "prepare_rows"]

Row = npt.NDArray[np.uint32]
"""Bits of allowed tokens, read-only, ``Vocabulary.words`` long."""

_PIECE = 64
_FEW = 4
_STATE_BYTES = 200
"""What it costs, about, to remember the row of one state."""


class Automaton:
    """Thread-safe view of one machine over one vocabulary.

    States are ints, odd where the text may end. Everything the machine does is done under one lock per automaton;
    who holds several takes them in the order of ``id``.
    """

    def __init__(self, runner: Runner, vocab: Vocabulary, limits: GrammarLimits) -> None:
        self.start = runner.start
        self.vocab = vocab
        self._runner = runner
        self._limits = limits
        self._lock = threading.RLock()
        self._rows: dict[int, MaskRow] = {}
        self._distinct: set[bytes] = set()

    @property
    def is_full(self) -> bool:
        """Whether the machine has grown so much that new matchers should start with a fresh one."""
        return len(self._runner) > self._limits.states

    @property
    def nbytes(self) -> int:
        """Memory of the rows and tables, about."""
        with self._lock:
            return self._runner.nbytes + self._row_bytes()

    def fresh(self) -> Automaton:
        """The same grammar before anything was read; shares nothing that grows."""
        with self._lock:
            return Automaton(self._runner.fresh(), self.vocab, self._limits)

    def prepare(self) -> None:
        """Make the first rows, or raise ``UnsupportedConstraint`` where even that is too much.

        Where few bytes can come first, like the quote of a string, what follows them is what is hard.
        """
        with self._lock:
            runner = self._runner
            self._keep(self.start, runner.early_row(self.start))
            exits = runner.exits(self.start)
            if exits.bit_count() <= _FEW:
                firsts = [bytes((byte,)) for byte in range(256) if exits >> byte & 1]
                for state in dict.fromkeys(runner.run_many(self.start, firsts)):
                    self._keep(state, runner.early_row(state))

    def advance(self, state: int, data: bytes) -> int:
        """The state after ``data``, or ``DEAD``."""
        with self._lock:
            return self._runner.run(state, data)

    def run_many(self, state: int, paths: Sequence[bytes]) -> list[int]:
        """The states after each of ``paths`` from one state, ``DEAD`` where there is none."""
        with self._lock:
            return self._runner.run_many(state, paths)

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
        return bool(state & 1)

    def exits(self, state: int) -> int:
        """The bytes that may come next, as a 256-bit mask."""
        with self._lock:
            return self._runner.exits(state)

    def is_final(self, state: int) -> bool:
        """Whether the text is complete and nothing can follow."""
        return self.is_accepting(state) and not self.exits(state)

    def forced(self, state: int) -> tuple[bytes, int]:
        """The bytes that follow with certainty, and the state after them.

        Stops where the text may end, and before bytes that no text holds (events, token symbols).
        """
        with self._lock:
            return self._runner.forced(state)

    def row(self, state: int) -> Row:
        """The tokens that ``state`` allows."""
        return self.mask_row(state).bits

    def mask_row(self, state: int) -> MaskRow:
        """The same, with the digest by which equal rows are known."""
        row = self._rows.get(state)
        if row is None:
            with self._lock:
                row = self._runner.row(state)
                self._keep(state, row)
        return row

    def has_row(self, state: int) -> bool:
        """Whether the row of ``state`` is at hand."""
        return state in self._rows

    def rows(self, states: Sequence[int]) -> list[Row]:
        """The rows of several states, missing ones computed together."""
        with self._lock:
            missing = [state for state in dict.fromkeys(states) if state not in self._rows]
            fresh = dict(zip(missing, self._runner.rows(missing), strict=True))
            result = [(fresh[state] if state in fresh else self._rows[state]).bits for state in states]
            for state, row in fresh.items():
                self._keep(state, row)
        return result

    def extends(self, state: int, node: int) -> bool:
        """Whether ``state`` allows what some token below ``node`` of the trie adds to it."""
        return bool(self.below(state, node).any())

    def below(self, state: int, node: int) -> Row:
        """The tokens below ``node`` of the trie (node excluded) whose further bytes ``state`` allows."""
        with self._lock:
            return self._runner.below(state, node)

    def _row_bytes(self) -> int:
        return 4 * self.vocab.words * len(self._distinct) + _STATE_BYTES * len(self._rows)

    def _keep(self, state: int, row: MaskRow) -> None:
        self._rows[state] = row
        self._distinct.add(row.digest)
        if self._row_bytes() > self._limits.mask_cache_bytes:  # all of them are cheap to make again
            self._rows = {state: row}
            self._distinct = {row.digest}


def prepare_rows(wanted: Mapping[Automaton, Sequence[int]]) -> None:
    """Make rows of several automata that are not at hand yet, in one native call as far as possible.

    What costs too much is left out: whoever asks for that row learns the reason.
    """
    with ExitStack() as held:
        for automaton in sorted(wanted, key=id):
            held.enter_context(automaton._lock)
        owners: list[tuple[Automaton, NativeRunner, int]] = []
        for automaton, states in wanted.items():
            missing = [state for state in dict.fromkeys(states) if state not in automaton._rows]
            if isinstance(automaton._runner, NativeRunner):
                owners += [(automaton, automaton._runner, state) for state in missing]
            else:
                _prepare_by_hand(automaton, missing)
        if not owners:
            return
        words = max(automaton.vocab.words for automaton in wanted)
        room = np.zeros((len(owners), words), np.uint32)
        jobs = [
            runner.job(state, bits[: automaton.vocab.words])
            for (automaton, runner, state), bits in zip(owners, room, strict=True)
        ]
        for (automaton, runner, state), job, digest in zip(owners, jobs, fill_rows(jobs), strict=True):
            if digest is not None:
                automaton._keep(state, runner.kept(job.row, digest))


def _prepare_by_hand(automaton: Automaton, missing: Sequence[int]) -> None:
    try:
        automaton.rows(missing)
    except RadixrtError:
        return  # one of them is too hard: each matcher finds out by itself and fails alone


def free_row(size: int) -> npt.NDArray[np.int32]:
    """The mask row of a text without a constraint: ones for every id below ``size``, zeros in the padding."""
    row = np.full((size + 31) // 32, -1, np.int32)
    if size % 32:
        row[-1] = (1 << size % 32) - 1
    return row
