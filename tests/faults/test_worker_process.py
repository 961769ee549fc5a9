"""The worker process dies, hangs, fails; the parent dies: who hears what, and what is left behind."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from radixrt.config import resolve
from radixrt.errors import ModelLoadError, WorkerDied
from radixrt.testing.scripted_worker import DIE, FAIL, HANG
from radixrt.worker.__main__ import PARENT_GONE
from radixrt.worker.ipc import ClientChannel, Endpoint
from radixrt.worker.launch import WorkerSetup
from radixrt.worker.messages import Heartbeat, Hello, Open, Query, QueryReply, Ready, decode_reply, encode
from radixrt.worker.supervisor import Patience


def _gone(pid: int, seconds: float = 10.0) -> bool:
    """Whether the process ends within the time (a zombie that is not ours counts as ended)."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
            status = Path(f"/proc/{pid}/stat")
            if status.exists() and status.read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return True
        except ProcessLookupError:
            return True
        time.sleep(0.02)
    return False


def _until(condition: Callable[[], Any], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.01)


def test_a_killed_worker_fails_what_was_in_flight_and_comes_back(
    start_engine: Any, open_program: Any, long_nodes: Any
) -> None:
    engine = start_engine()
    first = engine.worker_pid
    programs = [open_program(engine, long_nodes(gens=2), deltas=True) for _ in range(5)]
    waiting = open_program(engine, long_nodes(max_tokens=2), final=False)
    _until(lambda: all(p.events for p in programs) and waiting.events)
    os.kill(first, signal.SIGKILL)
    for program in programs:
        end = program.wait(5.0)
        assert (end.outcome, end.error and end.error.code) == ("failed", "worker_died")
        assert {n: e.error and e.error.code for n, e in program.nodes.items()} == dict.fromkeys(
            (1, 2), "worker_died"
        )
    assert waiting.wait().error.code == "worker_died"
    waiting.handle.extend(long_nodes())
    waiting.handle.cancel()
    # What is sent while there is no worker waits for the next one.
    assert engine.generate("hi", max_tokens=3, heal=False, temperature=0).usage.completion_tokens > 0
    assert engine.worker_pid not in (None, first)
    assert _gone(first)


@pytest.mark.parametrize("byte", [DIE, FAIL])
def test_a_program_that_ends_the_worker_ends_no_engine(
    start_engine: Any, open_program: Any, long_nodes: Any, byte: int
) -> None:
    engine = start_engine(patience=Patience(pause_s=0.01))
    for _ in range(2):
        assert open_program(engine, long_nodes(chr(byte))).wait().error.code == "worker_died"
    assert engine.generate("hi", max_tokens=2, heal=False, temperature=0).text is not None


def test_too_many_deaths_end_the_engine(start_engine: Any, open_program: Any, long_nodes: Any) -> None:
    engine = start_engine(patience=Patience(pause_s=0.01, max_failures=2))
    open_program(engine, long_nodes(chr(DIE))).wait()
    late = open_program(engine, long_nodes(chr(DIE)))
    late.wait()
    _until(lambda: engine.worker_pid is None)

    def refused() -> bool:
        try:
            engine.generate("hi")
        except WorkerDied as error:
            return "in a row" in str(error)
        return False

    _until(refused)
    late.handle.extend(long_nodes())
    late.handle.cancel()


def test_a_step_that_never_ends_is_ended(start_engine: Any, open_program: Any, long_nodes: Any) -> None:
    engine = start_engine(patience=Patience(step_s=1.0, pause_s=0.01))
    end = open_program(engine, long_nodes(chr(HANG))).wait()
    assert "step" in end.error.message
    assert engine.generate("hi", max_tokens=2, heal=False, temperature=0).text is not None


def test_a_silent_worker_is_replaced(start_engine: Any, open_program: Any, long_nodes: Any) -> None:
    engine = start_engine(patience=Patience(silent_beats=3, silent_min_s=1.0, pause_s=0.01))
    pid = engine.worker_pid
    program = open_program(engine, long_nodes())
    os.kill(pid, signal.SIGSTOP)
    assert "silent" in program.wait().error.message
    assert _gone(pid)
    assert engine.generate("hi", max_tokens=2, heal=False, temperature=0).text is not None


def test_a_worker_that_only_pauses_is_kept(start_engine: Any, open_program: Any, long_nodes: Any) -> None:
    engine = start_engine()
    pid = engine.worker_pid
    program = open_program(engine, long_nodes(max_tokens=50))
    os.kill(pid, signal.SIGSTOP)
    time.sleep(0.5)
    os.kill(pid, signal.SIGCONT)
    assert program.wait().outcome == "done"
    assert engine.worker_pid == pid


def test_errors_of_loading_keep_their_class(start_engine: Any) -> None:
    with pytest.raises(ModelLoadError, match="scripted-broken") as caught:
        start_engine("scripted-broken")
    assert caught.value.param == "scripted-broken"


def test_a_slow_load_is_waited_for(start_engine: Any) -> None:
    engine = start_engine("scripted-slow", patience=Patience(silent_beats=3, silent_min_s=0.5))
    assert engine.model.name == "scripted"


def test_close_leaves_nothing_behind(start_engine: Any, open_program: Any, long_nodes: Any) -> None:
    before = set(threading.enumerate())  # other tests of this process may have an engine open
    engine = start_engine()
    pid = engine.worker_pid
    folder = engine._connection.supervisor  # kept to look at the address after the end
    running = open_program(engine, long_nodes())
    engine.close()
    assert running.wait().outcome in ("cancelled", "failed")
    assert running.nodes[1].error is not None
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    engine.close()
    with pytest.raises(WorkerDied):
        engine.generate("hi")
    assert folder.pid is None
    assert not [t for t in set(threading.enumerate()) - before if t.name == "radixrt-engine"]


def test_an_engine_nobody_refers_to_ends(start_engine: Any, open_program: Any, long_nodes: Any) -> None:
    from radixrt.client.engine import Engine
    from radixrt.config import resolve
    from radixrt.worker.supervisor import ProcessLauncher

    config = resolve({"heartbeat_s": 0.1}, environ={})
    launcher = ProcessLauncher("scripted", config, module="radixrt.testing.scripted_worker")
    engine = Engine.from_launcher(launcher, config)
    pid = engine.worker_pid
    assert pid is not None
    program = open_program(engine, long_nodes(max_tokens=20))
    del engine
    gc.collect()
    assert program.wait().outcome == "done", "a program in flight keeps its engine"
    del program
    gc.collect()
    assert _gone(pid)


SCRIPT = """
import os, sys, time, threading
from radixrt.api import GenNode, SamplingParams, TextNode
from radixrt.client.engine import Engine
from radixrt.config import resolve
from radixrt.worker.supervisor import ProcessLauncher
config = resolve({"heartbeat_s": 0.1}, environ={})
engine = Engine.from_launcher(
    ProcessLauncher("scripted", config, module="radixrt.testing.scripted_worker"), config)
nodes = [TextNode(node=0, text=sys.argv[2]), GenNode(node=1, name="x", params=SamplingParams(max_tokens=2000))]
engine.open_program(nodes, lambda event: None, seed=1, final=True)
time.sleep(0.3)
print(engine.worker_pid, flush=True)
if sys.argv[1] == "wait":
    time.sleep(60)
elif sys.argv[1] == "exit":
    sys.exit(5)
elif sys.argv[1] == "raise":
    raise ValueError("the script fails")
"""


def _script(tmp_path: Path, *arguments: str) -> subprocess.Popen[str]:
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(SCRIPT))
    # A module of this name beside the script must not be picked up by the worker.
    (tmp_path / "msgspec.py").write_text("raise SystemExit('imported from the working directory')")
    return subprocess.Popen(
        [sys.executable, "-P", "-W", "error", str(path), *arguments],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )


@pytest.mark.parametrize("prompt", ["go", chr(HANG)])
def test_the_worker_dies_with_its_parent(tmp_path: Path, prompt: str) -> None:
    with _script(tmp_path, "wait", prompt) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.kill()
        parent.communicate()
    assert _gone(pid, 5.0)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("radixrt-")]


@pytest.mark.parametrize(("way", "code"), [("end", 0), ("exit", 5), ("raise", 1)])
def test_a_script_ends_cleanly_without_closing(tmp_path: Path, way: str, code: int) -> None:
    with _script(tmp_path, way, "go") as parent:
        out, err = parent.communicate(timeout=30)
    assert parent.returncode == code, err
    assert _gone(int(out), 2.0)
    assert ("ValueError" in err) == (way == "raise")
    assert "Warning" not in err
    assert not [path for path in tmp_path.iterdir() if path.name.startswith("radixrt-")]


def test_ctrl_c_reaches_the_script_and_not_the_worker(tmp_path: Path) -> None:
    with _script(tmp_path, "wait", "go") as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        os.kill(pid, signal.SIGINT)
        time.sleep(0.3)
        os.kill(pid, 0)
        parent.send_signal(signal.SIGINT)
        _, err = parent.communicate(timeout=30)
    assert "KeyboardInterrupt" in err
    assert _gone(pid, 2.0)


# --- the worker by itself: what it does without the help of whoever started it ----------------------------------


class Alone:
    """A worker process that inherits nothing but its pipes: no blocked signals, no process group of its own."""

    def __init__(self, model: str) -> None:
        config = resolve({"heartbeat_s": 0.1}, environ={})
        self.endpoint = Endpoint.for_process()
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "radixrt.testing.scripted_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        setup = WorkerSetup(model=model, address=self.endpoint.address, config=config)
        assert self.process.stdin is not None
        self.process.stdin.write(msgspec.json.encode(setup) + b"\n")
        self.process.stdin.flush()
        self.channel = ClientChannel(self.endpoint.address)
        self.channel.send([encode(Hello())])

    def hear(self, kind: Any, seconds: float = 20.0) -> Any:
        """The next reply of this kind."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.channel.wait(0.05, ())
            for reply in map(decode_reply, self.channel.receive()):
                if isinstance(reply, kind):
                    return reply
        raise AssertionError(f"no {kind.__name__} in time")

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()
        self.channel.close()
        self.endpoint.remove()


@pytest.fixture
def alone() -> Iterator[Callable[[str], Alone]]:
    workers: list[Alone] = []

    def start(model: str) -> Alone:
        workers.append(Alone(model))
        return workers[-1]

    yield start
    for worker in workers:
        worker.close()


@pytest.mark.parametrize("model", ["scripted", "scripted-slow"])
def test_a_worker_ignores_ctrl_c_by_itself(alone: Any, model: str) -> None:
    """While it loads and while it serves; Ctrl-C goes to every process of a terminal."""
    worker = alone(model)
    worker.hear(Heartbeat if model == "scripted-slow" else Ready)
    worker.process.send_signal(signal.SIGINT)
    if model == "scripted-slow":
        worker.hear(Ready)
    worker.channel.send([encode(Query(id=1, what="stats"))])
    assert worker.hear(QueryReply).stats["programs"] == 0
    assert worker.process.poll() is None


@pytest.mark.parametrize("doing", ["loading", "idle", "hanging"])
def test_the_end_of_the_parent_ends_a_worker_whatever_it_does(alone: Any, long_nodes: Any, doing: str) -> None:
    worker = alone("scripted-slow" if doing == "loading" else "scripted")
    worker.hear(Heartbeat if doing == "loading" else Ready)
    if doing == "hanging":
        worker.channel.send([encode(Open(program="p", seed=1, nodes=tuple(long_nodes(chr(HANG))), final=True))])
        worker.hear(Heartbeat)
    worker.process.stdin.close()
    assert worker.process.wait(5.0) == PARENT_GONE
    assert not worker.endpoint.folder.exists()


def test_started_by_hand_it_says_so() -> None:
    run = subprocess.run(
        [sys.executable, "-P", "-m", "radixrt.worker"], input=b"hello\n", capture_output=True, timeout=60
    )
    assert run.returncode == 2
    assert b"not by hand" in run.stderr
    assert run.stdout == b""
