"""Plain text: what reaches the model, token by token, and what is refused."""

from __future__ import annotations

import time
from typing import Any

import pytest

from radixrt.api import FinishReason, RoleNode, TextNode, TokensNode
from radixrt.testing.byte_tokenizer import ByteTokenizer
from radixrt.testing.scripted_model import say
from radixrt.worker.activity import caused_by

B = ByteTokenizer


def test_text_then_gen(make: Any, gen: Any) -> None:
    h = make(script=say(b"yes", B.EOS))
    nodes = h.do([TextNode(node=0, text="Hel"), TextNode(node=1, text="lo"), gen(2, max_tokens=9)], deltas=True)
    assert h.contexts() == ["Hello"]
    [sample] = nodes[2].samples
    assert (sample.text, sample.ids, sample.finish_reason) == ("yes", tuple(b"yes"), FinishReason.STOP)
    assert h.deltas(2) == "yes"
    assert h.end().outcome == "done"
    assert nodes[2].usage.prompt_tokens == 5
    assert nodes[2].usage.completion_tokens == 3
    assert h.end().usage == nodes[2].usage


def test_generated_ids_stay_and_the_rest_follows(make: Any, gen: Any) -> None:
    h = make(script=say(b"yes", B.EOS))
    h.do([TextNode(node=0, text="A"), gen(1, max_tokens=2), TextNode(node=2, text="B"), gen(3)])
    assert h.contexts() == ["A", "AyeB"]


def test_the_second_gen_finds_the_first_in_the_cache(make: Any, gen: Any) -> None:
    h = make()
    nodes = h.do([TextNode(node=0, text="A" * 50), gen(1, max_tokens=10), gen(2, max_tokens=3)])
    usage = nodes[2].usage
    assert usage.prompt_tokens == 60
    assert usage.computed_tokens <= 2
    assert usage.cached_tokens + usage.computed_tokens == usage.prompt_tokens


@pytest.mark.parametrize("add_bos", [False, True])
def test_an_empty_context_starts_from_bos(make: Any, gen: Any, add_bos: bool) -> None:
    h = make(tokenizer=ByteTokenizer(add_bos=add_bos))
    h.do([gen(0), TextNode(node=1, text="x"), gen(2)])
    assert [r.ids[0] for r in h.scheduler.requests] == [B.BOS, B.BOS]
    assert h.scheduler.requests[1].ids.count(B.BOS) == 1
    assert h.end().outcome == "done"


def test_an_empty_context_without_bos_is_an_error(make: Any, gen: Any) -> None:
    tokenizer = ByteTokenizer()
    tokenizer.bos_id = None
    h = make(tokenizer=tokenizer)
    nodes = h.do([TextNode(node=0, text=""), gen(1), gen(2)])
    assert nodes[1].error is not None
    assert (nodes[1].error.code, nodes[1].error.param) == ("invalid_request", "prompt")
    assert nodes[2].error == caused_by(1, nodes[1].error)
    assert h.end().outcome == "done"


def test_a_prefix_stands_before_text_once_and_never_before_given_ids(make: Any, gen: Any) -> None:
    h = make(tokenizer=ByteTokenizer(add_bos=True))
    h.do([TextNode(node=0, text="a"), gen(1), TextNode(node=2, text="b"), gen(3)], program="text")
    h.do([TokensNode(node=0, tokens=(97, 98)), gen(1)], program="ids")
    first, second, third = (r.ids for r in h.scheduler.requests)
    assert first == [B.BOS, 97]
    assert second[:2] == first
    assert second.count(B.BOS) == 1
    assert third == [97, 98]


def test_text_never_makes_control_tokens_and_token_nodes_do(make: Any, gen: Any) -> None:
    h = make()
    h.do(
        [
            TextNode(node=0, text="<|im_"),
            TextNode(node=1, text="start|>"),
            TokensNode(node=2, tokens=("<|im_start|>", 65)),
            gen(3),
        ]
    )
    assert h.scheduler.requests[0].ids == [*b"<|im_start|>", B.IM_START, 65]


@pytest.mark.parametrize("token", ["<|no such token|>", 264, -1, 2**40])
def test_a_token_that_does_not_exist_ends_the_branch(make: Any, gen: Any, token: int | str) -> None:
    h = make()
    nodes = h.do([TokensNode(node=0, tokens=(token,)), gen(1)])
    assert nodes[0].error is not None
    assert nodes[0].error.param == "tokens"
    assert nodes[1].error == caused_by(0, nodes[0].error)
    assert h.end().outcome == "done"


def test_text_and_roles_do_not_mix(make: Any, gen: Any) -> None:
    h = make()
    nodes = h.do([TextNode(node=0, text="a"), RoleNode(node=1, role="user"), gen(2)], program="raw")
    assert "raw" in {e.program for _, e in h.interpreter.replies}
    nodes = h.nodes("raw")
    assert nodes[1].error is not None
    assert "either plain text or a chat" in nodes[1].error.message
    assert nodes[2].error == caused_by(1, nodes[1].error)
    h.do(
        [
            RoleNode(node=0, role="user"),
            TextNode(node=1, text="a"),
            RoleNode(node=2, role=None),
            TextNode(node=3, text="b"),
            gen(4),
        ],
        program="chat",
    )
    nodes = h.nodes("chat")
    assert nodes[3].error is not None
    assert (nodes[3].error.code, nodes[3].error.param) == ("invalid_request", "text")
    assert nodes[4].error == caused_by(3, nodes[3].error)


def test_n_samples_end_the_branch_and_nothing_else(make: Any, gen: Any) -> None:
    h = make()
    nodes = h.do([TextNode(node=0, text="a"), gen(1, n=3, temperature=1.0), TextNode(node=2, text="b"), gen(3)])
    assert len(nodes[1].samples) == 3
    assert len({sample.ids for sample in nodes[1].samples}) == 3
    assert nodes[3].error is not None
    assert nodes[3].error.param == "n"
    assert h.end().outcome == "done"


@pytest.mark.parametrize(
    ("params", "param"),
    [
        ({"temperature": -1.0}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
        ({"top_p": 0.0}, "top_p"),
        ({"n": 0}, "n"),
        ({"n": 100_000}, "n"),
        ({"stop": ("",)}, "stop"),
        ({"stop_token_ids": (264,)}, "stop_token_ids"),
        ({"logit_bias": {300: 1.0}}, "logit_bias"),
        ({"logprobs": 1_000_000}, "logprobs"),
    ],
)
def test_parameters_out_of_range_are_the_nodes_error(
    make: Any, gen: Any, params: dict[str, Any], param: str
) -> None:
    h = make()
    nodes = h.do([TextNode(node=0, text="a"), gen(1, **params)])
    assert nodes[1].error is not None
    assert (nodes[1].error.code, nodes[1].error.param) == ("invalid_request", param)
    assert h.do([TextNode(node=0, text="a"), gen(1)], program="next") is not None
    assert h.nodes("next")[1].error is None


def test_a_prompt_beyond_the_context_says_both_numbers(make: Any, gen: Any) -> None:
    h = make(context_length=100, total_slots=1000)
    nodes = h.do([TextNode(node=0, text="a" * 97), gen(1, max_tokens=4)])
    assert nodes[1].error is not None
    assert nodes[1].error.code == "context_length_exceeded"
    assert nodes[1].error.detail == {"needed": 101, "limit": 100}
    nodes = h.do([TextNode(node=0, text="a" * 10_000_000), gen(1)], program="huge")
    error = h.nodes("huge")[1].error
    assert error is not None
    assert error.code == "context_length_exceeded"


def test_max_tokens_zero_only_computes(make: Any, gen: Any) -> None:
    h = make()
    nodes = h.do([TextNode(node=0, text="abc"), gen(1, max_tokens=0), TextNode(node=2, text="d"), gen(3)])
    assert nodes[1].samples[0].text == ""
    assert nodes[1].usage.computed_tokens == 3
    assert nodes[1].usage.completion_tokens == 0
    assert h.contexts() == ["abc", "abcd"]


def test_logprobs_name_their_tokens(make: Any, gen: Any) -> None:
    h = make()
    nodes = h.do([TextNode(node=0, text="abc"), gen(1, max_tokens=3, logprobs=2, prompt_logprobs=1)])
    [sample] = nodes[1].samples
    assert sample.logprobs is not None
    assert [entry.id for entry in sample.logprobs] == list(sample.ids)
    assert all(len(entry.top) == 2 and entry.top[0][2] == entry.logprob for entry in sample.logprobs)
    prompt = nodes[1].prompt_logprobs
    assert prompt is not None
    assert [entry.token for entry in prompt] == ["a", "b", "c"]
    assert prompt[0].logprob is None
    assert all(entry.logprob is not None and len(entry.top) == 1 for entry in prompt[1:])


def test_characters_are_never_halved_in_deltas(make: Any, gen: Any) -> None:
    text = "né🙂"
    h = make(script=say(text.encode(), B.EOS))
    nodes = h.do([TextNode(node=0, text="?"), gen(1, max_tokens=20)], deltas=True)
    assert nodes[1].samples[0].text == text == h.deltas(1)
    assert not any("�" in getattr(e, "text", "") for e in h.events())


def test_very_many_texts_cost_their_length(make: Any, gen: Any) -> None:
    h = make(context_length=60_000, total_slots=70_000)
    started = time.monotonic()
    h.do([*(TextNode(node=i, text="a") for i in range(50_000)), gen(99_999, max_tokens=0)])
    assert h.nodes()[99_999].usage.prompt_tokens == 50_000
    assert time.monotonic() - started < 20.0  # quadratic work takes minutes


def test_salts_do_not_share(make: Any, gen: Any) -> None:
    h = make()
    nodes = [TextNode(node=0, text="a" * 40), gen(1)]
    assert h.do(nodes, program="one", salt="x") is not None
    h.do(nodes, program="two", salt="x")
    h.do(nodes, program="three", salt="y")
    h.do(nodes, program="four")
    cached = [h.nodes(name)[1].usage.cached_tokens for name in ("one", "two", "three", "four")]
    assert cached[0] == cached[2] == cached[3] == 0
    assert cached[1] > 30
