"""Single calls: one prompt in, one generation out. What agent loops and scripts use beside programs.

``SingleCalls`` is written against ``open_program`` alone, so every engine has the same calls. A prompt is a text, a
list of messages (``{"role": ..., "content": ...}``; a last message of the assistant is continued), or a list of
token ids, which are taken as they are. Errors are raised here as their classes. DSL programs are elsewhere.
"""

from __future__ import annotations

import asyncio
import math
import secrets
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any, TypedDict, TypeVar, Unpack

from radixrt.api import DeltaEvent, Event, GenNode, Node, NodeEvent, RoleNode, TextNode, TokensNode
from radixrt.arguments import CONSTRAINT_NAMES, check_text, output_type, sampling_params, unknown_argument
from radixrt.client.generation import Generation
from radixrt.client.protocol import EventCallback, ProgramHandle
from radixrt.client.streams import AsyncTextStream, Opener, TextStream
from radixrt.errors import InvalidRequest, RadixrtError

__all__ = ["CallArguments", "Prompt", "SingleCalls"]

Prompt = str | Sequence[Mapping[str, Any]] | Sequence[int]

T = TypeVar("T")

_GEN_NODE = 1_000_000_000
_SEED_BITS = 63


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
        return TextStream(call.open_on(self), call.seed, call.output)

    def astream(self, prompt: Prompt, **arguments: Unpack[CallArguments]) -> AsyncTextStream:
        """``stream`` for asyncio: ``async for piece in engine.astream(...)``. Call it on a running loop."""
        call = _Call("astream", prompt, arguments, streams=True)
        return AsyncTextStream(call.open_on(self), call.seed, call.output)


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
        heal = _checked(own, "heal", bool, where)
        salt = _checked(own, "salt", str, where)
        self.seed = secrets.randbits(_SEED_BITS) if params.seed is None else params.seed
        self._timeout_s = _seconds(own.get("timeout"), where)
        self._salt = None if salt is None else check_text(salt, param="salt")
        self._priority = _checked(own, "priority", int, where) or 0
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

        return opened


def _start(engine: SingleCalls, call: _Call) -> tuple[Future[Generation], ProgramHandle]:
    future: Future[Generation] = Future()
    # Running from the start, so that nobody but the event can settle it.
    future.set_running_or_notify_cancel()

    def on_event(event: Event) -> None:
        if future.done() or isinstance(event, DeltaEvent):
            return
        if event.error is not None:
            future.set_exception(event.error.to_exception())
        elif isinstance(event, NodeEvent):
            future.set_result(Generation(event, call.output, call.seed))
        else:
            future.set_exception(RadixrtError("the call ended without a result"))

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
        if isinstance(token, bool) or not isinstance(token, int):
            kind = type(token).__name__
            raise InvalidRequest(
                f"prompt[{place}] must be a token id or a message, not {kind}", param=f"prompt[{place}]"
            )
    return tuple(prompt)


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


def _checked(given: Mapping[str, Any], name: str, kind: type[T], where: str) -> T | None:
    value = given.get(name)
    if value is None or (isinstance(value, kind) and isinstance(value, bool) == (kind is bool)):
        return value
    raise InvalidRequest(f"{where}: {name} must be {kind.__name__}, not {type(value).__name__}", param=name)


def _seconds(timeout: Any, where: str) -> float | None:
    if timeout is None:
        return None
    number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    if not number or not (math.isfinite(timeout) and timeout > 0):
        raise InvalidRequest(f"{where}: timeout must be a positive number of seconds", param="timeout")
    return float(timeout)
