"""Every storage type gives, bit for bit, what the reference implementation gives."""

from __future__ import annotations

import tracemalloc
from typing import Any

import gguf
import numpy as np
import pytest

from radixrt.errors import ModelLoadError
from radixrt.formats import dequant
from radixrt.formats.dequant import dequantize
from radixrt.formats.ggml import REFUSED, TYPES

REFERENCE = ["BF16", "F16", "F32", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"]


def size_of(kind: str) -> int:
    return next(t.size for t in TYPES.values() if t.name == kind)


def block_of(kind: str) -> int:
    return next(t.block for t in TYPES.values() if t.name == kind)


def same_bits(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> bool:
    """Equal to the bit; where a NaN is expected, any NaN will do."""
    nan = np.isnan(a)
    return (
        a.dtype == b.dtype == np.float32
        and np.array_equal(nan, np.isnan(b))
        and np.array_equal(a.view(np.uint32)[~nan], b.view(np.uint32)[~nan])
    )


def test_the_table_agrees_with_the_reference() -> None:
    for kind in TYPES.values():
        reference = gguf.GGMLQuantizationType(kind.number)
        assert reference.name == kind.name
        assert gguf.GGML_QUANT_SIZES[reference] == (kind.block, kind.size)
    for reference in gguf.GGMLQuantizationType:
        assert (reference.value in TYPES) != (reference.value in REFUSED)
        assert reference.value in TYPES or REFUSED[reference.value] == reference.name


@pytest.mark.parametrize("kind", REFERENCE)
@pytest.mark.parametrize("blocks", [1, 3, 2500])
def test_random_bytes_decode_as_the_reference_decodes_them(kind: str, blocks: int) -> None:
    # All bytes at random: every field takes every value, scales are infinite or NaN now and then.
    data = np.random.default_rng(blocks).integers(0, 256, (blocks, size_of(kind)), dtype=np.uint8)
    with np.errstate(invalid="ignore", over="ignore"):
        expected = gguf.dequantize(data, gguf.GGMLQuantizationType[kind]).reshape(-1)
    found = dequantize(data.reshape(-1), kind)
    assert same_bits(expected, found)


@pytest.mark.parametrize("kind", ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"])
def test_quantized_weights_come_back_close(kind: str) -> None:
    values = np.random.default_rng(7).standard_normal((16, 256)).astype(np.float32)
    data = gguf.quantize(values, gguf.GGMLQuantizationType[kind])
    assert np.abs(dequantize(data.reshape(-1), kind).reshape(values.shape) - values).max() < 0.4


def test_q8_k() -> None:
    rng = np.random.default_rng(1)
    scales = rng.standard_normal(40).astype("<f4")
    quants = rng.integers(-128, 128, (40, 256), dtype=np.int8)
    sums = rng.integers(-999, 999, (40, 16)).astype("<i2")
    data = np.hstack([scales[:, None].view(np.uint8), quants.view(np.uint8), sums.view(np.uint8)])
    assert data.shape[1] == size_of("Q8_K")
    expected = (quants.astype(np.float32) * scales[:, None]).reshape(-1)
    assert same_bits(expected, dequantize(np.ascontiguousarray(data).reshape(-1), "Q8_K"))


@pytest.mark.parametrize(("kind", "dtype"), [("I8", "i1"), ("I16", "<i2"), ("I32", "<i4"), ("I64", "<i8")])
def test_integers_stay_what_they_are(kind: str, dtype: str) -> None:
    values = np.array([-1, 0, 1, np.iinfo(dtype).min, np.iinfo(dtype).max], dtype)
    found = dequantize(values.view(np.uint8), kind)
    assert found.dtype == values.dtype
    assert np.array_equal(found, values)


def test_float64_is_rounded_to_float32() -> None:
    values = np.array([1 / 3, -1e300, 1e-300, 2.0])
    with np.errstate(over="ignore"):
        assert same_bits(values.astype(np.float32), dequantize(values.view(np.uint8), "F64"))


@pytest.mark.parametrize("kind", sorted(t.name for t in TYPES.values()))
def test_part_of_a_block_is_refused(kind: str) -> None:
    assert dequantize(np.zeros(0, np.uint8), kind).size == 0
    if size_of(kind) > 1:
        with pytest.raises(ModelLoadError, match=kind):
            dequantize(np.zeros(size_of(kind) + 1, np.uint8), kind)


@pytest.mark.parametrize("kind", [*REFUSED.values(), "nonsense"])
def test_other_types_are_refused_by_name(kind: str) -> None:
    with pytest.raises(ModelLoadError, match=kind):
        dequantize(np.zeros(0, np.uint8), kind)


@pytest.mark.parametrize("kind", ["Q4_1", "Q3_K", "Q6_K"])
def test_memory_is_that_of_the_result(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dequant, "CHUNK", 1 << 12)
    data = np.zeros(1024 * size_of(kind), np.uint8)
    tracemalloc.start()
    result = dequantize(data, kind)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < result.nbytes + 256 * 1024
    assert result.size == 1024 * block_of(kind)
