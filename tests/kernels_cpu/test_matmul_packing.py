"""Packing: values survive, memory is that of the blocks, buffers can be kept, bad input is refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from radixrt.kernels.cpu.matmul import FORMATS, InstructionSet, PackedMatrix, matmul
from radixrt.kernels.cpu.thread_pool import ThreadPool

from .matmul_cases import BLOCKS, FLOATS, random_blocks, step, values_of

U8 = npt.NDArray[np.uint8]


def make(name: str, rows: int, cols: int) -> tuple[PackedMatrix, U8]:
    blocks = random_blocks(name, rows, cols, np.random.default_rng((rows, cols)))
    return PackedMatrix.from_ggml(name, blocks, rows, cols), blocks


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("rows", [1, 15, 16, 50])
def test_rows_come_back_as_they_were(name: str, rows: int) -> None:
    """The embeddings of a tied matrix agree with the dequantized file to the bit."""
    cols = 3 * max(step(name), 32)
    packed, blocks = make(name, rows, cols)
    wanted = values_of(name, blocks, rows, cols)
    order = np.random.default_rng(0).permutation(rows).astype(np.int64)
    got = packed.rows_as_float(order, ThreadPool(2))
    np.testing.assert_array_equal(got.view(np.uint32), wanted[order].view(np.uint32))
    assert packed.rows_as_float(order[:0]).shape == (0, cols)


@pytest.mark.parametrize("name", FORMATS)
def test_memory_is_that_of_the_blocks(name: str) -> None:
    packed, blocks = make(name, 64, 1536)
    extra = 0.125 if name in ("Q4_K", "Q5_K") else 0
    assert packed.bits_per_weight == 8 * BLOCKS[name].size / BLOCKS[name].block + extra
    assert packed.buffer.size <= 1.03 * blocks.size + 64


@pytest.mark.parametrize("name", FORMATS)
def test_threads_pack_the_same(name: str) -> None:
    blocks = random_blocks(name, 700, 256, np.random.default_rng(1))
    single = PackedMatrix.from_ggml(name, blocks, 700, 256)
    several = PackedMatrix.from_ggml(name, blocks, 700, 256, ThreadPool(3))
    np.testing.assert_array_equal(single.buffer, several.buffer)


@pytest.mark.parametrize("name", FORMATS)
def test_a_buffer_can_be_kept_in_a_file_and_mapped(name: str, tmp_path: Path) -> None:
    packed, _ = make(name, 37, 512)
    path = tmp_path / "packed"
    packed.buffer.tofile(path)
    again = PackedMatrix.from_buffer(np.asarray(np.memmap(path, np.uint8, "r")))
    assert (again.format, again.rows, again.cols) == (name, 37, 512)
    x = np.random.default_rng(2).normal(size=(3, 512)).astype(np.float32)
    np.testing.assert_array_equal(matmul(again, x), matmul(packed, x))


def at_alignment(data: U8, offset: int = 0) -> U8:
    """A copy that begins ``offset`` bytes behind a multiple of 64."""
    room = np.empty(data.size + 128, np.uint8)
    start = -room.ctypes.data % 64 + offset
    room[start : start + data.size] = data
    return room[start : start + data.size]


@pytest.mark.parametrize(
    ("at", "value", "message"),
    [
        (0, 0, "version"),
        (4, 99, "version"),
        (8, 77, "version"),
        (16, 255, "bytes"),
        (23, 0x80, "rows"),
        (24, 0, "cols"),
        (31, 0x40, "cols"),
    ],
)
def test_a_damaged_header_is_refused(at: int, value: int, message: str) -> None:
    damaged = at_alignment(make("Q4_1", 32, 64)[0].buffer)
    damaged[at] = value
    with pytest.raises(ValueError, match=message):
        PackedMatrix.from_buffer(damaged)


def test_a_buffer_of_another_size_or_place_is_refused() -> None:
    buffer = make("Q4_1", 32, 64)[0].buffer
    assert PackedMatrix.from_buffer(at_alignment(buffer)).rows == 32
    for wrong, message in (
        (at_alignment(buffer[:-1]), "bytes"),
        (at_alignment(buffer[:10]), "header"),
        (at_alignment(buffer, 1), "multiple"),
        (np.zeros((2, 64), np.uint8), "flat"),
    ):
        with pytest.raises(ValueError, match=message):
            PackedMatrix.from_buffer(wrong)


@pytest.mark.parametrize(("quantization", "steps"), [("q8_0", 127), ("q4_0", 8)])
@pytest.mark.parametrize("cols", [32, 45, 576])
def test_floats_are_quantized_to_half_a_step(quantization: str, steps: int, cols: int) -> None:
    array = np.random.default_rng(4).normal(size=(21, cols)).astype(np.float32)
    array[3] = 0
    packed = PackedMatrix.from_float(array, quantization)
    assert (packed.format, packed.rows, packed.cols) == (quantization.upper(), 21, cols)
    got = packed.rows_as_float(np.arange(21))
    filled = np.zeros((21, -(-cols // 32), 32), np.float32)
    filled.reshape(21, -1)[:, :cols] = array
    # Half a step; the value opposite to the largest one has a whole step less room in the 4-bit codes.
    step_size = np.repeat(np.abs(filled).max(axis=2) / steps, 32, axis=1)[:, :cols]
    assert (np.abs(got - array) <= step_size * (1.01 if steps == 8 else 0.51) + 1e-7).all()
    assert (got[3] == 0).all()
    again = PackedMatrix.from_buffer(packed.buffer)
    x = np.random.default_rng(5).normal(size=(5, cols)).astype(np.float32)
    np.testing.assert_array_equal(matmul(again, x), matmul(packed, x))


def test_floats_stay_floats_unless_told() -> None:
    array = np.random.default_rng(4).normal(size=(21, 45))
    packed = PackedMatrix.from_float(array)
    assert packed.format == "F32"
    np.testing.assert_array_equal(packed.rows_as_float(np.arange(21)), array.astype(np.float32))


@pytest.mark.parametrize("value", [np.nan, np.inf, 3e38])
def test_what_has_no_scale_is_not_quantized(value: float) -> None:
    array = np.zeros((4, 64), np.float32)
    array[1, 40] = value
    for quantization in ("q8_0", "q4_0"):
        with pytest.raises(ValueError, match="array"):
            PackedMatrix.from_float(array, quantization)


def test_wrong_sizes_are_refused_by_name() -> None:
    blocks = random_blocks("Q4_K", 4, 512, np.random.default_rng(0))
    cases: list[tuple[tuple[Any, ...], str]] = [
        (("Q2_K", blocks, 4, 512), "format"),
        (("Q4_K", blocks, 4, 500), "cols"),
        (("Q4_K", blocks, 4, 0), "rows and cols"),
        (("Q4_K", blocks, -4, 512), "rows and cols"),
        (("Q4_K", blocks, 1 << 40, 512), "rows and cols"),
        (("Q4_K", blocks[:-1], 4, 512), "blocks"),
        (("Q4_K", blocks.reshape(4, -1), 4, 512), "blocks"),
        (("Q4_K", blocks.view(np.int8), 4, 512), "blocks"),
    ]
    for arguments, message in cases:
        with pytest.raises(ValueError, match=message):
            PackedMatrix.from_ggml(*arguments)
    with pytest.raises(ValueError, match="quantization"):
        PackedMatrix.from_float(np.zeros((2, 2), np.float32), "q3_k")
    with pytest.raises(ValueError, match="array"):
        PackedMatrix.from_float(np.zeros(2, np.float32))


def test_wrong_rows_are_refused_by_name() -> None:
    packed, _ = make("Q8_0", 8, 64)
    good = np.zeros((3, 64), np.float32)
    frozen = np.zeros((3, 8), np.float32)
    frozen.flags.writeable = False
    both = np.zeros((3, 128), np.float32)
    cases: list[tuple[tuple[Any, ...], str]] = [
        ((good[:, :32],), "x must"),
        ((good.astype(np.float64),), "x must"),
        ((good[0],), "x must"),
        ((both[:, ::2],), "x:"),
        ((np.broadcast_to(good[:1], (3, 64)),), "x:"),
        ((good, np.zeros((3, 9), np.float32)), "out must"),
        ((good, frozen), "out must"),
        ((good, np.zeros((3, 16), np.float32)[:, ::2]), "out:"),
        ((both[:, :64], both[:, 60:68]), "overlap"),
    ]
    for arguments, message in cases:
        with pytest.raises(ValueError, match=message):
            matmul(packed, *arguments)
    for indices in (np.array([8]), np.array([-1]), np.zeros((1, 1), np.int64), np.array([0], np.int32)):
        with pytest.raises(ValueError, match="indices"):
            packed.rows_as_float(indices)  # type: ignore[arg-type]


def test_an_instruction_set_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    packed, _ = make("Q8_0", 8, 64)
    monkeypatch.setattr("radixrt.kernels.cpu.matmul.available_instruction_sets", lambda: (InstructionSet.GENERIC,))
    with pytest.raises(ValueError, match="AVX512"):
        matmul(packed, np.zeros((1, 64), np.float32), instruction_set=InstructionSet.AVX512)


def test_every_format_is_covered() -> None:
    assert set(FLOATS) < set(FORMATS)
    assert set(BLOCKS) == set(FORMATS)
