"""Finds and loads the shared library of the native kernels. Knows nothing about what is in it."""

from __future__ import annotations

import ctypes
import functools
import sys
import warnings
from pathlib import Path

__all__ = ["LIBRARY_NAME", "build_info", "native"]

LIBRARY_NAME = "libradixrt_cpu.so"
"""File name of the library, beside this module. ``setup.py`` builds it under this name."""


def _load() -> ctypes.CDLL | str:
    """The library, or why there is none."""
    path = Path(__file__).parent / LIBRARY_NAME
    if not path.is_file():
        return f"{path.name} was not built (a C++17 compiler was missing when radixrt was installed)"
    try:
        library = ctypes.CDLL(str(path))
        library.radixrt_build_info.restype = ctypes.c_char_p
    except (OSError, AttributeError) as error:
        return f"{path.name} cannot be loaded: {error}"
    return library


@functools.cache
def native() -> ctypes.CDLL | None:
    """The loaded library; None, with one ``RuntimeWarning`` per process, when there is none to use."""
    found = _load()
    if isinstance(found, str):
        warnings.warn(
            f"radixrt runs without its native CPU kernels and will be slow: {found}. "
            "Install a C++ compiler and reinstall radixrt to build them.",
            RuntimeWarning,
            stacklevel=_level_of_caller(),
        )
        return None
    return found


def _level_of_caller() -> int:
    """The stack level, as ``native`` counts for a warning, of the first caller outside of this package."""
    package = __name__.partition(".")[0]
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == package:
        frame, level = frame.f_back, level + 1
    return level


def build_info() -> dict[str, str | bool]:
    """How the native kernels are: ``{"native": True, "built": ...}`` or ``{"native": False, "reason": ...}``."""
    found = _load()
    if isinstance(found, str):
        return {"native": False, "reason": found}
    return {"native": True, "built": found.radixrt_build_info().decode()}
