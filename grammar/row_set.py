"""The distinct mask rows of one vocabulary.

Many states of many grammars allow the same tokens: of a hundred thousand states that texts of six hundred schemas
came to, seven thousand had a row of their own. Equal rows are kept once, as long as somebody uses them. What this
module does not know: states, grammars.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

__all__ = ["MaskRow", "RowSet", "digest_of"]


class MaskRow(NamedTuple):
    """Bits of allowed tokens, read-only, and what tells the row from others: equal exactly for equal rows."""

    bits: npt.NDArray[np.uint32]
    digest: bytes


def digest_of(bits: npt.NDArray[np.uint32]) -> bytes:
    """A digest for rows that were not made by native code, which has its own."""
    return hashlib.blake2b(bits.tobytes(), digest_size=32).digest()


class RowSet:
    """Thread-safe. Holds no row that nobody else holds."""

    def __init__(self) -> None:
        self._rows: WeakValueDictionary[bytes, npt.NDArray[np.uint32]] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._rows)

    def kept(self, bits: npt.NDArray[np.uint32], digest: bytes) -> MaskRow:
        """The row that has this digest: a copy of ``bits`` if it is new."""
        known = self._rows.get(digest)
        if known is None:
            known = bits.copy()
            known.setflags(write=False)
            known = self._rows.setdefault(digest, known)
        return MaskRow(known, digest)
