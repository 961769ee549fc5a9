"""A JSON Schema as a person gives it, as the JSON text that goes to the grammar. Key order is kept; it matters.

Does not know JSON Schema: only that a schema is an object or a boolean, written in exact JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

__all__ = ["schema_source"]


def schema_source(schema: str | bool | Mapping[Any, Any]) -> str:
    """Return the text of ``schema``; a text comes back as it is. Raises ``ValueError`` with the whole message."""
    return _checked(schema) if isinstance(schema, str) else _dumped(schema)


def _checked(text: str) -> str:
    try:
        schema = json.loads(text, object_pairs_hook=_without_duplicates)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"schema is not JSON: {error}") from None
    if not isinstance(schema, dict | bool):
        raise ValueError("schema must be a JSON object, true or false")
    return text


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands twice in one object")
    return found


def _dumped(schema: Any) -> str:
    try:
        return json.dumps(_plain(schema), ensure_ascii=False, allow_nan=False)
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueError(f"schema cannot be written as JSON: {error}") from None


def _plain(value: Any) -> Any:
    """Any mapping as a dict; keys that are not text have no JSON."""
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f"the key {key!r} is not a string")
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
