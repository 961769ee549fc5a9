"""The threads of the native kernels, see ``thread_pool.h``. Knows nothing of what they compute."""

from __future__ import annotations

import ctypes
import weakref

from radixrt.kernels.cpu.library import native

__all__ = ["ThreadPool"]

_p, _i32 = ctypes.c_void_p, ctypes.c_int32
_MOST = 1024


class ThreadPool:
    """``threads`` native threads, the calling one among them, kept until this object is gone.

    One loop runs at a time; callers from several Python threads take turns. With one thread there is no other at
    all. A pool of several cannot be used in a child made by ``fork``, where its threads do not exist.
    Raises ``ValueError`` for a bad number, ``RuntimeError`` without the native library or where the system refuses
    a thread.
    """

    def __init__(self, threads: int) -> None:
        if not 1 <= threads <= _MOST:
            raise ValueError(f"threads must be between 1 and {_MOST}, not {threads}")
        library = native()
        if library is None:
            raise RuntimeError("a thread pool needs the native kernels")
        make, free = library.radixrt_threads_new, library.radixrt_threads_delete
        make.argtypes, make.restype = (_i32,), _p
        free.argtypes, free.restype = (_p,), None
        handle = make(threads)
        if not handle:
            raise RuntimeError(f"the system refused to start {threads - 1} threads")
        self.handle: int = handle
        """The address of the ``radixrt::ThreadPool``; it lives as long as this object."""
        self.threads = threads
        self._usable = library.radixrt_threads_usable
        self._usable.argtypes, self._usable.restype = (_p,), _i32
        weakref.finalize(self, free, handle)

    @property
    def usable(self) -> bool:
        """False in a forked child, if there is more than one thread."""
        return bool(self._usable(self.handle))

    def require(self) -> int:
        """The handle; raises ``RuntimeError`` where the pool cannot be used."""
        if not self.usable:
            raise RuntimeError(
                "the threads of this pool stayed in the parent process; make a new pool after a fork"
            )
        return self.handle
