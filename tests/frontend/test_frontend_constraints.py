"""``rx.Constraint``: what it holds, what is refused at its line, and that the page's example runs."""

from __future__ import annotations

import re
from collections import UserDict
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
import pytest

import radixrt as rx
from radixrt.grammar.json_schema.values import parse_json
from radixrt.output_types import CONSTRAINT_NAMES, output_type
from radixrt.schema_source import MAX_DEPTH
from radixrt.testing.scripted_engine import scripted_engine

URI = "https://example.com/x"
SCHEMA = {"b": 1, "a": {"$ref": URI}}


def schema(**fields: Any) -> rx.Constraint:
    return rx.Constraint(**{"kind": "json_schema", "source": "{}", **fields})


@pytest.mark.parametrize("wrapped", [dict, MappingProxyType, UserDict])
def test_objects_become_text_in_their_order_and_stay_text_on_the_wire(wrapped: Any) -> None:
    made = schema(source=wrapped(SCHEMA), resources=wrapped({URI: wrapped({"enum": (1, 2)})}))
    assert made.source == '{"b": 1, "a": {"$ref": "https://example.com/x"}}'
    assert made.resources == '{"https://example.com/x": {"enum": [1, 2]}}'
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(made), type=rx.Constraint) == made
    assert hash(made) == hash(schema(source=made.source, resources=made.resources))


def test_a_message_may_hold_text_only() -> None:
    for field in ("source", "resources"):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert({"kind": "json_schema", field: {"a": 1}}, rx.Constraint)


def test_true_and_false_are_schemas() -> None:
    assert schema(source=False).source == "false"


@pytest.mark.parametrize("argument", CONSTRAINT_NAMES)
@pytest.mark.parametrize(
    ("kind", "home"),
    [
        ("regex", "regex"),
        ("json_schema", "schema"),
        ("ebnf", "grammar"),
        ("lark", "grammar"),
        ("structural_tag", "grammar"),
    ],
)
def test_each_kind_has_one_argument_and_the_others_name_it(argument: str, kind: str, home: str) -> None:
    constraint = rx.Constraint(kind=kind, source="{}")  # type: ignore[arg-type]
    if argument == home:
        found = output_type(**{argument: constraint})  # type: ignore[arg-type]
        assert found is not None
        assert found.constraint is constraint
    else:
        with pytest.raises(rx.InvalidRequest, match=f"{home}= does") as caught:
            rx.gen("x", **{argument: constraint})  # type: ignore[arg-type]
        assert caught.value.param == argument


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"kind": "xml"}, "kind"),
        ({"source": 5}, "source"),
        ({"source": ["a"]}, "source"),
        ({"source": "{"}, "schema"),
        ({"source": '{"a": 1, "a": 2}'}, "schema"),
        ({"source": '{"a": NaN}'}, "schema"),
        ({"source": "\ud800"}, "source"),
        ({"kind": "lark", "whitespace": "compact"}, "whitespace"),
        ({"kind": "lark", "resources": {}}, "resources"),
        ({"kind": "choices", "choices": ("a",)}, "source"),
        ({"choices": ("a",)}, "choices"),
        ({"key_order": 1}, "key_order"),
        ({"resources": "[]"}, "resources"),
        ({"resources": "true"}, "resources"),
        ({"resources": "{"}, "resources"),
        ({"resources": 3}, "resources"),
        ({"resources": '{"a": "\ud800"}'}, "resources"),
    ],
)
def test_wrong_fields_are_refused_at_the_call(fields: dict[str, Any], param: str) -> None:
    constraint = schema(**fields)
    argument = {"json_schema": "schema", "choices": "choices", "lark": "grammar"}.get(constraint.kind, "grammar")
    with pytest.raises(rx.InvalidRequest) as caught:
        rx.gen("x", **{argument: constraint})  # type: ignore[arg-type]
    assert caught.value.param == param


@pytest.mark.parametrize("value", [{1: 2}, {"a": {1, 2}}, {"a": float("inf")}, {"a": 10**5000}, {"a": b"x"}])
@pytest.mark.parametrize("field", ["source", "resources"])
def test_what_json_does_not_have_is_refused_where_it_is_given(field: str, value: Any) -> None:
    with pytest.raises(rx.InvalidRequest) as caught:
        schema(**{field: value})
    assert caught.value.param == field
    assert "set_int_max_str_digits" not in str(caught.value)


def _nested(depth: int) -> dict[str, Any]:
    inner: dict[str, Any] = {}
    for _ in range(depth):
        inner = {"not": inner}
    return inner


def test_depth_is_refused_in_the_same_words_however_it_is_written() -> None:
    said = set()
    endless: dict[str, Any] = {}
    endless["not"] = endless
    for given in (_nested(MAX_DEPTH + 1), _nested(100_000), endless, '{"not":' * 100_000 + "{}" + "}" * 100_000):
        with pytest.raises(rx.UnsupportedConstraint) as caught:
            output_type(schema=given)
        assert caught.value.keyword == "nesting"
        assert caught.value.param == "schema"
        said.add(str(caught.value))
    with pytest.raises(rx.UnsupportedConstraint) as caught:
        parse_json('{"not":' * 200 + "{}" + "}" * 200)  # as the grammar says it
    assert said == {str(caught.value)}
    assert output_type(schema=_nested(MAX_DEPTH - 1)) is not None


def test_objects_that_share_their_parts_come_to_an_end() -> None:
    shared: dict[str, Any] = {}
    for _ in range(100):
        shared = {"allOf": [shared, shared]}
    with pytest.raises(rx.UnsupportedConstraint) as caught:
        output_type(schema=shared)
    assert caught.value.keyword == "size"


@pytest.mark.parametrize(
    ("grammar", "said"),
    [
        ('start: "a"', "Lark's notation goes as rx.Constraint"),
        ({}, "'format' or 'structures'"),
        ({"type": "object"}, "'format' or 'structures'"),
        ({"structures": {1}}, "cannot be written as JSON"),
        (["root"], "EBNF text, a structural tag"),
    ],
)
def test_a_grammar_of_another_notation_is_told_where_to_go(grammar: Any, said: str) -> None:
    with pytest.raises(rx.InvalidRequest, match=re.escape(said)) as caught:
        rx.gen("x", grammar=grammar)
    assert caught.value.param == "grammar"


def test_the_example_of_the_page_runs(project_root: Path) -> None:
    page = (project_root / "docs" / "writing_programs.md").read_text(encoding="utf-8")
    (source,) = re.findall(r"^```python\n(.*?rx\.Constraint.*?)^```", page, re.DOTALL | re.MULTILINE)
    names: dict[str, Any] = {}
    exec(compile(source, "writing_programs.md", "exec"), names)  # noqa: S102  # the project's own page
    with scripted_engine() as engine:
        run = names["plan"].run(engine=engine, seed=1)
    assert re.fullmatch(r"[0-9]{1,3}([-+*][0-9]{1,3}){0,3}", run["sum"])
    assert run["visit"]["day"] in ("Monday", "Tuesday")
    assert re.fullmatch(r"<call>[12]</call>", run["call"])
    assert run.value == run["visit"]
