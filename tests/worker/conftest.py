"""The interpreter without threads: real programs, scheduler and tokenizer, messages put in by hand."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from typing import Any

import pytest

from radixrt.api import DeltaEvent, EndEvent, Event, GenNode, Node, NodeEvent, SamplingParams
from radixrt.config import resolve
from radixrt.scheduler.loop import Scheduler
from radixrt.scheduler.request import SequenceRequest
from radixrt.testing.byte_tokenizer import CHATML, ByteTokenizer
from radixrt.testing.clock import FakeClock
from radixrt.testing.scripted_model import Script, ScriptedModel
from radixrt.text.definition import AddedToken, TokenizerDefinition
from radixrt.text.tokenizer import Tokenizer
from radixrt.text.vocabulary import byte_alphabet
from radixrt.worker.interpreter import Interpreter
from radixrt.worker.messages import Cancel, Command, Extend, ModelInfo, Open
from radixrt.worker.runtime import Runtime

CLIENT = b"client"


class InlinePool(Executor):
    """Does the work at once, or when ``release`` is called while ``held``."""

    def __init__(self) -> None:
        self.held = False
        self.jobs: deque[Callable[[], None]] = deque()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()

        def job() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(fn(*args, **kwargs))
            except BaseException as error:  # noqa: BLE001 - as an executor does
                future.set_exception(error)

        self.jobs.append(job)
        if not self.held:
            self.release()
        return future

    def release(self) -> None:
        self.held = False
        while self.jobs:
            self.jobs.popleft()()


class Inbox:
    def __init__(self) -> None:
        self.calls: deque[Callable[[], None]] = deque()

    def put(self, call: Callable[[], None], /) -> None:
        self.calls.append(call)


class Recorder(Scheduler):
    """Remembers what was submitted and hinted."""

    requests: list[SequenceRequest]
    hints: dict[tuple[int, ...], int]

    def submit(self, request: SequenceRequest) -> None:
        super().submit(request)
        self.requests.append(request)

    def note_future_use(self, namespace: tuple[str, ...], ids: Sequence[int], delta: int) -> None:
        super().note_future_use(namespace, ids, delta)
        key = tuple(ids)
        self.hints[key] = self.hints.get(key, 0) + delta
        if not self.hints[key]:
            del self.hints[key]


class Harness:
    def __init__(
        self,
        *,
        script: Script | None = None,
        tokenizer: Tokenizer | None = None,
        total_slots: int = 8192,
        context_length: int = 2048,
        hook: Any = None,
        **flags: Any,
    ) -> None:
        from radixrt.grammar import Compiler, Vocabulary

        self.tokenizer = tokenizer or ByteTokenizer()
        self.model = ScriptedModel(self.tokenizer.vocab_size, context_length, script=script, hook=hook)
        self.clock = FakeClock()
        config = resolve(flags, environ={})
        self.scheduler = Recorder(self.model, config, total_slots=total_slots)
        self.scheduler.requests, self.scheduler.hints = [], {}
        vocabulary = Vocabulary(
            self.tokenizer.tokens(),
            self.tokenizer.eos_ids,
            tuple(self.tokenizer.special_ids),
            self.model.vocab_size,
        )
        info = ModelInfo(
            name="scripted",
            architecture="scripted",
            vocab_size=self.model.vocab_size,
            context_length=context_length,
            total_slots=total_slots,
            eos_ids=self.tokenizer.eos_ids,
            bos_id=self.tokenizer.bos_id,
            has_chat_template=self.tokenizer.chat is not None,
            parameters=0,
        )
        self.pool = InlinePool()
        self.inbox = Inbox()
        self.runtime = Runtime(
            info=info,
            config=config,
            tokenizer=self.tokenizer,
            compiler=Compiler(vocabulary, encode=self.tokenizer.encode_text),
            scheduler=self.scheduler,
        )
        self.interpreter = Interpreter(self.runtime, self.pool, self.inbox, self.clock)

    # --- driving it ----------------------------------------------------------------------------------------------

    def send(self, command: Command, client: bytes = CLIENT) -> None:
        self.interpreter.command(client, command)

    def open(self, nodes: Sequence[Node] = (), *, program: str = "p", final: bool = True, **rest: Any) -> None:
        self.send(Open(program=program, seed=rest.pop("seed", 7), nodes=tuple(nodes), final=final, **rest))

    def extend(self, nodes: Sequence[Node] = (), *, program: str = "p", final: bool = False) -> None:
        self.send(Extend(program=program, nodes=tuple(nodes), final=final))

    def cancel(self, branch: int | None = None, *, program: str = "p") -> None:
        self.send(Cancel(program=program, branch=branch))

    def run(self, steps: int = 100_000) -> None:
        """Until nothing moves any more, or for a number of steps."""
        for _ in range(steps):
            while self.inbox.calls:
                self.inbox.calls.popleft()()
            self.interpreter.expire()
            self.interpreter.run_deferred()
            if self.inbox.calls:
                continue
            if not self.scheduler.has_work():
                break
            self.scheduler.step()
            self.interpreter.run_deferred()
        else:
            return
        self.scheduler.check_invariants()

    def do(self, nodes: Sequence[Node], **rest: Any) -> dict[int, NodeEvent]:
        self.open(nodes, **rest)
        self.run()
        return self.nodes()

    # --- what came of it -----------------------------------------------------------------------------------------

    def events(self, program: str = "p") -> list[Event]:
        return [e for _, e in self.interpreter.replies if isinstance(e, Event) and e.program == program]

    def nodes(self, program: str = "p") -> dict[int, NodeEvent]:
        found = [event for event in self.events(program) if isinstance(event, NodeEvent)]
        assert len({event.node for event in found}) == len(found), "a node ended twice"
        return {event.node: event for event in found}

    def end(self, program: str = "p") -> EndEvent:
        events = self.events(program)
        [end] = [event for event in events if isinstance(event, EndEvent)]
        assert events[-1] is end, "something came after the end"
        return end

    def deltas(self, node: int, sample: int = 0, program: str = "p") -> str:
        return "".join(
            e.text
            for e in self.events(program)
            if isinstance(e, DeltaEvent) and e.node == node and e.sample == sample
        )

    def contexts(self) -> list[str]:
        """The contexts submitted so far, control tokens spelled out."""
        return [self.tokenizer.decode(r.ids, skip_special=False) for r in self.scheduler.requests]


@pytest.fixture
def make() -> type[Harness]:
    return Harness


@pytest.fixture
def gen() -> Callable[..., GenNode]:
    """``gen(node, branch=0, name="x", heal=..., constraint=..., **sampling)``; greedy unless told otherwise."""

    def build(node: int, branch: int = 0, name: str = "x", **rest: Any) -> GenNode:
        own = {key: rest.pop(key) for key in ("heal", "constraint") if key in rest}
        params = SamplingParams(**{"temperature": 0.0, "max_tokens": 4, **rest})
        return GenNode(node=node, branch=branch, name=name, params=params, **own)

    return build


@pytest.fixture
def upper() -> Script:
    """A model that answers every byte with its upper-case letter, and "." with the end."""

    def script(context: Sequence[int]) -> int:
        last = context[-1]
        if last == ord("."):
            return ByteTokenizer.EOS
        return last if last < 256 and chr(last).isupper() else ord("A") + last % 26

    return script


@pytest.fixture
def words() -> Tokenizer:
    """Byte-level BPE with a few longer tokens; ids of the bytes and control tokens as in ``ByteTokenizer``."""
    merges = ["h e", "l l", "he ll", "hell o", "Ġ w", "o r", "Ġw or", "Ġwor l", "Ġworl d", "Ġ a", "n d", "Ġa nd"]
    vocab = {char: byte for byte, char in byte_alphabet().items()}
    for merge in merges:
        vocab["".join(merge.split())] = 260 + len(vocab) - 256
    specials = {"<|bos|>": 256, "<|eos|>": 257, "<|im_start|>": 258, "<|im_end|>": 259}
    return Tokenizer(
        TokenizerDefinition(
            source="words",
            spec={
                "pre_tokenizer": {
                    "type": "ByteLevel",
                    "add_prefix_space": False,
                    "trim_offsets": True,
                    "use_regex": True,
                },
                "model": {"type": "BPE", "vocab": vocab, "merges": [tuple(m.split()) for m in merges]},
                "decoder": {"type": "ByteLevel"},
            },
            added=tuple(AddedToken(id=i, content=text, special=True) for text, i in specials.items()),
            size=288,
            bos_id=256,
            eos_ids=(257, 259),
            template=CHATML,
            variables={"bos_token": "<|bos|>", "eos_token": "<|eos|>"},
        )
    )
