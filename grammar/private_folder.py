"""A folder of small files that only its owner can read or write, bounded in bytes.

Files come and go whole: written under another name and renamed, read with a digest over name and content. What is
damaged, too large, or not the owner's own is not there, and said so once in the log. Several processes may use one
folder. It does not know what is in the files.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import secrets
import stat
import weakref
from pathlib import Path
from typing import Final

from radixrt.errors import InvalidRequest

__all__ = ["PrivateFolder"]

log = logging.getLogger(__name__)

_MAGIC: Final = b"radixrt\x01"
_DIGEST: Final = hashlib.sha256
_HEAD: Final = len(_MAGIC) + 32
_SUFFIX: Final = ".bin"
_FLAGS: Final = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # a pipe would not be waited for, but seen and refused


class PrivateFolder:
    """Makes the folder with its parents; ``InvalidRequest`` (``param``) where it is not the caller's alone.

    ``max_bytes`` bounds a file and all together, ``max_files`` their number; the longest unused go first.
    """

    def __init__(
        self, path: Path, *, max_bytes: int = 256 * 2**20, max_files: int = 4096, param: str | None = None
    ) -> None:
        self.path = path
        self._max_bytes = max_bytes
        self._max_files = max_files
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.mkdir(mode=0o700, exist_ok=True)
            # From here on the folder is known by its descriptor: nobody can put another one in its place.
            self._folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError as error:
            raise InvalidRequest(f"{param or 'the folder'}: {path} cannot be used: {error}", param=param) from error
        weakref.finalize(self, os.close, self._folder)
        if not _is_private(os.fstat(self._folder)):
            raise InvalidRequest(
                f"{param or 'the folder'}: {path} must belong to this user and be closed to all others (mode 0700)",
                param=param,
            )

    def load(self, name: str) -> bytes | None:
        """The content of a file; None where there is none that can be trusted."""
        try:
            file = os.open(name + _SUFFIX, os.O_RDONLY | _FLAGS, dir_fd=self._folder)
            try:
                return self._checked(name, file)
            finally:
                os.close(file)
        except FileNotFoundError:
            return None
        except OSError as error:
            self.complain(name, str(error))
            return None

    def _checked(self, name: str, file: int) -> bytes | None:
        about = os.fstat(file)
        if not (stat.S_ISREG(about.st_mode) and _is_private(about)):
            self.complain(name, "it is no private file of this user")
            return None
        with os.fdopen(file, "rb", closefd=False) as opened:
            data = opened.read(self._max_bytes + 1)
        content = data[_HEAD:]
        if len(data) > self._max_bytes or data[:_HEAD] != _head(name, content):
            self.complain(name, "it is damaged")
            return None
        os.utime(file)  # it is the last one to go now
        return content

    def save(self, name: str, content: bytes) -> None:
        """Keep a file, in place of any before it. What goes wrong is logged: a cache may forget."""
        if _HEAD + len(content) > self._max_bytes:
            return
        fresh = f".{secrets.token_hex(8)}{_SUFFIX}"
        try:
            file = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS, 0o600, dir_fd=self._folder)
            try:
                with os.fdopen(file, "wb") as opened:
                    opened.write(_head(name, content) + content)
                os.replace(fresh, name + _SUFFIX, src_dir_fd=self._folder, dst_dir_fd=self._folder)
            except OSError:
                self._remove(fresh)
                raise
            self._prune()
        except OSError as error:
            log.warning("%s could not be written in %s: %s", name, self.path, error)

    def complain(self, name: str, why: str) -> None:
        """Note that a file was ignored."""
        log.warning("%s in %s is ignored: %s", name, self.path, why)

    def _remove(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):  # another process was faster
            os.unlink(name, dir_fd=self._folder)

    def _prune(self) -> None:
        found: list[tuple[int, str, int]] = []
        with os.scandir(self._folder) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):
                    about = entry.stat(follow_symlinks=False)
                    if entry.name.endswith(_SUFFIX) and stat.S_ISREG(about.st_mode):
                        found.append((about.st_mtime_ns, entry.name, about.st_size))
        total = sum(size for _, _, size in found)
        found.sort(reverse=True)
        while found and (total > self._max_bytes or len(found) > self._max_files):
            _, name, size = found.pop()
            self._remove(name)
            total -= size


def _head(name: str, content: bytes) -> bytes:
    digest = _DIGEST(name.encode())
    digest.update(b"\0")
    digest.update(content)
    return _MAGIC + digest.digest()


def _is_private(about: os.stat_result) -> bool:
    return about.st_uid == os.geteuid() and not about.st_mode & 0o077
