"""Reading the JSON of structural tags: fields of the right kind, errors with a JSON pointer to what is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NoReturn

from radixrt.errors import InvalidRequest, RadixrtError, UnsatisfiableConstraint, UnsupportedConstraint
from radixrt.grammar.json_schema.values import JsonValue, pointer_to

__all__ = ["Fields", "blame", "checked_text", "wrong"]

_KINDS: dict[type, str] = {
    str: "a string",
    list: "an array",
    dict: "an object",
    bool: "true or false",
    int: "an integer",
}


def wrong(pointer: str, problem: str) -> NoReturn:
    """The structural tag is malformed."""
    raise InvalidRequest(f"the structural tag is wrong at {pointer or 'its top'}: {problem}", param="grammar")


class Fields:
    """An object of the specification. Each field is asked for once; ``done`` refuses those nobody asked for."""

    def __init__(self, value: JsonValue, pointer: str) -> None:
        if not isinstance(value, dict):
            wrong(pointer, f"expected an object, not {_kind(value)}")
        self._value = value
        self._asked: set[str] = set()
        self._inner: list[Fields] = []
        self.pointer = pointer

    def inner(self, value: JsonValue, pointer: str) -> Fields:
        """An object within this one, ``done`` with it."""
        fields = Fields(value, pointer)
        self._inner.append(fields)
        return fields

    def at(self, name: str) -> str:
        """The JSON pointer of a field."""
        return self.pointer + pointer_to((name,))

    def has(self, name: str) -> bool:
        """Whether a field is there. null is absent."""
        return self._value.get(name) is not None

    def raw(self, name: str, default: JsonValue = ...) -> JsonValue:
        """A field of any kind."""
        self._asked.add(name)
        value = self._value.get(name)
        if value is not None:
            return value
        if default is ...:
            wrong(self.pointer, f"the field {name!r} is missing")
        return default

    def _of(self, kind: type, name: str, default: JsonValue) -> JsonValue:
        value = self.raw(name, default)
        if type(value) is not kind and value is not default:
            wrong(self.at(name), f"expected {_KINDS[kind]}, not {_kind(value)}")
        return value

    def text(self, name: str, default: JsonValue = ...) -> str:
        value: str = self._of(str, name, default)
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        return bool(self._of(bool, name, default))

    def count(self, name: str, default: JsonValue = ..., low: int = 0) -> int | None:
        """An integer from ``low`` to 2^31 - 1."""
        value: int | None = self._of(int, name, default)
        if value is not None and not low <= value < 1 << 31:
            wrong(self.at(name), f"expected a number from {low} to {(1 << 31) - 1}")
        return value

    def items(self, name: str, default: JsonValue = ...) -> Iterator[tuple[JsonValue, str]]:
        """The elements of an array, each with its pointer."""
        for index, item in enumerate(self._of(list, name, default)):
            yield item, self.at(name) + pointer_to((index,))

    def texts(self, name: str, default: JsonValue = ..., *, empty: bool = False) -> list[str]:
        """An array of strings, none of them empty unless ``empty``."""
        return [checked_text(item, pointer, empty=empty) for item, pointer in self.items(name, default)]

    def refuse(self, name: str, why: str) -> None:
        """Refuse a field that the notation has and the engine has not."""
        self._asked.add(name)
        if self.has(name):
            raise UnsupportedConstraint(
                f"{name} at {self.at(name)} is not supported: {why}",
                keyword=name,
                location=self.at(name),
                param="grammar",
            )

    def done(self) -> None:
        """Refuse what was not asked for: nothing is dropped silently."""
        for name in self._value:
            if name not in self._asked:
                self.refuse(name, "this field is not known here")
        for fields in self._inner:
            fields.done()

    def blame(self, error: RadixrtError, name: str) -> NoReturn:
        """Raise what went wrong in a field (a schema, a pattern) as an error of the structural tag."""
        blame(error, self.at(name))


def blame(error: RadixrtError, pointer: str) -> NoReturn:
    """Raise what went wrong in the value at ``pointer`` as an error of the structural tag."""
    problem = f"{error.message} (in the structural tag at {pointer})"
    if isinstance(error, UnsupportedConstraint):
        inner = error.location or ""
        place = pointer + (inner if inner.startswith("/") else "")
        raise UnsupportedConstraint(problem, keyword=error.keyword, location=place, param="grammar") from error
    if isinstance(error, UnsatisfiableConstraint):
        raise UnsatisfiableConstraint(problem, param="grammar") from error
    raise InvalidRequest(problem, param="grammar") from error


def checked_text(value: JsonValue, pointer: str, *, empty: bool = True) -> str:
    """A string, not empty unless ``empty``."""
    if not isinstance(value, str):
        wrong(pointer, f"expected a string, not {_kind(value)}")
    if not value and not empty:
        wrong(pointer, "the string must not be empty")
    return value


def _kind(value: JsonValue) -> str:
    if value is None:
        return "null"
    return _KINDS.get(type(value), "a number")
