"""Python types as output types: their JSON Schema and parser, and the plain spellings of a Literal or Enum.

pydantic does the work; it is imported only when a type is used. This module does not know what becomes of the
schema.
"""

from __future__ import annotations

import enum
import functools
import json
import types
import typing
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import typing_extensions

from radixrt.errors import InvalidRequest

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from pydantic.json_schema import GenerateJsonSchema

__all__ = ["json_schema_of", "literal_members"]

_BOUNDS = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
    "multiple_of": "multipleOf",
}
_INT_KEY = "^(0|-?[1-9][0-9]{0,17})$"


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

    Raises ``InvalidRequest(param)`` for whatever has no schema.
    """
    from pydantic import PydanticUndefinedAnnotation, PydanticUserError

    if isinstance(value, types.FunctionType | types.MethodType | types.BuiltinFunctionType | functools.partial):
        # pydantic would read its parameters, and parsing the output would call it.
        raise InvalidRequest(f"{param} must be a type or a JSON Schema, not a function", param=param)
    try:
        source, adapter = _adapter(value)
    except (PydanticUserError, PydanticUndefinedAnnotation, TypeError, NameError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InvalidRequest(f"{param}: no JSON Schema for {value!r}: {reason}", param=param) from error
    return source, adapter.validate_json


def _adapter(value: Any) -> tuple[str, TypeAdapter[Any]]:
    """The JSON Schema of a type as text, and its parser.

    Built anew each time, in half a millisecond: a memo would keep people's classes alive.
    """
    from pydantic import TypeAdapter

    adapter = value if isinstance(value, TypeAdapter) else TypeAdapter(_portable(value))
    return json.dumps(adapter.json_schema(schema_generator=_closed_schemas()), ensure_ascii=False), adapter


@functools.cache
def _closed_schemas() -> type[GenerateJsonSchema]:
    """pydantic's schema writer, closing every class of fields that does not say ``extra="allow"``.

    Without ``extra`` a class drops members it has no field for: a model that writes them wastes its tokens.
    """
    from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
    from pydantic_core import core_schema

    class Closed(GenerateJsonSchema):
        def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
            return _closed(super().model_schema(schema))

        def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonSchemaValue:
            return _closed(super().dataclass_schema(schema))

        def typed_dict_schema(self, schema: core_schema.TypedDictSchema) -> JsonSchemaValue:
            return _closed(super().typed_dict_schema(schema))

        def decimal_schema(self, schema: core_schema.DecimalSchema) -> JsonSchemaValue:
            return _number(schema)

        def dict_schema(self, schema: core_schema.DictSchema) -> JsonSchemaValue:
            return _with_keys(super().dict_schema(schema), schema.get("keys_schema", {}).get("type", "any"))

    return Closed


def _closed(schema: dict[str, Any]) -> dict[str, Any]:
    if "properties" in schema:
        schema.setdefault("additionalProperties", False)
    return schema


def _number(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A Decimal as a JSON number: pydantic also takes strings for it, but says of them less than it checks."""
    if schema.get("max_digits") is not None:
        raise InvalidRequest("max_digits of a Decimal cannot be part of a schema", param="schema")
    number: dict[str, Any] = {"type": "number"}
    for name, keyword in _BOUNDS.items():
        if schema.get(name) is not None:
            number[keyword] = float(schema[name])
    if schema.get("decimal_places") is not None:
        number["multipleOf"] = 10.0 ** -schema["decimal_places"]
    return number


def _with_keys(schema: dict[str, Any], kind: str) -> dict[str, Any]:
    """The schema of a dict whose keys are of this kind of type, as JSON spells them: as strings."""
    if kind in ("any", "str", "literal", "enum", "constrained-str", "definition-ref", "nullable", "union"):
        return schema
    if kind != "int":
        raise InvalidRequest(f"keys of type {kind} cannot be part of a schema; str and int can", param="schema")
    values = schema.pop("additionalProperties", True)
    return {**schema, "patternProperties": {_INT_KEY: values}, "additionalProperties": False}


def _portable(annotation: Any) -> Any:
    """Rebuild ``typing.TypedDict`` as its backport: before Python 3.12 pydantic can read only that one."""
    if typing_extensions.is_typeddict(annotation):
        hints = typing_extensions.get_type_hints(annotation, include_extras=True)
        fields: dict[str, Any] = {}
        for name, hint in hints.items():
            marker: Any = typing.get_origin(hint)
            # Annotations kept as text hide their marker from __required_keys__, so the marker counts first.
            if marker not in (typing_extensions.Required, typing_extensions.NotRequired):
                required = name in annotation.__required_keys__
                marker = typing_extensions.Required if required else typing_extensions.NotRequired
            else:
                [hint] = typing.get_args(hint)
            fields[name] = marker[_portable(hint)]
        typed_dict: Any = typing_extensions.TypedDict
        rebuilt = typed_dict(annotation.__name__, fields)
        rebuilt.__doc__ = annotation.__doc__
        return rebuilt
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        return typing.Union[tuple(_portable(item) for item in args)]  # noqa: UP007
    if origin in (list, tuple, dict, set, frozenset) and args:
        return origin[tuple(item if item is ... else _portable(item) for item in args)]
    return annotation
