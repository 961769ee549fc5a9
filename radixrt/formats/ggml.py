"""The tensor types of GGML: their numbers, names and block sizes.

A type stores ``block`` values in ``size`` bytes. Only the types that :mod:`radixrt.formats.dequant` can turn into
numbers are in ``TYPES``; the others are listed by name alone, so that a refusal can say what it refuses. This
module knows nothing about files or about how the bits of a block are laid out.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

__all__ = ["REFUSED", "TYPES", "GGMLType"]


class GGMLType(msgspec.Struct, frozen=True):
    """One storage type: ``block`` consecutive values of a row take ``size`` bytes."""

    number: int
    name: str
    block: int
    size: int


TYPES: Mapping[int, GGMLType] = MappingProxyType(
    {
        kind.number: kind
        for kind in (
            GGMLType(0, "F32", 1, 4),
            GGMLType(1, "F16", 1, 2),
            GGMLType(2, "Q4_0", 32, 18),
            GGMLType(3, "Q4_1", 32, 20),
            GGMLType(6, "Q5_0", 32, 22),
            GGMLType(7, "Q5_1", 32, 24),
            GGMLType(8, "Q8_0", 32, 34),
            GGMLType(10, "Q2_K", 256, 84),
            GGMLType(11, "Q3_K", 256, 110),
            GGMLType(12, "Q4_K", 256, 144),
            GGMLType(13, "Q5_K", 256, 176),
            GGMLType(14, "Q6_K", 256, 210),
            GGMLType(15, "Q8_K", 256, 292),
            GGMLType(24, "I8", 1, 1),
            GGMLType(25, "I16", 1, 2),
            GGMLType(26, "I32", 1, 4),
            GGMLType(27, "I64", 1, 8),
            GGMLType(28, "F64", 1, 8),
            GGMLType(30, "BF16", 1, 2),
        )
    }
)

REFUSED: Mapping[int, str] = MappingProxyType(
    {
        4: "Q4_2",
        5: "Q4_3",
        9: "Q8_1",
        16: "IQ2_XXS",
        17: "IQ2_XS",
        18: "IQ3_XXS",
        19: "IQ1_S",
        20: "IQ4_NL",
        21: "IQ3_S",
        22: "IQ2_S",
        23: "IQ4_XS",
        29: "IQ1_M",
        31: "Q4_0_4_4",
        32: "Q4_0_4_8",
        33: "Q4_0_8_8",
        34: "TQ1_0",
        35: "TQ2_0",
        36: "IQ4_NL_4_4",
        37: "IQ4_NL_4_8",
        38: "IQ4_NL_8_8",
        39: "MXFP4",
        40: "NVFP4",
        41: "Q1_0",
    }
)
