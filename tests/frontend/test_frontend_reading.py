"""Reading values: what is sent when, what is waited for, what a value is and what raises."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pydantic
import pytest

import radixrt as rx
from radixrt.api import FinishReason, GenNode, TextNode
from radixrt.errors import (
    ContextLengthExceeded,
    IncompleteOutput,
    InvalidRequest,
    UnsatisfiableConstraint,
    UnsupportedConstraint,
)
from radixrt.python_types import UncheckedValidatorWarning


class Card(pydantic.BaseModel):
    name: str


class Even(pydantic.BaseModel):
    number: int

    @pydantic.field_validator("number")
    @classmethod
    def is_even(cls, value: int) -> int:
        if value % 2:
            raise ValueError("odd")
        return value


def run(function: Any, engine: Any, **options: Any) -> Any:
    return rx.program(function).run(engine=engine, **options)


def test_a_program_without_reads_is_one_message(fake: Any) -> None:
    def program(s: Any) -> None:
        s += "a" + rx.gen("x")
        for f in s.fork(3):
            f += "b" + rx.gen("y")

    engine = fake()
    run(program, engine)
    [opened] = engine.opened
    assert opened["final"]
    assert len(engine.programs[0].segments) == 1


def test_a_read_sends_what_is_not_sent_yet_and_nothing_twice(fake: Any) -> None:
    def program(s: Any) -> str:
        s += "a" + rx.gen("x")
        first = s["x"]
        assert s["x"] == first
        s += f"b{first}" + rx.gen("y")
        return str(s["y"])

    engine = fake(x="1", y="2")
    assert run(program, engine).value == "2"
    segments = engine.programs[0].segments
    assert [[type(n) for n in segment] for segment in segments] == [[TextNode, GenNode], [TextNode, GenNode], []]
    assert engine.contexts == [("x", "a"), ("y", "a1b1")]


def test_a_read_waits_for_that_value_alone(fake: Any) -> None:
    engine = fake(slow=fake.Waiting("late"), quick="now")

    def program(s: Any) -> Any:
        a, b = s.fork(2)
        a += rx.gen("slow")
        b += rx.gen("quick")
        value = b["quick"]
        engine.release("slow")
        return value, a["slow"]

    assert run(program, engine).value == ("now", "late")


def test_text_is_merged_in_every_segment(fake: Any) -> None:
    def program(s: Any) -> None:
        s += "a"
        s += "b" + rx.gen("x")
        _ = s["x"]
        s += "c"
        s += "d" + rx.gen("y")
        _ = s["y"]

    engine = fake()
    run(program, engine)
    assert [n.text for n in engine.sent_nodes() if isinstance(n, TextNode)] == ["ab", "cd"]


def test_a_value_is_parsed_once(fake: Any) -> None:
    def program(s: Any) -> Any:
        s += rx.gen("x", schema=Card)
        assert s["x"] is s["x"]
        return s["x"]

    result = run(program, fake(x='{"name":"a"}'))
    assert result["x"] is result.value


def test_a_branch_of_a_branch_sees_the_latest_above_it(fake: Any) -> None:
    answers = iter(["root", "branch"])

    def program(s: Any) -> Any:
        s += rx.gen("x")
        [f] = s.fork(1)
        assert f["x"] == "root"
        f += rx.gen("x")
        [g] = f.fork(1)
        return s["x"], f["x"], g["x"]

    assert run(program, fake(x=lambda _: next(answers))).value == ("root", "branch", "branch")


def test_reading_a_branch_sends_all_branches(fake: Any) -> None:
    engine = fake()

    def program(s: Any) -> Any:
        b = s.fork(3)
        b += rx.gen("x")
        return b[0]["x"]

    run(program, engine)
    assert len([n for n in engine.programs[0].segments[0] if isinstance(n, GenNode)]) == 3


def test_send_begins_without_waiting(fake: Any, until: Any) -> None:
    engine = fake(x=fake.Waiting())

    def program(s: Any) -> None:
        s += rx.gen("x")
        s.send()
        until(lambda: "x" in engine.held)
        engine.release("x")

    assert run(program, engine)["x"] == "late"


def test_a_name_used_again_gives_the_latest(fake: Any) -> None:
    answers = iter(["one", "two"])
    engine = fake(x=lambda _: next(answers))

    def program(s: Any) -> Any:
        s += rx.gen("x")
        first = s["x"]
        s += rx.gen("x")
        return first, s["x"]

    result = run(program, engine)
    assert result.value == ("one", "two")
    assert result["x"] == "two"
    assert [node.text for node in result.nodes] == ["one", "two"]
    assert result.nodes["x"].text == "two"
    assert len(result.nodes.named("x")) == 2


def test_a_branch_sees_names_as_they_stood_at_the_fork(fake: Any) -> None:
    answers = iter(["one", "two"])

    def program(s: Any) -> Any:
        s += rx.gen("x")
        [f] = s.fork(1)
        s += rx.gen("x")
        return f["x"], s["x"]

    assert run(program, fake(x=lambda _: next(answers))).value == ("one", "two")


def test_an_unknown_name_is_an_error_that_knows_the_others(fake: Any) -> None:
    def program(s: Any) -> Any:
        s += rx.gen("card")
        return s["crad"]

    with pytest.raises(InvalidRequest, match="'card'") as caught:
        run(program, fake())
    assert caught.value.param == "crad"
    assert isinstance(caught.value, KeyError)
    with pytest.raises(InvalidRequest):
        run(lambda s: None, fake())["x"]


@pytest.mark.parametrize(
    ("arguments", "text", "value"),
    [
        ({}, "plain", "plain"),
        ({"schema": Card}, '{"name":"a"}', Card(name="a")),
        ({"schema": {"type": "array"}}, "[1]", [1]),
        ({"type": int}, "12", 12),
        ({"type": bool}, "false", False),
        ({"choices": ["a", "b"]}, "b", "b"),
        ({"regex": "a+"}, "aa", "aa"),
        ({"grammar": "root ::= 'a'"}, "a", "a"),
    ],
)
def test_a_value_is_what_its_type_makes_of_the_text(fake: Any, arguments: Any, text: str, value: Any) -> None:
    def program(s: Any) -> Any:
        s += rx.gen("x", **arguments)
        return s["x"]

    result = run(program, fake(x=text))
    assert result.value == value
    assert result["x"] == value
    assert result.nodes["x"].value == value
    assert result.nodes["x"].text == text


def test_n_above_one_gives_a_list(fake: Any) -> None:
    def program(s: Any) -> Any:
        s += rx.gen("x", n=3, type=int)
        return s["x"]

    result = run(program, fake(x=["1", "2", "3"]))
    assert result.value == [1, 2, 3]
    assert [sample.text for sample in result.nodes["x"].samples] == ["1", "2", "3"]


def test_a_select_gives_the_choice_and_its_scores(fake: Any) -> None:
    def program(s: Any) -> Any:
        s += rx.select("x", ["a", "b"])
        return s["x"]

    result = run(program, fake(x="b"))
    assert result.value == "b"
    assert result.nodes["x"].choice == 1
    assert result.nodes["x"].scores == (-1.0, 0.0)


# --- incomplete output ---


@pytest.mark.parametrize("reason", [FinishReason.LENGTH, FinishReason.NO_LEGAL_TOKEN])
@pytest.mark.parametrize("arguments", [{"schema": Card}, {"type": int}, {"choices": ["ab"]}, {"regex": "a+b"}])
def test_an_unfinished_constrained_output_raises_with_its_text(
    fake: Any, reason: FinishReason, arguments: dict[str, Any]
) -> None:
    def program(s: Any) -> Any:
        s += rx.gen("x", **arguments)
        return s["x"]

    engine = fake(x=fake.cut('{"na', reason))
    with pytest.raises(IncompleteOutput) as caught:
        run(program, engine)
    assert caught.value.text == '{"na'
    assert caught.value.finish_reason == str(reason)
    assert caught.value.param == "x"
    assert "test_frontend_reading.py" in str(caught.value)


def test_an_unfinished_output_that_nobody_reads_is_in_the_nodes(fake: Any) -> None:
    def program(s: Any) -> str:
        s += rx.gen("x", schema=Card)
        return str(s.text())

    result = run(program, fake(x=fake.cut('{"na')))
    assert result.value == '{"na', "text is raw and unrepaired"
    assert result.nodes["x"].finish_reason == FinishReason.LENGTH
    assert result.nodes["x"].text == '{"na'
    with pytest.raises(IncompleteOutput):
        result["x"]
    with pytest.raises(IncompleteOutput):
        _ = result.nodes["x"].value


def test_unconstrained_text_may_end_by_length(fake: Any) -> None:
    def program(s: Any) -> Any:
        s += rx.gen("x")
        return s["x"]

    assert run(program, fake(x=fake.cut("and so"))).value == "and so"
    with pytest.raises(IncompleteOutput):
        run(program, fake(x=fake.cut("and so", FinishReason.NO_LEGAL_TOKEN)))


def test_one_unfinished_sample_of_n_raises(fake: Any) -> None:
    def program(s: Any) -> Any:
        s += rx.gen("x", n=2, type=int)
        return s["x"]

    with pytest.raises(IncompleteOutput):
        run(program, fake(x=["1", fake.cut("2")]))


def test_a_validator_of_the_persons_type_speaks_for_itself(fake: Any) -> None:
    def program(s: Any) -> Any:
        s += rx.gen("x", schema=Even)
        return s["x"]

    refused = pytest.raises(pydantic.ValidationError, match="odd")
    with pytest.warns(UncheckedValidatorWarning, match="is_even"), refused as caught:
        run(program, fake(x='{"number":3}'))
    assert any("gen 'x'" in note for note in caught.value.__notes__)


# --- errors ---


@pytest.mark.parametrize(
    "error",
    [
        ContextLengthExceeded("too long", needed=9, limit=5),
        UnsupportedConstraint("no", keyword="not", location="/a"),
        UnsatisfiableConstraint("no"),
        InvalidRequest("bad", param="x"),
    ],
)
def test_a_nodes_error_raises_where_it_is_read_with_the_programs_line(fake: Any, error: InvalidRequest) -> None:
    def program(s: Any) -> Any:
        s += rx.gen("x")  # where it was written
        return s["x"]  # where it is read

    with pytest.raises(type(error)) as caught:
        run(program, fake(x=error))
    assert caught.value.detail() == error.detail()
    assert caught.value.param == error.param
    line = program.__code__.co_firstlineno + 1
    assert f"test_frontend_reading.py:{line}" in str(caught.value)
    assert any(f"line {line}" in note for note in caught.value.__notes__)
    assert any(entry.name == "program" and entry.lineno == line for entry in caught.traceback)


def test_an_error_nobody_reads_leaves_the_value_alone(fake: Any) -> None:
    def program(s: Any) -> str:
        for f in s.fork(["good", "bad"]):
            f += f.key + rx.gen("x")
        return "value"

    engine = fake(x=lambda context: InvalidRequest("no") if "bad" in context else "fine")
    result = run(program, engine)
    assert result.value == "value"
    assert result.error is None
    with pytest.raises(InvalidRequest):
        result["x"]
    assert [type(e) for e in result.errors] == [InvalidRequest]
    good, bad = result.nodes
    assert (good.text, good.error) == ("fine", None)
    assert (bad.text, bad.finish_reason) == ("", FinishReason.ERROR)
    assert isinstance(bad.error, InvalidRequest)


def test_a_failing_branch_fails_whoever_reads_it_and_nobody_else(fake: Any) -> None:
    engine = fake(x=lambda context: InvalidRequest("no") if "bad" in context else "fine")

    def program(s: Any) -> Any:
        b = s.fork(["good", "bad"])
        for f in b:
            f += f.key + rx.gen("x")
        found = [b[0]["x"]]
        reads: list[Callable[[], Any]] = [lambda: b[1]["x"], lambda: b["x"], lambda: b[1].text()]
        for read in reads:
            with pytest.raises(InvalidRequest):
                read()
            found.append("raised")
        s.join(b)
        s += rx.gen("y")
        with pytest.raises(InvalidRequest):
            _ = s["y"]
        return found

    assert run(program, engine).value == ["fine", "raised", "raised", "raised"]


def test_a_program_can_handle_an_error_and_go_on(fake: Any) -> None:
    engine = fake(x=InvalidRequest("no"), y="fine")

    def program(s: Any) -> Any:
        a, b = s.fork(2)
        a += rx.gen("x")
        try:
            return a["x"]
        except InvalidRequest:
            b += rx.gen("y")
            return b["y"]

    assert run(program, engine).value == "fine"


# --- text, messages ---


def test_text_and_messages_are_the_content_in_order(fake: Any) -> None:
    seen: list[Any] = []

    def program(s: Any) -> None:
        s += rx.system("S")
        s += rx.user("U")
        with s.assistant():
            s += "It is " + rx.gen("x") + "!"
            seen.append(s.messages)
        [f] = s.fork(1)
        f += rx.user("branch")
        s += rx.user("later")
        seen.append(f.messages)
        seen.append(f.text())

    result = run(program, fake(x="good"))
    base = [{"role": "system", "content": "S"}, {"role": "user", "content": "U"}]
    answer = {"role": "assistant", "content": "It is good!"}
    assert seen[0] == [*base, answer]
    assert seen[1] == [*base, answer, {"role": "user", "content": "branch"}]
    assert seen[2] == "S\nU\nIt is good!\nbranch"
    assert result.messages == [*base, answer, {"role": "user", "content": "later"}]
    assert result.text == "S\nU\nIt is good!\nlater"


def test_the_text_of_plain_programs_is_all_they_wrote(fake: Any) -> None:
    def program(s: Any) -> Any:
        s += "a" + rx.gen("x") + "b"
        s += rx.select("y", ["p", "q"])
        return s.text()

    result = run(program, fake(x="1", y="q"))
    assert result.value == result.text == "a1bq"
    assert result.messages == []


def test_joined_text_is_part_of_the_parent(fake: Any) -> None:
    def program(s: Any) -> Any:
        s += "start:"
        b = s.fork(["p", "q"])
        for f in b:
            f += f.key + rx.gen("x")
        s += "meanwhile:"
        s.join(b, sep="+")
        s += rx.gen("end")
        return b["x"], s.text()

    engine = fake(x=lambda context: context[-1].upper(), end=lambda context: f"<{context}>")
    values, text = run(program, engine).value
    assert values == ["P", "Q"]
    assert text == "start:meanwhile:pP+qQ<start:meanwhile:pP+qQ>"


def test_join_does_not_wait_in_python(fake: Any) -> None:
    engine = fake(x=fake.Waiting("late"))

    def program(s: Any) -> Any:
        b = s.fork(2)
        b += rx.gen("x")
        s.join(b)
        s += "!"
        s.send()
        engine.release("x")
        return s.text()

    # Both branches wait; releasing before they were begun would release nothing.
    timer = threading.Timer(0.05, lambda: engine.release("x"))
    timer.start()
    assert run(program, engine).value == "latelate!"
    timer.cancel()


def test_threads_of_a_program_may_append_to_their_branches(fake: Any) -> None:
    def program(s: Any) -> Any:
        b = s.fork(16)

        def work(f: Any) -> None:
            for step in range(20):
                f += f"{f.index}.{step} " + rx.gen("x")
                assert f["x"] == "ok"

        threads = [threading.Thread(target=work, args=(f,)) for f in b]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return b["x"]

    result = run(program, fake())
    assert result.value == ["ok"] * 16
    assert len(result.nodes) == 320
