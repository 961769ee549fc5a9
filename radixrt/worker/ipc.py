"""The sockets between clients and the worker: the only module that imports zmq.

The worker binds one ROUTER socket, every client connects one DEALER. The address is ``ipc://`` in a fresh folder
that only its owner may enter, or ``inproc://`` inside one shared context when the worker is a thread. A socket
belongs to the thread that polls it; other threads hand work over in a deque and write to the ``Waker``.

A message is one or more frames, each frame one encoded command or reply. Nothing here knows what they say.
"""

from __future__ import annotations

import contextlib
import enum
import errno
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
import zmq

__all__ = ["ClientChannel", "ClientId", "Endpoint", "SendResult", "ServerChannel", "Waker", "remove_socket"]

ClientId = bytes
"""The name the worker's socket gives to a connected client."""

MAX_MESSAGE_BYTES = 256 * 2**20
"""A longer frame closes the connection it came from before it is read into memory."""

# sockaddr_un holds 108 bytes on Linux and 104 on macOS, the final zero included.
_MAX_SOCKET_PATH = 103
_SOCKET_NAME = "w"
# Whole messages that one side holds for a peer that does not read; what does not fit stays with the caller.
_HIGH_WATER = 64
_RECEIVE_AT_ONCE = 256


class Endpoint(msgspec.Struct, frozen=True):
    """Where one worker listens: an address, and what has to be cleaned up after it.

    ``context`` is shared by both sides of an ``inproc://`` address and None for ``ipc://``.
    """

    address: str
    folder: Path | None = None
    context: zmq.Context[zmq.Socket[bytes]] | None = None

    @classmethod
    def for_process(cls) -> Endpoint:
        """A fresh 0700 folder and the address of a socket in it. Raises ``OSError`` if no base path is usable."""
        folder = _fresh_folder()
        return cls(address=f"ipc://{folder / _SOCKET_NAME}", folder=folder)

    @classmethod
    def for_thread(cls) -> Endpoint:
        return cls(address=f"inproc://radixrt-{uuid.uuid4().hex}", context=zmq.Context())

    def remove(self) -> None:
        """Delete the folder and end the context. Call after both sides have closed their channels."""
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
        if self.context is not None:
            self.context.term()


def _fresh_folder() -> Path:
    """mkdtemp in the first temporary folder whose path leaves room for a socket name."""
    refused: list[str] = []
    for base in dict.fromkeys((tempfile.gettempdir(), "/tmp", "/var/tmp", "/dev/shm")):
        try:
            folder = Path(tempfile.mkdtemp(prefix="radixrt-", dir=base))
        except OSError as error:
            refused.append(f"{base}: {error.strerror}")
            continue
        if len(os.fsencode(folder / _SOCKET_NAME)) <= _MAX_SOCKET_PATH:
            return folder
        folder.rmdir()
        refused.append(f"{base}: the path is too long for a socket")
    raise OSError(errno.ENAMETOOLONG, "no temporary folder can hold a socket (" + "; ".join(refused) + ")")


def remove_socket(address: str) -> None:
    """Delete the socket of an ``ipc://`` address and its folder, if they are still there and hold nothing else."""
    path = Path(address.removeprefix("ipc://"))
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)
        path.parent.rmdir()


class Waker:
    """A pipe that makes a polling thread look up. ``wake`` may be called from any thread, also by a finalizer.

    It closes when nobody refers to it any more: closing earlier could let ``wake`` write to a file that was
    given the same number since.
    """

    def __init__(self) -> None:
        self.fd, self._write = os.pipe()
        os.set_blocking(self.fd, False)
        os.set_blocking(self._write, False)

    def wake(self) -> None:
        # A full pipe wakes already.
        with contextlib.suppress(BlockingIOError):
            os.write(self._write, b"\0")

    def clear(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self.fd, 65536)

    def __del__(self) -> None:
        os.close(self.fd)
        os.close(self._write)


class SendResult(enum.Enum):
    """What became of a message: on its way, refused for now by the high-water mark, or its peer is gone."""

    SENT = enum.auto()
    FULL = enum.auto()
    GONE = enum.auto()


class _Channel:
    def __init__(self, kind: int, context: zmq.Context[zmq.Socket[bytes]] | None) -> None:
        chosen: zmq.Context[zmq.Socket[bytes]] = zmq.Context() if context is None else context
        self._own_context = chosen if context is None else None
        self._socket: zmq.Socket[bytes] = chosen.socket(kind)
        self._socket.setsockopt(zmq.SNDHWM, _HIGH_WATER)
        self._socket.setsockopt(zmq.RCVHWM, _HIGH_WATER)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.MAXMSGSIZE, MAX_MESSAGE_BYTES)

    def wait(self, timeout_s: float, fds: Iterable[int], *, to_send: bool = False) -> set[int]:
        """Wait until the socket has input (or takes output, with ``to_send``), a file is readable, or time is up.

        Returns the readable files.
        """
        poller = zmq.Poller()
        poller.register(self._socket, zmq.POLLIN | (zmq.POLLOUT if to_send else 0))
        wanted = tuple(fds)
        for fd in wanted:
            poller.register(fd, zmq.POLLIN)
        ready = {key for key, _ in poller.poll(max(0, round(timeout_s * 1000)))}
        return {fd for fd in wanted if fd in ready}

    def close(self, linger_s: float = 0.0) -> None:
        """Close at once, or give what is queued in the socket ``linger_s`` seconds to leave."""
        self._socket.close(linger=round(linger_s * 1000))
        if self._own_context is not None:
            self._own_context.term()


class ServerChannel(_Channel):
    """The worker's side."""

    def __init__(self, address: str, context: zmq.Context[zmq.Socket[bytes]] | None = None) -> None:
        super().__init__(zmq.ROUTER, context)
        # Mandatory routing turns a message for a vanished client into an error, which is how we learn of it.
        self._socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
        self._socket.bind(address)

    def receive(self) -> list[tuple[ClientId, list[bytes]]]:
        """Everything that has arrived, up to a bound, without waiting."""
        found: list[tuple[ClientId, list[bytes]]] = []
        while len(found) < _RECEIVE_AT_ONCE:
            try:
                client, *frames = self._socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                break
            found.append((client, frames))
        return found

    def send(self, client: ClientId, frames: Sequence[bytes]) -> SendResult:
        try:
            self._socket.send_multipart([client, *frames], zmq.NOBLOCK)
        except zmq.Again:
            return SendResult.FULL
        except zmq.ZMQError as error:
            if error.errno != zmq.EHOSTUNREACH:
                raise
            return SendResult.GONE
        return SendResult.SENT


class ClientChannel(_Channel):
    """A client's side. It may be made before the worker listens."""

    def __init__(self, address: str, context: zmq.Context[zmq.Socket[bytes]] | None = None) -> None:
        super().__init__(zmq.DEALER, context)
        self._socket.setsockopt(zmq.RECONNECT_IVL, 10)
        self._socket.connect(address)

    def receive(self) -> list[bytes]:
        """The frames that have arrived, up to a bound, without waiting."""
        found: list[bytes] = []
        while len(found) < _RECEIVE_AT_ONCE:
            try:
                found.extend(self._socket.recv_multipart(zmq.NOBLOCK))
            except zmq.Again:
                break
        return found

    def send(self, frames: Sequence[bytes]) -> bool:
        """False when the high-water mark refuses the message for now."""
        try:
            self._socket.send_multipart(frames, zmq.NOBLOCK)
        except zmq.Again:
            return False
        return True
