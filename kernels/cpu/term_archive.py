"""Terms of a native pool as bytes, and terms again in another one (``term_archive.h``).

Bytes may come from anywhere: what is no archive raises ``ValueError``, what is one makes terms like any others, for
fuel. It does not know what the terms are for, nor where bytes are kept.
"""

from __future__ import annotations

import ctypes
import functools
from array import array
from collections.abc import Sequence

from radixrt.kernels.cpu.library import native
from radixrt.kernels.cpu.terms import NativePool

__all__ = ["archived_terms", "restored_terms"]

_WORD = 4
_LEAST_RECORD = 3  # words
_p, _i32, _i64, _bytes = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64, ctypes.c_char_p


@functools.cache
def _library() -> ctypes.CDLL:
    library = native()
    if library is None:
        raise RuntimeError("there is no native library")
    library.radixrt_pool_archive.argtypes = (_p, _bytes, _i64, _p, _i64, _p)
    library.radixrt_pool_archive.restype = _i64
    library.radixrt_pool_restore.argtypes = (_p, _bytes, _i64, _p)
    library.radixrt_pool_restore.restype = _i32
    return library


def archived_terms(pool: NativePool, terms: Sequence[int]) -> tuple[bytes, array[int]]:
    """The terms and all they are made of as records, and the number that each of ``terms`` has in them."""
    listed = array("i", terms).tobytes()
    numbers = array("i", bytes(len(listed)))

    def write(room: ctypes.Array[ctypes.c_char] | None, words: int) -> int:
        place = numbers.buffer_info()[0]
        found: int = _library().radixrt_pool_archive(pool.handle, listed, len(terms), room, words, place)
        return found if found >= 0 else pool.refuse(found)

    words = write(None, 0)
    room = ctypes.create_string_buffer(_WORD * words)
    write(room, words)
    return room.raw, numbers


def restored_terms(pool: NativePool, records: bytes) -> array[int]:
    """The terms of such records, by number, made anew in ``pool``; the first two are NONE and EMPTY.

    Raises ``ValueError`` for what is no list of records, ``UnsupportedConstraint`` for too much work.
    """
    words, rest = divmod(len(records), _WORD)
    if rest:
        raise ValueError("records are made of words of 4 bytes")
    terms = array("i", bytes(_WORD * (words // _LEAST_RECORD + 2)))
    count: int = _library().radixrt_pool_restore(pool.handle, records, words, terms.buffer_info()[0])
    return terms[:count] if count >= 0 else pool.refuse(count)
