"""Python types as output types: their JSON Schema and parser, and the plain spellings of a Literal or Enum.

pydantic does the work; it is imported only when a type is used. The schema promises that its parser takes every
text of it: what has no such schema is refused at the call with the path of the field, and functions that a person
wrote as validators are named in an ``UncheckedValidatorWarning``. This module does not know what becomes of the
schema.
"""

from __future__ import annotations

import enum
import functools
import json
import sys
import types
import typing
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import typing_extensions

from radixrt.errors import InvalidRequest
from radixrt.python_types.portable import portable

if TYPE_CHECKING:
    from pydantic import TypeAdapter

__all__ = ["UncheckedValidatorWarning", "json_schema_of", "literal_members"]


class UncheckedValidatorWarning(UserWarning):
    """Validators that no schema can express: a complete output may still fail them, where its value is read."""


def literal_members(value: Any) -> list[tuple[str, Any]] | None:
    """The spellings of a Literal or Enum with what they stand for; None for any other type."""
    if typing.get_origin(value) in (Literal, typing_extensions.Literal):
        found: list[Any] = list(typing.get_args(value))
    elif isinstance(value, enum.EnumMeta):
        found = list(value)
    else:
        return None
    return [(_spelling(member.value if isinstance(member, enum.Enum) else member), member) for member in found]


def _spelling(value: Any) -> str:
    if isinstance(value, str):
        return str(value)
    if value is None or isinstance(value, bool | int | float):
        return json.dumps(value)
    raise InvalidRequest(f"type: {value!r} has no plain spelling", param="type")


def json_schema_of(value: Any, *, param: str) -> tuple[str, Callable[[str], Any]]:
    """The JSON Schema of a type as text, and what turns a JSON text into an instance of the type.

    Raises ``InvalidRequest(param)`` for whatever is no type, and ``UnsupportedConstraint`` with the path of the
    field for a type that has no exact schema. Warns once, with all their names, of validators that are left to the
    parser.
    """
    if isinstance(value, types.FunctionType | types.MethodType | types.BuiltinFunctionType | functools.partial):
        # pydantic would read its parameters, and parsing the output would call it.
        raise InvalidRequest(f"{param} must be a type or a JSON Schema, not a function", param=param)
    from pydantic import PydanticUndefinedAnnotation, PydanticUserError
    from pydantic_core import SchemaError

    errors = (PydanticUserError, PydanticUndefinedAnnotation, SchemaError, TypeError, NameError, ImportError)
    try:
        source, adapter = _adapter(value, param)
    except RecursionError:
        # pydantic walks a type by calling itself; the type's own repr would too.
        raise InvalidRequest(f"{param}: the type is nested too deeply", param=param) from None
    except errors as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InvalidRequest(f"{param}: no JSON Schema for {value!r}: {reason}", param=param) from error
    return source, adapter.validate_json


def _adapter(value: Any, param: str) -> tuple[str, TypeAdapter[Any]]:
    """The JSON Schema of a type as text, and its parser.

    Built anew each time, in a millisecond: a memo would keep people's classes alive.
    """
    from pydantic import TypeAdapter

    from radixrt.python_types.writer import SchemaWriter

    adapter = value if isinstance(value, TypeAdapter) else TypeAdapter(portable(value))
    adapter.rebuild(raise_errors=True)
    writer = SchemaWriter(root=_title(value), param=param, config=_core_config(adapter))
    schema = writer.generate(adapter.core_schema)
    if writer.unchecked:
        _warn(param, writer.unchecked)
    return json.dumps(schema, ensure_ascii=False), adapter


def _title(value: Any) -> str:
    """A short name of a type, with which the paths of its fields begin."""
    inner = getattr(value, "_type", value)
    while typing.get_origin(inner) is typing.Annotated:
        inner = typing.get_args(inner)[0]
    origin = typing.get_origin(inner) or inner
    return getattr(origin, "__name__", None) or repr(origin).replace("typing.", "")


def _core_config(adapter: TypeAdapter[Any]) -> dict[str, Any]:
    """The options that a TypeAdapter itself was given, by the names that its parser knows them by."""
    config = dict(getattr(adapter, "_config", None) or {})
    if "extra" in config:
        config["extra_fields_behavior"] = config.pop("extra")
    return config


def _warn(param: str, unchecked: list[str]) -> None:
    """Warn at the line of whoever called this package, who wrote the type."""
    depth = 2
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "radixrt":
        frame = frame.f_back
        depth += 1
    named = "; ".join(unchecked)
    warnings.warn(
        f"{param}: no constraint can express these validators, and a complete output may still fail them: {named}",
        UncheckedValidatorWarning,
        stacklevel=depth,
    )
