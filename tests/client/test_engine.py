"""The engine as an object: many threads, several engines, current engine, queries, flags, end."""

from __future__ import annotations

import queue
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from radixrt.api import EndEvent, GenNode, NodeEvent, SamplingParams, TextNode
from radixrt.client.current import current_engine
from radixrt.client.engine import Engine
from radixrt.errors import InvalidRequest, ModelLoadError, WorkerDied
from radixrt.testing.byte_tokenizer import ByteTokenizer
from radixrt.testing.scripted_model import ScriptedModel, say
from radixrt.worker.supervisor import Patience, ThreadLauncher

B = ByteTokenizer


def test_many_threads_share_an_engine(make_engine: Any) -> None:
    engine = make_engine()
    alone = [engine.generate(f"prompt {i}", max_tokens=8, seed=i).ids for i in range(24)]
    engine.flush_cache()
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda i: engine.generate(f"prompt {i}", max_tokens=8, seed=i).ids, range(24)))
    assert alone == together


def test_two_engines_do_not_mix(make_engine: Any) -> None:
    one, two = make_engine(script=say(b"one", B.EOS)), make_engine(script=say(b"two", B.EOS))
    with ThreadPoolExecutor(4) as pool:
        texts = list(pool.map(lambda e: e.generate("?", max_tokens=9).text, [one, two] * 10))
    assert texts == ["one", "two"] * 10
    one.close()
    assert two.generate("?", max_tokens=9).text == "two"


@pytest.mark.parametrize(
    "argument",
    [
        {"priority": 2**70},
        {"priority": -(2**31) - 1},
        {"seed": 2**64},
        {"seed": -1},
        {"timeout_s": 0.0},
        {"salt": "x" * 999},
    ],
)
def test_what_a_program_is_opened_with_is_named_when_it_is_wrong(
    make_engine: Any, argument: dict[str, Any]
) -> None:
    engine, events = make_engine(), queue.SimpleQueue[Any]()
    try:
        engine.open_program((), events.put, **{"seed": 1, "final": True, **argument})
        param = events.get(timeout=10.0).error.param
    except InvalidRequest as error:
        param = error.param
    assert [param] == list(argument)


def test_the_current_engine(make_engine: Any) -> None:
    one, two = make_engine(), make_engine()
    assert current_engine() is None
    with one:
        assert current_engine() == one
        with two:
            assert current_engine() is two
            seen: list[Any] = []
            thread = threading.Thread(target=lambda: seen.append(current_engine()))
            thread.start()
            thread.join()
            assert seen == [None]
        assert current_engine() == one
    assert current_engine() is None
    with pytest.raises(WorkerDied):
        one.generate("closed with its block")


def test_queries(make_engine: Any) -> None:
    engine = make_engine()
    assert engine.tokenize("a<|im_end|>") == list(b"a<|im_end|>")
    assert engine.detokenize([97, B.IM_END]) == "a<|im_end|>"
    for wrong in ([264], [-1]):
        with pytest.raises(InvalidRequest) as caught:
            engine.detokenize(wrong)
        assert caught.value.param == "ids"
    with pytest.raises(InvalidRequest):
        engine.tokenize("\ud800")
    engine.generate("a" * 100, max_tokens=1)
    stats = engine.stats()
    assert stats["cached_slots"] > 90
    assert stats["programs"] == 0
    assert stats["programs_opened"] == 1
    engine.flush_cache()
    assert engine.stats()["cached_slots"] == 0
    assert engine.model.vocab_size == 264


@pytest.mark.parametrize(
    ("arguments", "param"),
    [
        ({"max_runing": 3}, "max_runing"),
        ({"max_running": 0}, "max_running"),
        ({"policy": "best"}, "policy"),
        ({"heartbeat_s": 0.0}, "heartbeat_s"),
        ({"heartbeat_s": float("nan")}, "heartbeat_s"),
        ({"config_file": "/no/such/file.toml"}, "config"),
    ],
)
def test_flags_are_checked_before_anything_starts(arguments: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        Engine("whatever", **arguments)
    assert param in str(caught.value.param)


@pytest.mark.parametrize("model", ["", None, 3])
def test_a_model_is_a_name_or_a_path(model: Any) -> None:
    with pytest.raises(InvalidRequest) as caught:
        Engine(model)
    assert caught.value.param == "model"


def test_a_load_that_fails_raises_its_own_class_and_leaves_no_thread() -> None:
    from radixrt.config import resolve

    def load() -> Any:
        raise ModelLoadError("damaged", param="x.gguf")

    with pytest.raises(ModelLoadError, match="damaged") as caught:
        Engine.from_launcher(ThreadLauncher(load, resolve({}, environ={})), resolve({}, environ={}))
    assert caught.value.param == "x.gguf"
    assert not [t for t in threading.enumerate() if t.name.startswith("radixrt")]


def test_close_leaves_no_thread_and_ends_what_runs(make_engine: Any) -> None:
    engine = make_engine(model=ScriptedModel(264, 4096, step_delay_s=0.005))
    ended = threading.Event()
    events: list[Any] = []

    def on_event(event: Any) -> None:
        events.append(event)
        if isinstance(event, EndEvent):
            ended.set()

    params = SamplingParams(max_tokens=3000, ignore_eos=True)
    nodes = [TextNode(node=0, text="a"), GenNode(node=1, name="x", params=params)]
    handle = engine.open_program(nodes, on_event, seed=1)
    engine.close()
    assert ended.wait(5.0)
    assert [type(e) for e in events] == [NodeEvent, EndEvent]
    assert events[0].error is not None
    handle.extend(nodes)
    handle.cancel()
    assert not [t for t in threading.enumerate() if t.name.startswith("radixrt")]
    with pytest.raises(WorkerDied):
        engine.open_program(nodes, on_event, seed=1)
    with pytest.raises(WorkerDied):
        engine.stats()


def test_a_program_ends_once_and_in_order(make_engine: Any) -> None:
    engine = make_engine()
    logs: list[list[Any]] = [[] for _ in range(300)]
    done = threading.Semaphore(0)

    def listener(log: list[Any]) -> Any:
        def on_event(event: Any) -> None:
            log.append(event)
            if isinstance(event, EndEvent):
                done.release()

        return on_event

    params = SamplingParams(max_tokens=3)
    handles = []
    for i, log in enumerate(logs):
        nodes = [TextNode(node=0, text=str(i)), GenNode(node=1, name="x", params=params)]
        handles.append(engine.open_program(nodes, listener(log), seed=i, final=i % 3 == 0))
    for i, handle in enumerate(handles):
        if i % 3 == 1:
            handle.cancel()
        elif i % 3 == 2:
            handle.extend([GenNode(node=2, name="y", params=params)], final=True)
    for _ in logs:
        assert done.acquire(timeout=20)
    for i, log in enumerate(logs):
        assert isinstance(log[-1], EndEvent)
        assert sorted(e.node for e in log[:-1]) == ([1] if i % 3 < 2 else [1, 2])
    assert engine.stats()["programs"] == 0


def test_nothing_follows_final_and_surrogates_are_refused_at_the_call(make_engine: Any) -> None:
    engine = make_engine()
    ended = threading.Event()
    handle = engine.open_program([], lambda e: None, seed=1, final=False)
    with pytest.raises(InvalidRequest):
        handle.extend([TextNode(node=0, text="\ud800")])
    handle.extend([], final=True)
    params = SamplingParams(max_tokens=2000, ignore_eos=True)
    nodes: Sequence[Any] = [GenNode(node=0, name="x", params=params)]
    running = engine.open_program(
        nodes, lambda e: ended.set() if isinstance(e, EndEvent) else None, seed=1, final=True
    )
    with pytest.raises(InvalidRequest):
        running.extend([TextNode(node=1, text="late")])
    running.cancel()
    assert ended.wait(5.0)


def test_a_callback_that_raises_harms_nobody(make_engine: Any, caplog: Any) -> None:
    engine = make_engine()

    def broken(event: Any) -> None:
        raise ZeroDivisionError("in a callback")

    nodes = [GenNode(node=0, name="x", params=SamplingParams(max_tokens=1))]
    engine.open_program(nodes, broken, seed=1, final=True)
    assert engine.generate("hi", max_tokens=1).text is not None
    assert "in a callback" in caplog.text


def test_a_failing_step_fails_everybody_and_the_engine_recovers(caplog: Any) -> None:
    models = []

    def hook(batch: Any) -> None:
        if 1 in batch.token_ids:
            raise RuntimeError("a bug in the model")

    from radixrt.config import resolve
    from radixrt.testing.scripted_engine import scripted_runtime

    config = resolve({"worker": "thread", "heartbeat_s": 0.1}, environ={})

    def load() -> Any:
        models.append(ScriptedModel(264, 4096, hook=hook))
        return scripted_runtime(config, model=models[-1])

    with Engine.from_launcher(ThreadLauncher(load, config), config, patience=Patience(pause_s=0.01)) as engine:
        with pytest.raises(WorkerDied):
            engine.generate("\x01", max_tokens=5)
        assert engine.generate("hi", max_tokens=1, temperature=0).text is not None
        assert len(models) == 2


def test_importing_the_package_loads_no_sockets(project_root: Path) -> None:
    code = "import sys, radixrt; assert not {'zmq', 'torch'} & set(sys.modules)"
    subprocess.run([sys.executable, "-P", "-c", code], check=True, cwd=project_root.parent)
    code = "import sys, radixrt.client.engine; assert not {'torch', 'transformers'} & set(sys.modules)"
    subprocess.run([sys.executable, "-P", "-c", code], check=True, cwd=project_root.parent)
