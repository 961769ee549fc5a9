"""Healing, stop strings, constraints: what is shown, what counts, and what the branch goes on with."""

from __future__ import annotations

import time
from typing import Any

import pytest

from radixrt.api import Constraint, FinishReason, ForkNode, GenNode, SamplingParams, TextNode
from radixrt.testing.byte_tokenizer import ByteTokenizer
from radixrt.testing.scripted_model import say
from radixrt.text.stop import StopFilter
from radixrt.worker.generation import _whole_tokens

B = ByteTokenizer
WORLD, AND, HELLO = " world", " and", "hello"


def _ids(tokenizer: Any, *texts: str) -> list[int]:
    return [token for text in texts for token in tokenizer.encode_text(text)]


def _say(tokenizer: Any, *texts: str) -> Any:
    return say(_ids(tokenizer, *texts), B.EOS)


# --- healing --------------------------------------------------------------------------------------------------


def test_healing_backs_off_and_hides_what_it_repeats(make: Any, gen: Any, words: Any) -> None:
    assert len(_ids(words, " world")) == 1
    h = make(tokenizer=words, script=_say(words, " world", " and"))
    nodes = h.do([TextNode(node=0, text="hello wor"), gen(1, max_tokens=2), gen(2)], deltas=True)
    first = h.scheduler.requests[0]
    assert words.decode(first.ids) == "hello"
    [sample] = nodes[1].samples
    assert sample.text == "ld and" == h.deltas(1)
    assert list(sample.ids) == _ids(words, " world", " and")
    assert words.decode(h.scheduler.requests[1].ids) == "hello world and"
    assert nodes[2].error is None


def test_repeated_tokens_do_not_count(make: Any, gen: Any, words: Any) -> None:
    """A healed gen gives as many new tokens as an unhealed one, and says so in its usage."""
    reply = _say(words, " a", "b", "c", "d", "e", "f")
    texts = []
    for heal in (None, False):
        h = make(tokenizer=words, script=reply)
        nodes = h.do([TextNode(node=0, text="x a"), gen(1, max_tokens=3, heal=heal)])
        assert nodes[1].samples[0].finish_reason is FinishReason.LENGTH
        assert nodes[1].usage.completion_tokens == 3
        texts.append(nodes[1].samples[0].text)
    assert texts == ["bcd", "bcd"]


@pytest.mark.parametrize("max_tokens", [1, 2])
def test_a_healed_gen_that_gets_nowhere_leaves_the_text(make: Any, gen: Any, words: Any, max_tokens: int) -> None:
    h = make(tokenizer=words, script=_say(words, " world"))
    h.do([TextNode(node=0, text="hello wor"), gen(1, max_tokens=max_tokens), gen(2, heal=False)])
    text = h.nodes()[1].samples[0].text
    assert words.decode(h.scheduler.requests[1].ids) == "hello wor" + text


def test_healed_text_is_repeated_in_its_usual_tokens_or_left_behind_at_once(
    make: Any, gen: Any, words: Any
) -> None:
    """A model that would spell the healed text in odd small tokens is not let."""
    h = make(tokenizer=words, script=say(b" world", B.EOS), forced_tokens="off")
    nodes = h.do([TextNode(node=0, text="hello wor"), gen(1, max_tokens=1), gen(2, heal=False)])
    usual = words.encode_text("hello wor", at_start=True)
    assert len(h.scheduler.requests[0].ids) < len(usual)
    assert h.scheduler.requests[1].ids[: len(usual)] == usual
    assert len(nodes[1].samples[0].text) == 1
    assert words.decode(h.scheduler.requests[1].ids) == "hello wor" + nodes[1].samples[0].text


def test_healing_is_off_when_told_and_after_generated_or_control_tokens(make: Any, gen: Any, words: Any) -> None:
    h = make(tokenizer=words, script=_say(words, "b"))
    h.do([TextNode(node=0, text="x wor"), gen(1, heal=False, max_tokens=1), gen(2, max_tokens=1)])
    assert [words.decode(r.ids) for r in h.scheduler.requests] == ["x wor", "x worb"]
    assert all(r.matcher is None for r in h.scheduler.requests)


def test_healing_never_reaches_into_what_is_settled(make: Any, gen: Any, words: Any) -> None:
    h = make(tokenizer=words)
    nodes = h.do([TextNode(node=0, text="he"), gen(1, max_tokens=1)])
    assert nodes[1].error is None, "a context must not become empty"
    assert words.decode(h.scheduler.requests[0].ids) == "he"
    h = make(tokenizer=words)
    h.do([TextNode(node=0, text="hello a"), ForkNode(node=1, children=(1,)), gen(2, branch=1, max_tokens=1)])
    whole = make(tokenizer=words)
    whole.do([TextNode(node=0, text="hello a"), gen(1, max_tokens=1)])
    assert h.scheduler.requests[0].ids == whole.scheduler.requests[0].ids
    assert h.nodes()[2].samples == whole.nodes()[1].samples


def test_a_constraint_begins_after_the_healed_text(make: Any, gen: Any, words: Any) -> None:
    h = make(tokenizer=words)
    constraint = Constraint(kind="regex", source="ld( and)?[.]")
    nodes = h.do([TextNode(node=0, text="hello wor"), gen(1, max_tokens=20, constraint=constraint)])
    [sample] = nodes[1].samples
    assert sample.finish_reason is FinishReason.STOP
    assert sample.text in ("ld.", "ld and.")


# --- stop strings ---------------------------------------------------------------------------------------------


def test_a_stop_string_is_cut_and_never_shown(make: Any, gen: Any) -> None:
    h = make(script=say(b"one END two", B.EOS))
    nodes = h.do(
        [TextNode(node=0, text="?"), gen(1, max_tokens=20, stop=(" E", "END")), TextNode(node=2, text="!"), gen(3)],
        deltas=True,
    )
    [sample] = nodes[1].samples
    assert (sample.text, sample.matched_stop, sample.finish_reason) == ("one", " E", FinishReason.STOP)
    assert h.deltas(1) == "one"
    assert h.contexts()[1] == "?one!"


def test_what_looks_like_a_stop_is_shown_in_the_end(make: Any, gen: Any) -> None:
    h = make(script=say(b"one EN", B.EOS))
    nodes = h.do([TextNode(node=0, text="?"), gen(1, max_tokens=20, stop=("END",))], deltas=True)
    assert nodes[1].samples[0].text == "one EN" == h.deltas(1)
    assert nodes[1].samples[0].matched_stop is None


@pytest.mark.parametrize(
    ("stop", "kept"),
    [("rld", "x hello wo"), (" world", "x hello"), ("llo", "x he"), ("d and", "x hello worl"), ("hello", "x ")],
)
def test_a_stop_inside_a_token_keeps_the_text_before_it(
    make: Any, gen: Any, words: Any, stop: str, kept: str
) -> None:
    h = make(tokenizer=words, script=_say(words, "hello", " world", " and"))
    params = {"heal": False, "max_tokens": 5}
    nodes = h.do([TextNode(node=0, text="x "), gen(1, stop=(stop,), **params), gen(2, **params)])
    assert nodes[1].samples[0].text == kept[2:]
    ids = h.scheduler.requests[1].ids
    assert words.decode(ids) == kept
    settled = _ids(words, "x ")
    assert ids[: len(settled)] == settled


def test_no_character_is_parted_between_kept_tokens_and_text() -> None:
    """Tokens that end inside a character: "a", half of "é", its other half with "b"."""
    pieces = {0: b"a", 1: b"\xc3", 2: b"\xa9b", 3: b"c"}

    class Tokens:
        token_bytes = staticmethod(pieces.get)

    tokens: Any = Tokens()
    assert _whole_tokens(tokens, [0, 1, 2, 3], "aé", 0) == ([0], "é")
    assert _whole_tokens(tokens, [0, 1, 2, 3], "aéb", 0) == ([0, 1, 2], "")
    assert _whole_tokens(tokens, [0, 1, 2, 3], "a", 0) == ([0], "")
    assert _whole_tokens(tokens, [0, 1, 2, 3], "aéb", 2) == ([0, 1, 2], "")
    assert _whole_tokens(tokens, [0, 1, 2, 3], "aé", 2) == ([], "")


def test_a_stop_cannot_make_half_an_answer_valid(make: Any, gen: Any) -> None:
    h = make(script=say(b'{"a": 12}', B.EOS))
    constraint = Constraint(kind="regex", source=r'\{"a": [0-9]+\}')
    for stop, reason in ((" 1", FinishReason.LENGTH), ("zzz", FinishReason.STOP)):
        nodes = h.do(
            [TextNode(node=0, text="?"), gen(1, max_tokens=20, stop=(stop,), constraint=constraint)], program=stop
        )
        nodes = h.nodes(stop)
        assert nodes[1].samples[0].finish_reason is reason
    constraint = Constraint(kind="regex", source="ab|abc")
    h = make(script=say(b"abc", B.EOS))
    nodes = h.do([TextNode(node=0, text="?"), gen(1, max_tokens=20, stop=("c",), constraint=constraint)])
    assert (nodes[1].samples[0].text, nodes[1].samples[0].finish_reason) == ("ab", FinishReason.STOP)


def test_stop_token_ids(make: Any, gen: Any) -> None:
    h = make(script=say(b"abc", B.EOS))
    nodes = h.do([TextNode(node=0, text="?"), gen(1, max_tokens=20, stop_token_ids=(ord("b"),)), gen(2)])
    [sample] = nodes[1].samples
    assert (sample.text, sample.matched_stop, sample.finish_reason) == ("a", ord("b"), FinishReason.STOP)
    assert h.contexts()[1] == "?a"


def test_hostile_stops_are_prepared_once(make: Any, gen: Any) -> None:
    h = make()
    stops = tuple(chr(0x4E00 + i) * 1000 for i in range(64))
    started = time.monotonic()
    nodes = h.do([TextNode(node=0, text="?"), gen(1, n=200, stop=stops, max_tokens=1)])
    assert len(nodes[1].samples) == 200
    assert time.monotonic() - started < 10.0


# --- errors in a sink ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["push", "flush"])
def test_an_error_in_a_sink_is_one_programs_own(
    make: Any, gen: Any, monkeypatch: pytest.MonkeyPatch, method: str, caplog: Any
) -> None:
    h = make(script=say(b"abc", B.EOS))
    h.open([TextNode(node=0, text="?"), gen(1, max_tokens=9, stop=("zz",))], program="good")
    h.run(2)

    def broken(*_: Any) -> Any:
        raise ZeroDivisionError("a bug in a sink")

    real = getattr(StopFilter, method)
    monkeypatch.setattr(StopFilter, method, lambda self, *a: broken() if "!" in self._next[0] else real(self, *a))
    h.do([TextNode(node=0, text="?"), gen(1, max_tokens=9, stop=("!",)), gen(2)], program="bad")
    assert {n: e.error and e.error.code for n, e in h.nodes("bad").items()} == dict.fromkeys(
        (1, 2), "internal_error"
    )
    h.end("bad")
    assert h.nodes("good")[1].samples[0].text == "abc"
    assert "a bug in a sink" in caplog.text
    assert h.interpreter.stats()["held_slots"] == 0


# --- constraints ----------------------------------------------------------------------------------------------


def test_constrained_output_is_valid_and_cut_off_output_says_so(make: Any, gen: Any) -> None:
    h = make()
    constraint = Constraint(kind="regex", source="[0-9]{3}-[a-z]{2}")
    nodes = h.do([TextNode(node=0, text="?"), gen(1, max_tokens=20, constraint=constraint)])
    [sample] = nodes[1].samples
    assert sample.finish_reason is FinishReason.STOP
    assert len(sample.text) == 6
    assert sample.text[:3].isdigit()
    nodes = h.do([TextNode(node=0, text="?"), gen(1, max_tokens=3, constraint=constraint)], program="short")
    assert h.nodes("short")[1].samples[0].finish_reason is FinishReason.LENGTH


@pytest.mark.parametrize(
    ("constraint", "code"),
    [
        (Constraint(kind="regex", source=r"(a)\1"), "unsupported_constraint"),
        (Constraint(kind="json_schema", source='{"type": "integer", "minimum": 2, "maximum": 1}'), "unsatis"),
        (Constraint(kind="lark", source="start: A"), "invalid_request"),
        (Constraint(kind="choices", choices=("a", "a")), "invalid_request"),
    ],
)
def test_a_constraint_that_cannot_be_is_the_nodes_error(
    make: Any, gen: Any, constraint: Constraint, code: str
) -> None:
    h = make()
    nodes = h.do([TextNode(node=0, text="?"), gen(1, constraint=constraint)])
    assert nodes[1].error is not None
    assert nodes[1].error.code.startswith(code)
    h.do([TextNode(node=0, text="?"), gen(1)], program="next")
    assert h.nodes("next")[1].error is None


def test_samples_of_one_gen_have_deltas_of_their_own(make: Any) -> None:
    h = make()
    node = GenNode(node=1, name="x", params=SamplingParams(n=4, max_tokens=12, temperature=2.0))
    nodes = h.do([TextNode(node=0, text="abc"), node], deltas=True)
    for index, sample in enumerate(nodes[1].samples):
        assert h.deltas(1, index) == sample.text
    assert nodes[1].usage.completion_tokens == sum(len(s.ids) for s in nodes[1].samples)


def test_repeated_tokens_are_neither_in_ids_nor_in_logprobs(make: Any, gen: Any, words: Any) -> None:
    h = make(tokenizer=words, script=_say(words, " a", "b", "c", "d"))
    nodes = h.do([TextNode(node=0, text="x a"), gen(1, max_tokens=3, logprobs=0)])
    sample = nodes[1].samples[0]
    assert words.decode(sample.ids) == sample.text == "bcd"
    assert sample.logprobs is not None
    assert [entry.id for entry in sample.logprobs] == list(sample.ids)
    assert nodes[1].usage.completion_tokens == len(sample.ids)


def test_a_scored_prompt_is_not_healed(make: Any, gen: Any, words: Any) -> None:
    h = make(tokenizer=words, script=_say(words, "b"))
    nodes = h.do([TextNode(node=0, text="x a"), gen(1, max_tokens=1, prompt_logprobs=0)])
    assert nodes[1].prompt_logprobs is not None
    assert [entry.id for entry in nodes[1].prompt_logprobs] == words.encode_text("x a", at_start=True)


def test_a_healed_gen_ignores_the_end_when_told(make: Any, gen: Any, words: Any) -> None:
    h = make(tokenizer=words, script=lambda context: words.eos_ids[0] if len(context) > 3 else ord("b"))
    nodes = h.do([TextNode(node=0, text="x a"), gen(1, max_tokens=5, ignore_eos=True)])
    assert nodes[1].samples[0].finish_reason is FinishReason.LENGTH
    assert nodes[1].usage.completion_tokens == 5


def test_stop_strings_wait_for_min_tokens(make: Any, gen: Any, words: Any) -> None:
    h = make(tokenizer=words, script=_say(words, "b", "x", "c", "x", "d"))
    nodes = h.do([TextNode(node=0, text="a"), gen(1, max_tokens=9, min_tokens=3, stop=("x",), heal=False)])
    assert nodes[1].samples[0].text == "bxc"
    assert nodes[1].samples[0].matched_stop == "x"
