"""A file mapped into memory: the one place where checkpoints touch the operating system.

The map is private and copy-on-write. Arrays over it may be handed to libraries that know no read-only memory
(torch): a stray write costs a page and never reaches the file. This module does not know what the bytes mean.
"""

from __future__ import annotations

import mmap
import os
import stat
import sys
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from radixrt.errors import ModelLoadError

__all__ = ["MappedFile", "TensorInfo"]

# Without it Linux refuses private maps of files larger than memory, as if all pages were to be written. The number
# is that of x86, ARM and RISC-V; older versions of Python do not name it.
_NORESERVE: int = getattr(mmap, "MAP_NORESERVE", 0x4000 if sys.platform == "linux" else 0)


class TensorInfo(msgspec.Struct, frozen=True):
    """Where a tensor lies.

    ``shape`` is row-major, as numpy has it. ``type`` is the storage type's name in its format, for example
    ``"Q4_1"`` or ``"BF16"``. ``offset`` counts bytes from the start of file number ``part`` of the model.
    """

    name: str
    shape: tuple[int, ...]
    type: str
    offset: int
    nbytes: int
    part: int = 0


class MappedFile:
    """The bytes of one regular, non-empty file.

    Raises ``ModelLoadError`` (``param`` is the path) when the file is missing, empty, unreadable or no regular
    file. Arrays keep the map alive, so they stay valid after ``close``.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            # A pipe or a device would block or never end; look before opening.
            if not stat.S_ISREG(os.stat(path).st_mode):
                raise self.error("not a regular file")
            with open(path, "rb") as file:
                self.size = os.fstat(file.fileno()).st_size
                if self.size == 0:
                    raise self.error("the file is empty")
                self._map: mmap.mmap | None = mmap.mmap(
                    file.fileno(),
                    self.size,
                    flags=mmap.MAP_PRIVATE | _NORESERVE,
                    prot=mmap.PROT_READ | mmap.PROT_WRITE,
                )
        except FileNotFoundError as error:
            raise self.error("no such file") from error
        except (OSError, ValueError) as error:
            raise self.error(f"cannot be read: {error}") from error

    @property
    def bytes(self) -> mmap.mmap:
        """The mapped bytes; ``ModelLoadError`` once closed."""
        if self._map is None:
            raise self.error("already closed")
        return self._map

    def array(self, offset: int, nbytes: int) -> NDArray[np.uint8]:
        """Return ``nbytes`` bytes at ``offset`` as a flat uint8 view of the map."""
        data = self.bytes
        # A file cut after it was mapped would kill the process on the first touch; this narrows the window.
        if offset < 0 or nbytes < 0 or offset + nbytes > data.size():
            raise self.error(f"bytes {offset}..{offset + nbytes} lie beyond the end of the file")
        return np.frombuffer(data, dtype=np.uint8, count=nbytes, offset=offset)

    def close(self) -> None:
        """Let go of the map; it is unmapped with the last array over it."""
        self._map = None

    def error(self, message: str) -> ModelLoadError:
        return ModelLoadError(f"{self.path}: {message}", param=str(self.path))
