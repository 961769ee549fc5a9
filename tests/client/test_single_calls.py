"""generate, agenerate, stream, astream: values, errors, cancellation."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
import pytest
from pydantic import Field

from radixrt.api import EndEvent, GenNode, SamplingParams, TextNode
from radixrt.client import connection
from radixrt.errors import (
    ContextLengthExceeded,
    DeadlineExceeded,
    IncompleteOutput,
    InvalidRequest,
    UnsatisfiableConstraint,
    UnsupportedConstraint,
)
from radixrt.testing.byte_tokenizer import ByteTokenizer
from radixrt.testing.scripted_model import ScriptedModel, say

B = ByteTokenizer


def _until(condition: Callable[[], Any], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.01)


def _idle(engine: Any) -> None:
    _until(lambda: engine.stats()["programs"] == 0)
    stats = engine.stats()
    assert stats["held_slots"] == stats["waiting"] == stats["running"] == 0


def test_the_three_kinds_of_prompt(make_engine: Any) -> None:
    engine = make_engine(script=say(b"yes", B.EOS))
    for prompt, tokens in (
        ("hello", 5),
        ([104, 105], 2),
        ([{"role": "user", "content": "hi"}], len("Suser\nhiE\nSassistant\n")),
        (
            [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "I"}],
            len("Suser\nhiE\nSassistant\nI"),
        ),
    ):
        result = engine.generate(prompt, max_tokens=9, heal=False)
        assert (result.text, result.value, result.finish_reason) == ("yes", "yes", "stop")
        assert result.usage.prompt_tokens == tokens
        assert result.ids == tuple(b"yes")


def test_values_are_parsed(make_engine: Any) -> None:
    engine = make_engine()
    assert engine.generate("?", choices=["left", "right"], max_tokens=20).value in ("left", "right")
    assert isinstance(engine.generate("?", type=bool, max_tokens=20).value, bool)
    assert engine.generate("?", regex="[a-c]{2}", max_tokens=20).value[0] in "abc"
    schema = {
        "type": "object",
        "properties": {"a": {"enum": [1, 2]}},
        "required": ["a"],
        "additionalProperties": False,
    }
    assert engine.generate("?", schema=schema, max_tokens=200).value["a"] in (1, 2)
    many = engine.generate("?", choices=["left", "right"], n=3, max_tokens=20)
    assert len(many.value) == len(many.texts) == len(many.samples) == 3


def test_incomplete_output_raises_where_the_value_is_read(make_engine: Any) -> None:
    result = make_engine().generate("?", regex="[a-c]{9}", max_tokens=3)
    assert result.finish_reason == "length"
    with pytest.raises(IncompleteOutput) as caught:
        _ = result.value
    assert caught.value.text == result.text
    assert caught.value.finish_reason == "length"
    assert caught.value.param == "regex"


@pytest.mark.parametrize(
    ("prompt", "param"),
    [
        (None, "prompt"),
        (3, "prompt"),
        (b"bytes", "prompt"),
        ({"role": "user"}, "prompt"),
        ([], "prompt"),
        ("a\ud800", "prompt"),
        ([1, "a"], "prompt[1]"),
        ([1, True], "prompt[1]"),
        (["a"], "prompt[0]"),
        ([9999], "prompt"),
        ([-1], "prompt[0]"),
        ([5, 2**70], "prompt[1]"),
        ([{"role": "user", "content": "a"}, {"role": "nobody"}], "messages[1].content"),
        ([{"role": "user"}], "messages[0].content"),
        ([{"content": "a"}], "messages[0].role"),
        ([{"role": "user", "content": "a"}, 3], "messages[1]"),
        ([{"role": "user", "content": ["a"]}], "messages[0].content"),
        ([{"role": "user", "content": None}], "messages[0].content"),
        ([{"role": 3, "content": "a"}], "messages[0].role"),
        ([{"role": "", "content": "a"}], "messages[0].role"),
        ([{"role": "user", "content": "a", "name": "x"}], "messages[0].name"),
        ([{"role": "user", "content": "\udfff"}], "messages[0].content"),
    ],
)
def test_bad_prompts_are_named_by_place(make_engine: Any, prompt: Any, param: str) -> None:
    engine = make_engine()
    with pytest.raises(InvalidRequest) as caught:
        engine.generate(prompt)
    assert caught.value.param == param
    assert engine.generate("fine", max_tokens=1).finish_reason == "length"


@pytest.mark.parametrize(
    ("arguments", "param"),
    [
        ({"temprature": 0}, "temprature"),
        ({"tools": None}, "tools"),
        ({"temperature": "hot"}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"n": 0}, "n"),
        ({"regex": "a", "choices": ["b"]}, "choices"),
        ({"choices": ["a", "a"]}, "choices"),
        ({"choices": []}, "choices"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": "soon"}, "timeout"),
        ({"heal": 1}, "heal"),
        ({"salt": 5}, "salt"),
        ({"priority": 1.5}, "priority"),
        ({"priority": 2**31}, "priority"),
        ({"priority": -(2**70)}, "priority"),
        ({"regex": r"[^\s\S]"}, "regex"),
        ({"schema": False}, "schema"),
        ({"schema": {"type": "string", "pattern": r"(a)\1"}}, "schema"),
        ({"grammar": 'root ::= root "a"'}, "grammar"),
        ({"type": dict[str, list[int]], "regex": "a"}, "type"),
        ({"logit_bias": {9999: 1.0}}, "logit_bias"),
        ({"salt": "x" * 1000}, "salt"),
    ],
)
def test_bad_arguments_are_named(make_engine: Any, arguments: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        make_engine().generate("hi", **arguments)
    assert caught.value.param == param


def test_none_is_absent(make_engine: Any) -> None:
    engine = make_engine()
    names = (
        "regex",
        "schema",
        "heal",
        "timeout",
        "salt",
        "temperature",
        "stop",
        "seed",
        "logprobs",
        "n",
        "priority",
    )
    assert engine.generate("hi", max_tokens=1, **dict.fromkeys(names)).finish_reason == "length"


def test_errors_of_the_worker_keep_their_class(make_engine: Any) -> None:
    engine = make_engine(context_length=64)
    with pytest.raises(ContextLengthExceeded) as long:
        engine.generate("x" * 60, max_tokens=5)
    assert (long.value.needed, long.value.limit) == (65, 64)
    with pytest.raises(UnsupportedConstraint):
        engine.generate("x", regex=r"(a)\1")
    with pytest.raises(UnsatisfiableConstraint):
        engine.generate("x", regex=r"a(?!.*)b|[^\s\S]")
    assert engine.generate("x", max_tokens=1).text is not None
    _idle(engine)


def test_a_timeout_is_a_deadline(make_engine: Any) -> None:
    engine = make_engine(model=ScriptedModel(264, 4096, step_delay_s=0.01))
    started = time.monotonic()
    with pytest.raises(DeadlineExceeded) as caught:
        engine.generate("hi", max_tokens=2000, ignore_eos=True, timeout=0.2)
    assert caught.value.param == "timeout"
    assert time.monotonic() - started < 5.0
    _idle(engine)


def test_seeds_repeat(make_engine: Any) -> None:
    engine = make_engine()
    first = engine.generate("hi", max_tokens=9)
    again = engine.generate("hi", max_tokens=9, seed=first.seed)
    other = engine.generate("hi", max_tokens=9, seed=first.seed + 1)
    assert first.ids == again.ids != other.ids


def test_max_tokens_zero_prefills(make_engine: Any) -> None:
    engine = make_engine()
    result = engine.generate("a" * 50, max_tokens=0)
    assert (result.text, result.usage.completion_tokens) == ("", 0)
    assert engine.generate("a" * 50, max_tokens=1, heal=False).usage.cached_tokens >= 49


def test_a_stream_is_the_text(make_engine: Any) -> None:
    script = say("héllo wörld".encode(), B.EOS)
    engine = make_engine(model=ScriptedModel(264, 4096, script=script, step_delay_s=0.01))
    stream = engine.stream("?", max_tokens=40)
    pieces = list(stream)
    assert len(pieces) > 3
    assert "".join(pieces) == "héllo wörld" == stream.generation.text
    assert list(stream) == []
    with pytest.raises(InvalidRequest, match="n=2"):
        engine.stream("?", n=2)
    failing = engine.stream("x" * 5000)
    with pytest.raises(ContextLengthExceeded):
        next(failing)
    assert list(failing) == []
    unknown = engine.stream([9999])
    with pytest.raises(InvalidRequest) as caught:
        next(unknown)
    assert caught.value.param == "prompt"
    assert list(unknown) == []


@pytest.mark.parametrize("how", ["close", "drop", "with"])
def test_a_stream_that_is_left_cancels(make_engine: Any, how: str) -> None:
    engine = make_engine(model=ScriptedModel(264, 4096, step_delay_s=0.005))
    stream = engine.stream("hi", max_tokens=3000, ignore_eos=True, temperature=0)
    next(stream)
    if how == "close":
        stream.close()
        assert list(stream) == []
    elif how == "with":
        with stream:
            next(stream)
    del stream
    gc.collect()
    _idle(engine)


def test_ctrl_c_cancels(make_engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import signal

    engine = make_engine(model=ScriptedModel(264, 4096, step_delay_s=0.005))
    main = threading.main_thread().ident
    timer = threading.Timer(0.3, signal.pthread_kill, (main, signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        engine.generate("hi", max_tokens=3000, ignore_eos=True)
    timer.join()
    _idle(engine)


def test_asyncio(make_engine: Any) -> None:
    engine = make_engine(model=ScriptedModel(264, 4096, step_delay_s=0.001))

    async def work() -> None:
        results = await asyncio.gather(*(engine.agenerate(f"p{i}", max_tokens=5, seed=1) for i in range(20)))
        assert all(r.usage.completion_tokens == 5 or r.finish_reason == "stop" for r in results)
        pieces = [piece async for piece in engine.astream("hi", max_tokens=5, temperature=0, ignore_eos=True)]
        assert pieces
        with pytest.raises(InvalidRequest):
            await engine.agenerate("hi", nonsense=1)
        with pytest.raises(ContextLengthExceeded):
            await engine.agenerate("x" * 5000)
        with pytest.raises(ContextLengthExceeded):
            async for _ in engine.astream("x" * 5000):
                pass
        task = asyncio.create_task(engine.agenerate("hi", max_tokens=3000, ignore_eos=True))
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        stream = engine.astream("hi", max_tokens=3000, ignore_eos=True, temperature=0)
        async for _ in stream:
            break
        await stream.aclose()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(engine.agenerate("hi", max_tokens=3000, ignore_eos=True), 0.1)

    asyncio.run(work())
    _idle(engine)


def test_a_model_without_a_chat_template_names_the_prompt(make_engine: Any) -> None:
    with pytest.raises(InvalidRequest, match="template") as caught:
        make_engine(tokenizer=B(template=None)).generate([{"role": "user", "content": "a"}])
    assert caught.value.param == "prompt"


def test_a_prompt_too_long_to_send_names_the_prompt(make_engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = make_engine()
    monkeypatch.setattr(connection, "MAX_MESSAGE_BYTES", 1000)
    with pytest.raises(InvalidRequest, match="limit") as caught:
        engine.generate("a" * 1000)
    assert caught.value.param == "prompt"


def test_a_type_that_the_engine_refuses_is_named_as_it_was_given(make_engine: Any) -> None:
    kind = Annotated[str, Field(min_length=5, max_length=4)]
    for name in ("type", "schema"):
        with pytest.raises(UnsatisfiableConstraint) as caught:
            make_engine().generate("x", **{name: kind})
        assert caught.value.param == name


def test_no_timeout_is_too_long_for_the_worker(make_engine: Callable[..., Any]) -> None:
    scripted = make_engine()
    with pytest.raises(InvalidRequest) as caught:
        scripted.generate("x", max_tokens=1, timeout=1e10)
    assert caught.value.param == "timeout"
    ended: list[Any] = []
    over = threading.Event()

    def hear(event: Any) -> None:
        ended.append(event)
        if isinstance(event, EndEvent):
            over.set()

    nodes = [TextNode(node=0, text="x"), GenNode(node=1, name="y", params=SamplingParams(max_tokens=1))]
    scripted.open_program(nodes, hear, seed=1, final=True, timeout_s=1e300)  # as a message from elsewhere might say
    assert over.wait(10)
    assert ended[-1].outcome == "done"


def test_numpy_integers_are_token_ids(make_engine: Callable[..., Any]) -> None:
    scripted = make_engine()
    ids = [int(x) for x in np.arange(65, 70)]
    plain = scripted.generate(ids, max_tokens=3, temperature=0)
    assert scripted.generate(list(np.arange(65, 70)), max_tokens=3, temperature=0).text == plain.text
