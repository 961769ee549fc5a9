"""Mask rows of single terminals, shared between stacks, rules and grammars.

Most of a mask is decided inside the terminal that is being read: of fifty thousand tokens that may follow inside a
string, only those with a quote in them leave it. So the row of a terminal is computed once for all the places where
it occurs: the tokens that stay inside it, and the *exits*, the nodes of the token trie at which it can be complete,
below which it depends on the place what is allowed. Terms are told apart by fingerprint, so grammars that were
compiled apart share rows. This module does not know about stacks.
"""

from __future__ import annotations

import functools
import threading
from collections import OrderedDict
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from radixrt.grammar.row_set import RowSet
from radixrt.kernels.cpu.machine import NativeSharedRows

__all__ = ["SharedRows", "TerminalRow"]


class TerminalRow(NamedTuple):
    """What a terminal says about the next token wherever it stands.

    ``bits``: tokens that stay inside it or end where it can be complete. ``exits``: pairs of the bytes that lead to
    a state in which it can be complete and the trie nodes (int32) at which that very state is reached.
    """

    bits: npt.NDArray[np.uint32]
    exits: tuple[tuple[bytes, npt.NDArray[np.int32]], ...]

    @property
    def nbytes(self) -> int:
        """Memory held, about."""
        return self.bits.nbytes + sum(len(path) + nodes.nbytes + 200 for path, nodes in self.exits) + 200


class SharedRows:
    """Terminal rows of one vocabulary by fingerprint of the terminal, bounded in bytes. Thread-safe.

    ``whole``: the rows of states, each distinct one once, whichever grammars use it.
    """

    def __init__(self, max_bytes: int) -> None:
        self.whole = RowSet()
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._rows: OrderedDict[bytes, TerminalRow] = OrderedDict()
        self.nbytes = 0

    @functools.cached_property
    def native(self) -> NativeSharedRows:
        """The rows of native machines, which live on the other side; as many bytes."""
        with self._lock:
            return NativeSharedRows(self._max_bytes)

    def __len__(self) -> int:
        """How many there are on both sides."""
        return len(self._rows) + (len(self.native) if "native" in self.__dict__ else 0)

    def get(self, fingerprint: bytes) -> TerminalRow | None:
        """The row of a terminal, if it is known."""
        with self._lock:
            row = self._rows.get(fingerprint)
            if row is not None:
                self._rows.move_to_end(fingerprint)
            return row

    def put(self, fingerprint: bytes, row: TerminalRow) -> None:
        """Keep a row; the least recently used ones make room."""
        with self._lock:
            if fingerprint in self._rows:
                return
            self._rows[fingerprint] = row
            self.nbytes += row.nbytes
            while self.nbytes > self._max_bytes and len(self._rows) > 1:
                self.nbytes -= self._rows.popitem(last=False)[1].nbytes
