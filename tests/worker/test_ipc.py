"""Sockets and the I/O thread: garbage, slow and vanished clients, heartbeats."""

from __future__ import annotations

import random
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from radixrt.api import DeltaEvent, EndEvent, NodeEvent
from radixrt.errors import ModelLoadError
from radixrt.worker import io as worker_io
from radixrt.worker import ipc
from radixrt.worker.io import CommandHandler, WorkerIO
from radixrt.worker.ipc import ClientChannel, Endpoint, SendResult, ServerChannel, Waker
from radixrt.worker.messages import Failed, Heartbeat, Hello, Open, Query, QueryReply, decode_reply, encode


class Worker:
    """An I/O thread with lists behind it."""

    def __init__(self, heartbeat_s: float = 0.05) -> None:
        self.endpoint = Endpoint.for_process()
        self.commands: list[Any] = []
        self.refused: list[Any] = []
        self.gone: list[bytes] = []
        self.overflown: list[str] = []
        handler = CommandHandler(
            command=lambda client, command: self.commands.append((client, command)),
            refused=lambda client, program, error: self.refused.append((client, program, error)),
            gone=self.gone.append,
            overflow=lambda client, program: self.overflown.append(program),
            progress=lambda: (7, True),
        )
        self.io = WorkerIO(lambda: ServerChannel(self.endpoint.address), handler, heartbeat_s)
        self.io.start()
        self.clients: list[ClientChannel] = []

    def client(self, hello: bool = True) -> ClientChannel:
        channel = ClientChannel(self.endpoint.address)
        self.clients.append(channel)
        if hello:
            channel.send([encode(Hello())])
        return channel

    def close(self) -> None:
        self.io.stop(flush_s=0.1)
        for channel in self.clients:
            channel.close()
        self.endpoint.remove()


@pytest.fixture
def worker() -> Iterator[Worker]:
    made = Worker()
    yield made
    made.close()


def _until(condition: Callable[[], Any], seconds: float = 10.0) -> Any:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = condition()
        if found:
            return found
        time.sleep(0.005)
    raise AssertionError("did not happen in time")


def _read(channel: ClientChannel, wanted: Callable[[Any], bool], seconds: float = 10.0) -> list[Any]:
    """Everything up to the first reply that is wanted."""
    found: list[Any] = []

    def look() -> bool:
        channel.wait(0.05, ())
        found.extend(decode_reply(frame) for frame in channel.receive())
        return any(wanted(reply) for reply in found)

    _until(look, seconds)
    return found


def test_the_socket_is_in_a_private_folder_that_goes_away() -> None:
    endpoint = Endpoint.for_process()
    assert endpoint.folder is not None
    assert stat.S_IMODE(endpoint.folder.stat().st_mode) == 0o700
    assert len(endpoint.address.removeprefix("ipc://")) < 107
    endpoint.remove()
    assert not endpoint.folder.exists()


def test_a_long_temporary_folder_is_avoided(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = tmp_path / ("x" * 120)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    endpoint = Endpoint.for_process()
    assert len(endpoint.address.removeprefix("ipc://")) < 107
    assert not list(long.iterdir())
    endpoint.remove()


def test_hello_is_answered_and_beats_follow(worker: Worker) -> None:
    client = worker.client()
    beats = _read(client, lambda r: isinstance(r, Heartbeat))
    assert beats[0] == Heartbeat(steps=7, busy=True)
    _read(client, lambda r: isinstance(r, Heartbeat))
    error = ModelLoadError("no such file", param="x.gguf").to_info()
    worker.io.announce(Failed(error=error))
    assert _read(client, lambda r: isinstance(r, Failed))[-1] == Failed(error=error)
    late = worker.client()
    assert _read(late, lambda r: isinstance(r, Failed))
    late.send([encode(Open(program="p", seed=1)), encode(Query(id=3, what="stats"))])
    replies = _read(late, lambda r: isinstance(r, QueryReply))
    assert [r.error for r in replies if isinstance(r, EndEvent | QueryReply)] == [error, error]


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\x00",
        b"\xff" * 1000,
        b"\xc1",
        random.Random(1).randbytes(2000),
        encode(Open(program="p", seed=1))[:-3],
        msgspec.msgpack.encode(["open", "p"]),
        msgspec.msgpack.encode({"type": "ready", "pid": 1}),
        msgspec.msgpack.encode({"type": "nobody knows"}),
        b"\x81" * 100_000,
        b"\xdf\xff\xff\xff\xff",
        b"\x85\xa4type\xa4open",
        b"\x82\xa1x" + b"\x91" * 1_000_000 + b"\x00\xa7program\xa1p",
        b"\x83\xa4type\xa4open\xa7program\xa1p\xa5nodes" + b"\x91" * 1_000_000,
    ],
)
def test_garbage_harms_nobody(worker: Worker, frame: bytes, caplog: Any) -> None:
    client = worker.client()
    client.send([frame, encode(Query(id=1, what="stats")), frame])
    _until(lambda: worker.commands)
    assert worker.commands[0][1] == Query(id=1, what="stats")
    assert not worker.gone
    other = worker.client()
    assert _read(other, lambda r: isinstance(r, Heartbeat))


@pytest.mark.parametrize(
    "message",
    [
        {"type": "open", "program": "p", "seed": 1, "nodes": [{"type": "think", "node": 0}]},
        {"type": "open", "program": "p", "seed": 1, "surprise": True},
        {"type": "open", "program": "p", "seed": "one"},
        {"type": "dance", "program": "p"},
        {"type": "extend", "program": "p", "nodes": 3},
    ],
)
def test_a_message_outside_the_set_is_refused_by_name(worker: Worker, message: dict[str, Any]) -> None:
    client = worker.client()
    client.send([msgspec.msgpack.encode(message)])
    _until(lambda: worker.refused)
    _, program, error = worker.refused[0]
    assert (program, error.code) == ("p", "invalid_request")
    assert not worker.commands


def test_a_broken_query_is_answered(worker: Worker) -> None:
    client = worker.client()
    client.send([msgspec.msgpack.encode({"type": "query", "id": 5, "what": 3})])
    [reply] = [r for r in _read(client, lambda r: isinstance(r, QueryReply)) if isinstance(r, QueryReply)]
    assert reply.id == 5
    assert reply.error is not None
    assert reply.error.code == "invalid_request"


def test_a_vanished_client_is_noticed_within_a_heartbeat_or_two(worker: Worker) -> None:
    client, other = worker.client(), worker.client()
    client.send([encode(Query(id=1, what="stats"))])
    _until(lambda: worker.commands)
    name = worker.commands[0][0]
    client.close()
    worker.clients.remove(client)
    started = time.monotonic()
    _until(lambda: worker.gone, 3.0)
    assert worker.gone == [name]
    assert time.monotonic() - started < 2.0
    assert _read(other, lambda r: isinstance(r, Heartbeat))


def test_a_slow_client_costs_bounded_memory_and_loses_its_programs(
    worker: Worker, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    monkeypatch.setattr(worker_io, "MAX_QUEUED_BYTES", 200_000)
    slow, quick = worker.client(), worker.client()
    slow.send([encode(Query(id=1, what="stats"))])
    _until(lambda: worker.commands)
    name = worker.commands[0][0]
    quick.send([encode(Query(id=2, what="stats"))])
    _until(lambda: len(worker.commands) == 2)
    # Deltas of one sample merge once the socket refuses them: 60,000 messages of 10 characters do not overflow.
    text = "0123456789"
    for _ in range(600):
        worker.io.post([(name, DeltaEvent(program="long", node=1, text=text)) for _ in range(10)])
    # 1 MB of results does.
    for i in range(3000):
        worker.io.post([(name, NodeEvent(program=f"p{i % 3}", node=i, scores=(1.0,) * 100))])
    _until(lambda: worker.overflown, 20.0)
    time.sleep(0.2)
    assert set(worker.overflown) >= {"p0", "p1", "p2"}
    for program in ("p0", "p1", "p2", "long"):
        worker.io.post([(name, EndEvent(program=program, outcome="cancelled"))])
    worker.io.post([(name, QueryReply(id=9))])
    replies = _read(slow, lambda r: isinstance(r, QueryReply), 20.0)
    ends = [r for r in replies if isinstance(r, EndEvent)]
    assert sorted(e.program for e in ends) == ["long", "p0", "p1", "p2"], "exactly one end each"
    assert {e.error.code for e in ends if e.error is not None} == {"overloaded"}
    assert _read(quick, lambda r: isinstance(r, Heartbeat))


def test_merged_deltas_keep_their_text(worker: Worker) -> None:
    client = worker.client()
    client.send([encode(Query(id=1, what="stats"))])
    _until(lambda: worker.commands)
    name = worker.commands[0][0]
    pieces = [f"<{i}>" for i in range(20_000)]
    for piece in pieces:
        worker.io.post([(name, DeltaEvent(program="p", node=i % 2, text=piece)) for i in range(2)])
    worker.io.post([(name, EndEvent(program="p", outcome="done"))])
    replies = _read(client, lambda r: isinstance(r, EndEvent), 20.0)
    for node in range(2):
        texts = [r.text for r in replies if isinstance(r, DeltaEvent) and r.node == node]
        assert "".join(texts) == "".join(pieces)


def test_a_message_for_nobody_is_gone(worker: Worker) -> None:
    endpoint = Endpoint.for_process()
    server = ServerChannel(endpoint.address)
    assert server.send(b"nobody", [b"x"]) is SendResult.GONE
    server.close()
    endpoint.remove()


def test_a_frame_beyond_the_limit_is_never_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its connection is closed; others, and smaller ones, come through."""
    monkeypatch.setattr(ipc, "MAX_MESSAGE_BYTES", 10_000)
    worker = Worker()
    monkeypatch.undo()  # the client has no limit of its own: it is not ours
    try:
        rude, polite = worker.client(hello=False), worker.client(hello=False)
        polite.send([encode(Query(id=1, what="tokenize", text="a" * 9_000))])
        rude.send([encode(Query(id=2, what="tokenize", text="b" * 20_000))])
        _until(lambda: worker.commands)
        polite.send([encode(Query(id=3, what="stats"))])
        _until(lambda: len(worker.commands) == 2)
        time.sleep(0.2)
        assert [command.id for _, command in worker.commands] == [1, 3]
    finally:
        worker.close()


def test_wakers_wake_from_any_thread() -> None:
    waker = Waker()
    endpoint = Endpoint.for_thread()
    server = ServerChannel(endpoint.address, endpoint.context)
    thread = threading.Timer(0.05, waker.wake)
    thread.start()
    assert server.wait(10.0, (waker.fd,)) == {waker.fd}
    for _ in range(100_000):
        waker.wake()
    waker.clear()
    thread.join()
    server.close()
    endpoint.remove()
