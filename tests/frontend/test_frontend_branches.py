"""What people write with branches that Python makes harder than it looks."""

from __future__ import annotations

from typing import Any

import pytest

import radixrt as rx
from radixrt.errors import InvalidRequest


def test_one_branch_can_be_appended_to_in_place(fake: Any) -> None:
    @rx.program
    def program(s: Any) -> list[str]:
        b = s.fork(2)
        b[0] += "a" + rx.gen("x")
        b[1] += "b" + rx.gen("x")
        with pytest.raises(InvalidRequest):
            b[0] = b[1]
        return b["x"]

    assert len(program.run(engine=fake()).value) == 2


def test_branches_are_joined_once(fake: Any) -> None:
    @rx.program
    def program(s: Any) -> None:
        b = s.fork(2)
        b += rx.gen("x")
        s.join(b)
        with pytest.raises(InvalidRequest, match="joined already"):
            s.join([b[1]])

    program.run(engine=fake())


def test_a_failed_program_inside_shows_in_the_errors_of_its_caller(fake: Any) -> None:
    @rx.program
    def inner(s: Any) -> None:
        raise KeyError("inner")

    @rx.program
    def outer(s: Any) -> int:
        inner()
        return 1

    run = outer.run(engine=fake())
    assert run.value == 1
    assert [type(error) for error in run.errors] == [KeyError]


def test_a_role_that_is_none_is_refused_at_its_line(fake: Any) -> None:
    @rx.program
    def program(s: Any) -> None:
        for name in ("bad\nrole", "<|x|>", "x" * 65, ""):
            with pytest.raises(InvalidRequest) as caught:
                s += rx.role(name, "text")
            assert caught.value.param == "role"
        s += rx.role("tool-2", "text")

    program.run(engine=fake())


def test_waiting_takes_any_time_from_zero_up(fake: Any) -> None:
    @rx.program
    def program(s: Any) -> None:
        s += "a" + rx.gen("x")

    run = program.run(engine=fake())
    for seconds in (0, 1e10, 1e300, float("inf"), None):
        assert run.wait(seconds)
    for seconds in (-1, float("nan"), "1"):
        with pytest.raises(InvalidRequest) as caught:
            run.wait(seconds)  # type: ignore[arg-type]
        assert caught.value.param == "timeout"
