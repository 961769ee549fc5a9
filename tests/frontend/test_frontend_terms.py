"""timeout, priority, salt, flags and seeds: one check for single calls and programs alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import radixrt as rx
from radixrt.api import MAX_SEED, FinishReason, NodeEvent, Sample
from radixrt.arguments import check_flag, check_priority, check_salt, check_timeout, fresh_seed
from radixrt.client.generation import Generation
from radixrt.errors import IncompleteOutput, InvalidRequest, RadixrtError
from radixrt.output_types import output_type

CHECKS: dict[str, Callable[[Any], Any]] = {
    "timeout": lambda value: check_timeout(value, where="here"),
    "priority": lambda value: check_priority(value, where="here"),
    "salt": lambda value: check_salt(value, where="here"),
    "keep_trace": lambda value: check_flag(value, "keep_trace", where="here"),
}

WRONG: list[tuple[str, Any]] = [
    *(("timeout", value) for value in (0, -1, -0.5, True, "5", b"5", [5], 1j)),
    *(("timeout", value) for value in (float("nan"), float("inf"), -float("inf"), 10**400, 10**5000)),
    *(("priority", value) for value in (2**31, -(2**31) - 1, 2**40, 2**70, 10**5000, 1.0, "1", True, [])),
    *(("salt", value) for value in (1, b"salt", ["salt"], True, "\ud800")),
    *(("keep_trace", value) for value in (0, 1, "yes", [])),
]


@pytest.mark.parametrize(("name", "value"), WRONG, ids=lambda value: str(type(value)))
def test_a_wrong_term_is_named(name: str, value: Any) -> None:
    with pytest.raises(InvalidRequest) as caught:
        CHECKS[name](value)
    assert caught.value.param == name


@pytest.mark.parametrize(
    ("name", "value", "held"),
    [
        ("timeout", None, None),
        ("timeout", 5, 5.0),
        ("timeout", np.float32(0.5), 0.5),
        ("timeout", np.int64(3), 3.0),
        ("priority", None, 0),
        ("priority", -(2**31), -(2**31)),
        ("priority", 2**31 - 1, 2**31 - 1),
        ("priority", np.int8(-3), -3),
        ("salt", None, None),
        ("salt", "", ""),
        ("keep_trace", None, None),
        ("keep_trace", False, False),
    ],
)
def test_a_right_term_is_held_as_a_plain_value(name: str, value: Any, held: Any) -> None:
    found = CHECKS[name](value)
    assert found == held
    assert type(found) is type(held)


def test_programs_check_their_terms_here(fake: Any) -> None:
    @rx.program
    def program(s: Any) -> None: ...

    for name, value in (("timeout", -1), ("priority", 2**40), ("salt", 5), ("keep_trace", 1)):
        with pytest.raises(InvalidRequest) as caught:
            program.run(engine=fake(), **{name: value})
        assert caught.value.param == name
        assert "program" in str(caught.value)


def test_fresh_seeds_differ_and_fit() -> None:
    seeds = {fresh_seed() for _ in range(100)}
    assert len(seeds) == 100
    assert all(0 <= seed <= MAX_SEED for seed in seeds)
    assert max(seeds) > MAX_SEED // 2, "all 63 bits are used"


@pytest.mark.parametrize("reason", FinishReason)
def test_single_calls_and_programs_agree_on_what_is_complete(fake: Any, reason: FinishReason) -> None:
    @rx.program
    def program(s: Any) -> Any:
        s += rx.gen("x", type=int)
        return s["x"]

    sample = Sample("12", finish_reason=reason)
    call = Generation(NodeEvent("p", 0, samples=(sample,)), output_type(type=int), seed=0)
    run = program.start(engine=fake(x=sample))
    if sample.is_complete:
        assert call.value == run.value == 12
        return
    with pytest.raises(IncompleteOutput):
        _ = call.value
    assert isinstance(run.error, RadixrtError)
