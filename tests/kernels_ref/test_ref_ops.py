"""The reference ops against formulas written another way."""

from __future__ import annotations

import math

import pytest
import torch

from radixrt.kernels.ref import linear, rms_norm, rope, silu_mul, write_kv


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_rms_norm(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(5, 3, 8, generator=generator, dtype=torch.float64).to(dtype)
    weight = torch.randn(8, generator=generator, dtype=torch.float64).to(dtype)
    exact = torch.stack(
        [row / math.sqrt(sum(v * v for v in row.tolist()) / 8 + 1e-3) for row in x.double().view(-1, 8)]
    )
    result = rms_norm(x, weight, 1e-3)
    assert result.dtype == dtype
    torch.testing.assert_close(
        result.double().view(-1, 8),
        exact * weight.double(),
        atol=4 * torch.finfo(dtype).eps,
        rtol=4 * torch.finfo(dtype).eps,
    )


def test_rms_norm_adds_into_the_residual() -> None:
    x, residual, weight = torch.randn(4, 6), torch.randn(4, 6), torch.randn(6)
    total = residual + x
    result = rms_norm(x, weight, 1e-5, residual)
    torch.testing.assert_close(residual, total, atol=0, rtol=0)
    torch.testing.assert_close(result, rms_norm(total, weight, 1e-5), atol=0, rtol=0)


def test_rope_is_a_rotation_of_complex_pairs() -> None:
    x = torch.randn(7, 3, 10, dtype=torch.float64)
    angle = torch.randn(7, 5, dtype=torch.float64) * 3
    turned = torch.complex(x[..., :5], x[..., 5:]) * torch.polar(torch.ones_like(angle), angle)[:, None]
    expected = torch.cat((turned.real, turned.imag), dim=-1)
    torch.testing.assert_close(rope(x, angle.cos(), angle.sin()), expected)


def test_rope_scores_depend_on_the_distance_only() -> None:
    query, key = torch.randn(1, 1, 8, dtype=torch.float64), torch.randn(1, 1, 8, dtype=torch.float64)
    frequency = torch.tensor([[1.0, 0.3, 0.05, 0.001]], dtype=torch.float64)

    def score(at: int, other: int) -> float:
        turned = rope(query, (at * frequency).cos(), (at * frequency).sin())
        return float((turned * rope(key, (other * frequency).cos(), (other * frequency).sin())).sum())

    assert score(9, 4) == pytest.approx(score(105, 100))
    assert score(9, 4) != pytest.approx(score(9, 5))


def test_silu_mul_and_linear() -> None:
    gate, up = torch.randn(3, 5, dtype=torch.float64), torch.randn(3, 5, dtype=torch.float64)
    torch.testing.assert_close(silu_mul(torch.cat((gate, up), dim=1)), gate / (1 + torch.exp(-gate)) * up)
    weight, bias = torch.randn(4, 5, dtype=torch.float64), torch.randn(4, dtype=torch.float64)
    expected = torch.einsum("tk,nk->tn", gate, weight)
    torch.testing.assert_close(linear(gate, weight), expected)
    torch.testing.assert_close(linear(gate, weight, bias), expected + bias)


def test_write_kv_touches_only_its_slots() -> None:
    key_pool, value_pool = torch.zeros(9, 2, 4), torch.zeros(9, 2, 4)
    key, value = torch.randn(3, 2, 4), torch.randn(3, 2, 4)
    write_kv(key, value, key_pool, value_pool, torch.tensor([7, 0, 3]))
    for token, slot in enumerate((7, 0, 3)):
        assert torch.equal(key_pool[slot], key[token])
        assert torch.equal(value_pool[slot], value[token])
    assert key_pool[[1, 2, 4, 5, 6, 8]].abs().sum() == 0
    assert value_pool[[1, 2, 4, 5, 6, 8]].abs().sum() == 0
