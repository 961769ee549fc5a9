"""The embedded engine: a model in a worker process of its own, used like a local object.

    with rx.Engine("smollm2-135m") as engine:
        print(engine.generate("Once upon a time", max_tokens=32).text)

An engine may be used from many threads and from asyncio, and several may live in one process. It is closed by
``close``, at the end of ``with``, when nobody refers to it any more, or when the interpreter exits. It does not
know programs written in the DSL, nor HTTP.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from radixrt.api import Node
from radixrt.arguments import check_priority
from radixrt.client.connection import Connection, Handle
from radixrt.client.current import enter_engine, leave_engine
from radixrt.client.protocol import EventCallback, ProgramHandle
from radixrt.client.single import SingleCalls
from radixrt.config import EngineConfig, resolve
from radixrt.errors import InvalidRequest
from radixrt.worker.messages import Flush, ModelInfo, Open, Query
from radixrt.worker.supervisor import Launcher, Patience, ProcessLauncher, Supervisor, ThreadLauncher

__all__ = ["Engine"]


class Engine(SingleCalls):
    """Loads ``model`` (an alias, a folder, a ``.gguf`` file or a hub id) and serves programs over it.

    Keyword arguments are the fields of ``radixrt.config.EngineConfig``; ``config_file`` is a TOML file of them.
    Returns when the model is loaded. Raises ``InvalidRequest`` naming a wrong flag, ``ModelLoadError``, or
    ``WorkerDied`` when the worker process cannot run.
    """

    def __init__(
        self, model: str | os.PathLike[str], *, config_file: str | os.PathLike[str] | None = None, **flags: Any
    ) -> None:
        if not isinstance(model, str | os.PathLike) or not os.fspath(model):
            raise InvalidRequest("model must be a name or a path", param="model")
        name = os.fspath(model)
        config = resolve(flags, file=None if config_file is None else os.fspath(config_file))
        if config.worker == "thread":
            launcher: Launcher = ThreadLauncher.for_model(name, config)
        else:
            launcher = ProcessLauncher(name, config)
        self._begin(launcher, config, None)

    @classmethod
    def from_launcher(cls, launcher: Launcher, config: EngineConfig, *, patience: Patience | None = None) -> Self:
        """An engine whose worker is started by ``launcher``, for tests and for other ways to run a worker."""
        engine = cls.__new__(cls)
        engine._begin(launcher, config, patience)
        return engine

    def _begin(self, launcher: Launcher, config: EngineConfig, patience: Patience | None) -> None:
        if not 0.01 <= config.heartbeat_s <= 60.0:
            raise InvalidRequest("heartbeat_s must be between 0.01 and 60 seconds", param="heartbeat_s")
        self.config = config
        self._connection = Connection()
        supervisor = Supervisor(launcher, self._connection, config.heartbeat_s, patience)
        self._connection.attach(supervisor)
        # Runs when the engine is collected and at exit; refers to the supervisor, which does not refer to us.
        self._finalizer = weakref.finalize(self, supervisor.close)
        try:
            self._model = supervisor.wait_ready()
        except BaseException:
            self._finalizer()
            raise

    # --- programs ------------------------------------------------------------------------------------------------

    @property
    def model(self) -> ModelInfo:
        return self._model

    def open_program(
        self,
        nodes: Sequence[Node],
        on_event: EventCallback,
        *,
        seed: int,
        final: bool = False,
        salt: str | None = None,
        priority: int = 0,
        timeout_s: float | None = None,
        deltas: bool = False,
    ) -> ProgramHandle:
        """See ``EngineProtocol``: ``on_event`` is called on the engine's own thread."""
        # Numbers that no message can hold; every other check is the worker's.
        priority = check_priority(priority, where="open_program")
        if not 0 <= seed < 2**64:
            raise InvalidRequest("open_program: seed must be between 0 and 2**64 - 1", param="seed")
        handle = Handle(self._connection, self, on_event, final)
        handle.expect(nodes)
        message = Open(
            program=handle.id,
            seed=seed,
            nodes=tuple(nodes),
            final=final,
            salt=salt,
            priority=priority,
            timeout_s=timeout_s,
            deltas=deltas,
        )
        self._connection.open(handle, message)
        return handle

    # --- everything else -----------------------------------------------------------------------------------------

    def stats(self) -> dict[str, float]:
        """Counters and gauges of the worker (see ``docs``). Raises ``WorkerDied``."""
        return dict(self._connection.ask(lambda n: Query(id=n, what="stats")).result().stats)

    def flush_cache(self) -> None:
        """Drop every cached prefix that nothing running holds."""
        self._connection.ask(lambda n: Flush(id=n)).result()

    def tokenize(self, text: str) -> list[int]:
        """Ids of ``text`` as the beginning of a prompt, without BOS; spellings of control tokens have no power."""
        return list(self._connection.ask(lambda n: Query(id=n, what="tokenize", text=text)).result().ids)

    def detokenize(self, ids: Sequence[int]) -> str:
        """The text of ``ids``, control tokens spelled out. Raises ``InvalidRequest`` for ids that do not exist."""
        return self._connection.ask(lambda n: Query(id=n, what="detokenize", ids=tuple(ids))).result().text

    @property
    def worker_pid(self) -> int | None:
        """Process id of the worker; None while there is none."""
        return self._connection.supervisor.pid

    def close(self) -> None:
        """End the worker. What is in flight ends as cancelled or with ``WorkerDied``. May be called again."""
        self._finalizer()

    def __enter__(self) -> Self:
        """The engine becomes the current one: programs without ``engine=`` use it."""
        enter_engine(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        leave_engine(self)
        self.close()
