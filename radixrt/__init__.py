"""radixrt: a program-level structured-generation runtime.

    import radixrt as rx

The names below are looked up when first used, so that ``import radixrt`` loads neither torch nor zmq.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from radixrt.api import Constraint as Constraint
    from radixrt.client.current import current_engine as current_engine
    from radixrt.client.engine import Engine as Engine
    from radixrt.errors import Cancelled as Cancelled
    from radixrt.errors import ContextLengthExceeded as ContextLengthExceeded
    from radixrt.errors import DeadlineExceeded as DeadlineExceeded
    from radixrt.errors import IncompleteOutput as IncompleteOutput
    from radixrt.errors import InvalidRequest as InvalidRequest
    from radixrt.errors import ModelLoadError as ModelLoadError
    from radixrt.errors import Overloaded as Overloaded
    from radixrt.errors import RadixrtError as RadixrtError
    from radixrt.errors import UnknownName as UnknownName
    from radixrt.errors import UnsatisfiableConstraint as UnsatisfiableConstraint
    from radixrt.errors import UnsupportedConstraint as UnsupportedConstraint
    from radixrt.errors import WorkerDied as WorkerDied
    from radixrt.frontend.branches import Branches as Branches
    from radixrt.frontend.expressions import assistant as assistant
    from radixrt.frontend.expressions import gen as gen
    from radixrt.frontend.expressions import role as role
    from radixrt.frontend.expressions import select as select
    from radixrt.frontend.expressions import system as system
    from radixrt.frontend.expressions import tokens as tokens
    from radixrt.frontend.expressions import user as user
    from radixrt.frontend.mapping import Runs as Runs
    from radixrt.frontend.program import Program as Program
    from radixrt.frontend.program import program as program
    from radixrt.frontend.run import Run as Run
    from radixrt.frontend.state import Branch as Branch
    from radixrt.frontend.state import ProgramState as ProgramState

_HOME = {
    "Engine": "radixrt.client.engine",
    "Cancelled": "radixrt.errors",
    "Constraint": "radixrt.api",
    "ContextLengthExceeded": "radixrt.errors",
    "DeadlineExceeded": "radixrt.errors",
    "IncompleteOutput": "radixrt.errors",
    "InvalidRequest": "radixrt.errors",
    "ModelLoadError": "radixrt.errors",
    "Overloaded": "radixrt.errors",
    "RadixrtError": "radixrt.errors",
    "UnknownName": "radixrt.errors",
    "UnsatisfiableConstraint": "radixrt.errors",
    "UnsupportedConstraint": "radixrt.errors",
    "WorkerDied": "radixrt.errors",
    "Branch": "radixrt.frontend.state",
    "Branches": "radixrt.frontend.branches",
    "Program": "radixrt.frontend.program",
    "ProgramState": "radixrt.frontend.state",
    "Run": "radixrt.frontend.run",
    "Runs": "radixrt.frontend.mapping",
    "assistant": "radixrt.frontend.expressions",
    "current_engine": "radixrt.client.current",
    "gen": "radixrt.frontend.expressions",
    "program": "radixrt.frontend.program",
    "role": "radixrt.frontend.expressions",
    "select": "radixrt.frontend.expressions",
    "system": "radixrt.frontend.expressions",
    "tokens": "radixrt.frontend.expressions",
    "user": "radixrt.frontend.expressions",
}

__version__ = "0.1.0"
__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'radixrt' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
