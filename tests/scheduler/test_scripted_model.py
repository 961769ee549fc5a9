"""The test model is only worth something if every mistake of a cache shows in its logits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from radixrt.model.batch import ForwardBatch
from radixrt.testing.clock import FakeClock
from radixrt.testing.scripted_model import ScriptedModel, reply_after, say


def _batch(rows: list[tuple[list[int], int, list[int]]], wanted: list[int] | None = None) -> ForwardBatch:
    """Rows of (new tokens, their first position, all context slots)."""
    lens = [len(tokens) for tokens, _, _ in rows]
    start = np.concatenate(([0], np.cumsum(lens)))
    return ForwardBatch(
        token_ids=np.concatenate([np.array(tokens, np.int64) for tokens, _, _ in rows]),
        positions=np.concatenate([np.arange(first, first + len(t)) for t, first, _ in rows]),
        write_slots=np.concatenate([np.array(slots[len(slots) - len(t) :], np.int64) for t, _, slots in rows]),
        query_start=start,
        context_slots=[np.array(slots, np.int32) for _, _, slots in rows],
        context_lens=np.array([len(slots) for _, _, slots in rows]),
        logit_index=np.array(wanted if wanted is not None else start[1:] - 1),
    )


def _model(**options: Any) -> ScriptedModel:
    model = ScriptedModel(40, 100, **options)
    model.allocate(64)
    return model


def _reference() -> np.ndarray:
    return _model().forward(_batch([([1, 2, 3, 4, 5], 0, [0, 1, 2, 3, 4])]))[0].copy()


def test_chunks_slots_and_neighbours_do_not_matter() -> None:
    model = _model()
    model.forward(_batch([([1, 2], 0, [9, 3]), ([7], 0, [4])]))
    model.forward(_batch([([8], 1, [4, 5]), ([3], 2, [9, 3, 20])]))
    logits = model.forward(_batch([([4, 5], 3, [9, 3, 20, 40, 1])]))
    assert np.array_equal(logits[0], _reference())
    assert logits.dtype == np.float32


@pytest.mark.parametrize(
    ("tokens", "first", "slots"),
    [
        ([4, 5], 3, [0, 1, 3, 10, 11]),  # a slot of somebody else
        ([4, 5], 3, [1, 0, 2, 10, 11]),  # in the wrong order
        ([4, 5], 3, [0, 1, 50, 10, 11]),  # never written
        ([4, 5], 4, [0, 1, 2, 10, 11]),  # at the wrong position
        ([5, 4], 3, [0, 1, 2, 10, 11]),  # other tokens
        ([4, 5], 2, [0, 1, 10, 11]),  # one missing
    ],
)
def test_every_mistake_shows(tokens: list[int], first: int, slots: list[int]) -> None:
    model = _model()
    model.forward(_batch([([1, 2, 3], 0, [0, 1, 2]), ([9, 9, 3], 0, [5, 4, 3])]))
    logits = model.forward(_batch([(tokens, first, slots)]))
    assert not np.array_equal(logits[0], _reference())


def test_a_token_computed_under_another_context_shows() -> None:
    """The same token at the same position, but its keys come from another prefix: as bad as a wrong token."""
    model = _model()
    model.forward(_batch([([1, 2, 3], 0, [0, 1, 2]), ([9, 2, 3], 0, [5, 4, 3])]))
    logits = model.forward(_batch([([4, 5], 3, [0, 1, 3, 10, 11])]))
    assert not np.array_equal(logits[0], _reference())


def test_a_script_sees_the_context_and_refuses_a_spoiled_one() -> None:
    seen: list[list[int]] = []

    def script(context: Any) -> int:
        seen.append(list(context))
        return 7

    model = _model(script=script)
    logits = model.forward(_batch([([1, 2, 3], 0, [5, 6, 7])], wanted=[0, 2]))
    assert seen == [[1], [1, 2, 3]]
    assert logits.argmax(axis=1).tolist() == [7, 7]
    model.forward(_batch([([9, 9], 0, [8, 9])]))
    with pytest.raises(RuntimeError, match="another position"):
        model.forward(_batch([([4], 2, [5, 8, 10])]))
    with pytest.raises(RuntimeError, match="another context"):
        model.forward(_batch([([4], 2, [5, 9, 10])]))


def test_malformed_batches_are_refused() -> None:
    good = _batch([([1, 2], 0, [0, 1])])
    for field, value in {
        "context_lens": np.array([3]),
        "query_start": np.array([0, 1]),
        "write_slots": np.array([0, 0]),
        "logit_index": np.array([1, 0]),
    }.items():
        fields = {name: getattr(good, name) for name in good.__struct_fields__} | {field: value}
        with pytest.raises(RuntimeError):
            _model().forward(ForwardBatch(**fields))
    with pytest.raises(RuntimeError, match="outside the pool"):
        _model().forward(_batch([([1], 0, [64])]))
    with pytest.raises(RuntimeError, match="once"):
        _model().allocate(3)


def test_seed_delay_and_hook() -> None:
    assert not np.array_equal(
        _model(seed=1).forward(_batch([([1], 0, [0])])), _model().forward(_batch([([1], 0, [0])]))
    )
    clock, hooked = FakeClock(), []
    model = _model(step_delay_s=0.5, sleep=clock.sleep, hook=hooked.append)
    model.forward(_batch([([1, 2], 0, [0, 1])]))
    assert clock() == 0.5
    assert len(hooked) == 1
    assert (model.forwards, model.tokens_computed) == (1, 2)
    with pytest.raises(ValueError, match="monotonic"):
        clock.advance(-1)


def test_say_continues_where_the_context_is() -> None:
    script = say([5, 6, 5, 7], end=0)
    context, said = [1, 2], []
    while (token := script(context)) != 0:
        said.append(token)
        context.append(token)
    assert said == [5, 6, 5, 7]
    assert say([], end=0)([1]) == 0


def test_reply_after_answers_the_last_marker() -> None:
    script = reply_after({(1, 1): [5, 6], (2,): [7]}, end=0)
    assert script([1, 1]) == 5
    assert script([1, 1, 5]) == 6
    assert script([1, 1, 5, 6]) == 0
    assert script([1, 1, 5, 6, 2]) == 7
    assert script([2, 7, 9, 1, 1]) == 5
    assert script([3]) == 0
    assert script([1, 1, 9]) == 0
