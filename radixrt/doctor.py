"""What ``radixrt doctor`` shows: one finding a line, each good or bad by itself.

Looks and reports; changes nothing, fetches nothing, measures no speed.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import sys
from collections.abc import Iterator
from typing import NamedTuple

from radixrt.config import EngineConfig, flag_table

__all__ = ["Finding", "report"]

PACKAGES = ("torch", "numpy", "tokenizers", "transformers", "safetensors", "msgspec", "pyzmq", "pydantic")


class Finding(NamedTuple):
    what: str
    found: str
    ok: bool = True


def report(config: EngineConfig) -> Iterator[Finding]:
    """Yield the findings: interpreter, packages, machine, kernels, devices, models, flags off their default."""
    yield Finding("radixrt", f"{importlib.metadata.version('radixrt')} on Python {platform.python_version()}")
    yield Finding("interpreter", sys.executable)
    for package in PACKAGES:
        try:
            yield Finding(package, importlib.metadata.version(package))
        except importlib.metadata.PackageNotFoundError:
            yield Finding(package, "not installed", ok=False)
    yield from _machine()
    yield _native()
    yield from _devices()
    yield from _models()
    for flag in flag_table().values():
        value = getattr(config, flag.name)
        if value != flag.default:
            yield Finding(flag.option, f"{value} (default {flag.default})")


def _machine() -> Iterator[Finding]:
    from radixrt.model.machine import available_memory, cpu_quota

    yield Finding("processors", f"{cpu_quota()} usable of {os.cpu_count()} ({platform.machine()})")
    yield Finding("memory", f"{available_memory() / 2**30:.1f} GiB free for this process")


def _native() -> Finding:
    from radixrt.kernels import cpu

    info = cpu.build_info()
    if not info["native"]:
        return Finding("native kernels", "not built: masks are filled by slower Python and numpy", ok=False)
    return Finding("native kernels", f"built by {info['built']}")


def _devices() -> Iterator[Finding]:
    if importlib.util.find_spec("torch") is None:
        return
    import torch

    if torch.cuda.is_available():
        for index in range(torch.cuda.device_count()):
            yield Finding(f"GPU {index}", torch.cuda.get_device_name(index))
    else:
        yield Finding("GPU", "none that this torch can use; models run on the CPU")


def _models() -> Iterator[Finding]:
    from radixrt.model.sources import list_models

    for entry in list_models():
        yield Finding(
            f"model {entry.alias}", str(entry.path) if entry.cached else "not here yet: fetched when first used"
        )
