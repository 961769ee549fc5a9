"""Contexts as values: however text arrives and wherever it forks, the tokens are those of the whole."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from radixrt.text.pieces import IdsPiece, Message, TextPiece
from radixrt.worker.context import ChatContext, Context, IdRope, RawContext

WORDS = [
    "hello",
    " world",
    " and",
    "he",
    "ll",
    " ",
    "  ",
    "\n",
    "\n\n",
    "wor",
    "ld.",
    "'s",
    "12",
    "345",
    "é",
    "🙂",
    " x",
]
ROLES = ("system", "user", "assistant", "user", "assistant")


def _text(rng: random.Random, parts: int) -> str:
    return "".join(rng.choice(WORDS) for _ in range(rng.randint(0, parts)))


def _pieces(rng: random.Random, text: str) -> list[str]:
    cuts = sorted(rng.randint(0, len(text)) for _ in range(rng.randint(0, 6)))
    return [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]


def _maybe_settled(rng: random.Random, context: Context, runtime: Any) -> Context:
    return context.settled(runtime) if rng.random() < 0.4 else context


def _raw_ids(rng: random.Random, runtime: Any, text: str) -> list[int]:
    context: Context = RawContext()
    for piece in _pieces(rng, text):
        context = _maybe_settled(rng, context.with_text(piece), runtime)
    [prompt] = context.prompts(runtime, ("",))
    return prompt.ids()


def _chat_ids(rng: random.Random, runtime: Any, contents: list[str], opening: str) -> list[int]:
    context: Context = ChatContext()
    for role, content in zip(ROLES, contents, strict=False):
        assert isinstance(context, ChatContext)
        context = context.opened(role)
        for piece in _pieces(rng, content):
            context = _maybe_settled(rng, context.with_text(piece), runtime)
        assert isinstance(context, ChatContext)
        context = _maybe_settled(rng, context.closed(), runtime)
    assert isinstance(context, ChatContext)
    context = context.opened("assistant")
    for piece in _pieces(rng, opening):
        context = _maybe_settled(rng, context.with_text(piece), runtime)
    [prompt] = context.prompts(runtime, ("",))
    return prompt.ids()


def _whole_chat(tokenizer: Any, contents: list[str], opening: str) -> list[int]:
    messages = [Message(role, (TextPiece(c),)) for role, c in zip(ROLES, contents, strict=False)]
    messages.append(Message("assistant", (TextPiece(opening),)))
    ids: list[int] = tokenizer.encode(tokenizer.chat.render(messages, open_role="assistant"), at_start=True)
    return ids


def _check_many(runtime: Any, seed: int, rounds: int) -> None:
    rng = random.Random(seed)
    tokenizer = runtime.tokenizer
    for _ in range(rounds):
        text = _text(rng, 30) + "."
        whole = [*tokenizer.prefix_ids, *tokenizer.encode_text(text, at_start=True)]
        assert _raw_ids(rng, runtime, text) == whole, text
        contents = [_text(rng, 12) for _ in range(rng.randint(0, 4))]
        opening = _text(rng, 4)
        assert _chat_ids(rng, runtime, contents, opening) == _whole_chat(tokenizer, contents, opening), contents


def test_ids_do_not_depend_on_pieces_and_forks(make: Any, words: Any) -> None:
    _check_many(make(tokenizer=words).runtime, seed=1, rounds=150)


@pytest.mark.model
def test_ids_do_not_depend_on_pieces_and_forks_on_a_real_tokenizer(make: Any, model_file: Path) -> None:
    from radixrt.text.tokenizer import load_tokenizer

    _check_many(make(tokenizer=load_tokenizer(model_file)).runtime, seed=2, rounds=40)


def test_generated_ids_survive_whatever_follows(make: Any, words: Any) -> None:
    """Random alternation of text and given ids: the ids are in the prompt as they were, in their places."""
    rng = random.Random(3)
    runtime = make(tokenizer=words).runtime
    for _ in range(100):
        context: Context = RawContext()
        expected = ""
        given: list[tuple[int, ...]] = []
        for _ in range(rng.randint(1, 6)):
            text = _text(rng, 5)
            context = _maybe_settled(rng, context.with_text(text), runtime)
            ids = tuple(rng.randint(97, 122) for _ in range(rng.randint(1, 3)))
            [prompt] = context.prompts(runtime, ("",))
            context = prompt.continued(0, ids, "", bytes(ids).decode(), "")
            given.append(ids)
            expected += text + bytes(ids).decode()
        [prompt] = context.prompts(runtime, ("",))
        ids_now = prompt.ids()
        assert words.decode(ids_now).removeprefix("<|bos|>") == expected
        at = 0
        for ids in given:
            at = next(i for i in range(at, len(ids_now)) if tuple(ids_now[i : i + len(ids)]) == ids) + len(ids)


def test_ropes_share_and_flatten() -> None:
    rope = IdRope()
    expected: list[int] = []
    kept = []
    for i in range(300):
        rope = rope.extended([i] * (i % 3))
        expected += [i] * (i % 3)
        kept.append((rope, list(expected)))
    for each, ids in kept:
        assert each.to_list() == ids
        assert each.length == len(ids)
        assert each.last == (ids[-1] if ids else None)
    assert rope.extended([]) is rope


def test_contexts_do_not_change(make: Any, words: Any) -> None:
    runtime = make(tokenizer=words).runtime
    base = RawContext().with_text("hello wor")
    left, right = base.with_text("ld"), base.with_pieces([IdsPiece((65,), "A")])
    texts = [words.decode(c.prompts(runtime, ("",))[0].ids()) for c in (left, right, base)]
    assert texts == ["hello world", "hello worA", "hello wor"]
