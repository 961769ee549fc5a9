"""JSON that a person gives as text or as Python objects, as the JSON text that goes to the grammar.

Key order is kept; it matters. Nothing here knows JSON Schema: only that a document is written in exact JSON, and
that a schema is an object or a boolean.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from radixrt.errors import InvalidRequest, UnsupportedConstraint

__all__ = ["MAX_DEPTH", "MAX_VALUES", "json_source", "schema_source"]

MAX_DEPTH: Final = 128
"""Levels of a document at most; real schemas stay below 50."""
MAX_VALUES: Final = 500_000
"""Values in a document that is given as Python objects, so that one that shares its parts comes to an end."""
MAX_BITS: Final = 13_000
"""Of an integer given as a Python object, some 3,900 digits; Python writes no longer ones unless told to."""


def schema_source(schema: str | bool | Mapping[Any, Any], *, param: str = "schema") -> str:
    """The text of a schema; a text comes back as it is.

    Raises ``InvalidRequest(param)`` for what is no schema, ``UnsupportedConstraint`` for what is nested too deeply.
    """
    if not isinstance(schema, str):
        return json_source(schema, param=param)
    try:
        # Numbers stay texts: only the spelling is judged here, whatever their size.
        found = json.loads(
            schema,
            object_pairs_hook=_without_duplicates,
            parse_int=str,
            parse_float=str,
            parse_constant=_no_number,
        )
    except RecursionError:  # the parser's own limit, far above ours
        raise _too_deep(param) from None
    except ValueError as error:
        raise InvalidRequest(f"{param} is not JSON: {error}", param=param) from None
    if not isinstance(found, dict | bool):
        raise InvalidRequest(f"{param} must be a JSON object, true or false", param=param)
    return schema


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands twice in one object")
    return found


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def json_source(value: Any, *, param: str) -> str:
    """The JSON text of Python objects: any mapping is an object, lists and tuples are arrays.

    Raises ``InvalidRequest(param)`` for what JSON does not have, ``UnsupportedConstraint`` for what is nested too
    deeply (or in itself) or has too many values.
    """
    try:
        return json.dumps(_plain(value, param), ensure_ascii=False, allow_nan=False)
    except (ValueError, TypeError) as error:
        raise InvalidRequest(f"{param} cannot be written as JSON: {error}", param=param) from None


def _plain(value: Any, param: str) -> Any:
    """A copy in which every mapping is a dict. Raises ``TypeError`` for keys that are not text."""
    top: list[Any] = [value]
    level: list[Any] = [top]  # the containers of one depth, copied, whose parts are not yet
    depth = count = 0
    while level:
        below: list[Any] = []
        for box in level:
            count += len(box)
            if count > MAX_VALUES:
                raise UnsupportedConstraint(
                    f"{param} has more than {MAX_VALUES} values", keyword="size", location="", param=param
                )
            for key, part in list(box.items() if isinstance(box, dict) else enumerate(box)):
                if isinstance(part, Mapping):
                    box[key] = {_text(name): item for name, item in part.items()}
                elif isinstance(part, list | tuple):
                    box[key] = list(part)
                else:
                    if isinstance(part, int) and part.bit_length() > MAX_BITS:
                        raise ValueError(f"an integer of more than {MAX_BITS} bits")
                    continue
                below.append(box[key])
        level, depth = below, depth + 1
        if depth > MAX_DEPTH and any(level):
            raise _too_deep(param)
    return top[0]


def _text(name: Any) -> str:
    if not isinstance(name, str):
        raise TypeError(f"the key {name!r} is not a string")
    return name


def _too_deep(param: str) -> UnsupportedConstraint:
    return UnsupportedConstraint(
        f"the document is nested deeper than {MAX_DEPTH} levels", keyword="nesting", location="", param=param
    )
