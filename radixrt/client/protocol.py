"""What an engine is to a program: the one interface that the embedded and the remote engine both satisfy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from radixrt.api import Event, Node
from radixrt.worker.messages import ModelInfo

__all__ = ["EngineProtocol", "EventCallback", "ProgramHandle"]

EventCallback = Callable[[Event], None]
"""Called on the engine's I/O thread, in order, for every event of one program; must not block or raise."""


class ProgramHandle(Protocol):
    """An open program. All methods may be called from any thread and never wait for the model."""

    @property
    def id(self) -> str: ...

    def extend(self, nodes: Sequence[Node], *, final: bool = False) -> None:
        """Send more nodes. After ``final`` nothing may follow. Ignored by the engine once the program ended."""

    def cancel(self, branch: int | None = None) -> None:
        """Cancel the program or one branch. Harmless after the end."""


class EngineProtocol(Protocol):
    """Opens programs."""

    @property
    def model(self) -> ModelInfo: ...

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
        """Send a program. ``on_event`` gets its events; the last one is an ``EndEvent``, whatever happens.

        Raises ``WorkerDied`` when the engine is closed or its worker cannot be restarted.
        """
