"""Values that a type lists, keys of dicts, and which items stay different once they are parsed.

Works on pydantic's core schemas. Does not know where in a type they stand.
"""

from __future__ import annotations

import enum
import json
import math
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any, Final

from pydantic_core import SchemaValidator, ValidationError, core_schema

from radixrt.python_types import texts
from radixrt.python_types.ranges import decimal_bound
from radixrt.python_types.unserved import Unserved
from radixrt.python_types.validators import known_schema

__all__ = ["enum_values", "is_distinct", "key_schema", "literal_values"]

_MAX_FLAGS: Final = 8  # members of a Flag whose combinations are listed
_INT_KEY: Final = r"0|-?[1-9][0-9]{0,17}"

# Types whose values are equal only where their texts are.
_ONE_SPELLING: Final = frozenset({"int", "bool", "none", "date", "uuid", "bytes"})
_TEXT_KEYS: Final = frozenset(
    {"any", "str", "date", "datetime", "time", "timedelta", "uuid", "bytes", "url", "multi-host-url"}
)
_WRAPPERS: Final = frozenset(
    {"function-after", "function-before", "function-wrap", "default", "custom-error", "lax-or-strict"}
)
_NO_HASH: Final = frozenset(
    {"any", "list", "deque", "set", "dict", "ordered-dict", "counter", "typed-dict", "generator", "json"}
)

Core = Mapping[str, Any]
Resolve = Callable[[Any], Any]


def literal_values(expected: Iterable[Any]) -> list[Any]:
    """The JSON values of a Literal. Raises ``Unserved`` with a member that has none.

    Members of an enumeration are read back only where they are themselves strings or ints.
    """
    found = []
    for member in expected:
        if isinstance(member, enum.Enum) and not isinstance(member, str | int):
            raise Unserved("Literal", f"{member} of a Literal")
        found.append(_json_value(member.value if isinstance(member, enum.Enum) else member, member))
    return found


def enum_values(schema: Core) -> list[Any]:
    """The JSON values of an enumeration; of a Flag of few members also their combinations."""
    members = list(schema["members"])
    cls = schema["cls"]
    found = [_json_value(member.value, member) for member in members]
    if issubclass(cls, enum.Flag) and len(members) <= _MAX_FLAGS:
        sums = {0}
        for value in found:
            sums |= {known | value for known in sums}
        found += sorted(sums.difference(found))
    return found


def _json_value(value: Any, member: Any) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    raise Unserved("Enum" if isinstance(member, enum.Enum) else "Literal", repr(member))


def key_schema(keys: Core, resolve: Resolve, write: Callable[[Any], dict[str, Any]]) -> dict[str, Any] | None:
    """The schema of the names of an object with keys of this type; None where any name will do.

    Raises ``Unserved`` for a type whose values pydantic does not read from a name.
    """
    keys = resolve(keys)
    kind = keys["type"]
    if kind == "int":
        return _int_names(keys)
    if kind == "bool":
        return {"enum": ["true", "false"]}
    if kind in ("enum", "literal"):
        return {"enum": _listed_names(keys)}
    if kind == "nullable":
        return key_schema(keys["schema"], resolve, write)
    if kind == "union":
        choices = [
            key_schema(item[0] if isinstance(item, tuple) else item, resolve, write) for item in keys["choices"]
        ]
        known = [choice for choice in choices if choice is not None]
        return {"anyOf": known} if len(known) == len(choices) else None
    if kind in _TEXT_KEYS or kind in _WRAPPERS:
        found = write(keys)  # names the functions of a person, too
        if not found or found.get("type") == "string":
            return None if found in ({}, {"type": "string"}) else found
        if kind in _WRAPPERS and "schema" in keys and ("function" not in keys or known_schema(keys) is None):
            return key_schema(keys["schema"], resolve, write)
    raise Unserved("keys", f"keys of type {kind}")


def _int_names(keys: Core) -> dict[str, Any]:
    """Integers of a bounded number of digits, within the bounds of the type."""
    if keys.get("multiple_of") is not None:
        raise Unserved("multiple_of", "multiple_of of keys that are ints")
    found = texts.whole(_INT_KEY)
    bounds = [
        {"pattern": f"^{decimal_bound(Decimal(keys[name]), above=name[0] == 'g', strictly=name[1] == 't')}$"}
        for name in ("ge", "gt", "le", "lt")
        if keys.get(name) is not None
    ]
    return {**found, "allOf": bounds} if bounds else found


def _listed_names(keys: Core) -> list[str]:
    """The names that pydantic reads as a given value, which differs by kinds of enumerations: it is asked.

    Raises ``Unserved`` unless each given value has one; combinations of flags may have none.
    """
    reader = SchemaValidator(core_schema.dict_schema({k: v for k, v in keys.items() if k != "ref"}))
    try:
        if keys["type"] == "literal":
            values, least = literal_values(keys["expected"]), len(keys["expected"])
        else:
            values, least = enum_values(keys), len(keys["members"])
    except Unserved as error:
        raise Unserved("keys", f"keys of {error}") from None
    names: list[str] = []
    for index, value in enumerate(values):
        name = value if isinstance(value, str) else json.dumps(value)
        try:
            [key] = reader.validate_json(json.dumps({name: None}))
        except ValidationError:
            key = None
        if getattr(key, "value", key) == value and key is not None:
            names.append(name)
        elif index < least:
            title = keys["cls"].__name__ if "cls" in keys else "Literal"
            raise Unserved("keys", f"keys of {title}, whose {name} is not read from a name,")
    return names


def is_distinct(item: Core, resolve: Resolve, depth: int = 0) -> bool | None:
    """Whether values that are spelled differently differ; None where they can be in no set at all."""
    item = resolve(item)
    kind = item["type"]
    if kind in _NO_HASH:
        return None
    if kind == "model":
        frozen = item["cls"].model_config.get("frozen") or item["cls"].__hash__ is not None
        return False if frozen else None
    if kind == "dataclass":
        return None if item["cls"].__hash__ is None else False
    if kind == "nullable":
        return is_distinct(item["schema"], resolve, depth)
    if kind == "str":
        return not any(item.get(name) for name in ("strip_whitespace", "to_lower", "to_upper"))
    if kind in ("literal", "enum"):
        values = literal_values(item["expected"]) if kind == "literal" else enum_values(item)
        return len({type(value) for value in values} - {str, type(None)}) <= 1 and float not in map(type, values)
    if kind == "tuple":
        parts = [is_distinct(part, resolve, depth + 1) for part in item["items_schema"]]
        return None if None in parts else all(parts)
    if kind == "union":
        parts = [is_distinct(p[0] if isinstance(p, tuple) else p, resolve, depth + 1) for p in item["choices"]]
        return None if None in parts else False
    return kind in _ONE_SPELLING
