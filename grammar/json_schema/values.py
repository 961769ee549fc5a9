"""JSON values as the schema compiler holds them: exact numbers, ordered objects, equality as JSON Schema means it.

A value is None, bool, int, ``Decimal`` (every number that was not written as an integer), str, list or dict,
with bounded nesting. Nothing here knows what a schema is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, Final, Literal, NamedTuple

from radixrt.errors import InvalidRequest, UnsupportedConstraint

__all__ = [
    "MAX_DEPTH",
    "MAX_NODES",
    "TYPES",
    "JsonType",
    "JsonValue",
    "Number",
    "canonical",
    "from_python",
    "is_integral",
    "is_modest",
    "parse_json",
    "pointer_to",
    "type_of",
    "value_key",
    "with_integers",
]

JsonValue = Any  # None | bool | int | Decimal | str | list[JsonValue] | dict[str, JsonValue]
Number = int | Decimal
JsonType = Literal["null", "boolean", "number", "string", "array", "object"]
TYPES: Final[tuple[JsonType, ...]] = ("null", "boolean", "number", "string", "array", "object")

MAX_DEPTH: Final = 128  # nesting of a schema document; real ones stay below 50
MAX_NODES: Final = 150_000  # values in a schema document, so that a Python object shared by itself ends
MAX_EXPONENT: Final = 400  # a number that takes part in a constraint lies within 10**±400
_STRING_OR_BRACKET: Final = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[\]{}]', re.DOTALL)
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")  # a pair of escapes is no lone one, but rare
MAX_DIGITS: Final = 1000
_INT_DIGITS: Final = 1000  # longer integers are held as Decimal: int(str) is quadratic and limited
_INT_BITS: Final = 3_322  # the same for integers that are no text
_MOST_BITS: Final = 50_000  # of an integer; to turn more into decimal digits takes too long


def parse_json(text: str) -> JsonValue:
    """Read strict JSON: no NaN, no duplicate names, bounded nesting, numbers exact.

    Raises:
        InvalidRequest: the text is not JSON; the message has line and column.
        UnsupportedConstraint: it is nested deeper than ``MAX_DEPTH``.
    """
    _check_text_depth(text)
    try:
        value = json.loads(
            text,
            parse_float=_decimal,
            parse_int=_integer,
            parse_constant=_no_constant,
            object_pairs_hook=_object_without_duplicates,
        )
    except json.JSONDecodeError as error:
        raise InvalidRequest(
            f"the document is not JSON: {error.msg} at line {error.lineno}, column {error.colno}", param="schema"
        ) from None
    return value if _SURROGATE.search(text) is None else from_python(value)


def _check_text_depth(text: str) -> None:
    """The standard parser recurses, so the nesting is measured before it runs."""
    depth = 0
    for match in _STRING_OR_BRACKET.finditer(text):
        token = match[0]
        if token in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise _too_deep()
        elif token in "]}":
            depth -= 1


def _too_large() -> UnsupportedConstraint:
    return UnsupportedConstraint(
        f"the document has more than {MAX_NODES} values", keyword="size", location="", param="schema"
    )


def _too_deep(pointer: str = "") -> UnsupportedConstraint:
    return UnsupportedConstraint(
        f"the document is nested deeper than {MAX_DEPTH} levels",
        keyword="nesting",
        location=pointer,
        param="schema",
    )


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        raise InvalidRequest(f"the number {text[:40]} is out of range", param="schema") from None


def _integer(text: str) -> Number:
    return int(text) if len(text) <= _INT_DIGITS else Decimal(text)


def _no_constant(name: str) -> JsonValue:
    raise InvalidRequest(f"the document is not JSON: {name} is not a JSON number", param="schema")


def _object_without_duplicates(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    made = dict(pairs)
    if len(made) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise InvalidRequest(f"the document has the name {name!r} twice in one object", param="schema")
            seen.add(name)
    return made


def from_python(value: object) -> JsonValue:
    """Copy ``value`` into the exact form, so that no later change by its owner reaches the compiler.

    Raises:
        InvalidRequest: something in it is not JSON (NaN, a name that is no string, a lone surrogate).
        UnsupportedConstraint: it is nested deeper than ``MAX_DEPTH`` or has more than ``MAX_NODES`` values.
    """
    top: list[JsonValue] = [value]
    todo: list[tuple[Any, _Place]] = [(top, _Place(None, "", -1))]  # copied containers whose parts are not yet
    count = 0
    while todo:
        box, place = todo.pop()
        count += len(box)
        if count > MAX_NODES:
            raise _too_large()
        if place.depth >= MAX_DEPTH and box:
            raise _too_deep(pointer_to((*place.path(), next(iter(box)) if isinstance(box, dict) else 0)))
        for key, part in box.items() if isinstance(box, dict) else enumerate(box):
            kind = type(part)
            if kind is str and part.isascii():
                continue
            if kind is dict or kind is list or isinstance(part, Mapping | list | tuple):
                inner = _Place(place, key, place.depth + 1)
                copied = _copied(part, inner)
                box[key] = copied
                todo.append((copied, inner))
            elif kind is int:
                if part.bit_length() > _INT_BITS:
                    box[key] = _long_integer(part, _Place(place, key, 0).path())
                    count += part.bit_length() // 8
                    if count > MAX_NODES:
                        raise _too_large()
            elif kind is not bool and part is not None:
                box[key] = _scalar(part, _Place(place, key, 0).path())
    return top[0]


class _Place(NamedTuple):
    """Where a container stands: in which one, and under which name or index. The top is in a list of its own."""

    parent: _Place | None
    key: str | int
    depth: int

    def path(self) -> tuple[str | int, ...]:
        keys: list[str | int] = []
        place = self
        while place.parent is not None:
            keys.append(place.key)
            place = place.parent
        return tuple(reversed(keys[:-1]))


def _copied(container: Mapping[Any, object] | list[object] | tuple[object, ...], place: _Place) -> JsonValue:
    """A dict or list of the same parts, whose names are checked."""
    if isinstance(container, list | tuple):
        return list(container)
    made = dict(container)
    for key in made:
        if type(key) is not str or not key.isascii():
            return {_checked_string(key, place.path()): container[key] for key in made}
    return made


def _scalar(item: object, path: tuple[str | int, ...]) -> JsonValue:
    if item is None or isinstance(item, bool):
        return item
    if isinstance(item, str):
        return _checked_string(item, path)
    if isinstance(item, int):
        return _long_integer(int(item), path) if item.bit_length() > _INT_BITS else int(item)
    if isinstance(item, float):
        item = Decimal(repr(item))
    if isinstance(item, Decimal) and item.is_finite():
        return item
    if isinstance(item, Decimal):
        raise InvalidRequest(f"the document is not JSON at {pointer_to(path)!r}: the number {item}", param="schema")
    raise InvalidRequest(
        f"the document is not JSON at {pointer_to(path)!r}: {type(item).__name__} {item!r:.40}", param="schema"
    )


def _long_integer(item: int, path: tuple[str | int, ...]) -> Number:
    """An integer of more digits than ``str`` gives out freely, as ``parse_json`` holds it."""
    if item.bit_length() > _MOST_BITS:
        location = pointer_to(path)
        raise UnsupportedConstraint(
            f"the document has an integer of more than {_MOST_BITS} bits at {location!r}",
            keyword="size",
            location=location,
            param="schema",
        )
    return Decimal(item)


def _checked_string(item: object, path: tuple[str | int, ...]) -> str:
    if not isinstance(item, str):
        raise InvalidRequest(
            f"the document is not JSON at {pointer_to(path)!r}: a name must be a string, not {item!r:.40}",
            param="schema",
        )
    if not item.isascii():
        try:
            item.encode()
        except UnicodeEncodeError:
            location = pointer_to(path)
            raise UnsupportedConstraint(
                f"the document has a lone surrogate at {location!r}, which no UTF-8 text can hold",
                keyword="surrogate",
                location=location,
                param="schema",
            ) from None
    return str.__str__(item)  # the text of a subclass too, whatever it shows itself as


def pointer_to(path: tuple[str | int, ...]) -> str:
    """The JSON pointer of a path; ``""`` is the document itself."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


def type_of(value: JsonValue) -> JsonType:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | Decimal):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def is_integral(value: Number) -> bool:
    """Whether a number is an integer in value: 1.0 is."""
    return isinstance(value, int) or bool(value == value.to_integral_value())


def is_modest(value: Number) -> bool:
    """Whether a number is of a size that can be reasoned about digit by digit."""
    if isinstance(value, int):
        return bool(abs(value) < 10 ** (MAX_EXPONENT + 1))
    _, digits, exponent = value.as_tuple()
    return len(digits) <= MAX_DIGITS and int(exponent) >= -MAX_DIGITS and abs(value.adjusted()) <= MAX_EXPONENT


def with_integers(value: JsonValue) -> JsonValue:
    """The same value with every number that is an integer as an ``int``, so that it is spelled as one."""
    if isinstance(value, Decimal):
        return int(value) if is_integral(value) else value
    if isinstance(value, list):
        return [with_integers(part) for part in value]
    if isinstance(value, dict):
        return {name: with_integers(part) for name, part in value.items()}
    return value


def value_key(value: JsonValue) -> object:
    """A hashable stand-in: two values are equal as JSON Schema means it iff their keys are."""
    if isinstance(value, bool):
        return ("boolean", value)
    if isinstance(value, int | Decimal):
        return ("number", Decimal(value))
    if isinstance(value, list):
        return ("array", tuple(value_key(part) for part in value))
    if isinstance(value, dict):
        return ("object", frozenset((name, value_key(part)) for name, part in value.items()))
    return value


def canonical(value: JsonValue) -> str:
    """The one spelling of a scalar that output may use (numbers: see ``numbers.spellings``)."""
    if value is None or isinstance(value, bool | str):
        return json.dumps(value, ensure_ascii=False)
    raise TypeError(f"not a scalar with one spelling: {type(value).__name__}")
