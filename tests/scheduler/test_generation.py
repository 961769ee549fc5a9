"""How a sequence ends: end and stop tokens, minimum and maximum, grammars, forced tokens, sinks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from radixrt.api import FinishReason
from radixrt.errors import UnsupportedConstraint
from radixrt.testing.scripted_model import ScriptedModel, say

VOCAB, END = 61, 60


class TokenMatcher:
    """A grammar that accepts exactly the token sequences of ``language``; end tokens only after one of them."""

    def __init__(self, *language: Sequence[int], fail_after: int | None = None, refuse: bool = False) -> None:
        self.language = [tuple(word) for word in language]
        self.text: tuple[int, ...] = ()
        self.fail_after = fail_after
        self.refuse = refuse
        self.accepts = 0
        self.error: Exception | None = None

    def allowed(self) -> set[int]:
        n = len(self.text)
        return {word[n] for word in self.language if word[:n] == self.text and len(word) > n}

    @property
    def is_accepting(self) -> bool:
        return self.text in self.language

    @property
    def is_complete(self) -> bool:
        return self.is_accepting and not self.allowed()

    @property
    def failed(self) -> bool:
        over = self.fail_after is not None and len(self.text) >= self.fail_after
        return self.error is not None or over

    def accept(self, token: int, /) -> bool:
        self.accepts += 1
        if self.refuse or token not in self.allowed():
            return False
        self.text += (token,)
        return True

    def forced_tokens(self) -> list[int]:
        forced: list[int] = []
        probe = TokenMatcher(*self.language)
        probe.text = self.text
        while len(only := probe.allowed()) == 1 and not probe.is_accepting:
            token = only.pop()
            probe.text += (token,)
            forced.append(token)
        return forced


def fill_masks(matchers: Sequence[Any], bitmask: np.ndarray) -> None:
    for matcher, row in zip(matchers, bitmask, strict=True):
        allowed = set(range(VOCAB))
        if matcher is not None:
            if matcher.refuse and matcher.text == ():
                allowed = {0}
            else:
                allowed = matcher.allowed() | ({END} if matcher.is_accepting else set())
            if matcher.failed:
                allowed = set()
        row[:] = 0
        for token in allowed:
            row.view(np.uint32)[token >> 5] |= np.uint32(1 << (token & 31))


def _say(make_bench: Any, reply: Sequence[int], **options: Any) -> Any:
    return make_bench(model=ScriptedModel(VOCAB, script=say(reply, END)), fill_masks=fill_masks, **options)


# --- end, stop, length ------------------------------------------------------------------------------------------


def test_an_end_token_stops_and_is_not_output(make_bench: Any) -> None:
    bench = _say(make_bench, [5, 6, 7])
    sink = bench.submit([1, 2], 50)
    bench.run()
    assert (sink.tokens, sink.result.stop_token) == ([5, 6, 7], END)
    assert sink.result.finish_reason is FinishReason.STOP
    assert sink.result.decode_steps == 4


@pytest.mark.parametrize("max_tokens", [1, 2, 3])
def test_length(make_bench: Any, max_tokens: int) -> None:
    bench = _say(make_bench, [5, 6, 7])
    sink = bench.submit([1, 2], max_tokens)
    bench.run()
    assert sink.tokens == [5, 6, 7][:max_tokens]
    assert sink.result.finish_reason is FinishReason.LENGTH
    assert sink.result.stop_token is None


def test_ignore_eos_goes_on_to_the_length(make_bench: Any) -> None:
    bench = make_bench(model=ScriptedModel(VOCAB, script=lambda _: END))
    sink = bench.submit([1], 5, ignore_eos=True)
    bench.run()
    assert sink.tokens == [END] * 5
    assert sink.result.finish_reason is FinishReason.LENGTH


@pytest.mark.parametrize("ignore_eos", [False, True])
def test_stop_ids_always_stop(make_bench: Any, ignore_eos: bool) -> None:
    bench = _say(make_bench, [5, 6, 7])
    sink = bench.submit([1, 2], 50, stop_token_ids=(7, 9), ignore_eos=ignore_eos)
    bench.run()
    assert (sink.tokens, sink.result.stop_token) == ([5, 6], 7)


def test_min_tokens_bans_end_and_stop_ids_until_then(make_bench: Any) -> None:
    bench = make_bench(model=ScriptedModel(VOCAB, script=lambda _: END))
    sink = bench.submit([1], 20, min_tokens=6, stop_token_ids=(0,))
    bench.run()
    assert len(sink.tokens) == 6
    assert END not in sink.tokens
    assert 0 not in sink.tokens
    assert sink.result.finish_reason is FinishReason.STOP


def test_several_end_ids(make_bench: Any) -> None:
    bench = _say(make_bench, [5, 6, 7])
    sink = bench.submit([1, 2], 50, end_ids=(END, 6))
    bench.run()
    assert (sink.tokens, sink.result.stop_token) == ([5], 6)


@pytest.mark.parametrize("after", [1, 2, 3])
def test_the_sink_can_stop(make_bench: Any, make_sink: Any, after: int) -> None:
    bench = _say(make_bench, [5, 6, 7])
    sink = bench.submit([1, 2], 3, sink=make_sink(stop_after=after))
    bench.run()
    assert sink.tokens == [5, 6, 7][:after]
    assert sink.result.finish_reason is FinishReason.STOP


# --- grammar ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("forced", ["on", "off"])
def test_a_grammar_restricts_and_completes(make_bench: Any, forced: str) -> None:
    bench = _say(make_bench, [9, 9, 9], forced_tokens=forced)
    matcher = TokenMatcher([5, 6, 7], [5, 6, 8, 9])
    sink = bench.submit([1], 50, matcher=matcher)
    free = bench.submit([1, 2], 3)
    bench.run()
    assert tuple(sink.tokens) in matcher.language
    assert sink.result.finish_reason is FinishReason.STOP
    assert free.tokens == [9, 9, 9]


@pytest.mark.parametrize("chunk", [1, 2, 512])
@pytest.mark.parametrize("retract", [0, 1, 2])
def test_forced_tokens_change_steps_not_tokens(make_bench: Any, chunk: int, retract: int) -> None:
    words = [[5, 6, 7, 1, 2, 3, 4, 8, 9], [5, 6, 7, 1, 2, 3, 5, 8, 9], [5, 6, 7, 2, 2, 2]]
    outcomes = {}
    for forced in ("on", "off"):
        bench = make_bench(fill_masks=fill_masks, forced_tokens=forced, chunk=chunk, force_retract_every=retract)
        sinks = [bench.submit([1, k], 50, matcher=TokenMatcher(*words), temperature=1.0, key=k) for k in range(8)]
        bench.run()
        outcomes[forced] = [sink.tokens for sink in sinks]
        steps = sum(sink.result.decode_steps for sink in sinks)
        n_forced = sum(sink.result.forced_tokens for sink in sinks)
        assert steps + n_forced == sum(len(sink.tokens) for sink in sinks)
        assert (n_forced > 0) == (forced == "on")
        assert bench.stat("forced_tokens") == n_forced
    assert outcomes["on"] == outcomes["off"]
    assert len({tuple(tokens) for tokens in outcomes["on"]}) > 1


def test_a_text_without_choice_needs_no_model(make_bench: Any) -> None:
    bench = make_bench(fill_masks=fill_masks)
    sink = bench.submit([1], 50, matcher=TokenMatcher([5, 6, 7]))
    bench.run()
    assert sink.tokens == [5, 6, 7]
    assert (sink.result.decode_steps, sink.result.forced_tokens, bench.model.forwards) == (0, 3, 0)


def test_forced_tokens_respect_max_tokens(make_bench: Any) -> None:
    bench = make_bench(fill_masks=fill_masks)
    sink = bench.submit([1], 2, matcher=TokenMatcher([5, 6, 7]))
    exact = bench.submit([1], 3, matcher=TokenMatcher([5, 6, 7]))
    bench.run()
    assert (sink.tokens, sink.result.finish_reason) == ([5, 6], FinishReason.LENGTH)
    assert (exact.tokens, exact.result.finish_reason) == ([5, 6, 7], FinishReason.STOP)


def test_output_scores_cover_every_output_token(make_bench: Any) -> None:
    """A forced token was never sampled, so where scores are wanted nothing is forced."""
    bench = make_bench(fill_masks=fill_masks)
    sink = bench.submit([1], 50, matcher=TokenMatcher([5, 6, 7]), logprobs=2)
    bench.run()
    assert sink.tokens == [5, 6, 7]
    assert [score.id for score in sink.result.output_scores] == [5, 6, 7]
    assert all(score.logprob < 0 and len(score.top) == 2 for score in sink.result.output_scores)


@pytest.mark.parametrize("options", [{"min_tokens": 9}, {"ignore_eos": True}, {"logit_bias": {7: -100.0}}])
def test_the_grammar_is_stronger(make_bench: Any, options: dict[str, Any]) -> None:
    bench = make_bench(fill_masks=fill_masks)
    sink = bench.submit([1], 20, matcher=TokenMatcher([5, 7], [6, 7]), **options)
    bench.run()
    assert tuple(sink.tokens) in {(5, 7), (6, 7)}
    assert sink.result.finish_reason is FinishReason.STOP


def test_min_tokens_holds_while_the_grammar_leaves_a_choice(make_bench: Any) -> None:
    words = [[5] * n for n in range(1, 9)]
    for minimum in (1, 4, 8):
        bench = make_bench(model=ScriptedModel(VOCAB, script=lambda _: END), fill_masks=fill_masks)
        sink = bench.submit([1], 20, matcher=TokenMatcher(*words), min_tokens=minimum)
        bench.run()
        assert sink.tokens == [5] * minimum
        assert sink.result.finish_reason is FinishReason.STOP


@pytest.mark.parametrize("forced", ["on", "off"])
def test_a_ban_that_would_leave_nothing_is_no_ban(make_bench: Any, forced: str) -> None:
    bench = make_bench(fill_masks=fill_masks, forced_tokens=forced)
    sink = bench.submit([1], 20, matcher=TokenMatcher([6, 7]), stop_token_ids=(6,), min_tokens=2)
    bench.run()
    assert (sink.tokens, sink.result.finish_reason) == ([6, 7], FinishReason.STOP)


def test_a_stop_id_inside_an_unfinished_constraint_is_ordinary(make_bench: Any) -> None:
    """``stop`` promises a valid text, so a stop token counts only where the text may end."""
    bench = make_bench(fill_masks=fill_masks)
    inside = bench.submit([1], 20, matcher=TokenMatcher([5, 6, 7]), stop_token_ids=(6,))
    at_end = bench.submit([1], 20, matcher=TokenMatcher([5], [5, 6]), stop_token_ids=(6,))
    bench.run()
    assert (inside.tokens, inside.result.finish_reason) == ([5, 6, 7], FinishReason.STOP)
    assert at_end.tokens == [5]


def test_no_legal_token(make_bench: Any) -> None:
    bench = make_bench(fill_masks=fill_masks)
    dead = bench.submit([1], 20, matcher=TokenMatcher([5, 6, 7], [6, 6, 7], fail_after=1))
    born_dead = bench.submit([1], 20, matcher=TokenMatcher([5], fail_after=0))
    unsatisfiable = bench.submit([1], 20, matcher=TokenMatcher())
    fine = bench.submit([1], 20, matcher=TokenMatcher([5, 6]))
    bench.run()
    for sink in (dead, born_dead, unsatisfiable):
        assert sink.result.finish_reason is FinishReason.NO_LEGAL_TOKEN
    assert len(dead.tokens) == 1
    assert fine.result.finish_reason is FinishReason.STOP
    assert bench.stat("no_legal_token") == 3


def test_a_matcher_that_refuses_what_it_allowed_is_an_error_of_its_own(make_bench: Any) -> None:
    bench = make_bench(fill_masks=fill_masks)
    sink = bench.submit([1], 20, matcher=TokenMatcher(refuse=True))
    fine = bench.submit([1], 5, end_ids=())
    bench.run()
    assert sink.result.finish_reason is FinishReason.ERROR
    assert sink.result.error.code == "internal_error"
    assert len(fine.tokens) == 5


class BrokenMatcher(TokenMatcher):
    """Like a real one it never raises: at ``place`` of its life it fails, and keeps why."""

    def __init__(self, place: str, cause: Exception) -> None:
        super().__init__([5, 6, 7, 8, 9], [5, 6, 7, 8, 10])
        self.place = place
        self.cause = cause
        if place == "birth":
            self.error = cause

    def allowed(self) -> set[int]:
        if self.place == "mask" and self.text == (5, 6, 7, 8):
            self.error = self.cause
        return set() if self.error is not None else super().allowed()

    def accept(self, token: int, /) -> bool:
        accepted = super().accept(token)
        if self.place in ("accept", "refuse") and len(self.text) == 4:
            self.error = self.cause
            return accepted and self.place == "accept"
        return accepted

    def forced_tokens(self) -> list[int]:
        if self.place == "forced":
            self.error = self.cause
            return []
        return super().forced_tokens()


@pytest.mark.parametrize("place", ["birth", "mask", "accept", "refuse", "forced"])
@pytest.mark.parametrize(
    ("cause", "code", "counter"),
    [
        (KeyError("a state"), "internal_error", "internal_errors"),
        (UnsupportedConstraint("too many states", keyword="states"), "unsupported_constraint", "refused"),
    ],
)
def test_an_error_inside_a_matcher_is_no_lack_of_tokens(
    make_bench: Any, place: str, cause: Exception, code: str, counter: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Wherever it shows: in the mask, in the forced tokens, when a token is taken, or before the first."""
    bench = make_bench(fill_masks=fill_masks)
    broken = bench.submit([1], 20, matcher=BrokenMatcher(place, cause))
    fine = bench.submit([1], 20, matcher=TokenMatcher([5, 6]))
    bench.run()
    assert (broken.result.finish_reason, broken.result.error.code) == (FinishReason.ERROR, code)
    assert [bench.stat(name) for name in ("no_legal_token", counter)] == [0, 1]
    assert sum(bench.stat(name) for name in ("internal_errors", "refused")) == 1
    assert caplog.records[0].exc_info[1] is cause
    assert fine.result.finish_reason is FinishReason.STOP


def test_a_computing_request_leaves_its_matcher_alone(make_bench: Any) -> None:
    bench = make_bench(fill_masks=fill_masks)
    matcher = TokenMatcher([5, 6])
    sink = bench.submit([1, 2], 0, matcher=matcher)
    bench.run()
    assert matcher.accepts == 0
    assert sink.result.computed_tokens == 2


# --- scores -----------------------------------------------------------------------------------------------------


def _reference(ids: list[int], start: int, top: int) -> list[tuple[int, float | None, list[int]]]:
    from radixrt.model.batch import ForwardBatch

    model = ScriptedModel(VOCAB, seed=7)
    n = len(ids)
    model.allocate(n)
    logits = model.forward(
        ForwardBatch(
            token_ids=np.array(ids),
            positions=np.arange(n),
            write_slots=np.arange(n),
            query_start=np.array([0, n]),
            context_slots=[np.arange(n, dtype=np.int32)],
            context_lens=np.array([n]),
            logit_index=np.arange(n),
        )
    ).astype(np.float64)
    logprobs = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    scores: list[tuple[int, float | None, list[int]]] = []
    for position in range(start, n):
        if position == 0:
            scores.append((ids[0], None, []))
        else:
            row = logprobs[position - 1]
            scores.append(
                (ids[position], float(row[ids[position]]), np.argsort(-row, kind="stable")[:top].tolist())
            )
    return scores


@pytest.mark.parametrize("start", [0, 1, 2, 19, 20, 39, 40])
@pytest.mark.parametrize("options", [{}, {"chunk": 1}, {"chunk": 7, "page_size": 4}, {"force_retract_every": 2}])
def test_prompt_scores(make_bench: Any, start: int, options: dict[str, Any]) -> None:
    ids = [(i * 7) % 59 for i in range(40)]
    expected = _reference(ids, start, 3)
    bench = make_bench(**options)
    bench.submit(ids[:30], 0)  # part of it is cached already
    bench.submit([9] * 5, 30, end_ids=())
    bench.step()
    for max_tokens in (0, 4):
        sink = bench.submit(ids, max_tokens, logprob_start=start, top=3)
        bench.run()
        scores = sink.result.prompt_scores
        assert [score.id for score in scores] == [token for token, _, _ in expected]
        for score, (_, logprob, best) in zip(scores, expected, strict=True):
            if logprob is None:
                assert score.logprob is None
            else:
                assert score.logprob == pytest.approx(logprob, abs=1e-5)
                assert [token for token, _ in score.top] == best
        assert sink.result.cached_tokens <= max(0, start - 1)


def test_choices_over_one_prefix_are_scored_beside_each_other(make_bench: Any) -> None:
    prefix = [(i * 3) % 59 for i in range(30)]
    choices = [[1, 2, 3], [1, 2, 4], [5], [1, 2, 3, 7, 8, 9]]
    bench = make_bench()
    sinks = [bench.submit([*prefix, *c], 0, logprob_start=len(prefix)) for c in choices]
    bench.run()
    for sink, choice in zip(sinks, choices, strict=True):
        expected = _reference([*prefix, *choice], len(prefix), 0)
        got = [score.logprob for score in sink.result.prompt_scores]
        assert got == pytest.approx([logprob for _, logprob, _ in expected], abs=1e-5)
    assert sum(s.result.cached_tokens for s in sinks) == 3 * (len(prefix) - 1)


def test_scores_are_none_unless_asked_for(make_bench: Any) -> None:
    bench = make_bench()
    sink = bench.submit([1, 2], 3)
    bench.run()
    assert sink.result.output_scores is None
    assert sink.result.prompt_scores is None
