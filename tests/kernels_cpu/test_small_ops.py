"""The small native operations: accuracy, the bits of a row, what is not finite, bad operands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from radixrt.kernels import ref
from radixrt.kernels.cpu import small_ops
from radixrt.kernels.cpu.instruction_sets import InstructionSet
from radixrt.kernels.cpu.small_ops import NONE_ALLOWED, NOT_A_NUMBER
from radixrt.kernels.cpu.thread_pool import ThreadPool

SETS = small_ops.available_instruction_sets()
WIDTHS = [1, 3, 15, 16, 17, 64, 100, 576, 1031]
Floats = npt.NDArray[np.float32]


def normal(*shape: int, seed: int = 0, spread: float = 1.0) -> Floats:
    return (np.random.default_rng(seed).standard_normal(shape) * spread).astype(np.float32)


def units(found: Floats, wanted: npt.NDArray[np.float64]) -> float:
    """The greatest error in units in the last place of what is wanted."""
    step = np.spacing(np.abs(wanted).astype(np.float32)).astype(np.float64)
    return float(np.max(np.abs(found.astype(np.float64) - wanted) / step))


@pytest.mark.parametrize("instruction_set", SETS)
def test_exp_is_within_two_units(instruction_set: InstructionSet) -> None:
    """Every 97th float between the ends of the range, denormal results too."""
    for low, high in ((np.float32(1e-30), np.float32(88.72283)), (np.float32(1e-30), np.float32(103.97))):
        bits = np.arange(low.view(np.int32), high.view(np.int32), 97, np.int32)
        x = bits.view(np.float32) * (1 if high < 100 else -1)
        assert units(small_ops.exp(x, instruction_set=instruction_set), np.exp(x.astype(np.float64))) <= 2


@pytest.mark.parametrize("instruction_set", SETS)
def test_exp_at_its_ends(instruction_set: InstructionSet) -> None:
    x = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 88.73, 3e38, -104.0, -3e38, 1e-45], np.float32)
    with np.errstate(over="ignore"):
        wanted = np.exp(x.astype(np.float64)).astype(np.float32)
    np.testing.assert_array_equal(small_ops.exp(x, instruction_set=instruction_set), wanted)


@pytest.mark.parametrize("instruction_set", SETS)
def test_tanh_is_within_four_units(instruction_set: InstructionSet) -> None:
    x = np.arange(np.float32(1e-30).view(np.int32), np.float32(12).view(np.int32), 97, np.int32).view(np.float32)
    x = np.concatenate((x, -x))
    assert units(small_ops.tanh(x, instruction_set=instruction_set), np.tanh(x.astype(np.float64))) <= 4
    ends = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 100, -3e38], np.float32)
    np.testing.assert_array_equal(
        small_ops.tanh(ends, instruction_set=instruction_set), np.array([1, -1, np.nan, 0, -0.0, 1, -1], np.float32)
    )


@pytest.mark.parametrize("instruction_set", SETS)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("offset", [0.0, 1.0])
def test_rms_norm(width: int, offset: float, instruction_set: InstructionSet) -> None:
    x, weight, residual = normal(5, width), normal(width, seed=1), normal(5, width, seed=2)
    wide = [torch.from_numpy(array.astype(np.float64)) for array in (x, weight + np.float32(offset), residual)]
    options: dict[str, Any] = {"offset": offset, "instruction_set": instruction_set}
    found = small_ops.rms_norm(x, weight, 1e-5, **options)
    np.testing.assert_allclose(found, ref.rms_norm(wide[0], wide[1], 1e-5), rtol=2e-6, atol=1e-7)
    found = small_ops.rms_norm(x, weight, 1e-5, residual, **options)
    np.testing.assert_allclose(found, ref.rms_norm(*wide[:2], 1e-5, wide[2]), rtol=3e-6, atol=1e-6)
    np.testing.assert_array_equal(residual, normal(5, width, seed=2) + x)


@pytest.mark.parametrize("instruction_set", SETS)
@pytest.mark.parametrize("width", WIDTHS)
def test_gates(width: int, instruction_set: InstructionSet) -> None:
    both = normal(4, 2 * width, spread=5)
    both[0, 0], both[1, 0], both[2, 0] = 1e30, -1e30, -80
    gate, up = (torch.from_numpy(half.astype(np.float64)) for half in np.split(both, 2, axis=-1))
    for run, activation in (
        (small_ops.silu_mul, torch.nn.functional.silu(gate)),
        (small_ops.gelu_tanh_mul, torch.nn.functional.gelu(gate, approximate="tanh")),
    ):
        np.testing.assert_allclose(
            run(both, instruction_set=instruction_set), activation * up, rtol=3e-6, atol=3e-7
        )


@pytest.mark.parametrize("instruction_set", SETS)
def test_softcap_and_scale(instruction_set: InstructionSet) -> None:
    x = normal(3, 101, spread=40)
    capped, scaled = x.copy(), x.copy()
    small_ops.softcap(capped, 30.0, instruction_set=instruction_set)
    np.testing.assert_allclose(capped, 30 * np.tanh(x.astype(np.float64) / 30), rtol=1e-6)
    small_ops.scale_rows(scaled, 1.5, instruction_set=instruction_set)
    np.testing.assert_array_equal(scaled, x * np.float32(1.5))


@pytest.mark.parametrize("instruction_set", SETS)
@pytest.mark.parametrize("width", [*WIDTHS, 49152])
def test_softmax_and_its_logarithm(width: int, instruction_set: InstructionSet) -> None:
    x = normal(2, width, spread=10)
    if width > 2:
        x[1, 1] = -np.inf
    wide = torch.from_numpy(x.astype(np.float64))
    found = small_ops.softmax(x, instruction_set=instruction_set)
    np.testing.assert_allclose(found, torch.softmax(wide, -1), rtol=6e-6, atol=1e-38)
    found = small_ops.log_softmax(x, instruction_set=instruction_set)
    np.testing.assert_allclose(found, torch.log_softmax(wide, -1), rtol=1e-6, atol=6e-6)


@pytest.mark.parametrize("instruction_set", SETS)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_stays_in_its_row(bad: float, instruction_set: InstructionSet) -> None:
    clean = normal(3, 70)
    broken = clean.copy()
    broken[1, 69] = bad
    weight = np.ones(70, np.float32)
    runs: list[Callable[[Floats], Floats]] = [
        lambda x: small_ops.softmax(x, instruction_set=instruction_set),
        lambda x: small_ops.log_softmax(x, instruction_set=instruction_set),
        lambda x: small_ops.rms_norm(x, weight, 1e-5, instruction_set=instruction_set),
        lambda x: small_ops.silu_mul(x, instruction_set=instruction_set),
        lambda x: small_ops.gelu_tanh_mul(x, instruction_set=instruction_set),
    ]
    for run in runs:
        good, found = run(clean), run(broken)
        np.testing.assert_array_equal(found[[0, 2]], good[[0, 2]])
        assert not np.isfinite(found[1]).all()


def mask_of(allowed: npt.NDArray[np.bool_]) -> npt.NDArray[np.int32]:
    padded = np.zeros((len(allowed), -(-allowed.shape[1] // 32) * 32), bool)
    padded[:, : allowed.shape[1]] = allowed
    return np.packbits(padded, axis=1, bitorder="little").view(np.int32)


@pytest.mark.parametrize("instruction_set", SETS)
@pytest.mark.parametrize("width", [1, 31, 32, 33, 100, 5000])
def test_argmax_and_mask(width: int, instruction_set: InstructionSet) -> None:
    rng = np.random.default_rng(width)
    logits = np.round(normal(40, width, seed=width) * 3)  # with ties
    allowed = rng.random((40, width)) < rng.random((40, 1))
    allowed[0] = False
    mask = mask_of(allowed)
    mask[:, -1] |= np.int32(-1 << (width % 32)) if width % 32 else np.int32(0)  # bits beyond the row mean nothing
    masked = np.where(allowed, logits, -np.inf).astype(np.float32)
    wanted = np.where(allowed.any(axis=1), masked.argmax(axis=1), NONE_ALLOWED)
    np.testing.assert_array_equal(small_ops.argmax(logits, mask, instruction_set=instruction_set), wanted)
    np.testing.assert_array_equal(small_ops.argmax(logits, instruction_set=instruction_set), logits.argmax(axis=1))
    small_ops.apply_mask(logits, mask, instruction_set=instruction_set)
    np.testing.assert_array_equal(logits, masked)


@pytest.mark.parametrize("instruction_set", SETS)
def test_argmax_of_rows_without_an_ordinary_answer(instruction_set: InstructionSet) -> None:
    logits = np.full((4, 50), -np.inf, np.float32)
    logits[1, 49], logits[2, 3], logits[3, 20] = np.nan, np.nan, np.inf
    allowed = np.ones((4, 50), bool)
    allowed[0, :7] = False
    allowed[2, 3] = False
    found = small_ops.argmax(logits, mask_of(allowed), instruction_set=instruction_set)
    assert found.tolist() == [7, NOT_A_NUMBER, 0, 20]


def stored(dtype: Any, kv_heads: int, dim: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    return np.zeros((20, kv_heads, dim), dtype), np.zeros((20, kv_heads, dim), dtype)


@pytest.mark.parametrize("instruction_set", SETS)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize(("dim", "turned"), [(64, 64), (24, 24), (80, 32), (256, 256), (8, 8), (10, 6)])
def test_rope_and_store(
    dim: int, turned: int, interleaved: bool, dtype: Any, instruction_set: InstructionSet
) -> None:
    tokens, heads, kv_heads = 7, 4, 2
    fused = normal(tokens, heads + 2 * kv_heads, dim)
    before = fused.copy()
    query, key, value = np.split(fused, [heads, heads + kv_heads], axis=1)
    angle = np.random.default_rng(3).uniform(-100, 100, (tokens, turned // 2))
    cos, sin = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)
    slots = np.array([3, 19, 0, 7, 5, 4, 11])
    keys, values = stored(dtype, kv_heads, dim)
    small_ops.rope_and_store(
        query,
        key,
        value,
        cos,
        sin,
        keys,
        values,
        slots,
        interleaved=interleaved,
        instruction_set=instruction_set,
    )

    def turn(x: Floats) -> npt.NDArray[np.float64]:
        wide = x.astype(np.float64)
        part = wide[..., :turned]
        if interleaved:
            part = np.concatenate((part[..., ::2], part[..., 1::2]), axis=-1)
        part = ref.rope(*(torch.from_numpy(a.astype(np.float64)) for a in (part, cos, sin))).numpy()
        if interleaved:
            part = np.stack(np.split(part, 2, axis=-1), axis=-1).reshape(part.shape)
        return np.concatenate((part, wide[..., turned:]), axis=-1)

    np.testing.assert_allclose(query, turn(before[:, :heads]), atol=1e-6)
    np.testing.assert_array_equal(key, before[:, heads : heads + kv_heads])
    tolerance = 1e-6 if dtype == np.float32 else 2e-3
    np.testing.assert_allclose(keys[slots], turn(before[:, heads : heads + kv_heads]), atol=tolerance)
    np.testing.assert_array_equal(values[slots], before[:, heads + kv_heads :].astype(dtype))
    others = np.setdiff1d(np.arange(20), slots)
    assert not keys[others].any()
    assert not values[others].any()


@pytest.mark.parametrize("instruction_set", SETS)
def test_halves_are_rounded_as_numpy_does(instruction_set: InstructionSet) -> None:
    """All halves, the floats half-way between two of them and those beside, what overflows, what is no number."""
    halves = np.arange(2**16, dtype=np.uint16).view(np.float16)
    exact = halves[np.isfinite(halves)].astype(np.float32)
    middle = (exact[:-1] + exact[1:]) / 2
    x = np.concatenate(
        (exact, middle, np.nextafter(middle, np.float32(9e9)), np.nextafter(middle, np.float32(-9e9)))
    )
    x = np.concatenate((x, np.array([65519.9, 65520, -65520, 1e30, np.inf, -np.inf, np.nan, 1e-45], np.float32)))
    x = np.resize(x, (len(x) // 256 + 1, 1, 256))
    keys, values = (np.zeros(x.shape, np.float16) for _ in range(2))
    nothing = np.zeros((len(x), 1), np.float32)
    small_ops.rope_and_store(
        x.copy(),
        x,
        x,
        nothing + 1,
        nothing,
        keys,
        values,
        np.arange(len(x)),
        instruction_set=instruction_set,
    )
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(values, x.astype(np.float16))


@pytest.mark.parametrize("instruction_set", SETS)
def test_int8_pools(instruction_set: InstructionSet) -> None:
    value = normal(6, 2, 40)
    value[1, 0], value[2, 1, 39], value[3, 1, 5] = 0, np.nan, np.inf
    value[4, 0] *= 1e-42
    keys, values = stored(np.int8, 2, 40)
    key_scales, value_scales = np.zeros((20, 2), np.float32), np.zeros((20, 2), np.float32)
    small_ops.rope_and_store(
        value.copy(),
        value,
        value,
        np.ones((6, 20), np.float32),
        np.zeros((6, 20), np.float32),
        keys,
        values,
        np.arange(6),
        key_scales=key_scales,
        value_scales=value_scales,
        instruction_set=instruction_set,
    )
    with np.errstate(invalid="ignore"):
        found = values[:6] * value_scales[:6, :, None]
    broken = np.zeros((6, 2), bool)
    broken[2, 1] = broken[3, 1] = True
    assert not np.isfinite(found[broken]).any()
    most = np.abs(value[~broken]).max(axis=-1, keepdims=True)
    assert (np.abs(found[~broken] - value[~broken]) <= most / 254 * 1.001 + 1e-43).all()
    np.testing.assert_array_equal(found[1, 0], 0)


def every_operation(x: Floats, pool: ThreadPool | None, instruction_set: InstructionSet) -> list[npt.NDArray[Any]]:
    """The results of all operations on rows [T, 128], row by row."""
    options: dict[str, Any] = {"pool": pool, "instruction_set": instruction_set}
    residual, capped, query = x * np.float32(0.5), x.copy(), x.reshape(len(x), 2, 64).copy()
    angle = x[:, :32]
    keys, values = (np.zeros((len(x), 2, 64), np.float16) for _ in range(2))
    small_ops.softcap(capped, 3.0, **options)
    head = x.reshape(len(x), 2, 64)
    cos, sin = np.cos(angle), np.sin(angle)
    small_ops.rope_and_store(query, head, head, cos, sin, keys, values, np.arange(len(x)), **options)
    return [
        small_ops.rms_norm(x, np.arange(128, dtype=np.float32), 1e-5, residual, **options),
        residual,
        small_ops.silu_mul(x, **options),
        small_ops.gelu_tanh_mul(x, **options),
        small_ops.softmax(x, **options),
        small_ops.log_softmax(x, **options),
        small_ops.argmax(x, **options),
        capped,
        query,
        keys,
    ]


@pytest.mark.parametrize("instruction_set", SETS)
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_row_has_the_same_bits_in_any_batch(threads: int, instruction_set: InstructionSet) -> None:
    """Alone, first, last and in the middle of 500 rows, which are enough for several tasks."""
    rows = normal(500, 128, spread=2)
    pool = ThreadPool(threads)
    together = every_operation(rows, pool, instruction_set)
    for i in (0, 17, 127, 128, 499):
        alone = every_operation(rows[i : i + 1].copy(), None, instruction_set)
        for one, all_of_them in zip(alone, together, strict=True):
            np.testing.assert_array_equal(one[0], all_of_them[i])


@pytest.mark.parametrize("instruction_set", SETS)
def test_an_element_has_the_same_bits_at_any_place_of_a_row(instruction_set: InstructionSet) -> None:
    x = normal(67, spread=3)
    for run in (small_ops.exp, small_ops.tanh):
        whole = run(x, instruction_set=instruction_set)
        for start in range(0, 67, 3):
            part = x[start:].copy()
            np.testing.assert_array_equal(run(part, instruction_set=instruction_set), whole[start:])


def test_batches_of_nothing() -> None:
    nothing = np.zeros((0, 8), np.float32)
    assert small_ops.softmax(nothing).shape == (0, 8)
    assert small_ops.argmax(nothing).shape == (0,)
    assert small_ops.rms_norm(nothing, np.ones(8, np.float32), 1e-5).shape == (0, 8)


X = np.zeros((2, 8), np.float32)


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: small_ops.softmax(X.astype(np.float64)), "x must"),
        (lambda: small_ops.softmax(X[:, ::2]), "x must"),
        (lambda: small_ops.softmax(np.zeros((2, 0), np.float32)), "x has"),
        (lambda: small_ops.rms_norm(X, np.zeros(7, np.float32), 1e-5), "weight"),
        (lambda: small_ops.rms_norm(X, X, 1e-5), "weight"),
        (lambda: small_ops.rms_norm(X, X[0], 1e-5, X), "residual"),
        (lambda: small_ops.silu_mul(np.zeros((2, 7), np.float32)), "gate_up"),
        (lambda: small_ops.softcap(X, 0.0), "cap"),
        (lambda: small_ops.argmax(X, np.zeros((2, 2), np.int32)), "mask"),
        (lambda: small_ops.argmax(X, np.zeros((2, 1), np.int64)), "mask"),
        (lambda: small_ops.softmax(X, instruction_set=9), "instruction_set"),
    ],
)
def test_bad_operands_are_named(call: Callable[[], Any], word: str) -> None:
    with pytest.raises(ValueError, match=word):
        call()


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"key": np.zeros((2, 2, 8), np.float32)}, "key"),
        ({"cos": np.zeros((2, 5), np.float32)}, "cos"),
        ({"sin": np.zeros((2, 3), np.float32)}, "cos and sin"),
        ({"slots": np.array([0, 4])}, "slots"),
        ({"slots": np.array([0, -1])}, "slots"),
        ({"slots": np.array([0, 1], np.int32)}, "slots"),
        ({"value_pool": np.zeros((3, 1, 8), np.float32)}, "value_pool"),
        ({"key_scales": np.zeros((4, 1), np.float32)}, "key_scales"),
        ({"key_pool": np.zeros((4, 1, 8), np.float64)}, "key_pool"),
        ({"query": np.zeros((2, 16), np.float32)}, "query"),
    ],
)
def test_bad_operands_of_rope_are_named(change: dict[str, Any], word: str) -> None:
    token = np.zeros((2, 1, 8), np.float32)
    angles = np.zeros((2, 4), np.float32)
    pool = np.zeros((4, 1, 8), np.float32)
    operands: dict[str, Any] = {
        "query": np.zeros((2, 3, 8), np.float32),
        "key": token,
        "value": token,
        "cos": angles,
        "sin": angles,
        "key_pool": pool,
        "value_pool": pool.copy(),
        "slots": np.array([3, 0]),
    }
    small_ops.rope_and_store(**operands)
    with pytest.raises(ValueError, match=word):
        small_ops.rope_and_store(**{**operands, **change})
