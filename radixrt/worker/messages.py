"""The closed set of messages between a client and the worker, version 1.

Both directions carry msgpack of tagged structs (``encode``, ``decode_command``, ``decode_reply``); whatever is
not one of these is refused. A program is opened with its first nodes, extended until ``final``, and ends in
exactly one ``EndEvent``. ``docs/program_messages.md`` describes the conversation. No sockets here.
"""

from __future__ import annotations

import msgspec

from radixrt.api import VERSION, DeltaEvent, EndEvent, Node, NodeEvent
from radixrt.errors import ErrorInfo

__all__ = [
    "Cancel",
    "Command",
    "Extend",
    "Failed",
    "Flush",
    "Heartbeat",
    "Hello",
    "ModelInfo",
    "Open",
    "Query",
    "QueryReply",
    "Ready",
    "Reply",
    "Shutdown",
    "decode_command",
    "decode_reply",
    "encode",
]


class _Message(msgspec.Struct, frozen=True, tag_field="type", forbid_unknown_fields=True, omit_defaults=True):
    pass


# --- client to worker --------------------------------------------------------------------------------------------


class Hello(_Message, frozen=True, tag="hello"):
    """The first message of a client: heartbeats follow, and ``Ready`` or ``Failed`` once that is known."""


class Open(_Message, frozen=True, tag="open"):
    """Open program ``program`` (an id unique to this client).

    ``seed`` keys every random stream of the program. ``salt`` separates cache namespaces. ``timeout_s`` bounds
    the whole program. ``deltas`` asks for ``DeltaEvent``. ``final`` says that no ``Extend`` will follow.
    """

    program: str
    seed: int
    nodes: tuple[Node, ...] = ()
    final: bool = False
    version: int = VERSION
    salt: str | None = None
    priority: int = 0
    timeout_s: float | None = None
    deltas: bool = False


class Extend(_Message, frozen=True, tag="extend"):
    """Append nodes to an open program. Nodes of a branch run in the order they are sent."""

    program: str
    nodes: tuple[Node, ...] = ()
    final: bool = False


class Cancel(_Message, frozen=True, tag="cancel"):
    """Cancel a program, or one branch of it and the branches forked from that."""

    program: str
    branch: int | None = None


class Query(_Message, frozen=True, tag="query"):
    """Ask for something that is not generation: ``stats``, ``tokenize`` (text) or ``detokenize`` (ids)."""

    id: int
    what: str
    text: str = ""
    ids: tuple[int, ...] = ()


class Flush(_Message, frozen=True, tag="flush"):
    """Drop every unlocked prefix from the cache; answered by ``QueryReply``."""

    id: int


class Shutdown(_Message, frozen=True, tag="shutdown"):
    """End the worker: programs in flight are cancelled."""


Command = Hello | Open | Extend | Cancel | Query | Flush | Shutdown


# --- worker to client --------------------------------------------------------------------------------------------


class ModelInfo(msgspec.Struct, frozen=True):
    """What a client needs to know about the loaded model."""

    name: str
    architecture: str
    vocab_size: int
    context_length: int
    total_slots: int
    eos_ids: tuple[int, ...]
    bos_id: int | None
    has_chat_template: bool
    parameters: int


class Ready(_Message, frozen=True, tag="ready"):
    """The model is loaded and the loop runs."""

    pid: int
    model: ModelInfo


class Failed(_Message, frozen=True, tag="failed"):
    """The worker could not start, or is about to end because of ``error``."""

    error: ErrorInfo


class Heartbeat(_Message, frozen=True, tag="heartbeat"):
    """Sent every ``heartbeat_s`` by the I/O thread; ``steps`` grows while the loop works."""

    steps: int
    busy: bool


class QueryReply(_Message, frozen=True, tag="reply"):
    """The answer to ``Query`` or ``Flush`` number ``id``."""

    id: int
    stats: dict[str, float] = {}
    ids: tuple[int, ...] = ()
    text: str = ""
    error: ErrorInfo | None = None


Reply = Ready | Failed | Heartbeat | QueryReply | NodeEvent | DeltaEvent | EndEvent

_encoder = msgspec.msgpack.Encoder()
_command_decoder = msgspec.msgpack.Decoder(Command)
_reply_decoder = msgspec.msgpack.Decoder(Reply)


def encode(message: Command | Reply) -> bytes:
    return _encoder.encode(message)


def decode_command(data: bytes) -> Command:
    """Raises ``msgspec.DecodeError`` (``ValidationError`` included) for anything outside the closed set."""
    return _command_decoder.decode(data)


def decode_reply(data: bytes) -> Reply:
    """Raises ``msgspec.DecodeError`` for anything outside the closed set."""
    return _reply_decoder.decode(data)
