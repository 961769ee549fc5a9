"""The gen node: tokens of one or more samples in, texts and one event out.

Each sample is a sequence of its own with its own random stream. Its sink turns tokens into text, looks for stop
strings and sends deltas on the way. When all samples have ended the node has. Nothing here knows the scheduler's
ways or the branch's other nodes.
"""

from __future__ import annotations

import codecs
import copy
import functools
from collections.abc import Sequence

import msgspec

from radixrt.api import MAX_SAMPLES, FinishReason, GenNode, NodeEvent, Sample, SamplingParams, TokenLogprob
from radixrt.errors import InvalidRequest
from radixrt.scheduler.request import ScoredToken, SequenceRequest, SequenceResult
from radixrt.text.detokenizer import Detokenizer
from radixrt.text.stop import StopFilter
from radixrt.worker.activity import Activity, Host, Outcome, usage_of
from radixrt.worker.context import Context, Prompt
from radixrt.worker.runtime import CompiledProtocol, MatcherHandle, Runtime, TokenizerProtocol

__all__ = ["Generation", "logprobs_of"]


class _Prepared(msgspec.Struct, frozen=True):
    prompt: Prompt
    dropped: int
    healed: bytes
    grammar: CompiledProtocol | None
    # Never pushed to: every sample copies it, and with it the automaton that was built once.
    stops: StopFilter


class Generation(Activity):
    """Runs one ``GenNode`` from ``context``; ``path`` addresses its random numbers."""

    def __init__(self, host: Host, node: GenNode, context: Context, path: tuple[int, ...]) -> None:
        super().__init__(host, node.node)
        self._gen = node
        self._context = context
        self._path = path
        self._sinks: list[_SampleSink] = []
        self._prepared: _Prepared | None = None
        self.weight = max(1, min(node.params.n, MAX_SAMPLES))

    @property
    def params(self) -> SamplingParams:
        return self._gen.params

    @property
    def is_constrained(self) -> bool:
        return self._gen.constraint is not None

    def start(self) -> None:
        self.prepare(functools.partial(_prepare, self.host.runtime, self._gen, self._context), self._run)

    def _run(self, prepared: _Prepared) -> None:
        self._prepared = prepared
        params = self._gen.params
        ids = prepared.prompt.ids(prepared.dropped)
        matchers = [_matcher(prepared, _is_endless(self._gen)) for _ in range(params.n)]
        self._sinks = [_SampleSink(self, index, prepared, matchers[index]) for index in range(params.n)]
        # What healing cut off is generated again, and the program did not ask for less because of that.
        single = msgspec.structs.replace(
            params,
            n=1,
            stop=(),
            max_tokens=params.max_tokens + prepared.dropped,
            min_tokens=params.min_tokens + prepared.dropped if params.min_tokens else 0,
        )
        for sink, matcher in zip(self._sinks, matchers, strict=True):
            scored = params.prompt_logprobs is not None and sink.index == 0
            self.submit(
                SequenceRequest(
                    id=sink.sequence,
                    ids=ids,
                    params=single,
                    sink=sink,
                    end_ids=() if _is_endless(self._gen) else self.host.runtime.tokenizer.eos_ids,
                    key=self.host.key(params.seed, self._path, sink.index),
                    namespace=self.host.namespace,
                    matcher=matcher,
                    logprob_start=0 if scored else None,
                    top=params.prompt_logprobs or 0,
                    priority=self.host.priority,
                )
            )

    def cancel(self) -> tuple[Sample, ...]:
        if self.over:
            return ()
        super().cancel()
        return tuple(sink.sample(FinishReason.CANCELLED, None) for sink in self._sinks)

    def sample_over(self, sink: _SampleSink, result: SequenceResult) -> None:
        """Called between steps, when ``sink`` has heard its last."""
        if self.over:
            return
        if result.error is not None:
            self.fail(result.error)
            return
        sink.flush()
        sink.result = result
        if any(other.result is None for other in self._sinks):
            return
        if self.params.logprobs is None and self.params.prompt_logprobs is None:
            self._complete(self._event())
        else:
            # Spelling out thousands of tokens and their alternatives is work, too.
            self.prepare(self._event, self._complete)

    def _event(self) -> NodeEvent:
        samples = []
        for sink in self._sinks:
            if sink.result is None:
                raise RuntimeError("a sample without a result")
            samples.append(self._sample(sink, sink.result))
        first = self._sinks[0].result
        scores = first.prompt_scores if first is not None else None
        return NodeEvent(
            program=self.host.name,
            node=self.node,
            samples=tuple(samples),
            usage=self.usage,
            prompt_logprobs=logprobs_of(self.host.runtime.tokenizer, scores),
        )

    def _complete(self, event: NodeEvent) -> None:
        if self._gen.params.n > 1:
            closed = InvalidRequest(
                f"gen {self._gen.name!r} with n={self._gen.params.n} has ended this branch; nothing can follow it",
                param="n",
            )
            self.finish(Outcome(event=event, closes=closed.to_info()))
            return
        context, text = self._continued(self._sinks[0], event.samples[0])
        self.finish(Outcome(event=event, context=context, added=text))

    def _sample(self, sink: _SampleSink, result: SequenceResult) -> Sample:
        reason = result.finish_reason
        if sink.full and sink.matched is None:
            return sink.sample(FinishReason.STOP if sink.is_complete else FinishReason.LENGTH, result)
        by_user = sink.matched is not None or result.stop_token in self._gen.params.stop_token_ids
        if reason is FinishReason.STOP and by_user and not self._is_valid(sink):
            # ``stop`` promises a valid text, and this one was cut off in the middle of its constraint.
            reason = FinishReason.LENGTH
        return sink.sample(reason, result)

    def _is_valid(self, sink: _SampleSink) -> bool:
        if self._gen.constraint is None or self._prepared is None or self._prepared.grammar is None:
            return True
        return self._prepared.grammar.matches(sink.text)

    def _continued(self, sink: _SampleSink, sample: Sample) -> tuple[Context, str]:
        if self._prepared is None:
            raise RuntimeError("completed before it was prepared")
        healed, ids = self._prepared.healed.decode(), sink.ids
        tokenizer = self.host.runtime.tokenizer
        rest = ""
        if sink.matched is not None:
            ids, rest = _whole_tokens(tokenizer, ids, healed + sample.text, len(healed))
        covered = sample.text[: len(sample.text) - len(rest)]
        prompt, dropped = self._prepared.prompt, self._prepared.dropped
        if not sample.text and dropped:
            # Nothing new came of it: keep the text that was cut off for healing as it was.
            return self._context, ""
        return prompt.continued(dropped, ids, healed, covered, rest), sample.text


class _SampleSink:
    """Hears one sequence. ``text`` is what may be shown; stop strings and healed text never are.

    ``repeated`` counts the tokens that only repeat what healing cut off, ``full`` says that all the tokens that
    were asked for have come besides those.
    """

    def __init__(self, owner: Generation, index: int, prepared: _Prepared, matcher: MatcherHandle | None) -> None:
        host = owner.host
        self.index = index
        self.sequence = host.next_sequence()
        self.ids: list[int] = []
        self.matched: str | None = None
        self.result: SequenceResult | None = None
        self.repeated = 0
        self.full = False
        self._owner = owner
        self._matcher = matcher
        self._detokenizer = Detokenizer(host.runtime.tokenizer)
        self._stops = copy.copy(prepared.stops)
        self._parts: list[str] = []
        # Bytes and characters still to come that only repeat what healing cut off.
        self._repeating = len(prepared.healed)
        self._hidden = len(prepared.healed.decode())
        self._limit = owner.params.max_tokens if prepared.dropped else None

    @property
    def text(self) -> str:
        return "".join(self._parts)

    @property
    def is_complete(self) -> bool:
        return self._owner.is_constrained and self._matcher is not None and self._matcher.is_complete

    def push(self, tokens: list[int], /) -> bool:
        if self._owner.over:
            return True
        if self._limit is not None:
            tokens = self._within(tokens, self._limit)
        before = len(self.ids) - self.repeated
        self.ids.extend(tokens)
        self._take(self._detokenizer.push(tokens), may_stop=before >= self._owner.params.min_tokens)
        return self.matched is not None or self.full

    def _within(self, tokens: list[int], limit: int) -> list[int]:
        """The tokens up to the limit, which those that repeat healed text do not count towards."""
        token_bytes = self._owner.host.runtime.tokenizer.token_bytes
        for count, token in enumerate(tokens, 1):
            if self._repeating > 0:
                self._repeating -= len(token_bytes(token) or b"")
                if self._repeating >= 0:
                    self.repeated += 1
            if len(self.ids) + count - self.repeated >= limit:
                self.full = self._repeating <= 0
                if self.full:
                    return tokens[:count]
        return tokens

    def finish(self, result: SequenceResult, /) -> None:
        self._owner.sequence_over(self.sequence, usage_of(result, len(self.ids) - self.repeated))
        # Everything else happens under the program's own guard, where an error can't be lost.
        self._owner.host.later(functools.partial(self._owner.sample_over, self, result))

    def flush(self) -> None:
        """Show what was held back, now that nothing follows."""
        if self.matched is None:
            self._take(self._detokenizer.flush())
        if self.matched is None:
            self._show(self._stops.flush())

    def sample(self, reason: FinishReason, result: SequenceResult | None) -> Sample:
        tokenizer = self._owner.host.runtime.tokenizer
        stop_ids = self._owner.params.stop_token_ids
        scores = result.output_scores if result is not None else None
        matched: str | int | None = self.matched
        if result is not None and matched is None and result.stop_token in stop_ids:
            matched = result.stop_token
        return Sample(
            text=self.text,
            ids=tuple(self.ids[self.repeated :]),
            finish_reason=reason,
            matched_stop=matched,
            logprobs=logprobs_of(tokenizer, scores[self.repeated : len(self.ids)] if scores is not None else None),
        )

    def _take(self, text: str, *, may_stop: bool = True) -> None:
        """``may_stop`` is false for the first ``min_tokens`` tokens: stop strings do not count in their text."""
        if self._hidden:
            hidden = min(self._hidden, len(text))
            self._hidden -= hidden
            text = text[hidden:]
        if not may_stop:
            self._show(text)
        elif text and self.matched is None:
            safe, self.matched = self._stops.push(text)
            self._show(safe)

    def _show(self, text: str) -> None:
        if text:
            self._parts.append(text)
            self._owner.host.delta(self._owner.node, self.index, text)


def _prepare(runtime: Runtime, node: GenNode, context: Context) -> _Prepared:
    """On the pool: check, tokenize, heal, compile."""
    params = node.params.validated()
    width = runtime.info.vocab_size
    if any(token >= width for token in params.stop_token_ids):
        raise InvalidRequest(f"stop_token_ids must be below {width}", param="stop_token_ids")
    if any(token >= width for token in params.logit_bias or {}):
        raise InvalidRequest(f"logit_bias is for token ids below {width}", param="logit_bias")
    grammar = None if node.constraint is None else runtime.compiler.compile(node.constraint)
    (prompt,) = context.prompts(runtime, ("",))
    # Whoever asks for the prompt's own scores gets those of the whole prompt, as it is.
    heals = node.heal if node.heal is not None else params.prompt_logprobs is None
    dropped, healed = prompt.heal(runtime.tokenizer) if heals and params.max_tokens else (0, b"")
    if healed and grammar is None:
        grammar = runtime.compiler.any_text()
    stops = StopFilter(params.stop)
    return _Prepared(prompt=prompt, dropped=dropped, healed=healed, grammar=grammar, stops=stops)


def _is_endless(node: GenNode) -> bool:
    """Whether end tokens are tokens like any other. ``ignore_eos`` does not keep a constraint from its end."""
    return node.params.ignore_eos and node.constraint is None


def _matcher(prepared: _Prepared, endless: bool) -> MatcherHandle | None:
    if prepared.grammar is None:
        return None
    new = prepared.prompt.new
    usual = new[len(new) - prepared.dropped :]
    return prepared.grammar.matcher(end_ids=() if endless else None, prefix=prepared.healed, prefix_ids=usual)


def _whole_tokens(
    tokenizer: TokenizerProtocol, ids: Sequence[int], kept: str, at_least: int
) -> tuple[list[int], str]:
    """The ids that lie whole within the text ``kept``, and what remains of it.

    When they do not even cover the first ``at_least`` characters no id is kept and ``kept[at_least:]`` remains.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    length, best = 0, (0, at_least)
    for count, token in enumerate(ids, 1):
        length += len(decoder.decode(tokenizer.token_bytes(token) or b""))
        if length > len(kept):
            break
        # A token that ends in the middle of a character can't be parted from the next.
        whole = not decoder.getstate()[0]
        if whole and length >= at_least:
            best = (count, length)
    return list(ids[: best[0]]), kept[best[1] :]


def logprobs_of(tokenizer: TokenizerProtocol, scores: list[ScoredToken] | None) -> tuple[TokenLogprob, ...] | None:
    if scores is None:
        return None
    return tuple(
        TokenLogprob(
            id=score.id,
            token=tokenizer.token_text(score.id),
            logprob=score.logprob,
            top=tuple((token, tokenizer.token_text(token), value) for token, value in score.top),
        )
        for score in scores
    )
