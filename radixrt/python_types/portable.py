"""``typing.TypedDict`` for pydantic, which before Python 3.12 reads only the backport of ``typing_extensions``."""

from __future__ import annotations

import types
import typing
from typing import Annotated, Any

import typing_extensions

__all__ = ["portable"]

_GENERICS = (list, tuple, dict, set, frozenset)


def portable(annotation: Any) -> Any:
    """The same type with every ``typing.TypedDict`` in it rebuilt as its backport; recursive ones too.

    Those inside other classes are out of reach; pydantic refuses them in words.
    """
    return _rebuilt(annotation, {})


def _rebuilt(annotation: Any, done: dict[Any, Any]) -> Any:
    if typing_extensions.is_typeddict(annotation):
        return _rebuilt_dict(annotation, done)
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        return typing.Union[tuple(_rebuilt(item, done) for item in args)]  # noqa: UP007
    if origin is Annotated:
        return Annotated[(_rebuilt(args[0], done), *args[1:])]
    if origin in _GENERICS and args:
        return origin[tuple(item if item is ... else _rebuilt(item, done) for item in args)]
    return annotation


def _rebuilt_dict(annotation: Any, done: dict[Any, Any]) -> Any:
    if annotation in done:
        return done[annotation]
    if isinstance(annotation, typing_extensions._TypedDictMeta):  # type: ignore[attr-defined]
        return annotation
    typed_dict: Any = typing_extensions.TypedDict
    rebuilt = done[annotation] = typed_dict(annotation.__name__, {})
    rebuilt.__doc__ = annotation.__doc__
    rebuilt.__module__ = annotation.__module__
    if hasattr(annotation, "__pydantic_config__"):
        rebuilt.__pydantic_config__ = annotation.__pydantic_config__
    fields: dict[str, Any] = {}
    for name, hint in typing_extensions.get_type_hints(annotation, include_extras=True).items():
        marker: Any = typing.get_origin(hint)
        # Annotations kept as text hide their marker from __required_keys__, so the marker counts first.
        if marker not in (typing_extensions.Required, typing_extensions.NotRequired):
            required = name in annotation.__required_keys__
            marker = typing_extensions.Required if required else typing_extensions.NotRequired
        else:
            [hint] = typing.get_args(hint)
        fields[name] = marker[_rebuilt(hint, done)]
    rebuilt.__annotations__ = fields
    required_keys = {name for name, hint in fields.items() if typing.get_origin(hint) is typing_extensions.Required}
    rebuilt.__required_keys__ = frozenset(required_keys)
    rebuilt.__optional_keys__ = frozenset(fields) - required_keys
    return rebuilt
