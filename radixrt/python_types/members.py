"""The names under which the fields of a class stand in JSON, and the object that holds them.

A field may have one name, several of which the first counts, or a path into objects and arrays around it
(pydantic's ``AliasPath``). This module does not know what the values are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["Member", "field_path", "object_of"]

_MAX_INDEX: Final = 1_000


@dataclass(frozen=True, slots=True)
class Member:
    """A field: where its value stands, what it must be, whether it must be there."""

    path: tuple[str | int, ...]
    schema: Mapping[str, Any]
    required: bool


def field_path(name: str, field: Mapping[str, Any], config: Mapping[str, Any]) -> tuple[str | int, ...]:
    """Where pydantic looks for a field first.

    A plain name goes before a path. By default the alias counts alone; ``validate_by_alias=False`` leaves the
    field's own name.
    """
    alias = field.get("validation_alias")
    if alias is None or not config.get("validate_by_alias", True):
        return (name,)
    if isinstance(alias, str):
        return (alias,)
    paths = [alias] if alias and not isinstance(alias[0], list) else alias
    plain = [path for path in paths if len(path) == 1 and isinstance(path[0], str)]
    if not plain and config.get("validate_by_name", False):
        return (name,)
    return tuple((plain or paths)[0])


@dataclass(slots=True)
class _Node:
    """A place in the object: a value of a field, or what holds further places."""

    schema: Mapping[str, Any] | None
    required: bool
    inner: dict[str | int, _Node]


def object_of(members: Iterable[Member], extra: Any) -> dict[str, Any]:
    """The schema of an object with these members and ``extra`` as its ``additionalProperties``.

    Raises ``ValueError`` where two fields share a place or a path cannot be followed.
    """
    root = _Node(None, True, {})
    for member in members:
        node = root
        for index, step in enumerate(member.path):
            last = index + 1 == len(member.path)
            if last and step in node.inner:
                raise ValueError(f"two fields are read from {_spelled(member.path)}")
            node = node.inner.setdefault(step, _Node(None, False, {}))
            if not last and node.schema is not None:
                raise ValueError(f"two fields are read from {_spelled(member.path[: index + 1])}")
            node.required |= member.required
        node.schema = member.schema
    found = _object(root.inner)
    found["additionalProperties"] = extra
    return found


def _spelled(path: Sequence[str | int]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")


def _object(inner: Mapping[str | int, _Node]) -> dict[str, Any]:
    found: dict[str, Any] = {"type": "object"}
    found["properties"] = {str(name): _schema(node) for name, node in inner.items()}
    required = [str(name) for name, node in inner.items() if node.required]
    if required:
        found["required"] = required
    return found


def _schema(node: _Node) -> dict[str, Any]:
    if node.schema is not None:
        return dict(node.schema)
    indices = [step for step in node.inner if isinstance(step, int)]
    if not indices:
        return {**_object(node.inner), "additionalProperties": False}
    if len(indices) < len(node.inner):
        raise ValueError("a path goes through an array and an object at one place")
    if min(indices) < 0 or max(indices) > _MAX_INDEX:
        raise ValueError(f"a path goes through the index {min(indices) if min(indices) < 0 else max(indices)}")
    needed = [index for index in indices if node.inner[index].required]
    return {
        "type": "array",
        "prefixItems": [_schema(node.inner[i]) if i in node.inner else {} for i in range(max(indices) + 1)],
        "items": False,
        "minItems": max(needed) + 1 if needed else 0,
    }
