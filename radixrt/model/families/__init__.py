"""One small file for each model family. A new one is a file and a line in ``FAMILIES``."""

from __future__ import annotations

from pathlib import Path

from radixrt.errors import ModelLoadError
from radixrt.model.families.base import Family
from radixrt.model.families.llama import LLAMA
from radixrt.model.families.mistral import MISTRAL
from radixrt.model.families.qwen2 import QWEN2
from radixrt.model.families.qwen3 import QWEN3

__all__ = ["FAMILIES", "Family", "family_of_gguf", "family_of_hf"]

FAMILIES: tuple[Family, ...] = (LLAMA, MISTRAL, QWEN2, QWEN3)


def family_of_hf(architectures: object, path: Path) -> Family:
    """The family of ``config.json``'s ``architectures``. Raises ``ModelLoadError`` that lists the known ones."""
    named = [name for name in architectures if isinstance(name, str)] if isinstance(architectures, list) else []
    for family in FAMILIES:
        if len(named) == 1 and named[0] in family.architectures:
            return family
    known = [name for family in FAMILIES for name in family.architectures]
    raise _unknown("architectures", ", ".join(named) or "missing", known, path)


def family_of_gguf(architecture: object, path: Path) -> Family:
    """The family of ``general.architecture``. Raises ``ModelLoadError`` that lists the known ones."""
    for family in FAMILIES:
        if architecture in family.gguf_architectures:
            return family
    known = [name for family in FAMILIES for name in family.gguf_architectures]
    shown = architecture if isinstance(architecture, str) else "missing"
    raise _unknown("general.architecture", shown, known, path)


def _unknown(field: str, found: str, known: list[str], path: Path) -> ModelLoadError:
    return ModelLoadError(
        f"{path}: {field} is {found[:80]}; the known ones are {', '.join(known)}", param=str(path)
    )
