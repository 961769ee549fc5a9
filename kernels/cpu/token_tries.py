"""The tries of a vocabulary on the native side, see ``token_trie.h``. Knows nothing of automata."""

from __future__ import annotations

import ctypes
import weakref

import numpy as np
import numpy.typing as npt

__all__ = ["NativeTries"]

_p, _i32 = ctypes.c_void_p, ctypes.c_int32


class NativeTries:
    """Tokens as native code walks them: one trie, and its plain and other tokens apart. Immutable.

    ``arrays`` are those of ``TokenTrie``, which are copied; ``words`` is the length of a mask row in uint32.
    """

    def __init__(
        self,
        library: ctypes.CDLL,
        node_bytes: npt.NDArray[np.uint8],
        arrays: tuple[npt.NDArray[np.int32], ...],
        words: int,
    ) -> None:
        make, free = library.radixrt_tries_new, library.radixrt_tries_delete
        make.argtypes, make.restype = (_p, _p, _p, _p, _p, _i32, _i32), _p
        free.argtypes, free.restype = (_p,), None
        addresses = (array.ctypes.data for array in arrays)
        handle = make(node_bytes.ctypes.data, *addresses, len(node_bytes), words)
        if not handle:
            raise MemoryError("no memory for the tokens of a vocabulary")
        self.handle: int = handle
        """The address of the ``radixrt::TokenTries``; it lives as long as this object."""
        self.words = words
        weakref.finalize(self, free, handle)
