"""``@program`` and the arguments of a call: wrong ones are refused by name, at the earliest moment."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import radixrt as rx
from radixrt.api import GenNode, SamplingParams
from radixrt.errors import InvalidRequest
from radixrt.frontend.options import MAP_OPTIONS, RUN_OPTIONS

DEFAULTS = [name for name in SamplingParams.__struct_fields__ if name != "n"]


@rx.program
def greet(s: Any, name: str, tone: str = "kind") -> str:
    """Greets."""
    s += f"{tone} {name}"
    s += rx.gen("x")
    return f"{tone} {name}"


def refused(call: Any, *args: Any, **kwargs: Any) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        call(*args, **kwargs)
    return caught.value


def test_a_program_keeps_the_name_and_the_words_of_its_function() -> None:
    assert greet.__name__ == "greet"
    assert greet.__doc__ == "Greets."


def test_the_decorator_works_with_and_without_parentheses(fake: Any) -> None:
    @rx.program()
    def program(s: Any) -> int:
        return 5

    assert program.run(engine=fake()).value == 5


@pytest.mark.parametrize("name", [*DEFAULTS, *RUN_OPTIONS, *MAP_OPTIONS])
def test_a_parameter_with_the_name_of_an_option_is_refused_at_decoration(name: str) -> None:
    def function(s: Any, **rest: Any) -> None: ...

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter("s", kind), inspect.Parameter(name, kind)]
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    assert refused(rx.program, function).param == name


def test_functions_that_cannot_be_programs_are_refused() -> None:
    def generator(s: Any) -> Any:
        yield s

    async def async_generator(s: Any) -> Any:
        yield s

    def positional(s: Any, name: str, /) -> None: ...

    functions: list[Any] = [
        generator,
        async_generator,
        lambda: None,
        lambda *s: None,
        lambda s, *a: None,
        positional,
    ]
    for function in (*functions, 5, int):
        refused(rx.program, function)


def test_arguments_go_by_position_name_or_default(fake: Any) -> None:
    engine = fake()
    assert greet.run("Ann", engine=engine).value == "kind Ann"
    assert greet.run("Ann", "rude", engine=engine).value == "rude Ann"
    assert greet.run(tone="rude", name="Ann", engine=engine).value == "rude Ann"


@pytest.mark.parametrize(
    ("args", "kwargs", "param"),
    [
        ((), {}, "name"),
        ((), {"nam": "x"}, "nam"),
        (("a",), {"name": "b"}, "name"),
        (("a", "b", "c"), {}, "program"),
        (("a",), {"temprature": 0}, "temprature"),
        (("a",), {"temperature": "x"}, "temperature"),
        (("a",), {"max_tokens": 0}, "max_tokens"),
        (("a",), {"s": 1}, "s"),
        (("a",), {"seed": -1}, "seed"),
        (("a",), {"timeout": 0}, "timeout"),
        (("a",), {"timeout": "x"}, "timeout"),
        (("a",), {"timeout": float("inf")}, "timeout"),
        (("a",), {"priority": "x"}, "priority"),
        (("a",), {"priority": 2**40}, "priority"),
        (("a",), {"salt": 5}, "salt"),
        (("a",), {"keep_trace": 1}, "keep_trace"),
        (("a",), {"engine": 5}, "engine"),
        (("a",), {"concurrency": 5}, "concurrency"),
    ],
)
def test_a_wrong_argument_of_a_run_is_named(fake: Any, args: Any, kwargs: Any, param: str) -> None:
    engine = fake()
    for call in (greet.run, greet.start, greet.stream):
        assert refused(call, *args, **{"engine": engine, **kwargs}).param == param
    assert engine.opened == []


def test_a_program_that_takes_anything(fake: Any) -> None:
    @rx.program
    def program(s: Any, **rest: Any) -> dict[str, Any]:
        return rest

    assert program.run(a=1, b=2, temperature=0, engine=fake()).value == {"a": 1, "b": 2}


def test_no_engine_says_so() -> None:
    assert "engine" in str(refused(greet.run, "a"))
    assert refused(greet.run, "a").param == "engine"
    assert refused(greet.map, [{"name": "a"}]).param == "engine"


def test_the_enclosing_engine_is_taken(fake: Any) -> None:
    from radixrt.client.current import enter_engine, leave_engine

    engine = fake(x="hi")
    enter_engine(engine)
    try:
        assert greet.run("a")["x"] == "hi"
        assert [run["x"] for run in greet.map([{"name": "a"}])] == ["hi"]
    finally:
        leave_engine(engine)


def test_a_call_outside_a_program_says_use_run() -> None:
    assert "greet.run" in str(refused(greet, name="a"))


def test_the_terms_of_a_run_reach_the_engine(fake: Any) -> None:
    engine = fake()
    greet.run("a", engine=engine, seed=7, salt="tenant", priority=3, timeout=60)
    [opened] = engine.opened
    assert 0 < opened.pop("timeout_s") <= 60
    assert opened == {"seed": 7, "final": True, "salt": "tenant", "priority": 3}
    [gen] = [node for node in engine.sent_nodes() if isinstance(node, GenNode)]
    assert gen.params.seed is None, "the seed of a run keys its streams; it is not every gen's own"


def test_a_seed_is_drawn_and_recorded(fake: Any) -> None:
    engine = fake()
    first, second = greet.run("a", engine=engine), greet.run("a", engine=engine)
    assert first.trace["seed"] == engine.opened[0]["seed"]
    assert first.trace["seed"] != second.trace["seed"]
    again = greet.run("a", engine=engine, seed=first.trace["seed"])
    assert engine.opened[2]["seed"] == first.seed == again.seed


def test_n_belongs_to_single_gens_and_is_free_for_programs(fake: Any) -> None:
    @rx.program
    def program(s: Any, n: int) -> int:
        return n + 1

    assert program.run(n=2, engine=fake()).value == 3
    assert refused(greet.run, name="x", n=2, engine=fake()).param == "n"
