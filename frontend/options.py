"""Telling a program's arguments from the options of a run, with errors that name the one that is wrong."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from radixrt.arguments import SAMPLING_NAMES as ALL_SAMPLING_NAMES
from radixrt.arguments import (
    check_flag,
    check_priority,
    check_salt,
    check_timeout,
    sampling_values,
    unknown_argument,
)
from radixrt.client.protocol import EngineProtocol
from radixrt.errors import InvalidRequest
from radixrt.frontend.expressions import refuse_zero_max_tokens

__all__ = ["MAP_OPTIONS", "RUN_OPTIONS", "RunOptions", "Signature"]

# Sampling arguments that make sense as defaults of a whole program. A gen with n > 1 ends its branch, so n is the
# business of single gens, and programs may call a parameter of their own n.
SAMPLING_NAMES = tuple(name for name in ALL_SAMPLING_NAMES if name != "n")
RUN_OPTIONS = ("engine", "timeout", "salt", "priority", "keep_trace")
MAP_OPTIONS = ("concurrency", "progress", "raise_on_error")


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The checked options of a run or map. ``defaults`` are sampling arguments without the seed."""

    engine: EngineProtocol
    defaults: Mapping[str, Any]
    seed: int | None
    timeout: float | None
    salt: str | None
    priority: int
    keep_trace: bool

    @classmethod
    def read(cls, values: Mapping[str, Any], *, where: str) -> RunOptions:
        """Check options that ``Signature.split`` has found; None means absent."""
        defaults = sampling_values({k: v for k, v in values.items() if k in SAMPLING_NAMES}, where=where)
        refuse_zero_max_tokens(defaults, where)
        seed = defaults.pop("seed", None)
        given = {name: value for name, value in values.items() if value is not None}
        return cls(
            engine=_engine(given.get("engine"), where),
            defaults=defaults,
            seed=seed,
            timeout=check_timeout(given.get("timeout"), where=where),
            salt=check_salt(given.get("salt"), where=where),
            priority=check_priority(given.get("priority"), where=where),
            keep_trace=check_flag(given.get("keep_trace"), "keep_trace", where=where) is not False,
        )


def _engine(engine: Any, where: str) -> EngineProtocol:
    if engine is None:
        from radixrt.client.current import current_engine

        engine = current_engine()
    if engine is None:
        raise InvalidRequest(f"{where}: no engine; give engine=... or call inside `with engine:`", param="engine")
    if not callable(getattr(engine, "open_program", None)):
        raise InvalidRequest(f"{where}: engine= takes an Engine, not {type(engine).__name__}", param="engine")
    found: EngineProtocol = engine
    return found


class Signature:
    """The parameters of a program function after its state, checked once at decoration."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.name = getattr(function, "__name__", "program")
        parameters = list(inspect.signature(function).parameters.values())
        if not parameters or parameters[0].kind not in (
            inspect.Parameter.POSITIONAL_ONLY,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
        ):
            raise InvalidRequest(f"program {self.name!r} must take its state as first parameter", param="program")
        reserved = (*SAMPLING_NAMES, *RUN_OPTIONS, *MAP_OPTIONS)
        self._names: list[str] = []
        self._required: list[str] = []
        self._takes_any = False
        for parameter in parameters[1:]:
            if parameter.name in reserved:
                raise InvalidRequest(
                    f"program {self.name!r} has a parameter {parameter.name!r}, which is an option of every run; "
                    "call it something else",
                    param=parameter.name,
                )
            if parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.POSITIONAL_ONLY):
                raise InvalidRequest(
                    f"program {self.name!r}: parameter {parameter.name!r} cannot be passed by name",
                    param=parameter.name,
                )
            if parameter.kind is inspect.Parameter.VAR_KEYWORD:
                self._takes_any = True
                continue
            self._names.append(parameter.name)
            if parameter.default is inspect.Parameter.empty:
                self._required.append(parameter.name)
        self._state_name = parameters[0].name
        self._positional = [p.name for p in parameters[1:] if p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]

    def split(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], options: tuple[str, ...]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return (program arguments, options among ``options`` and the sampling names)."""
        known = (*options, *SAMPLING_NAMES)
        chosen = {name: value for name, value in kwargs.items() if name in known}
        others = {name: value for name, value in kwargs.items() if name not in known}
        return self.bind(args, others, known), chosen

    def check_option(self, name: str, options: tuple[str, ...], *, where: str) -> None:
        """Refuse an option that no run has. Arguments of the program belong into the rows."""
        if name in self._names:
            raise InvalidRequest(
                f"{where}: {name!r} is an argument of the program: put it into each row", param=name
            )
        if name not in options and name not in SAMPLING_NAMES:
            raise unknown_argument(name, (*options, *SAMPLING_NAMES), where=where)

    def check_seed(self, seed: Any) -> int | None:
        """The seed that a row carries, None when it carries none."""
        found: int | None = sampling_values({"seed": seed}, where=self.name).get("seed")
        return found

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], known: tuple[str, ...] = ()) -> dict[str, Any]:
        """The program's arguments by name. Raises ``InvalidRequest`` naming a missing, unknown or doubled one."""
        if len(args) > len(self._positional):
            raise InvalidRequest(
                f"{self.name} takes at most {len(self._positional)} positional arguments, not {len(args)}",
                param="program",
            )
        found = dict(zip(self._positional, args, strict=False))
        for name, value in kwargs.items():
            if name in found:
                raise InvalidRequest(f"{self.name}: argument {name!r} is given twice", param=name)
            if name == self._state_name or (name not in self._names and not self._takes_any):
                raise unknown_argument(name, (*self._names, *known), where=self.name)
            found[name] = value
        for name in self._required:
            if name not in found:
                raise InvalidRequest(f"{self.name}: argument {name!r} is missing", param=name)
        return found
