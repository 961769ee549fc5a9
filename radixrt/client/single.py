"""Single calls: one prompt in, one generation out. What agent loops and scripts use beside programs.

``SingleCalls`` is written against ``open_program`` alone, so every engine has the same calls. A prompt is a text, a
list of messages (``{"role": ..., "content": ...}``; a last message of the assistant is continued), or a list of
token ids, which are taken as they are. Errors are raised here as their classes. DSL programs are elsewhere.
"""

from __future__ import annotations

import asyncio
import numbers
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any, TypedDict, Unpack

from radixrt.api import DeltaEvent, EndEvent, Event, GenNode, Node, NodeEvent, RoleNode, TextNode, TokensNode
from radixrt.arguments import (
    check_flag,
    check_priority,
    check_salt,
    check_text,
    check_timeout,
    fresh_seed,
    sampling_params,
    unknown_argument,
)
from radixrt.client.generation import Generation
from radixrt.client.protocol import EventCallback, ProgramHandle
from radixrt.client.streams import AsyncTextStream, Opener, TextStream
from radixrt.errors import InvalidRequest, RadixrtError, UnsatisfiableConstraint, UnsupportedConstraint
from radixrt.output_types import CONSTRAINT_NAMES, output_type

__all__ = ["CallArguments", "Prompt", "SingleCalls"]

Prompt = str | Sequence[Mapping[str, Any]] | Sequence[int]

_GEN_NODE = 1_000_000_000
# What the worker calls the parts of a prompt: the fields of its nodes, and the message that carries them.
_FIELDS_OF_PROMPTS = frozenset({"text", "tokens", "role", "messages", "nodes"})
_LARGEST_TOKEN_ID = 2**31 - 1


class CallArguments(TypedDict, total=False):
    """The keyword arguments of a single call. None means absent; an unknown one is ``InvalidRequest``.

    One of ``regex``, ``schema``, ``choices``, ``grammar``, ``type`` constrains the output. ``heal`` lets the model
    choose the last tokens of the prompt anew (None: on after plain text). ``timeout`` is in seconds. ``salt`` keeps
    the call's cached prefixes apart from those of other salts. The rest are the fields of ``SamplingParams``.
    """

    regex: Any
    schema: Any
    choices: Any
    grammar: Any
    type: Any
    heal: bool | None
    timeout: float | None
    salt: str | None
    priority: int | None
    max_tokens: int | None
    min_tokens: int | None
    temperature: float | None
    top_p: float | None
    top_k: int | None
    min_p: float | None
    presence_penalty: float | None
    frequency_penalty: float | None
    repetition_penalty: float | None
    logit_bias: Mapping[int, float] | None
    stop: str | Sequence[str] | None
    stop_token_ids: Sequence[int] | None
    ignore_eos: bool | None
    n: int | None
    seed: int | None
    logprobs: int | None
    prompt_logprobs: int | None


class SingleCalls:
    """``generate`` and its relatives, for a class that has ``open_program``. All take ``CallArguments``."""

    def open_program(
        self,
        nodes: Sequence[Node],
        on_event: EventCallback,
        *,
        seed: int,
        final: bool = False,
        salt: str | None = None,
        priority: int = 0,
        timeout_s: float | None = None,
        deltas: bool = False,
    ) -> ProgramHandle:
        raise NotImplementedError

    def generate(self, prompt: Prompt, **arguments: Unpack[CallArguments]) -> Generation:
        """Generate and wait. Ctrl-C cancels the call. Raises the call's error, if it has one."""
        future, handle = _start(self, _Call("generate", prompt, arguments))
        try:
            return future.result()
        except BaseException:
            handle.cancel()
            raise

    async def agenerate(self, prompt: Prompt, **arguments: Unpack[CallArguments]) -> Generation:
        """``generate`` for asyncio: a cancelled task cancels the call."""
        future, handle = _start(self, _Call("agenerate", prompt, arguments))
        try:
            return await asyncio.wrap_future(future)
        except BaseException:
            handle.cancel()
            raise

    def stream(self, prompt: Prompt, **arguments: Unpack[CallArguments]) -> TextStream:
        """Iterate over the text as it comes. Closing the stream, or dropping it, cancels the call.

        After the last piece ``stream.generation`` is what ``generate`` would have returned.
        """
        call = _Call("stream", prompt, arguments, streams=True)
        return TextStream(call.open_on(self), call.result)

    def astream(self, prompt: Prompt, **arguments: Unpack[CallArguments]) -> AsyncTextStream:
        """``stream`` for asyncio: ``async for piece in engine.astream(...)``. Call it on a running loop."""
        call = _Call("astream", prompt, arguments, streams=True)
        return AsyncTextStream(call.open_on(self), call.result)


class _Call:
    """One checked call, ready to be opened."""

    def __init__(self, where: str, prompt: Prompt, arguments: CallArguments, *, streams: bool = False) -> None:
        for name in arguments:
            if name not in CallArguments.__annotations__:
                raise unknown_argument(name, CallArguments.__annotations__, where=where)
        given: dict[str, Any] = {name: value for name, value in arguments.items() if value is not None}
        own: dict[str, Any] = {
            name: given.pop(name) for name in ("heal", "timeout", "salt", "priority") if name in given
        }
        self.output = output_type(**{name: given.pop(name) for name in CONSTRAINT_NAMES if name in given})
        params = sampling_params(given, where=where)
        if streams and params.n > 1:
            raise InvalidRequest(f"{where}: a stream is of one sample; use generate for n={params.n}", param="n")
        heal = check_flag(own.get("heal"), "heal", where=where)
        self.seed = fresh_seed() if params.seed is None else params.seed
        self._timeout_s = check_timeout(own.get("timeout"), where=where)
        self._salt = check_salt(own.get("salt"), where=where)
        self._priority = check_priority(own.get("priority"), where=where)
        self._deltas = streams
        gen = GenNode(
            node=_GEN_NODE,
            name="text",
            params=params,
            constraint=None if self.output is None else self.output.constraint,
            heal=heal,
        )
        self._nodes = (*_prompt_nodes(prompt), gen)

    def open_on(self, engine: SingleCalls) -> Opener:
        """A function that opens the call with the callback given to it."""

        def opened(on_event: EventCallback) -> ProgramHandle:
            try:
                return engine.open_program(
                    self._nodes,
                    on_event,
                    seed=self.seed,
                    final=True,
                    salt=self._salt,
                    priority=self._priority,
                    timeout_s=self._timeout_s,
                    deltas=self._deltas,
                )
            except InvalidRequest as error:
                error.param = self._argument(error)
                raise

        return opened

    def result(self, event: NodeEvent | EndEvent) -> Generation:
        """What the call returns. Raises its error, which names the argument of the call that it is about."""
        if event.error is not None:
            error = event.error.to_exception()
            error.param = self._argument(error)
            raise error
        if isinstance(event, EndEvent):
            raise RadixrtError("the call ended without a result")
        return Generation(event, self.output, self.seed)

    def _argument(self, error: RadixrtError) -> str | None:
        """The worker knows nodes; their fields came from arguments of other names."""
        constrained = isinstance(error, UnsupportedConstraint | UnsatisfiableConstraint)
        if self.output is not None and (constrained or error.param in CONSTRAINT_NAMES):
            return self.output.argument
        return "prompt" if error.param in _FIELDS_OF_PROMPTS else error.param


def _start(engine: SingleCalls, call: _Call) -> tuple[Future[Generation], ProgramHandle]:
    future: Future[Generation] = Future()
    # Running from the start, so that nobody but the event can settle it.
    future.set_running_or_notify_cancel()

    def on_event(event: Event) -> None:
        if future.done() or isinstance(event, DeltaEvent):
            return
        try:
            future.set_result(call.result(event))
        except RadixrtError as error:
            future.set_exception(error)

    return future, call.open_on(engine)(on_event)


# --- prompts -----------------------------------------------------------------------------------------------------


def _prompt_nodes(prompt: Any) -> tuple[Node, ...]:
    """Raises ``InvalidRequest`` naming the argument, or the place in it, that is wrong."""
    if isinstance(prompt, str):
        return (TextNode(node=0, text=check_text(prompt, param="prompt")),)
    if isinstance(prompt, bytes | Mapping) or not isinstance(prompt, Sequence):
        kind = type(prompt).__name__
        raise InvalidRequest(f"prompt must be text, a list of messages or of token ids, not {kind}", param="prompt")
    if not prompt:
        raise InvalidRequest("prompt is an empty list", param="prompt")
    if isinstance(prompt[0], Mapping):
        return _message_nodes(prompt)
    return (TokensNode(node=0, tokens=_token_ids(prompt)),)


def _token_ids(prompt: Sequence[Any]) -> tuple[int, ...]:
    for place, token in enumerate(prompt):
        if isinstance(token, bool) or not isinstance(token, numbers.Integral):
            kind = type(token).__name__
            raise InvalidRequest(
                f"prompt[{place}] must be a token id or a message, not {kind}", param=f"prompt[{place}]"
            )
        if not 0 <= int(token) <= _LARGEST_TOKEN_ID:
            raise InvalidRequest(f"prompt[{place}]: {token} is not a token id", param=f"prompt[{place}]")
    return tuple(int(token) for token in prompt)


def _message_nodes(messages: Sequence[Any]) -> tuple[Node, ...]:
    nodes: list[Node] = []
    checked = [_message(message, f"messages[{place}]") for place, message in enumerate(messages)]
    for place, (role, content) in enumerate(checked):
        nodes.append(RoleNode(node=len(nodes), role=role))
        nodes.append(TextNode(node=len(nodes), text=content))
        if place < len(checked) - 1 or role != "assistant":
            nodes.append(RoleNode(node=len(nodes), role=None))
    if checked[-1][0] != "assistant":
        nodes.append(RoleNode(node=len(nodes), role="assistant"))
    return tuple(nodes)


def _message(message: Any, place: str) -> tuple[str, str]:
    if not isinstance(message, Mapping):
        raise InvalidRequest(f"{place} must be a message, not {type(message).__name__}", param=place)
    for key in message:
        if key not in ("role", "content"):
            raise InvalidRequest(f"{place}: unknown key {key!r}", param=f"{place}.{key}")
    for key in ("role", "content"):
        if key not in message:
            raise InvalidRequest(f"{place} has no {key}", param=f"{place}.{key}")
        if not isinstance(message[key], str):
            kind = type(message[key]).__name__
            raise InvalidRequest(f"{place}.{key} must be a string, not {kind}", param=f"{place}.{key}")
        check_text(message[key], param=f"{place}.{key}")
    if not message["role"]:
        raise InvalidRequest(f"{place}.role is empty", param=f"{place}.role")
    return message["role"], message["content"]
