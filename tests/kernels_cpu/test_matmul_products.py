"""Products of packed matrices: right for every format, shape and instruction set, and the same bits for a row."""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt
import pytest

from radixrt.kernels.cpu.matmul import FORMATS, InstructionSet, PackedMatrix, available_instruction_sets, matmul
from radixrt.kernels.cpu.thread_pool import ThreadPool

from .matmul_cases import FLOATS, QUANTIZED, expected, random_blocks, step, values_of

F32 = npt.NDArray[np.float32]
SETS = available_instruction_sets()
# Rows of the matrix: one, less than a tile, a tile, an odd pair of tiles with a rest.
ROWS = (1, 7, 16, 33, 64)


def make(name: str, rows: int, cols: int, seed: int = 0) -> tuple[PackedMatrix, F32]:
    blocks = random_blocks(name, rows, cols, np.random.default_rng((seed, rows, cols)))
    return PackedMatrix.from_ggml(name, blocks, rows, cols), values_of(name, blocks, rows, cols)


def normal(n: int, cols: int, seed: int = 1) -> F32:
    return np.random.default_rng((seed, n, cols)).normal(0, 1, (n, cols)).astype(np.float32)


def test_the_machine_has_a_kernel() -> None:
    assert SETS[0] is InstructionSet.GENERIC


@pytest.mark.parametrize("instruction_set", SETS)
@pytest.mark.parametrize("name", FORMATS)
def test_products_agree_with_float64(name: str, instruction_set: InstructionSet) -> None:
    for rows, width, n in itertools.product(ROWS, (1, 3, 9), (1, 5)):
        packed, weights = make(name, rows, width * max(step(name), 32))
        x = normal(n, packed.cols)
        wanted, tolerance = expected(packed, weights, x)
        assert (np.abs(matmul(packed, x, instruction_set=instruction_set) - wanted) <= tolerance).all(), (
            rows,
            width,
        )


@pytest.mark.parametrize("instruction_set", SETS)
@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("cols", [1, 31, 33, 100])
def test_float_matrices_have_any_width(name: str, cols: int, instruction_set: InstructionSet) -> None:
    packed, weights = make(name, 19, cols)
    x = normal(6, cols)
    wanted, tolerance = expected(packed, weights, x)
    assert (np.abs(matmul(packed, x, instruction_set=instruction_set) - wanted) <= tolerance).all()


@pytest.mark.parametrize("name", QUANTIZED)
def test_integer_sums_are_exact(name: str) -> None:
    """All codes at their extremes, where 16-bit sums would saturate: the sets agree with each other to the bit."""
    cols = step(name)
    blocks = random_blocks(name, 32, cols, np.random.default_rng(3)).reshape(32, -1)
    for fill in (0, 127, 128, 255):
        full = blocks.copy()
        # Keep what lies where a scale may be; the rest are codes and small scales.
        full[:, 4 : 208 if name == "Q6_K" else None] = fill
        flat = full.reshape(-1)
        packed, weights = PackedMatrix.from_ggml(name, flat, 32, cols), values_of(name, flat, 32, cols)
        for x in (np.ones((3, cols)), -np.ones((3, cols)), np.where(np.arange(3 * cols).reshape(3, -1) % 2, 1, -1)):
            wanted, tolerance = expected(packed, weights, x.astype(np.float32))
            for instruction_set in SETS:
                got = matmul(packed, x.astype(np.float32), instruction_set=instruction_set)
                assert (np.abs(got - wanted) <= tolerance).all(), (fill, instruction_set)


@pytest.mark.parametrize("name", FORMATS)
def test_avx2_and_avx512_give_the_same_bits(name: str) -> None:
    if InstructionSet.AVX512 not in SETS:
        pytest.skip("needs AVX-512 with VNNI")
    packed, _ = make(name, 49, 6 * max(step(name), 128))
    x = normal(9, packed.cols)
    wide = matmul(packed, x, instruction_set=InstructionSet.AVX512)
    narrow = matmul(packed, x, instruction_set=InstructionSet.AVX2)
    np.testing.assert_array_equal(wide.view(np.uint32), narrow.view(np.uint32))


@pytest.mark.parametrize("instruction_set", SETS)
@pytest.mark.parametrize("name", FORMATS)
def test_a_row_has_the_same_bits_in_any_batch(name: str, instruction_set: InstructionSet) -> None:
    """Alone, first, last and in the middle of 1 to 67 rows; wide enough for columns to be worked on in parts."""
    packed, _ = make(name, 49, 1280)
    x = normal(67, packed.cols)
    alone = np.concatenate([matmul(packed, x[i : i + 1], instruction_set=instruction_set) for i in range(67)])
    for n in range(1, 68):
        first = (n * 13) % (68 - n)
        together = matmul(packed, x[first : first + n], instruction_set=instruction_set)
        np.testing.assert_array_equal(together.view(np.uint32), alone[first : first + n].view(np.uint32))


@pytest.mark.parametrize("instruction_set", SETS)
@pytest.mark.parametrize("name", FORMATS)
def test_threads_change_no_bit(name: str, instruction_set: InstructionSet) -> None:
    packed, _ = make(name, 497, 512)
    x = normal(35, packed.cols)
    single = matmul(packed, x, instruction_set=instruction_set)
    for threads in (2, 3):
        pool = ThreadPool(threads)
        for _ in range(5):
            several = matmul(packed, x, pool=pool, instruction_set=instruction_set)
            np.testing.assert_array_equal(several.view(np.uint32), single.view(np.uint32))


@pytest.mark.parametrize("instruction_set", SETS)
@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("bad", [np.nan, -np.nan, np.inf, -np.inf])
def test_what_is_not_finite_shows_in_its_row_alone(name: str, instruction_set: InstructionSet, bad: float) -> None:
    packed, _ = make(name, 33, 768)
    x = normal(6, packed.cols)
    clean = matmul(packed, x, instruction_set=instruction_set)
    x[2, 401] = bad
    got = matmul(packed, x, instruction_set=instruction_set)
    assert not np.isfinite(got[2]).any()
    others = [0, 1, 3, 4, 5]
    np.testing.assert_array_equal(got[others].view(np.uint32), clean[others].view(np.uint32))


@pytest.mark.parametrize("instruction_set", SETS)
@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("size", [0.0, 1e-45, 1e-39, 1e-31, 1e-20, 1e20, 1e30])
def test_rows_of_extreme_size(name: str, instruction_set: InstructionSet, size: float) -> None:
    packed, weights = make(name, 17, 512)
    x = (normal(3, packed.cols) * np.float32(size)).astype(np.float32)
    x[1, ::3] = 0
    wanted, tolerance = expected(packed, weights, x)
    got = matmul(packed, x, instruction_set=instruction_set)
    assert np.isfinite(got).all()
    if name in QUANTIZED and size < 1e-30:
        assert (got == 0).all()
    # Below the range of float32 products of floats lose bits one by one.
    assert (np.abs(got - wanted) <= tolerance + 512 * 1.5e-45).all()


@pytest.mark.parametrize("instruction_set", SETS)
@pytest.mark.parametrize("name", [name for name in QUANTIZED if name not in ("Q4_K", "Q5_K", "Q6_K")])
def test_scales_of_every_kind(name: str, instruction_set: InstructionSet) -> None:
    """Subnormal float16 scales count; infinite and NaN ones show in the outputs of their row of the matrix."""
    blocks = random_blocks(name, 40, 64, np.random.default_rng(5)).reshape(40, -1)
    scale = blocks[:, :2].view("<u2")
    scale[3], scale[20], scale[21], scale[22] = 0x0001, 0x7C00, 0x7E01, 0x83FF
    flat = blocks.reshape(-1)
    packed, weights = PackedMatrix.from_ggml(name, flat, 40, 64), values_of(name, flat, 40, 64)
    x = np.abs(normal(5, 64))
    got = matmul(packed, x, instruction_set=instruction_set)
    fine = [i for i in range(40) if i not in (20, 21)]
    wanted, tolerance = expected(packed, np.nan_to_num(weights, posinf=0, neginf=0), x)
    assert (np.abs(got - wanted) <= tolerance)[:, fine].all()
    assert not np.isfinite(got[:, [20, 21]]).any()


def test_rows_may_be_strided_and_nothing_else_is_written() -> None:
    packed, _ = make("Q4_1", 33, 96)
    wide = normal(5, 120)
    room = np.full((5, 50), 7, np.float32)
    got = matmul(packed, wide[:, 10:106], room[:, 4:37])
    np.testing.assert_array_equal(got, matmul(packed, np.ascontiguousarray(wide[:, 10:106])))
    assert (room[:, :4] == 7).all()
    assert (room[:, 37:] == 7).all()


def test_no_rows_are_no_work() -> None:
    packed, _ = make("Q8_0", 33, 96)
    assert matmul(packed, np.empty((0, 96), np.float32)).shape == (0, 33)
