"""Shared prefixes are computed once on the real model, and usage says so."""

from __future__ import annotations

import pytest

import radixrt as rx

pytestmark = pytest.mark.model

WORDS = [
    "the",
    "quick",
    "brown",
    "fox",
    "jumps",
    "over",
    "the",
    "lazy",
    "dog",
    "and",
    "then",
    "it",
    "sleeps",
    "under",
    "a",
    "tall",
    "tree",
    "by",
    "the",
    "quiet",
    "river",
]


def preamble(engine: rx.Engine, tokens: int, tag: str) -> str:
    """A text of about this many tokens that no other test uses."""
    text = f"Notes {tag}:"
    while len(engine.tokenize(text)) < tokens:
        text += " " + " ".join(WORDS[(len(text) + i) % len(WORDS)] for i in range(20))
    return text + "\n"


def test_eight_forks_over_a_preamble_compute_it_once(engine: rx.Engine) -> None:
    text = preamble(engine, 1000, "fork")
    length = len(engine.tokenize(text))

    @rx.program
    def forks(s: rx.ProgramState) -> None:
        s += text
        for f in s.fork(8):
            f += f"Branch number {f.index} says:"
            f += rx.gen("word", max_tokens=3)

    usage = forks.run(engine=engine, temperature=0).usage
    assert usage.prompt_tokens == usage.cached_tokens + usage.computed_tokens
    assert usage.prompt_tokens > 8 * length
    assert usage.computed_tokens < length + 8 * 16
    assert usage.cached_tokens >= 7 * (length - 4)


def test_a_map_of_a_hundred_rows_computes_its_constant_preamble_once(engine: rx.Engine) -> None:
    text = preamble(engine, 800, "map")
    length = len(engine.tokenize(text))

    @rx.program
    def row(s: rx.ProgramState, number: int) -> str:
        s += text
        s += f"Row {number}:" + rx.gen("word", max_tokens=2)
        return s["word"]

    runs = list(row.map([{"number": n} for n in range(100)], engine=engine, temperature=0))
    assert len(runs) == 100
    assert not any(run.error for run in runs)
    computed = sum(run.usage.computed_tokens for run in runs)
    prompt = sum(run.usage.prompt_tokens for run in runs)
    assert prompt > 100 * length
    assert computed < length + 100 * 12


def test_a_second_turn_computes_only_what_is_new(engine: rx.Engine) -> None:
    @rx.program
    def chat(s: rx.ProgramState) -> None:
        s += rx.system("You answer briefly. " + "Remember to be kind. " * 20)
        for turn in ("Name a colour.", "Name another one.", "And a third."):
            s += rx.user(turn)
            s += rx.assistant(rx.gen("answer", max_tokens=8))

    first, second, third = (node.usage for node in chat.run(engine=engine, temperature=0).nodes)
    assert first.prompt_tokens > 80
    assert second.computed_tokens <= 24
    assert third.computed_tokens <= 24
    assert third.cached_tokens > second.cached_tokens


def test_select_cost_does_not_grow_with_the_prefix(engine: rx.Engine) -> None:
    text = preamble(engine, 600, "select")

    @rx.program
    def pick(s: rx.ProgramState) -> str:
        s += text + "The best animal is the"
        s += rx.select("animal", [" dog", " fox", " elephant", " blue whale"])
        return s["animal"]

    first = pick.run(engine=engine)
    again = pick.run(engine=engine)
    assert first.value == again.value
    assert first.usage.computed_tokens < 640 + 40
    assert again.usage.computed_tokens < 40
