"""radixrt: a program-level structured-generation runtime.

    import radixrt as rx

The names below are looked up when first used, so that ``import radixrt`` loads neither torch nor zmq.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from radixrt.client.engine import Engine as Engine
    from radixrt.errors import Cancelled as Cancelled
    from radixrt.errors import ContextLengthExceeded as ContextLengthExceeded
    from radixrt.errors import DeadlineExceeded as DeadlineExceeded
    from radixrt.errors import IncompleteOutput as IncompleteOutput
    from radixrt.errors import InvalidRequest as InvalidRequest
    from radixrt.errors import ModelLoadError as ModelLoadError
    from radixrt.errors import Overloaded as Overloaded
    from radixrt.errors import RadixrtError as RadixrtError
    from radixrt.errors import UnsatisfiableConstraint as UnsatisfiableConstraint
    from radixrt.errors import UnsupportedConstraint as UnsupportedConstraint
    from radixrt.errors import WorkerDied as WorkerDied

_HOME = {
    "Engine": "radixrt.client.engine",
    "Cancelled": "radixrt.errors",
    "ContextLengthExceeded": "radixrt.errors",
    "DeadlineExceeded": "radixrt.errors",
    "IncompleteOutput": "radixrt.errors",
    "InvalidRequest": "radixrt.errors",
    "ModelLoadError": "radixrt.errors",
    "Overloaded": "radixrt.errors",
    "RadixrtError": "radixrt.errors",
    "UnsatisfiableConstraint": "radixrt.errors",
    "UnsupportedConstraint": "radixrt.errors",
    "WorkerDied": "radixrt.errors",
}

__version__ = "0.1.0"
__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'radixrt' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
