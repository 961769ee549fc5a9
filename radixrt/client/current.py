"""Which engine ``with engine:`` made the current one, per thread of execution (a context variable).

Engines are kept as a tuple, innermost last, so that leaving works in whatever order and context it happens.
"""

from __future__ import annotations

from contextvars import ContextVar

from radixrt.client.protocol import EngineProtocol

__all__ = ["current_engine", "enter_engine", "leave_engine"]

_entered: ContextVar[tuple[EngineProtocol, ...]] = ContextVar("radixrt_engines", default=())


def current_engine() -> EngineProtocol | None:
    """The engine of the innermost enclosing ``with engine:``, or None."""
    engines = _entered.get()
    return engines[-1] if engines else None


def enter_engine(engine: EngineProtocol) -> None:
    _entered.set((*_entered.get(), engine))


def leave_engine(engine: EngineProtocol) -> None:
    """Undo the innermost ``enter_engine`` of this engine, if there is one in this context."""
    engines = list(_entered.get())
    for index in range(len(engines) - 1, -1, -1):
        if engines[index] is engine:
            del engines[index]
            break
    _entered.set(tuple(engines))
