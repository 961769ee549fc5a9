"""The select node: score every choice as the continuation of the branch and append the best.

One operation: all choices go to the scheduler together as sequences that only score, so the context is computed
once (or found in the tree) and the rest is one batch. A choice is tokenized together with the pending text before
it; its window, the tokens that are scored, starts at the first token with a character of the choice in it.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import msgspec

from radixrt.api import NodeEvent, Sample, SamplingParams, SelectMethod, SelectNode
from radixrt.errors import ContextLengthExceeded, InvalidRequest
from radixrt.scheduler.request import SequenceRequest, SequenceResult
from radixrt.worker.activity import Activity, Host, Outcome, usage_of
from radixrt.worker.context import Context, Prompt
from radixrt.worker.runtime import Runtime

__all__ = ["MAX_CHOICES", "Selection", "best_choice"]

MAX_CHOICES = 1024
"""Choices of one select at most."""

_SCORE_ONLY = SamplingParams(max_tokens=0)


class _Choice(msgspec.Struct, frozen=True):
    """``ids`` is what is scored from ``start`` on; ``window`` of the prompt's last tokens are the choice's."""

    text: str
    prompt: Prompt
    ids: list[int]
    start: int
    window: int


class _Prepared(msgspec.Struct, frozen=True):
    choices: list[_Choice]
    # What an unconditional score conditions on: the token that begins a text, or nothing.
    beginning: list[int]


class Selection(Activity):
    """Runs one ``SelectNode`` from ``context``."""

    def __init__(self, host: Host, node: SelectNode, context: Context) -> None:
        super().__init__(host, node.node)
        self._select = node
        self._context = context
        self._prepared: _Prepared | None = None
        # The log-probabilities of every choice's window: in context, then without it.
        self._scores: dict[int, list[float]] = {}
        self._waiting = 0
        self.weight = min(len(node.choices), MAX_CHOICES)
        if node.method == "unconditional_likelihood_normalized":
            self.weight *= 2

    def start(self) -> None:
        self.prepare(functools.partial(_prepare, self.host.runtime, self._select, self._context), self._run)

    def _run(self, prepared: _Prepared) -> None:
        self._prepared = prepared
        requests = [(choice.ids, choice.start) for choice in prepared.choices]
        if self._select.method == "unconditional_likelihood_normalized":
            for choice in prepared.choices:
                ids = [*prepared.beginning, *choice.ids[choice.start :]]
                requests.append((ids, len(prepared.beginning)))
        self._waiting = len(requests)
        for index, (ids, start) in enumerate(requests):
            sequence = self.host.next_sequence()
            request = SequenceRequest(
                id=sequence,
                ids=ids,
                params=_SCORE_ONLY,
                sink=_ScoreSink(self, index, sequence),
                namespace=self.host.namespace,
                logprob_start=start,
                priority=self.host.priority,
            )
            try:
                self.submit(request)
            except ContextLengthExceeded as error:
                error.param = "choices" if start < error.limit else "prompt"
                raise

    def scored(self, index: int, result: SequenceResult) -> None:
        """Called between steps, when one choice has its scores."""
        if self.over:
            return
        if result.error is not None:
            self.fail(result.error)
            return
        if result.prompt_scores is None:
            raise RuntimeError("a scored sequence came back without scores")
        # The very first token of a sequence has no probability; it counts as certain.
        self._scores[index] = [score.logprob or 0.0 for score in result.prompt_scores]
        self._waiting -= 1
        if not self._waiting:
            self._complete()

    def _complete(self) -> None:
        if self._prepared is None:
            raise RuntimeError("completed before it was prepared")
        count = len(self._select.choices)
        conditional = [self._scores[i] for i in range(count)]
        unconditional = [self._scores.get(count + i, []) for i in range(count)]
        best, scores = best_choice(self._select.method, conditional, unconditional)
        choice = self._prepared.choices[best]
        window = choice.prompt.new[len(choice.prompt.new) - choice.window :]
        event = NodeEvent(
            program=self.host.name,
            node=self.node,
            samples=(Sample(text=choice.text, ids=tuple(window)),),
            usage=self.usage,
            choice=best,
            scores=tuple(scores),
        )
        self.finish(Outcome(event=event, context=self._continued(choice), added=choice.text))

    def _continued(self, choice: _Choice) -> Context:
        """The context with the choice as it was tokenized; the text that shares its first token goes along."""
        token_bytes = self.host.runtime.tokenizer.token_bytes
        new, count = choice.prompt.new, choice.window
        size = sum(len(token_bytes(token) or b"") for token in new[len(new) - count :])
        tail, wanted = choice.prompt.tail.encode(), len(choice.text.encode())
        while True:
            shared = max(0, size - wanted)
            start = len(tail) - shared
            if shared == 0 or (start >= 0 and tail[start] & 0xC0 != 0x80):
                break
            if start < 0 or count == len(new):
                return self._context.with_text(choice.text)
            # The window begins inside a character of the text: take one token more.
            count += 1
            size += len(token_bytes(new[len(new) - count]) or b"")
        cut = tail[len(tail) - shared :].decode() if shared else ""
        return choice.prompt.continued(count, new[len(new) - count :], cut, choice.text, "")


class _ScoreSink:
    """Hears the end of one scored sequence."""

    def __init__(self, owner: Selection, index: int, sequence: int) -> None:
        self._owner = owner
        self._index = index
        self._sequence = sequence

    def push(self, tokens: list[int], /) -> bool:
        return self._owner.over

    def finish(self, result: SequenceResult, /) -> None:
        self._owner.sequence_over(self._sequence, usage_of(result))
        done = functools.partial(self._owner.scored, self._index, result)
        self._owner.host.later(done)


def best_choice(
    method: SelectMethod, conditional: Sequence[Sequence[float]], unconditional: Sequence[Sequence[float]]
) -> tuple[int, list[float]]:
    """The index of the best choice (ties go to the first) and a score for each.

    ``conditional`` are the log-probabilities of each choice's tokens. Scores are their means; for
    ``unconditional_likelihood_normalized`` the mean gain over ``unconditional``. ``greedy_token_selection``
    compares token by token and keeps the best at each position, where a choice that has ended goes on with its
    mean; its scores are the means too, for information.
    """
    means = [sum(row) / len(row) for row in conditional]
    if method == "unconditional_likelihood_normalized":
        gains = [mean - sum(row) / len(row) for mean, row in zip(means, unconditional, strict=True)]
        return _first_best(gains), gains
    if method == "greedy_token_selection":
        left = list(range(len(conditional)))
        for position in range(max(map(len, conditional))):
            column = {i: conditional[i][position] if position < len(conditional[i]) else means[i] for i in left}
            top = max(column.values())
            left = [i for i in left if column[i] == top]
            if len(left) == 1:
                break
        return left[0], means
    return _first_best(means), means


def _first_best(scores: Sequence[float]) -> int:
    return max(range(len(scores)), key=lambda i: (scores[i], -i))


def _prepare(runtime: Runtime, node: SelectNode, context: Context) -> _Prepared:
    """On the pool: check the choices and tokenize each behind the context."""
    if not node.choices:
        raise InvalidRequest("select needs at least one choice", param="choices")
    if len(node.choices) > MAX_CHOICES:
        raise InvalidRequest(f"select takes at most {MAX_CHOICES} choices", param="choices")
    if "" in node.choices:
        raise InvalidRequest("a choice must not be empty", param="choices")
    if len(set(node.choices)) != len(node.choices):
        twice = next(c for i, c in enumerate(node.choices) if c in node.choices[:i])
        raise InvalidRequest(f"the choice {twice!r} stands twice", param="choices")
    tokenizer = runtime.tokenizer
    beginning = [] if tokenizer.bos_id is None else [tokenizer.bos_id]
    found = []
    # Settled first, so that only the end of the text is tokenized once per choice.
    prompts = context.settled(runtime).prompts(runtime, node.choices)
    for text, prompt in zip(node.choices, prompts, strict=True):
        ids = prompt.ids()
        window = _window(runtime, prompt, text)
        if not window:
            raise InvalidRequest(f"the choice {text!r} has no tokens", param="choices")
        found.append(_Choice(text=text, prompt=prompt, ids=ids, start=len(ids) - window, window=window))
    if any(choice.start == 0 for choice in found):
        # The first token of a sequence has no probability, so all choices are scored behind the beginning.
        if not beginning:
            raise InvalidRequest(
                "select needs text before it: this model has no token that begins a text", param="choices"
            )
        found = [msgspec.structs.replace(c, ids=beginning + c.ids, start=c.start + len(beginning)) for c in found]
    return _Prepared(choices=found, beginning=beginning)


def _window(runtime: Runtime, prompt: Prompt, text: str) -> int:
    """How many of the prompt's last tokens have a character of ``text`` in them."""
    left, count = len(text.encode()), 0
    while left > 0 and count < len(prompt.new):
        count += 1
        left -= len(runtime.tokenizer.token_bytes(prompt.new[-count]) or b"")
    return count
