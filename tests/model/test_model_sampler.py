"""The sampler: exact filters, honest distributions, and rows that don't know their neighbours."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radixrt.api import SamplingParams
from radixrt.model.batch import RowSampling
from radixrt.model.sampler import sample_rows, uniform
from radixrt.model.scoring import score_rows


def row(key: int = 0, position: int = 0, **params: Any) -> RowSampling:
    extra = {name: params.pop(name) for name in ("prompt_ids", "output_ids", "banned_ids") if name in params}
    return RowSampling(params=SamplingParams(**params).validated(), key=key, position=position, **extra)


def floats(*values: float) -> np.ndarray:
    return np.array([values], np.float32)


def mask_of(allowed: list[list[int]], width: int) -> np.ndarray:
    """A bitmask, bit by bit."""
    mask = np.zeros((len(allowed), (width + 31) // 32), np.uint32)
    for index, ids in enumerate(allowed):
        for token in ids:
            mask[index, token // 32] |= np.uint32(1 << (token % 32))
    return mask.view(np.int32)


def distribution(logits: np.ndarray, params: SamplingParams) -> np.ndarray:
    """What one row's draw must follow, written the slow way: a full sort, then one filter after the other."""
    scaled = logits.astype(np.float64) / params.temperature
    p = np.exp(scaled - scaled.max())
    p /= p.sum()
    order = sorted(range(len(p)), key=lambda token: (-logits[token], token))
    if params.top_k:
        order = order[: params.top_k]
    total, kept = sum(p[token] for token in order), []
    mass = 0.0
    for token in order:
        kept.append(token)
        mass += p[token] / total
        if mass >= params.top_p:
            break
    kept = [token for token in kept if p[token] >= params.min_p * p[order[0]]]
    result = np.zeros(len(p))
    result[kept] = p[kept] / p[kept].sum()
    return result


CASES = [
    {},
    {"temperature": 0.5},
    {"temperature": 3.0},
    {"top_k": 5},
    {"top_k": 1},
    {"top_p": 0.7},
    {"top_p": 0.2, "temperature": 2.0},
    {"top_p": 0.999},
    {"min_p": 0.1},
    {"top_k": 12, "top_p": 0.8, "min_p": 0.2, "temperature": 1.7},
]


@pytest.mark.parametrize("params", CASES, ids=str)
def test_draws_follow_the_distribution(params: dict[str, Any]) -> None:
    """Chi-square at fixed seeds; nothing outside the support ever comes up."""
    width, draws = 40, 4000
    logits = np.random.default_rng(5).normal(0, 2, width).astype(np.float32)
    rows = [row(key=key, position=key % 7, **params) for key in range(draws)]
    counts = Counter(s.token for s in sample_rows(np.tile(logits, (draws, 1)), rows, None))
    expected = distribution(logits, SamplingParams(**params)) * draws
    assert set(counts) <= set(np.flatnonzero(expected))
    rare = expected < 5
    observed = np.array([counts[token] for token in range(width)])
    pairs = [*zip(observed[~rare], expected[~rare], strict=True), (observed[rare].sum(), expected[rare].sum())]
    chi2 = sum((seen - wanted) ** 2 / wanted for seen, wanted in pairs if wanted > 0)
    degrees = sum(wanted > 0 for _, wanted in pairs) - 1
    # Beyond five standard deviations of the chi-square distribution.
    assert chi2 <= degrees + 5 * math.sqrt(2 * max(degrees, 1))


VALUES = st.sampled_from([-4.0, -1.0, 0.0, 0.25, 1.0, 3.0]) | st.floats(-50, 50, width=32)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(VALUES, min_size=1, max_size=70),
    st.sampled_from([1e-9, 1e-3, 0.3, 1.0, 50.0]),
    st.integers(0, 80),
    st.sampled_from([1e-6, 0.1, 0.5, 0.9, 1.0]),
    st.sampled_from([0.0, 0.05, 0.5, 1.0]),
    st.integers(0, 2**64 - 1),
)
def test_every_draw_passes_every_filter(
    values: list[float], temperature: float, top_k: int, top_p: float, min_p: float, key: int
) -> None:
    """Ties, tiny temperatures and tiny nuclei included."""
    logits = np.array(values, np.float32)
    params = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p}
    token = sample_rows(logits[None].copy(), [row(key=key, **params)], None)[0].token
    better = [t for t in range(len(logits)) if (-logits[t], t) < (-logits[token], token)]
    scaled = logits.astype(np.float64) / temperature
    p = np.exp(scaled - scaled.max())
    among = sorted(range(len(p)), key=lambda t: (-logits[t], t))[: top_k or None]
    assert token in among
    assert p[better].sum() <= top_p * p[among].sum() * (1 + 1e-5)
    assert p[token] >= min_p * (1 - 1e-5)
    if temperature == 1e-9:
        assert token == int(np.argmax(logits))


@settings(max_examples=100, deadline=None)
@given(st.lists(VALUES, min_size=1, max_size=70), st.integers(0, 2**64 - 1), st.integers(0, 2**40))
def test_the_draw_is_the_inverse_distribution_function(values: list[float], key: int, position: int) -> None:
    """The token is where the random number falls on the line of probabilities in token-id order."""
    logits = np.array(values, np.float32)
    token = sample_rows(logits[None].copy(), [row(key=key, position=position)], None)[0].token
    mass = np.cumsum(distribution(logits, SamplingParams()))
    assert (mass[token - 1] if token else 0.0) - 1e-5 <= uniform(key, position) < mass[token] + 1e-5


@pytest.mark.parametrize("random", [0.0, 1 - 2.0**-53])
def test_the_ends_of_the_line_have_no_impossible_tokens(monkeypatch: pytest.MonkeyPatch, random: float) -> None:
    """Probabilities that underflow to zero are not drawn, not even by the first and the last random number."""
    monkeypatch.setattr("radixrt.model.sampler.uniform", lambda key, position: random)
    for params in ({}, {"top_p": 0.9999}, {"top_k": 4}):
        assert sample_rows(floats(-500, 3, -500, -500), [row(**params)], None)[0].token == 1


def test_greedy_takes_the_first_of_ties() -> None:
    assert sample_rows(floats(1, 3, 3, 2), [row(temperature=0.0)], None)[0].token == 1


@pytest.mark.parametrize("width", [1, 7, 31, 32, 33, 64, 100])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_only_allowed_tokens(width: int, temperature: float) -> None:
    rng = np.random.default_rng(width)
    allowed = [rng.choice(width, size=rng.integers(0, width + 1), replace=False).tolist() for _ in range(60)]
    logits = rng.normal(size=(60, width)).astype(np.float32)
    rows = [row(key=key, temperature=temperature) for key in range(60)]
    for ids, sampled in zip(allowed, sample_rows(logits.copy(), rows, mask_of(allowed, width)), strict=True):
        assert sampled.error is None
        assert sampled.token in ids if ids else sampled.token == -1


def test_mask_and_bans_are_stronger_than_bias() -> None:
    biased = row(temperature=0.0, logit_bias={0: 100.0, 1: 50.0, 2: -100.0}, banned_ids=[1, 999])
    sampled = sample_rows(floats(0, 0, 0, -50), [biased], mask_of([[1, 2, 3]], 4))[0]
    assert sampled.token == 3
    only_banned = row(logit_bias={1: 100.0}, banned_ids=[1])
    assert sample_rows(floats(0, 0), [only_banned], mask_of([[1]], 2))[0].token == -1


def test_a_mask_of_another_width_is_an_error() -> None:
    with pytest.raises(ValueError, match="bitmask"):
        sample_rows(floats(*range(40)), [row()], np.zeros((1, 1), np.int32))


def test_bias_beyond_the_vocabulary_is_that_row_s_error() -> None:
    results = sample_rows(
        np.zeros((2, 4), np.float32), [row(logit_bias={4: 1.0}), row(temperature=0.0, logit_bias={3: 1.0})], None
    )
    assert results[0].token == -1
    assert "token 4" in (results[0].error or "")
    assert (results[1].token, results[1].error) == (3, None)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_broken_logits_are_that_row_s_error(value: float) -> None:
    logits = np.zeros((3, 5), np.float32)
    logits[1, 2] = value
    for temperature in (0.0, 1.0):
        rows = [row(key=i, temperature=temperature, logprobs=2) for i in range(3)]
        results = sample_rows(logits.copy(), rows, mask_of([[0, 1]] * 3, 5))
        assert [r.error is None for r in results] == [True, False, True]
        assert results[1].token == -1
        assert results[0].token in (0, 1)
    all_gone = np.full((1, 5), -np.inf, np.float32)
    assert "-inf" in (sample_rows(all_gone, [row()], None)[0].error or "")


def test_padding_columns_of_minus_infinity_are_fine() -> None:
    sampled = sample_rows(floats(1, 2, -math.inf), [row(logprobs=3, top_p=0.9, top_k=3)], None)[0]
    assert sampled.token in (0, 1)
    assert [token for token, _ in sampled.top] == [1, 0]


def test_penalties() -> None:
    base = floats(2.0, -2.0, 2.0, 0.5)
    repeated = row(temperature=0.0, repetition_penalty=2.0, prompt_ids=[0], output_ids=[1, 2, 2], logprobs=0)
    adjusted = base.copy()
    sample_rows(adjusted, [repeated], None)
    np.testing.assert_allclose(adjusted, floats(1.0, -4.0, 1.0, 0.5))
    adjusted = base.copy()
    counted = row(presence_penalty=0.5, frequency_penalty=0.25, prompt_ids=[0, 3], output_ids=[2, 2, 1])
    sample_rows(adjusted, [counted], None)
    np.testing.assert_allclose(adjusted, floats(2.0, -2.75, 1.0, 0.5))
    adjusted = base.copy()
    # Bias first: what it turns positive is divided.
    sample_rows(adjusted, [row(logit_bias={1: 6.0}, repetition_penalty=2.0, output_ids=[1])], None)
    np.testing.assert_allclose(adjusted, floats(2.0, 2.0, 2.0, 0.5))


def test_logprobs_are_the_model_s_own() -> None:
    """Before bias, penalties, mask and temperature; best first, ties by id; the chosen one may be outside."""
    logits = floats(1.0, 3.0, 0.0, 3.0, -1.0)
    exact = logits[0].astype(np.float64) - np.log(np.exp(logits[0].astype(np.float64)).sum())
    params: dict[str, Any] = {"logit_bias": {4: 100.0}, "temperature": 0.3, "top_k": 1, "repetition_penalty": 2.0}
    sampled = sample_rows(logits.copy(), [row(logprobs=3, output_ids=[1], **params)], mask_of([[2, 4]], 5))[0]
    assert sampled.token == 4
    assert sampled.logprob == pytest.approx(exact[4], abs=1e-6)
    assert [token for token, _ in sampled.top] == [1, 3, 0]
    assert [value for _, value in sampled.top] == pytest.approx(exact[[1, 3, 0]].tolist(), abs=1e-6)
    none = sample_rows(logits.copy(), [row(logprobs=0)], None)[0]
    assert none.top == ()
    assert none.logprob is not None
    assert sample_rows(logits.copy(), [row()], None)[0].logprob is None
    everything = sample_rows(logits.copy(), [row(logprobs=100)], None)[0]
    assert len(everything.top) == 5
    assert sum(math.exp(value) for _, value in everything.top) == pytest.approx(1.0)


def test_score_rows_scores_given_tokens() -> None:
    logits = np.random.default_rng(0).normal(0, 4, (6, 50)).astype(np.float32)
    before = logits.copy()
    exact = logits.astype(np.float64)
    exact -= np.log(np.exp(exact).sum(axis=1, keepdims=True))
    tokens = [0, 49, 3, 3, 17, 20]
    scores = score_rows(logits, tokens, top=2)
    np.testing.assert_array_equal(logits, before)
    assert [s.logprob for s in scores] == pytest.approx([exact[i, t] for i, t in enumerate(tokens)], abs=1e-6)
    for score, line in zip(scores, exact, strict=True):
        assert [token for token, _ in score.top] == np.argsort(-line)[:2].tolist()
    logits[2, 4] = math.nan
    assert [s.error is None for s in score_rows(logits, tokens)] == [True, True, False, True, True, True]


def mixed_rows(count: int) -> list[RowSampling]:
    options: list[dict[str, Any]] = [
        {"temperature": 0.0},
        {"top_p": 0.8},
        {"top_k": 9, "logprobs": 4},
        {"min_p": 0.05, "temperature": 1.4},
        {"repetition_penalty": 1.3, "prompt_ids": [1, 2, 3], "output_ids": [4, 4]},
        {"logit_bias": {5: 3.0}, "presence_penalty": 1.0, "output_ids": [5]},
    ]
    return [row(key=1000 + i, position=i * i, **options[i % len(options)]) for i in range(count)]


def test_a_row_does_not_depend_on_its_batch() -> None:
    """The same row alone, in the whole batch, and in a shuffled one gives the same bits."""
    count, width = 24, 1037
    rng = np.random.default_rng(2)
    logits = rng.normal(0, 3, (count, width)).astype(np.float32)
    mask = rng.integers(-(2**31), 2**31, (count, (width + 31) // 32)).astype(np.int32)
    rows = mixed_rows(count)
    together = sample_rows(logits.copy(), rows, mask)
    alone = [sample_rows(logits[i : i + 1].copy(), rows[i : i + 1], mask[i : i + 1])[0] for i in range(count)]
    assert together == alone
    order = rng.permutation(count)
    shuffled = sample_rows(logits[order].copy(), [rows[i] for i in order], mask[order])
    assert [shuffled[at] for at in np.argsort(order)] == alone
    assert len({s.token for s in alone}) > 5


def test_random_numbers_depend_on_key_and_position_only() -> None:
    drawn = [uniform(key, position) for key in (0, 1, 2**63, 2**64 - 1) for position in range(500)]
    assert len(set(drawn)) == len(drawn)
    assert all(0 <= u < 1 for u in drawn)
    assert abs(float(np.mean(drawn)) - 0.5) < 0.03
    # The stream is a promise: a seed recorded today must give the same tokens tomorrow.
    assert (uniform(1, 0), uniform(7, 3)) == (0.3035680343067586, 0.44205212947108785)


def test_no_rows() -> None:
    assert sample_rows(np.zeros((0, 8), np.float32), [], None) == []
    with pytest.raises(ValueError, match="rows"):
        sample_rows(np.zeros((2, 8), np.float32), [row()], None)


@pytest.mark.parametrize("penalty", [1e-38, 1e-300, 0.5, 10.0])
def test_any_repetition_penalty_leaves_numbers(penalty: float) -> None:
    logits = np.array([[3.0, -2.0, 0.0, -np.inf, 1.0]], np.float32)
    params = SamplingParams(temperature=1.0, repetition_penalty=penalty, top_p=0.9)
    rows = [RowSampling(params=params, key=1, position=0, prompt_ids=[0, 1, 2, 3])]
    (sampled,) = sample_rows(logits, rows)
    assert sampled.error is None
    assert sampled.token in (0, 1, 2, 4)
