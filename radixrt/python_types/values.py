"""Values that a type lists, keys of dicts, and which items stay different once they are parsed.

Works on pydantic's core schemas. Does not know where in a type they stand.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from radixrt.python_types import texts

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
    """The JSON values of a Literal. Raises ``ValueError`` with a member that has none.

    Members of an enumeration are read back only where they are themselves strings or ints.
    """
    found = []
    for member in expected:
        if isinstance(member, enum.Enum) and not isinstance(member, str | int):
            raise ValueError(f"{member} of a Literal")
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
    raise ValueError(repr(member))


def key_schema(keys: Core, resolve: Resolve, write: Callable[[Any], dict[str, Any]]) -> dict[str, Any] | None:
    """The schema of the names of an object with keys of this type; None where any name will do.

    Raises ``ValueError`` with the kind of a type whose values pydantic does not read from a name.
    """
    keys = resolve(keys)
    kind = keys["type"]
    if kind == "int":
        if any(keys.get(name) is not None for name in ("gt", "ge", "lt", "le", "multiple_of")):
            raise ValueError("int with limits")
        return texts.whole(_INT_KEY)
    if kind == "bool":
        return {"enum": ["true", "false"]}
    if kind == "enum":
        # An int in a name is read back, unlike that of a Literal.
        values = enum_values(keys)
        if not all(isinstance(value, str | int) and not isinstance(value, bool) for value in values):
            raise ValueError(f"enum {keys['cls'].__name__}")
        return {"enum": [str(value) for value in values]}
    if kind == "literal":
        values = literal_values(keys["expected"])
        if not all(isinstance(value, str) for value in values):
            raise ValueError("literal with others than strings")
        return {"enum": values}
    if kind == "nullable":
        return key_schema(keys["schema"], resolve, write)
    if kind == "union":
        choices = [
            key_schema(item[0] if isinstance(item, tuple) else item, resolve, write) for item in keys["choices"]
        ]
        known = [choice for choice in choices if choice is not None]
        return {"anyOf": known} if len(known) == len(choices) else None
    if kind not in _TEXT_KEYS and kind not in _WRAPPERS:
        raise ValueError(kind)
    found = write(keys)
    if found and found.get("type") != "string":
        raise ValueError(kind)
    return None if found in ({}, {"type": "string"}) else found


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
