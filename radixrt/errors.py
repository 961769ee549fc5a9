"""Every error that radixrt raises on purpose.

    RadixrtError                 internal_error          500
    ├── InvalidRequest           invalid_request         400   an argument, a field or a message is wrong
    │   ├── ContextLengthExceeded  context_length_exceeded 400  a prompt that can never fit
    │   ├── UnsupportedConstraint  unsupported_constraint  400  a constraint this engine cannot represent
    │   ├── UnsatisfiableConstraint unsatisfiable_constraint 400  a constraint that no text satisfies
    │   └── UnknownName          unknown_name            400   a name under which nothing was generated
    ├── IncompleteOutput         incomplete_output       422   the value of a constrained node that did not finish
    ├── ModelLoadError           model_load_error        500   a checkpoint that cannot or must not be loaded
    ├── Overloaded               overloaded              429   the queue is full
    ├── Cancelled                cancelled               499   somebody asked for it to stop
    ├── DeadlineExceeded         deadline_exceeded       504   its time ran out
    └── WorkerDied               worker_died             503   the worker process ended under it

An error carries ``code`` (stable, for machines), ``status`` (the HTTP status it becomes) and ``param`` (the
argument, field or place it is about). ``ErrorInfo`` is the same thing as a message between processes. This
module knows nothing about who reports errors or how.
"""

from __future__ import annotations

import msgspec

__all__ = [
    "Cancelled",
    "ContextLengthExceeded",
    "DeadlineExceeded",
    "ErrorInfo",
    "IncompleteOutput",
    "InvalidRequest",
    "ModelLoadError",
    "Overloaded",
    "RadixrtError",
    "UnknownName",
    "UnsatisfiableConstraint",
    "UnsupportedConstraint",
    "WorkerDied",
]


class ErrorInfo(msgspec.Struct, frozen=True, omit_defaults=True):
    """An error on its way between processes: enough to raise it again on the other side.

    ``detail`` has the extra attributes of its class. Where a node of a program reports the error of another, as
    later nodes of a branch and joins do, ``detail["node"]`` is the id of that other one.
    """

    code: str
    message: str
    param: str | None = None
    detail: dict[str, str | int | float | None] = {}

    def to_exception(self) -> RadixrtError:
        """Return the exception this message stands for (an unknown code becomes ``RadixrtError``)."""
        cls = _by_code(RadixrtError).get(self.code, RadixrtError)
        return cls._from_info(self)


class RadixrtError(Exception):
    """Base of all errors of this package."""

    code: str = "internal_error"
    status: int = 500

    def __init__(self, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param

    def detail(self) -> dict[str, str | int | float | None]:
        """The extra attributes of this class that travel in ``ErrorInfo.detail``."""
        return {}

    def to_info(self) -> ErrorInfo:
        return ErrorInfo(code=self.code, message=self.message, param=self.param, detail=self.detail())

    @classmethod
    def _from_info(cls, info: ErrorInfo) -> RadixrtError:
        error = cls(info.message, param=info.param)
        for name, value in info.detail.items():
            if name in error.detail():
                setattr(error, name, value)
        return error


class InvalidRequest(RadixrtError):
    """An argument, field or message is wrong; ``param`` names it."""

    code = "invalid_request"
    status = 400


class ContextLengthExceeded(InvalidRequest):
    """The request can never fit: ``needed`` tokens (prompt plus max_tokens) against ``limit``."""

    code = "context_length_exceeded"

    def __init__(self, message: str, *, needed: int = 0, limit: int = 0, param: str | None = "prompt") -> None:
        super().__init__(message, param=param)
        self.needed = needed
        self.limit = limit

    def detail(self) -> dict[str, str | int | float | None]:
        return {"needed": self.needed, "limit": self.limit}


class UnsupportedConstraint(InvalidRequest):
    """The constraint is outside what the engine represents exactly.

    ``keyword`` is the construct that was refused. ``location`` says where: a JSON pointer for schemas, the
    path of a field for Python types (``Card.tags[].name``), a column (0-based, counted in characters) for regular
    expressions, ``line:column`` for grammars. Where the constraint costs too much, ``keyword`` is the limit, and
    ``location`` the pointer of the part that was being worked on, or None in a text.
    """

    code = "unsupported_constraint"

    def __init__(
        self,
        message: str,
        *,
        keyword: str | None = None,
        location: str | None = None,
        param: str | None = None,
    ) -> None:
        super().__init__(message, param=param)
        self.keyword = keyword
        self.location = location

    def detail(self) -> dict[str, str | int | float | None]:
        return {"keyword": self.keyword, "location": self.location}


class UnsatisfiableConstraint(InvalidRequest):
    """No text at all satisfies the constraint."""

    code = "unsatisfiable_constraint"


class UnknownName(InvalidRequest, KeyError):
    """Nothing of this name was generated here; ``param`` is the name. Also a ``KeyError``, as for any mapping."""

    code = "unknown_name"

    def __str__(self) -> str:
        return self.message


class IncompleteOutput(RadixrtError):
    """A constrained node ended before its text was complete.

    ``text`` is what was generated, raw and unrepaired; ``finish_reason`` says why it ended there.
    """

    code = "incomplete_output"
    status = 422

    def __init__(
        self,
        message: str,
        *,
        text: str = "",
        finish_reason: str | None = None,
        param: str | None = None,
    ) -> None:
        super().__init__(message, param=param)
        self.text = text
        self.finish_reason = finish_reason

    def detail(self) -> dict[str, str | int | float | None]:
        return {"text": self.text, "finish_reason": self.finish_reason}


class ModelLoadError(RadixrtError):
    """A model, tokenizer or checkpoint file cannot or must not be loaded; ``param`` names the file."""

    code = "model_load_error"


class Overloaded(RadixrtError):
    """The queue is full; try again after ``retry_after_s`` seconds."""

    code = "overloaded"
    status = 429

    def __init__(self, message: str, *, retry_after_s: float = 1.0, param: str | None = None) -> None:
        super().__init__(message, param=param)
        self.retry_after_s = retry_after_s

    def detail(self) -> dict[str, str | int | float | None]:
        return {"retry_after_s": self.retry_after_s}


class Cancelled(RadixrtError):
    """The node or program was cancelled."""

    code = "cancelled"
    status = 499


class DeadlineExceeded(RadixrtError):
    """The time given to the program ran out."""

    code = "deadline_exceeded"
    status = 504


class WorkerDied(RadixrtError):
    """The worker process ended while the request was in flight."""

    code = "worker_died"
    status = 503


def _by_code(root: type[RadixrtError]) -> dict[str, type[RadixrtError]]:
    found = {root.code: root}
    for sub in root.__subclasses__():
        for code, cls in _by_code(sub).items():
            found.setdefault(code, cls)
    return found
