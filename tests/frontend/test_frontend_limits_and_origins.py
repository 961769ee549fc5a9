"""How large a program may be, which node an error is about, and what stays of people's classes and exceptions."""

from __future__ import annotations

import gc
import itertools
import weakref
from collections.abc import Callable
from typing import Any

import pydantic
import pytest

import radixrt as rx
from radixrt import api
from radixrt.errors import ContextLengthExceeded, ErrorInfo, InvalidRequest, RadixrtError
from radixrt.frontend import recording
from radixrt.output_types import output_type
from radixrt.worker.tree import BranchTree


def run(function: Any, engine: Any, **options: Any) -> Any:
    return rx.program(function).run(engine=engine, **options)


# --- limits: one number for programs and worker, refused at the line ---


@pytest.mark.parametrize(
    "fork",
    [
        lambda s: s.fork(api.MAX_BRANCHES),
        lambda s: s.fork(10**5000),
        lambda s: s.fork(range(api.MAX_BRANCHES)),
        lambda s: s.fork(itertools.count()),
        lambda s: [s.fork(api.MAX_BRANCHES // 2) for _ in range(2)],
        lambda s: s.fork(api.MAX_BRANCHES // 2)[0].fork(api.MAX_BRANCHES // 2),
    ],
    ids=["number", "huge", "keys", "endless", "twice", "nested"],
)
def test_a_fork_beyond_the_limit_is_refused_at_its_line(fake: Any, fork: Callable[[Any], Any]) -> None:
    def program(s: Any) -> Any:
        with pytest.raises(InvalidRequest) as caught:
            fork(s)
        s += rx.gen("x")
        return caught.value, s["x"]

    error, value = run(program, fake()).value
    assert error.param == "n_or_keys"
    assert value == "ok", "the program goes on without it"


def test_the_worker_takes_exactly_what_a_program_may_record() -> None:
    graph = rx.program(lambda s: s.fork(api.MAX_BRANCHES - 1)).graph()
    tree = BranchTree()
    for node in graph.nodes:
        tree.admit(node)
    assert len(tree.branches) == api.MAX_BRANCHES
    with pytest.raises(InvalidRequest):
        tree.admit(api.ForkNode(node=9, children=(api.MAX_BRANCHES,)))


def test_a_node_beyond_the_limit_is_refused_at_its_line(fake: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(recording, "MAX_NODES", 4)

    def program(s: Any) -> Any:
        for _ in range(10):
            s += "one text, however many pieces"
        s.send()
        s += "another"
        s += rx.gen("x") + rx.gen("y")
        for more in (rx.gen("z"), "text", rx.select("w", ["a"])):
            with pytest.raises(InvalidRequest, match="at most 4 nodes") as caught:
                s += more
            assert caught.value.param == "program"
        return s["y"]

    engine = fake()
    assert run(program, engine).value == "ok"
    assert len(engine.sent_nodes()) == 4


# --- origins ---

TOO_LONG = ContextLengthExceeded("9 tokens do not fit 8", needed=9, limit=8)


def chain(s: Any) -> None:
    s += rx.gen("x")
    s += rx.gen("z")


def joined(s: Any) -> None:
    b = s.fork(2)
    b[0].__iadd__(rx.gen("fine"))
    b[1].__iadd__("text" + rx.gen("x"))
    s.join(b)
    s += "more" + rx.gen("z")


def forked_after(s: Any) -> None:
    s += rx.gen("x")
    [f] = s.fork(1)
    f.fork(1)
    s.join([f])
    s += rx.gen("z")


def joined_twice(s: Any) -> None:
    [f] = s.fork(1)
    [g] = f.fork(1)
    g += rx.gen("x", regex="a+")
    f.join([g])
    f += rx.gen("between")
    s.join([f])
    s += rx.gen("z")


@pytest.mark.parametrize("write", [chain, joined, forked_after, joined_twice])
def test_an_error_names_the_node_that_failed_first(fake: Any, write: Any) -> None:
    def program(s: Any) -> Any:
        write(s)
        return s["z"]

    def ignores(s: Any) -> None:
        write(s)

    engine = fake(x=TOO_LONG)
    with pytest.raises(ContextLengthExceeded) as caught:
        run(program, engine)
    line = write.__code__.co_firstlineno
    assert "(gen 'x' at test_frontend_limits_and_origins.py:" in str(caught.value)
    assert "gen 'z' at test_frontend_limits_and_origins.py:" in str(caught.value)
    [written] = [note for note in caught.value.__notes__ if "was written" in note]
    assert written.startswith("gen 'x'")
    assert line < int(written.split("line ")[1].split(",")[0]) < line + 9
    result = run(ignores, engine)
    assert all("(gen 'x' at" in str(error) for error in result.errors)
    assert "(gen 'x' at" in str(result.nodes["z"].error)
    own = str(result.nodes["x"].error)
    assert "depends" not in own
    assert own.count("gen ") == 1


def test_a_node_with_a_failure_of_its_own_is_its_own_origin(fake: Any) -> None:
    def program(s: Any) -> None:
        a, b = s.fork(2)
        a += rx.gen("x")
        b += rx.gen("z")

    errors = run(program, fake(x=TOO_LONG, z=RadixrtError("something else"))).errors
    assert ["gen 'x'" in str(error) for error in errors] == [True, False]
    assert ["gen 'z'" in str(error) for error in errors] == [False, True]


def test_what_a_worker_adds_to_an_error_hides_no_origin(fake: Any) -> None:
    def record(node: api.Node, *causes: recording.Record, error: ErrorInfo) -> recording.Record:
        made = recording.Record(node, (), recording.program_line(), name="n", answered=True, causes=causes)
        assert made.event is not None
        made.event.set_result(api.NodeEvent("p", node.node, error=error))
        return made

    plain = ErrorInfo("invalid_request", "bad")
    first = record(api.GenNode(node=0, name="x"), error=plain)
    later = ErrorInfo("invalid_request", "bad", detail={"node": 0})
    second = record(api.GenNode(node=1, name="z"), first, error=later)
    assert recording.origin_of(later, second) is first


def test_long_programs_find_their_origins_in_time(fake: Any) -> None:
    def program(s: Any) -> None:
        for i in range(1500):
            s += rx.gen(f"x{i}")

    errors = run(program, fake(x0=TOO_LONG)).errors
    assert len(errors) == 1500
    assert all("gen 'x0'" in str(error) for error in errors)


# --- names ---


def test_an_unknown_name_is_an_error_of_the_tree(fake: Any) -> None:
    def program(s: Any) -> Any:
        return s["nothing"]

    with pytest.raises(rx.UnknownName) as caught:
        run(program, fake())
    assert isinstance(caught.value, InvalidRequest)
    assert isinstance(caught.value, KeyError)
    info = caught.value.to_info()
    assert (info.code, info.param) == ("unknown_name", "nothing")
    again = info.to_exception()
    assert type(again) is rx.UnknownName
    assert str(again) == info.message


# --- what stays ---


def test_classes_of_the_person_are_let_go() -> None:
    def used(base: type) -> weakref.ref[type]:
        kind: Any = type("Local", (base,), {"__annotations__": {"a": int}})
        for arguments in ({"schema": kind}, {"schema": list[kind]}, {"type": kind}):
            output = output_type(**arguments)
            assert output is not None
            assert "integer" in output.constraint.source
        return weakref.ref(kind)

    alive = [used(pydantic.BaseModel) for _ in range(3)]
    gc.collect()
    assert [ref() for ref in alive] == [None] * 3


ONE_ERROR = LookupError("the same each time")


def test_one_exception_object_of_many_rows_keeps_one_note(fake: Any) -> None:
    @rx.program
    def program(s: Any) -> None:
        raise ONE_ERROR

    for _ in range(2):
        runs = program.map([{}] * 50, engine=fake(), concurrency=4)
        assert runs.errors == [ONE_ERROR] * 50
    [note] = ONE_ERROR.__notes__
    assert note.startswith("in row ")
    assert "elsewhere" in note


@pytest.mark.filterwarnings("ignore::radixrt.python_types.UncheckedValidatorWarning")
def test_one_exception_object_of_a_validator_keeps_one_note_of_each_kind(fake: Any) -> None:
    error = RuntimeError("the same each time")
    error.add_note("the person's own note")

    def refuse(value: int) -> int:
        raise error

    class Strict(pydantic.BaseModel):
        number: int

        check = pydantic.field_validator("number")(refuse)

    @rx.program
    def program(s: Any, i: int) -> Any:
        s += str(i) + rx.gen("x", schema=Strict)
        return s["x"]

    runs = program.map([{"i": i} for i in range(20)], engine=fake(x=lambda context: f'{{"number":{context}}}'))
    assert runs.failed == 20
    assert len(error.__notes__) == 3
