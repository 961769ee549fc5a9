"""Batches of mixed grammars, and several threads: every row is the one that its text alone would have."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from radixrt.errors import RadixrtError
from radixrt.grammar import CompiledGrammar, Compiler, GrammarLimits, Matcher, Vocabulary, fill_masks

Compile = Callable[[Compiler], CompiledGrammar]

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 5},
        "tags": {"type": "array", "items": {"type": "integer"}},
    },
    "required": ["name"],
}
KINDS: list[Compile] = [
    lambda c: c.regex(r"(ab|a1|é)+ {0,3}"),
    lambda c: c.regex(r".*a.{3}"),
    lambda c: c.regex(r"[a-z]{1,500}"),
    lambda c: c.choices(["ab", "abab", "true", "é"]),
    lambda c: c.ebnf('root ::= "{" root "}" | [ab1]*'),
    lambda c: c.ebnf('root ::= root "," root | "1" | "ab"'),
    lambda c: c.json_schema(PERSON),
    lambda c: c.json_schema({"type": "number", "minimum": 0.5, "maximum": 11}),
    lambda c: c.json_schema({"anyOf": [{"type": "string", "pattern": "^a+$"}, {"const": [1, {"a": None}]}]}),
    lambda c: c.json_schema(True, whitespace="compact"),
    lambda c: c.any_text(),
]


def alone(matcher: Matcher, vocab: Vocabulary) -> npt.NDArray[np.int32]:
    row = np.full(vocab.words, -1, np.int32)
    matcher.fill_mask(row)
    return row


def allowed(row: npt.NDArray[np.int32]) -> list[int]:
    return np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("seed", range(4))
def test_a_batch_is_what_each_text_alone_would_have(seed: int, toy_vocab: Vocabulary) -> None:
    """The other compiler has seen nothing, so no row of the batch comes out of a cache that it filled."""
    rng = random.Random(seed)
    shared, apart = Compiler(toy_vocab), Compiler(toy_vocab)
    kinds = [rng.choice([*KINDS, None]) for _ in range(24)]
    batch = [None if kind is None else kind(shared).matcher() for kind in kinds]
    single = [None if kind is None else kind(apart).matcher() for kind in kinds]
    for _ in range(12):
        masks = np.full((len(batch) + 2, toy_vocab.words), 77, np.int32)
        fill_masks(batch, masks)
        assert (masks[len(batch) :] == 77).all()
        for i, (row, matcher, other) in enumerate(zip(masks, batch, single, strict=False)):
            if matcher is None or other is None:
                assert len(allowed(row)) == toy_vocab.size
                continue
            assert row.tobytes() == alone(other, toy_vocab).tobytes(), i
            options = allowed(row)
            assert options, "a live text with no legal token"
            token = rng.choice(options)
            assert matcher.accept(token)
            assert other.accept(token)
        if rng.random() < 0.5:  # rows change places from step to step
            order = rng.sample(range(len(batch)), len(batch))
            batch, single = [batch[i] for i in order], [single[i] for i in order]


def test_a_text_that_fails_leaves_its_neighbours_alone(toy_vocab: Vocabulary) -> None:
    rich = Compiler(toy_vocab)
    poor = Compiler(toy_vocab, GrammarLimits(step_fuel=1))
    hard = poor.regex(r"(?:[a-z]+[0-9]?){3,9}").matcher()
    batch = [rich.json_schema(PERSON).matcher(), hard, rich.regex("(ab)+").matcher()]
    assert hard.accept(ord("a"))  # the first row was made when it was compiled
    masks = np.full((3, toy_vocab.words), -1, np.int32)
    fill_masks(batch, masks)
    assert hard.failed
    assert isinstance(hard.error, RadixrtError)
    assert not masks[1].any()
    for i in (0, 2):
        assert masks[i].tobytes() == alone(batch[i].copy(), toy_vocab).tobytes()
        assert not batch[i].failed


def walk(grammar: CompiledGrammar, vocab: Vocabulary, seed: int) -> list[bytes]:
    """The masks along a seeded text."""
    rng, matcher, seen = random.Random(seed), grammar.matcher(), []
    for _ in range(25):
        row = alone(matcher, vocab)
        seen.append(row.tobytes())
        token = rng.choice(allowed(row))
        assert matcher.accept(token)
        if token in vocab.eos_ids:
            break
    return seen


@pytest.mark.parametrize("together", [True, False], ids=["the same grammars", "batches across threads"])
def test_threads_see_the_same_masks(together: bool, toy_vocab: Vocabulary) -> None:
    expected = [walk(kind(Compiler(toy_vocab)), toy_vocab, seed) for seed, kind in enumerate(KINDS)]
    compiler = Compiler(toy_vocab)
    wrong: list[object] = []
    start = threading.Barrier(4)

    def work(number: int) -> None:
        try:
            start.wait(timeout=60)
            for step in range(3 * len(KINDS)):
                which = (step if together else step * (number + 1)) % len(KINDS)
                grammar = KINDS[which](compiler)
                if not together:
                    others = [kind(compiler).matcher() for kind in KINDS[number:]]
                    fill_masks(others, np.zeros((len(others), toy_vocab.words), np.int32))
                if walk(grammar, toy_vocab, which) != expected[which]:
                    wrong.append((number, which))
        except Exception as error:  # noqa: BLE001  # a thread's failure is the test's
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert not any(thread.is_alive() for thread in threads)
    assert wrong == []
