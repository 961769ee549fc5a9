"""What each keyword's value must look like, and which keywords are deliberately without effect.

The table spans draft-04 to 2020-12: a keyword means the same wherever it exists, apart from the spellings that
``documents`` reduces to one (``id``, arrays in ``items``, boolean ``exclusiveMinimum``, ``dependencies``).
Nothing here knows what a keyword means.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Final

from radixrt.errors import InvalidRequest
from radixrt.grammar.json_schema.values import JsonValue, is_integral

__all__ = ["ANNOTATIONS", "KEYWORDS", "SUBSCHEMA", "SUBSCHEMA_LIST", "SUBSCHEMA_MAP", "check_keyword"]

# Keywords of the specification that say nothing about which values are valid. Any other name that is not in
# KEYWORDS is an unknown keyword, which the specification has ignored too.
ANNOTATIONS: Final = frozenset(
    [
        "$comment",
        "$schema",
        "$vocabulary",
        "contentEncoding",
        "contentMediaType",
        "contentSchema",
        "default",
        "deprecated",
        "description",
        "examples",
        "readOnly",
        "title",
        "writeOnly",
    ]
)

SUBSCHEMA: Final = frozenset(
    [
        "additionalItems",
        "additionalProperties",
        "contains",
        "else",
        "if",
        "items",
        "not",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    ]
)
SUBSCHEMA_LIST: Final = frozenset(["allOf", "anyOf", "items", "oneOf", "prefixItems"])
SUBSCHEMA_MAP: Final = frozenset(
    ["$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"]
)

_TYPE_NAMES: Final = frozenset(["array", "boolean", "integer", "null", "number", "object", "string"])


def _is_schema(value: JsonValue) -> bool:
    return isinstance(value, bool | dict)


def _is_schema_list(value: JsonValue) -> bool:
    return isinstance(value, list) and len(value) > 0 and all(map(_is_schema, value))


def _is_schema_map(value: JsonValue) -> bool:
    return isinstance(value, dict) and all(map(_is_schema, value.values()))


def _is_items(value: JsonValue) -> bool:
    return _is_schema(value) or (isinstance(value, list) and all(map(_is_schema, value)))


def _is_names(value: JsonValue) -> bool:
    return (
        isinstance(value, list) and all(isinstance(name, str) for name in value) and len(set(value)) == len(value)
    )


def _is_dependencies(value: JsonValue) -> bool:
    return isinstance(value, dict) and all(_is_schema(part) or _is_names(part) for part in value.values())


def _is_name_lists(value: JsonValue) -> bool:
    return isinstance(value, dict) and all(map(_is_names, value.values()))


def _is_number(value: JsonValue) -> bool:
    return isinstance(value, int | Decimal) and not isinstance(value, bool)


def _is_count(value: JsonValue) -> bool:
    return _is_number(value) and value >= 0 and is_integral(value)


def _is_type(value: JsonValue) -> bool:
    names = value if isinstance(value, list) else [value]
    return len(names) > 0 and all(isinstance(name, str) and name in _TYPE_NAMES for name in names)


def _is_string(value: JsonValue) -> bool:
    return isinstance(value, str)


_SCHEMA = (_is_schema, "a schema (an object or a boolean)")
_SCHEMAS = (_is_schema_list, "a list of at least one schema")
_MAP = (_is_schema_map, "an object whose values are schemas")
_COUNT = (_is_count, "a non-negative integer")
_NUMBER = (_is_number, "a number")
_EXCLUSIVE = (lambda value: _is_number(value) or isinstance(value, bool), "a number (draft-04: a boolean)")
_STRING = (_is_string, "a string")
_NAMES = (_is_names, "a list of distinct strings")

KEYWORDS: Final[dict[str, tuple[Callable[[JsonValue], bool], str]]] = {
    "$anchor": _STRING,
    "$defs": _MAP,
    "$dynamicAnchor": _STRING,
    "$dynamicRef": _STRING,
    "$id": _STRING,
    "$recursiveAnchor": (lambda value: isinstance(value, bool), "a boolean"),
    "$recursiveRef": _STRING,
    "$ref": _STRING,
    "additionalItems": _SCHEMA,
    "additionalProperties": _SCHEMA,
    "allOf": _SCHEMAS,
    "anyOf": _SCHEMAS,
    "const": (lambda value: True, "any value"),
    "contains": _SCHEMA,
    "definitions": _MAP,
    "dependencies": (_is_dependencies, "an object whose values are schemas or lists of names"),
    "dependentRequired": (_is_name_lists, "an object whose values are lists of names"),
    "dependentSchemas": _MAP,
    "else": _SCHEMA,
    "enum": (lambda value: isinstance(value, list), "a list of values"),
    "exclusiveMaximum": _EXCLUSIVE,
    "exclusiveMinimum": _EXCLUSIVE,
    "format": _STRING,
    "if": _SCHEMA,
    "items": (_is_items, "a schema or a list of schemas"),
    "maxContains": _COUNT,
    "maxItems": _COUNT,
    "maxLength": _COUNT,
    "maxProperties": _COUNT,
    "maximum": _NUMBER,
    "minContains": _COUNT,
    "minItems": _COUNT,
    "minLength": _COUNT,
    "minProperties": _COUNT,
    "minimum": _NUMBER,
    "multipleOf": (lambda value: _is_number(value) and value > 0, "a number greater than 0"),
    "not": _SCHEMA,
    "oneOf": _SCHEMAS,
    "pattern": _STRING,
    "patternProperties": _MAP,
    "prefixItems": _SCHEMAS,
    "properties": _MAP,
    "propertyNames": _SCHEMA,
    "required": _NAMES,
    "then": _SCHEMA,
    "type": (_is_type, "the name of a JSON type, or a list of at least one"),
    "unevaluatedItems": _SCHEMA,
    "unevaluatedProperties": _SCHEMA,
    "uniqueItems": (lambda value: isinstance(value, bool), "a boolean"),
}


def check_keyword(keyword: str, value: JsonValue, pointer: str) -> None:
    """Raise ``InvalidRequest`` naming the place if a known keyword has a value of the wrong kind."""
    known = KEYWORDS.get(keyword)
    if known is not None and not known[0](value):
        raise InvalidRequest(
            f"the schema is wrong at {pointer}/{keyword}: {keyword!r} must be {known[1]}", param="schema"
        )
