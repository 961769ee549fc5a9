"""JSON that came with a checkpoint: bounded, strict about duplicates, always an object.

This module does not know what the keys are for, but for one: ``auto_map`` names Python code to run, and a folder
that carries it is refused.
"""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

from radixrt.errors import ModelLoadError

__all__ = ["parse_object", "read_object", "refuse_code"]

FILE_LIMIT = 64 << 20  # bytes; tokenizer.json of a large vocabulary takes 20 MiB


def parse_object(text: bytes, path: Path, what: str, *, constants: bool = False) -> dict[str, Any]:
    """Parse a JSON object; ``what`` and ``path`` name it in the ``ModelLoadError`` for anything else.

    ``constants`` lets NaN and Infinity pass, which are not JSON but which Python's writer puts into configurations.
    """
    constant = float if constants else _no_constant
    try:
        value = json.loads(text.decode("utf-8"), object_pairs_hook=_unique, parse_constant=constant)
    except (ValueError, RecursionError) as error:
        raise ModelLoadError(f"{path}: {what} is not valid JSON: {error}", param=str(path)) from error
    if not isinstance(value, dict):
        raise ModelLoadError(f"{path}: {what} is not a JSON object", param=str(path))
    return value


def read_object(path: Path) -> dict[str, Any]:
    """Read a file that holds one JSON object of at most ``FILE_LIMIT`` bytes."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise ModelLoadError(f"{path}: not a regular file", param=str(path))
        with open(path, "rb") as file:
            text = file.read(FILE_LIMIT + 1)
    except OSError as error:
        raise ModelLoadError(f"{path}: cannot be read: {error}", param=str(path)) from error
    if len(text) > FILE_LIMIT:
        raise ModelLoadError(f"{path}: larger than the {FILE_LIMIT} bytes that are read", param=str(path))
    return parse_object(text, path, "the file", constants=True)


def refuse_code(folder: Path) -> None:
    """Raise ``ModelLoadError`` when the folder's configuration asks for Python code of its own to be run."""
    for name in ("config.json", "tokenizer_config.json"):
        path = folder / name
        if path.is_file() and read_object(path).get("auto_map"):
            raise ModelLoadError(
                f"{path}: 'auto_map' asks to run Python code that comes with the model; that is never done. "
                "Use a checkpoint whose architecture needs no code of its own",
                param=str(path),
            )


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ValueError(f"the key {key[:200]!r} is repeated")
            seen.add(key)
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
