"""Select: scored in context, by the tokens of the choice alone, in one operation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from radixrt.api import RoleNode, SelectNode, TextNode
from radixrt.testing.byte_tokenizer import ByteTokenizer
from radixrt.testing.scripted_model import ScriptedModel
from radixrt.worker.select import best_choice

B = ByteTokenizer
METHODS = ("token_length_normalized", "greedy_token_selection", "unconditional_likelihood_normalized")


def _logprobs(size: int, ids: list[int], start: int) -> list[float]:
    """What a fresh model says about ``ids[start:]``, computed without a cache."""
    from radixrt.model.batch import ForwardBatch

    fresh = ScriptedModel(size, 2048)
    fresh.allocate(len(ids))
    slots = np.arange(len(ids), dtype=np.int32)
    logits = fresh.forward(
        ForwardBatch(
            token_ids=np.array(ids, np.int64),
            positions=np.arange(len(ids)),
            write_slots=slots.astype(np.int64),
            query_start=np.array([0, len(ids)]),
            context_slots=[slots],
            context_lens=np.array([len(ids)]),
            logit_index=np.arange(len(ids)),
        )
    ).astype(np.float64)
    logits -= logits.max(axis=1, keepdims=True)
    scores = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    return [float(scores[i - 1, ids[i]]) for i in range(start, len(ids))]


def test_scores_are_those_of_a_full_recompute(make: Any, words: Any) -> None:
    """Over a prompt whose end merges with some choices: the window starts at the choice's first character."""
    h = make(tokenizer=words)
    choices = ("hello", " world", "rld", "d")
    nodes = h.do([TextNode(node=0, text="hello wo"), SelectNode(node=1, name="s", choices=choices)])
    expected = []
    for choice in choices:
        ids = words.encode_text("hello wo" + choice, at_start=True)
        sizes = [len(words.token_bytes(token)) for token in ids]
        start = next(i for i in range(len(ids)) if sum(sizes[i:]) <= len(choice) or i == len(ids) - 1)
        if sum(sizes[start:]) < len(choice):
            start -= 1
        expected.append(np.mean(_logprobs(288, ids, start)))
    event = nodes[1]
    assert event.scores == pytest.approx(expected, abs=1e-4)
    assert event.choice == int(np.argmax(expected))
    assert event.samples[0].text == choices[event.choice]


@pytest.mark.parametrize("method", METHODS)
def test_what_is_chosen_goes_on(make: Any, gen: Any, words: Any, method: Any) -> None:
    h = make(tokenizer=words)
    choices = ("rld", "x", " and more")
    nodes = h.do(
        [TextNode(node=0, text="hello wo"), SelectNode(node=1, name="s", choices=choices, method=method), gen(2)]
    )
    text = "hello wo" + choices[nodes[1].choice]
    ids = h.scheduler.requests[-1].ids
    assert ids == words.encode_text(text, at_start=True)
    assert nodes[2].usage.computed_tokens <= 1


def test_the_cost_does_not_depend_on_the_prefix(make: Any, gen: Any) -> None:
    h = make()
    choices = tuple(f"choice {i}" for i in range(10))
    nodes = h.do(
        [TextNode(node=0, text="p" * 1000), gen(1, max_tokens=0), SelectNode(node=2, name="s", choices=choices)]
    )
    assert nodes[2].usage.computed_tokens < 10 * 12
    fresh = make()
    before = fresh.model.tokens_computed
    fresh.do([TextNode(node=0, text="p" * 1000), SelectNode(node=2, name="s", choices=choices)])
    assert fresh.model.tokens_computed - before < 1000 + 10 * 12


def test_the_text_before_is_tokenized_once(make: Any) -> None:
    h = make()
    seen: list[int] = []
    encode = h.tokenizer.encode

    def counting(pieces: Any, *, at_start: bool) -> Any:
        ids = encode(pieces, at_start=at_start)
        seen.append(len(ids))
        return ids

    h.tokenizer.encode = counting
    choices = tuple(f"choice {i}" for i in range(50))
    h.do([TextNode(node=0, text="text before " * 100), SelectNode(node=1, name="s", choices=choices)])
    assert sum(seen) < 2 * 1200 + 50 * 40


@pytest.mark.parametrize("choices", [(), ("a", ""), ("a", "b", "a"), tuple(map(str, range(5000)))])
def test_choices_that_are_none(make: Any, choices: tuple[str, ...]) -> None:
    h = make()
    nodes = h.do([TextNode(node=0, text="a"), SelectNode(node=1, name="s", choices=choices)])
    assert nodes[1].error is not None
    assert (nodes[1].error.code, nodes[1].error.param) == ("invalid_request", "choices")


@pytest.mark.parametrize("method", METHODS)
def test_ties_go_to_the_first(method: Any) -> None:
    rows = [[-1.0, -2.0], [-1.0, -2.0], [-1.5]]
    assert best_choice(method, rows, [[0.0], [0.0], [0.0]])[0] == 0


def test_the_three_methods_differ_as_documented() -> None:
    rows = [[-1.0, -5.0], [-2.0], [-1.0, -4.0, -9.0]]
    assert best_choice("token_length_normalized", rows, [[]] * 3)[0] == 1
    # 0 and 2 share the best first token, 2 has the better second.
    assert best_choice("greedy_token_selection", rows, [[]] * 3)[0] == 2
    # A choice that has ended goes on with its mean.
    assert best_choice("greedy_token_selection", [[-1.0], [-1.0, -0.5], [-3.0]], [[]] * 3)[0] == 1
    unconditional = [[-3.0, -9.0], [-2.0], [-1.0, -4.0, -9.0]]
    best, gains = best_choice("unconditional_likelihood_normalized", rows, unconditional)
    assert best == 0
    assert gains == pytest.approx([3.0, 0.0, 0.0])


def test_select_on_nothing(make: Any) -> None:
    h = make()
    nodes = h.do([SelectNode(node=0, name="s", choices=("a", "bc"))])
    assert nodes[0].error is None
    assert all(r.ids[0] == B.BOS for r in h.scheduler.requests)
    assert all(math.isfinite(score) for score in nodes[0].scores or ())
    bare = ByteTokenizer()
    bare.bos_id = None
    h = make(tokenizer=bare)
    nodes = h.do([SelectNode(node=0, name="s", choices=("a", "bc"))])
    assert nodes[0].error is not None
    assert nodes[0].error.param == "choices"


def test_select_in_a_role(make: Any, gen: Any) -> None:
    h = make()
    nodes = h.do(
        [
            RoleNode(node=0, role="user"),
            TextNode(node=1, text="yes or no?"),
            RoleNode(node=2, role=None),
            RoleNode(node=3, role="assistant"),
            SelectNode(node=4, name="s", choices=("yes", "no")),
            RoleNode(node=5, role=None),
            RoleNode(node=6, role="user"),
            gen(7),
        ]
    )
    chosen = nodes[4].samples[0].text
    start = "<|im_start|>user\nyes or no?<|im_end|>\n<|im_start|>assistant\n"
    assert h.contexts()[:2] == [start + "yes", start + "no"]
    assert h.contexts()[2] == start + chosen + "<|im_end|>\n<|im_start|>user\n"
    assert nodes[7].usage.cached_tokens >= len(start) - 40


def test_a_choice_that_shares_a_token_with_the_message_before_it(make: Any, gen: Any, words: Any) -> None:
    h = make(tokenizer=words)
    h.do(
        [
            RoleNode(node=0, role="assistant"),
            TextNode(node=1, text="hello wo"),
            SelectNode(node=2, name="s", choices=("rld",)),
            TextNode(node=3, text=" and"),
            gen(4, heal=False),
        ]
    )
    ids = h.scheduler.requests[-1].ids
    assert words.decode(ids, skip_special=False).endswith("<|im_start|>assistant\nhello world and")
    assert ids[-3:] == [words.encode_text(text)[0] for text in ("hello", " world", " and")]


def test_a_choice_in_a_history_that_is_rendered_anew(make: Any, gen: Any, words: Any) -> None:
    """A template that forgets the beginning: the choice's tokens and the text before them must still part well."""
    template = (
        "{% for message in messages[-2:] %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
        "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    words.chat = ByteTokenizer(template=template).chat
    h = make(tokenizer=words)
    h.do(
        [
            RoleNode(node=0, role="user"),
            TextNode(node=1, text="?"),
            RoleNode(node=2, role=None),
            RoleNode(node=3, role="assistant"),
            TextNode(node=4, text="hello wo"),
            SelectNode(node=5, name="s", choices=("rld",)),
            RoleNode(node=6, role=None),
            RoleNode(node=7, role="user"),
            TextNode(node=8, text="!"),
            RoleNode(node=9, role=None),
            RoleNode(node=10, role="assistant"),
            gen(11),
        ]
    )
    text = words.decode(h.scheduler.requests[-1].ids, skip_special=False)
    assert "assistant\nhello world<|im_end|>\n<|im_start|>user\n!<|im_end|>\n<|im_start|>assistant\n" in text
    assert "?" not in text


def test_a_choice_that_does_not_fit_fails_the_node_and_frees_the_rest(make: Any) -> None:
    h = make(context_length=100, total_slots=400)
    nodes = h.do([TextNode(node=0, text="a" * 90), SelectNode(node=1, name="s", choices=("b", "c" * 50))])
    assert nodes[1].error is not None
    assert nodes[1].error.code == "context_length_exceeded"
    assert h.interpreter.stats()["held_slots"] == 0
