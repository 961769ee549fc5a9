"""Greedy output does not depend on how the work was arranged."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import radixrt as rx

pytestmark = [pytest.mark.model, pytest.mark.slow]

VARIANTS: dict[str, dict[str, object]] = {
    "on": {},
    "off": {"radix": "off"},
    "table": {"radix": "table"},
    "force-miss": {"radix": "force-miss"},
    "chunk 7": {"chunk": 7},
    "retract every 5": {"force_retract_every": 5},
    "page size 16": {"page_size": 16},
    "one at a time": {"max_running": 1, "radix": "off", "frontend_parallelism": "off"},
}
TOPICS = ["rivers", "clocks", "bread"]


@rx.program
def essay(s: rx.ProgramState, topic: str) -> dict[str, object]:
    s += "Short notes, written by a careful person who likes plain words and dislikes long sentences.\n"
    s += f"On {topic}:" + rx.gen("note", max_tokens=24, stop="\n") + "\n"
    for f in s.fork(["good", "bad"]):
        f += f"What is {f.key} about it:" + rx.gen("view", max_tokens=12)
        f += "\nMark:" + rx.gen("mark", regex=r" [1-9]", max_tokens=4)
    return {"note": s["note"]}


def outputs(engine: rx.Engine) -> list[tuple[str, list[str], list[str]]]:
    runs = essay.map([{"topic": topic} for topic in TOPICS], engine=engine, temperature=0)
    return [(run["note"], run["view"], run["mark"]) for run in runs]


@pytest.fixture(scope="module")
def expected(engine: rx.Engine) -> list[tuple[str, list[str], list[str]]]:
    return outputs(engine)


@pytest.mark.parametrize("name", list(VARIANTS))
def test_same_tokens(
    name: str, make_engine: Callable[..., rx.Engine], expected: list[tuple[str, list[str], list[str]]]
) -> None:
    engine = make_engine(**VARIANTS[name])
    assert outputs(engine) == expected
    assert outputs(engine) == expected  # and once more with whatever is cached by now
    if name == "retract every 5":
        assert engine.stats()["retractions"] > 0
