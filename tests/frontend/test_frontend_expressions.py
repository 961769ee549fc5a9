"""Expressions: what is wrong with one is said where it is written."""

from __future__ import annotations

from typing import Any

import pytest

import radixrt as rx
from radixrt.api import SamplingParams
from radixrt.errors import InvalidRequest
from radixrt.frontend.expressions import Gen, Role, Series, Text, Tokens, as_expression


def refused(make: Any, *args: Any, **kwargs: Any) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        make(*args, **kwargs)
    return caught.value


def test_plus_puts_things_side_by_side_in_any_order() -> None:
    a, b = rx.gen("a"), rx.gen("b")
    expected = (Text("x"), a, Text("y"), b)
    assert ("x" + a + "y" + b).items == expected
    assert ("x" + (a + ("y" + b))).items == expected
    assert ("x" + a).items == (Text("x"), a)


def test_roles_take_parts_or_sums() -> None:
    a = rx.gen("a")
    assert rx.user("x", a) == rx.user("x" + a) == Role("user", (Text("x"), a))
    assert rx.system("x").role == "system"
    assert rx.assistant().items == ()
    assert rx.role("tool", "x").role == "tool"


def test_an_expression_can_be_used_many_times() -> None:
    a = rx.gen("a", max_tokens=3)
    assert isinstance(a + a, Series)
    assert (a + a).items == (a, a)


@pytest.mark.parametrize("value", [None, 5, 1.5, b"x", ["x"], ("x",), object(), {"a": 1}])
def test_only_text_and_expressions_can_be_appended(value: Any) -> None:
    assert refused(as_expression, value).param == "text"
    assert refused(rx.user, value).param == "text"
    with pytest.raises(InvalidRequest):
        rx.gen("a") + value


def test_a_gen_in_an_f_string_is_an_error_not_its_repr() -> None:
    expressions: list[Any] = [rx.gen("a"), rx.user("x"), rx.gen("a") + "x", rx.select("a", ["x"]), rx.tokens(1)]
    for expression in expressions:
        with pytest.raises(InvalidRequest, match="f-string"):
            f"{expression}"


def test_messages_do_not_nest() -> None:
    assert refused(rx.user, rx.system("x")).param == "role"
    assert refused(rx.user, "a" + rx.system("x")).param == "role"


@pytest.mark.parametrize("name", [None, "", 5, b"a"])
def test_outputs_have_names(name: Any) -> None:
    assert refused(rx.gen, name).param == "name"
    assert refused(rx.select, name, ["a"]).param == "name"


@pytest.mark.parametrize("name", SamplingParams.__struct_fields__)
def test_a_gen_takes_every_sampling_argument(name: str) -> None:
    values: dict[str, Any] = {"stop": "x", "stop_token_ids": [1], "logit_bias": {1: 1.0}, "ignore_eos": True}
    gen = rx.gen("a", **{name: values.get(name, 1)})
    assert set(gen.own) == {name}


@pytest.mark.parametrize(
    ("arguments", "param"),
    [
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_token": 5}, "max_token"),
        ({"temperature": "x"}, "temperature"),
        ({"min_tokens": 9, "max_tokens": 5}, "min_tokens"),
        ({"regex": "a", "choices": ["a"]}, "choices"),
        ({"choices": ["a", "a"]}, "choices"),
        ({"choices": [""]}, "choices"),
        ({"choices": []}, "choices"),
        ({"schema": 5}, "schema"),
        ({"heal": 1}, "heal"),
    ],
)
def test_a_wrong_argument_of_gen_is_named(arguments: dict[str, Any], param: str) -> None:
    error = refused(rx.gen, "answer", **arguments)
    assert error.param == param
    assert "gen 'answer'" in str(error)


@pytest.mark.parametrize(
    ("arguments", "param"),
    [
        ({}, "choices"),
        ({"choices": []}, "choices"),
        ({"choices": ["a", "a"]}, "choices"),
        ({"choices": ["a", ""]}, "choices"),
        ({"choices": ["a"], "method": "best"}, "method"),
        ({"choices": ["a"], "temperature": 0}, "temperature"),
    ],
)
def test_a_wrong_argument_of_select_is_named(arguments: dict[str, Any], param: str) -> None:
    assert refused(rx.select, "answer", **arguments).param == param


@pytest.mark.parametrize("token", [True, -1, 2**31, "", 1.5, None])
def test_a_token_is_an_id_or_a_spelling(token: Any) -> None:
    assert refused(rx.tokens, token).param == "tokens"


def test_tokens_need_one() -> None:
    assert refused(rx.tokens).param == "tokens"
    assert rx.tokens(1, "<|im_end|>") == Tokens((1, "<|im_end|>"))


@pytest.mark.parametrize("make", [rx.user, as_expression])
def test_half_a_surrogate_is_not_text(make: Any) -> None:
    assert refused(make, "a\ud800").param == "text"


@pytest.mark.parametrize("role", [None, "", 5])
def test_a_role_is_a_name(role: Any) -> None:
    assert refused(rx.role, role, "x").param == "role"


def test_what_a_gen_holds_cannot_be_changed_from_outside() -> None:
    stops = ["a"]
    gen = rx.gen("a", stop=stops)
    stops.append("b")
    assert isinstance(gen, Gen)
    assert list(gen.own["stop"]) == ["a"]
