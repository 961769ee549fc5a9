"""The instruction sets that native kernels are written for. Knows none of the kernels."""

from __future__ import annotations

import enum

__all__ = ["InstructionSet"]


class InstructionSet(enum.IntEnum):
    """What a kernel is written for; each includes those before it. Values are those of ``cpu_features.h``."""

    GENERIC = 0
    AVX2 = 1
    AVX512 = 2
