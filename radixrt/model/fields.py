"""Typed, range-checked reading of a checkpoint's configuration, which is outside data.

One reader serves ``config.json`` and GGUF metadata. Every complaint is a ``ModelLoadError`` that names the file
and the field. This module does not know what any field means.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from radixrt.errors import ModelLoadError

__all__ = ["REQUIRED", "Fields"]


class _Required:
    """The type of ``REQUIRED``."""


REQUIRED: Final = _Required()


class Fields:
    """A mapping of outside values; null and absent are the same. ``prefix`` is put before every name."""

    def __init__(self, values: Mapping[str, Any], path: Path, *, prefix: str = "") -> None:
        self._values = values
        self._path = path
        self._prefix = prefix

    def error(self, name: str, problem: str) -> ModelLoadError:
        """The error that says what is wrong with field ``name``."""
        return ModelLoadError(f"{self._path}: {self._prefix}{name} {problem}", param=str(self._path))

    def raw(self, name: str) -> Any:
        """The value as it stands, None where absent."""
        return self._values.get(self._prefix + name)

    def is_null(self, name: str) -> bool:
        """Whether the field is there and null, for the few where this is not the same as absent."""
        key = self._prefix + name
        return key in self._values and self._values[key] is None

    def integer(self, name: str, default: int | _Required = REQUIRED, *, low: int = 1, high: int = 1 << 24) -> int:
        """An integer within ``low..high``. A list that repeats one number counts as that number."""
        value = self.raw(name)
        if isinstance(value, list) and value and all(item == value[0] for item in value):
            value = value[0]
        if value is None and not isinstance(default, _Required):
            return default
        if isinstance(value, list):
            raise self.error(name, "differs between layers, which is not supported")
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self.error(name, self._wanted(f"an integer from {low} to {high}", value))
        return value

    def number(
        self, name: str, default: float | _Required = REQUIRED, *, low: float = 1e-12, high: float = 1e12
    ) -> float:
        """A finite number within ``low..high``."""
        value = self.raw(name)
        if value is None and not isinstance(default, _Required):
            return default
        good = isinstance(value, int | float) and not isinstance(value, bool)
        if not good or not math.isfinite(value) or not low <= value <= high:
            raise self.error(name, self._wanted(f"a number from {low:g} to {high:g}", value))
        return float(value)

    def flag(self, name: str, default: bool) -> bool:
        value = self.raw(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.error(name, self._wanted("true or false", value))
        return value

    def text(self, name: str, default: str | _Required = REQUIRED) -> str:
        value = self.raw(name)
        if value is None and not isinstance(default, _Required):
            return default
        if not isinstance(value, str):
            raise self.error(name, self._wanted("a string", value))
        return value

    def table(self, name: str) -> Fields:
        """The object called ``name`` (empty where absent)."""
        value = self.raw(name)
        if value is not None and not isinstance(value, dict):
            raise self.error(name, self._wanted("an object", value))
        scope = {f"{self._prefix}{name}.{key}": item for key, item in (value or {}).items()}
        return Fields(scope, self._path, prefix=f"{self._prefix}{name}.")

    def names(self) -> list[str]:
        """The names that are present with a value, without the prefix."""
        start = len(self._prefix)
        return [
            name[start:]
            for name, value in self._values.items()
            if value is not None and name.startswith(self._prefix)
        ]

    def refuse(self, neutral: Mapping[str, tuple[Any, ...]]) -> None:
        """Raise for the first field that has a value other than those that change nothing."""
        for name, harmless in neutral.items():
            value = self.raw(name)
            if value is not None and not any(type(value) is type(item) and value == item for item in harmless):
                raise self.error(name, f"= {_brief(value)} is not supported")

    @staticmethod
    def _wanted(kind: str, value: Any) -> str:
        return f"is missing: {kind} is needed" if value is None else f"must be {kind}, not {_brief(value)}"


def _brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
