"""Keyword arguments and output types: every wrong one is refused by name, every right one means one thing."""

from __future__ import annotations

import dataclasses
import enum
import json
import re
import typing
from typing import Any, Literal, Optional

import numpy as np
import pydantic
import pytest

from radixrt.api import Constraint, SamplingParams
from radixrt.arguments import SAMPLING_NAMES, check_choices, sampling_params, sampling_values
from radixrt.errors import InvalidRequest
from radixrt.output_types import output_type


class Card(pydantic.BaseModel):
    name: str
    age: int


@dataclasses.dataclass
class Point:
    x: int
    tags: list[str]


class Inner(typing.TypedDict, total=False):
    a: typing.Required[int]
    b: str


class Outer(typing.TypedDict):
    inner: Inner
    many: list[Inner]
    maybe: typing.NotRequired[Inner | None]


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


def refused(**arguments: Any) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        output_type(**arguments)
    return caught.value


# --- sampling ---


def test_absent_arguments_are_the_defaults() -> None:
    assert sampling_params(dict.fromkeys(SAMPLING_NAMES), where="gen") == SamplingParams()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"stop": "x"}, ("x",)),
        ({"stop": ["x", "y"]}, ("x", "y")),
        ({"stop": ()}, ()),
        ({"stop_token_ids": [np.int64(3)]}, (3,)),
        ({"temperature": 0}, 0.0),
        ({"temperature": np.float32(0.5)}, 0.5),
        ({"max_tokens": np.int32(7)}, 7),
        ({"logit_bias": {"5": 1, 6: -2.5}}, {5: 1.0, 6: -2.5}),
    ],
)
def test_what_people_pass_becomes_what_the_struct_holds(given: dict[str, Any], expected: Any) -> None:
    [name] = given
    assert getattr(sampling_params(given, where="gen"), name) == expected


@pytest.mark.parametrize(
    ("given", "param"),
    [
        ({"temprature": 1}, "temprature"),
        ({"temperature": "hot"}, "temperature"),
        ({"temperature": -1}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
        ({"temperature": True}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"top_p": 1.5}, "top_p"),
        ({"top_k": -1}, "top_k"),
        ({"max_tokens": 1.5}, "max_tokens"),
        ({"max_tokens": True}, "max_tokens"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"min_tokens": 9, "max_tokens": 5}, "min_tokens"),
        ({"stop": 3}, "stop"),
        ({"stop": [""]}, "stop"),
        ({"stop": ["a", 4]}, "stop"),
        ({"stop": "\ud800"}, "stop"),
        ({"n": 0}, "n"),
        ({"seed": -1}, "seed"),
        ({"seed": 2**63}, "seed"),
        ({"logprobs": 101}, "logprobs"),
        ({"logit_bias": {"a": 1}}, "logit_bias"),
        ({"logit_bias": {1: 101}}, "logit_bias"),
        ({"logit_bias": {1: 1, "1": 2}}, "logit_bias"),
        ({"logit_bias": {2**70: 1}}, "logit_bias"),
        ({"logit_bias": {"9" * 40: 1}}, "logit_bias"),
        ({"logit_bias": [1]}, "logit_bias"),
        ({"stop_token_ids": [2**31]}, "stop_token_ids"),
        ({"stop_token_ids": ["5"]}, "stop_token_ids"),
        ({"stop_token_ids": [-1]}, "stop_token_ids"),
        ({"stop_token_ids": 5}, "stop_token_ids"),
        ({"max_tokens": 2**70}, "max_tokens"),
        ({"ignore_eos": 1}, "ignore_eos"),
        ({"repetition_penalty": 0}, "repetition_penalty"),
    ],
)
def test_a_wrong_sampling_argument_is_named(given: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        sampling_params(given, where="gen 'x'")
    assert caught.value.param == param
    assert param in str(caught.value)
    assert str(caught.value).startswith("gen 'x'")


def test_an_unknown_argument_gets_the_nearest_name() -> None:
    with pytest.raises(InvalidRequest, match="did you mean 'temperature'"):
        sampling_params({"temprature": 1}, where="gen")


def test_defaults_are_checked_alone_and_together_later() -> None:
    assert sampling_values({"min_tokens": 500, "top_p": None}, where="run") == {"min_tokens": 500}
    with pytest.raises(InvalidRequest):
        sampling_values({"min_tokens": -1}, where="run")


# --- output types ---


def test_no_constraint_is_none() -> None:
    assert output_type() is None


def test_two_constraints_are_refused_naming_both() -> None:
    pairs = {"regex": "a", "schema": {}, "choices": ["a"], "grammar": "root ::= 'a'", "type": int}
    for first in pairs:
        for second in pairs:
            if first < second:
                error = refused(**{first: pairs[first], second: pairs[second]})
                assert first in str(error)
                assert second in str(error)


@pytest.mark.parametrize("regex", ["a+", re.compile("a+")])
def test_a_regex_gives_its_text(regex: Any) -> None:
    found = output_type(regex=regex)
    assert found is not None
    assert found.constraint == Constraint(kind="regex", source="a+")
    assert found.parse("aa") == "aa"


@pytest.mark.parametrize("regex", [5, b"a", re.compile("a", re.IGNORECASE), re.compile(b"a"), "\ud800"])
def test_a_regex_is_text_without_flags(regex: Any) -> None:
    assert refused(regex=regex).param == "regex"


@pytest.mark.parametrize("grammar", ["", "  \n", 5, b"x"])
def test_a_grammar_is_text_with_something_in_it(grammar: Any) -> None:
    assert refused(grammar=grammar).param == "grammar"


def test_a_constraint_goes_through_where_its_kind_fits() -> None:
    lark = Constraint(kind="lark", source='start: "a"')
    found = output_type(grammar=lark)
    assert found is not None
    assert found.constraint is lark
    loose = output_type(schema=Constraint(kind="json_schema", source="{}", whitespace="any"))
    assert loose is not None
    assert loose.parse("[1]") == [1]
    assert refused(regex=lark).param == "regex"
    assert refused(choices=Constraint(kind="choices", choices=("a", "a"))).param == "choices"


@pytest.mark.parametrize(
    "choices", [[], "ab", b"ab", {"a", "b"}, ["a", "a"], ["a", ""], ["a", 1], 5, [None], ["\ud800"]]
)
def test_choices_are_distinct_strings_in_order(choices: Any) -> None:
    assert refused(choices=choices).param == "choices"
    with pytest.raises(InvalidRequest):
        check_choices(choices)


def test_choices_may_come_from_any_ordered_iterable() -> None:
    assert check_choices(f"{i}" for i in range(3)) == ("0", "1", "2")


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        (Card, '{"name":"a","age":3}', Card(name="a", age=3)),
        (Point, '{"x":1,"tags":["t"]}', Point(1, ["t"])),
        (Inner, '{"a":1}', {"a": 1}),
        (Outer, '{"inner":{"a":1},"many":[{"a":2,"b":"c"}]}', {"inner": {"a": 1}, "many": [{"a": 2, "b": "c"}]}),
        (list[Inner], '[{"a":1}]', [{"a": 1}]),
        (dict[str, Inner], '{"k":{"a":1}}', {"k": {"a": 1}}),
        (Color, '"red"', Color.RED),
        (Literal["a", 1], "1", 1),
        (Optional[int], "null", None),  # noqa: UP045
        (int | None, "4", 4),
        (tuple[int, str], '[1,"a"]', (1, "a")),
        (pydantic.TypeAdapter(list[int]), "[1]", [1]),
        ({"type": "object"}, '{"b":1,"a":2}', {"b": 1, "a": 2}),
        ('{"type":"integer"}', "3", 3),
        (True, "[null]", [None]),
    ],
)
def test_a_schema_gives_the_parsed_type(schema: Any, text: str, value: Any) -> None:
    found = output_type(schema=schema)
    assert found is not None
    assert found.constraint.kind == "json_schema"
    assert isinstance(json.loads(found.constraint.source), dict | bool)
    assert found.parse(text) == value
    assert type(found.parse(text)) is type(value)


def test_a_schema_keeps_its_key_order_and_its_text() -> None:
    ordered = output_type(schema={"properties": {"z": {}, "a": {}}, "type": "object"})
    assert ordered is not None
    assert ordered.constraint.source.index('"z"') < ordered.constraint.source.index('"a"')
    text = ' {"type" : "number", "maximum": 1e400} '
    exact = output_type(schema=text)
    assert exact is not None
    assert exact.constraint.source == text


def deep() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for _ in range(100_000):
        found = {"not": found}
    return found


def circular() -> dict[str, Any]:
    found: dict[str, Any] = {}
    found["not"] = found
    return found


@pytest.mark.parametrize(
    "schema",
    [
        5,
        object(),
        [1],
        b"{}",
        "{",
        "3",
        '{"a":1,"a":2}',
        "[" * 100_000,
        {1: 2},
        {"a": float("nan")},
        {"a": {1, 2}},
        {"title": "\ud800"},
        circular(),
        Card(name="a", age=1),
        lambda x: x,
        print,
        typing.Callable[[], int],
    ],
)
def test_what_is_no_schema_is_refused(schema: Any) -> None:
    assert refused(schema=schema).param == "schema"


def test_a_schema_too_deep_is_refused() -> None:
    assert refused(schema=deep()).param == "schema"


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (int, "-12", -12),
        (float, "1.5e3", 1500.0),
        (bool, "true", True),
        (str, '"a\\n"', "a\n"),
        (Literal["yes", 1, None, True], "yes", "yes"),
        (Literal["yes", 1, None, True], "1", 1),
        (Literal["yes", 1, None, True], "true", True),
        (Literal["yes", 1, None, True], "null", None),
        (Color, "red", Color.RED),
        (Literal[Color.BLUE], "blue", Color.BLUE),
        (Level, "2", Level.HIGH),
        (list[int], "[1]", [1]),
        (Card, '{"name":"a","age":3}', Card(name="a", age=3)),
    ],
)
def test_a_type_gives_a_value_of_that_type(kind: Any, text: str, value: Any) -> None:
    found = output_type(type=kind)
    assert found is not None
    if found.constraint.kind == "regex":
        assert re.fullmatch(found.constraint.source, text)
    if found.constraint.kind == "choices":
        assert text in found.constraint.choices
    assert found.parse(text) == value
    assert type(found.parse(text)) is type(value)


@pytest.mark.parametrize(("kind", "longest"), [(int, "-" + "9" * 18), (float, "-" + "9" * 18 + ".5e+99")])
def test_plain_numbers_are_bounded_and_exact(kind: Any, longest: str) -> None:
    found = output_type(type=kind)
    assert found is not None
    assert re.fullmatch(found.constraint.source, longest)
    assert not re.fullmatch(found.constraint.source, longest.replace("9", "99"))
    for wrong in ("", "+1", "01", "1.", ".5", "1 ", "0x1", "nan", "inf"):
        assert not re.fullmatch(found.constraint.source, wrong)
    assert abs(found.parse(longest)) < float("inf")


@pytest.mark.parametrize("kind", [object(), 5, "int", Literal["1", 1], Literal["", "a"], Literal[b"a"], print])
def test_what_is_no_type_is_refused(kind: Any) -> None:
    assert refused(type=kind).param == "type"


class _Inner(pydantic.BaseModel):
    z: int


class _Open(pydantic.BaseModel, extra="allow"):
    x: int


class _Outer(pydantic.BaseModel):
    inner: _Inner
    open: _Open
    free: dict[str, int]


def test_classes_of_fields_are_closed_unless_they_allow_more() -> None:
    output = output_type(schema=_Outer)
    assert output is not None
    schema = json.loads(output.constraint.source)
    assert schema["additionalProperties"] is False
    assert schema["$defs"]["_Inner"]["additionalProperties"] is False
    assert schema["$defs"]["_Open"]["additionalProperties"] is True
    assert schema["properties"]["free"]["additionalProperties"] == {"type": "integer"}
