"""One formula: what is let in is admitted in time, at exactly full pools too; what is not is refused at once."""

from __future__ import annotations

from typing import Any

import pytest

from radixrt.api import FinishReason, SamplingParams
from radixrt.errors import ContextLengthExceeded, InvalidRequest


@pytest.mark.parametrize("page_size", [1, 2, 16, 64])
@pytest.mark.parametrize("prompt_len", [1, 10, 63, 64, 65, 127, 128, 250])
def test_an_exactly_fitting_request_runs_and_one_more_token_is_refused(
    make_bench: Any, page_size: int, prompt_len: int
) -> None:
    bench = make_bench(256, page_size=page_size, chunk=50)
    prompt = [i % 50 for i in range(prompt_len)]
    sink = bench.submit(prompt, 256 - prompt_len, end_ids=())
    with pytest.raises(ContextLengthExceeded) as caught:
        bench.submit(prompt, 256 - prompt_len + 1)
    assert (caught.value.needed, caught.value.limit) == (257, 256)
    assert "257" in str(caught.value)
    assert "256" in str(caught.value)
    bench.run()
    assert len(sink.tokens) == 256 - prompt_len
    assert sink.result.finish_reason is FinishReason.LENGTH


@pytest.mark.parametrize("total", [190, 191, 192, 193])
def test_near_capacity_prompts_never_block_the_queue(make_bench: Any, total: int) -> None:
    """Every length around the pool's size is either refused at once or finishes, and the next one runs."""
    bench = make_bench(total, page_size=64)
    accepted = 0
    for length in range(120, 194):
        try:
            bench.submit([i % 50 for i in range(length)], 0)
            accepted += 1
        except ContextLengthExceeded as error:
            assert error.needed > total // 64 * 64  # noqa: PT017
    bench.run()
    assert accepted == total // 64 * 64 - 119


@pytest.mark.parametrize("radix", ["on", "off", "force-miss"])
@pytest.mark.parametrize("page_size", [1, 4])
def test_many_requests_of_the_pools_size_take_turns(make_bench: Any, radix: str, page_size: int) -> None:
    bench = make_bench(64, page_size=page_size, radix=radix, chunk=13)
    sinks = [bench.submit([k] * 40, 24, end_ids=()) for k in range(6)]
    sinks += [bench.submit([1] * 40, 24, end_ids=()) for _ in range(3)]
    bench.run()
    assert all(len(sink.tokens) == 24 for sink in sinks)


def test_the_context_length_limits_too(make_bench: Any) -> None:
    bench = make_bench(512, context_length=100)
    bench.scheduler.check_fits(60, 40)
    with pytest.raises(ContextLengthExceeded, match="context length") as caught:
        bench.scheduler.check_fits(61, 40)
    assert (caught.value.needed, caught.value.limit) == (101, 100)


def test_a_refused_request_leaves_no_trace(make_bench: Any, make_sink: Any) -> None:
    bench = make_bench(64)
    sink = make_sink()
    with pytest.raises(ContextLengthExceeded):
        bench.submit([1] * 64, 1, sink=sink)
    assert not bench.scheduler.has_work()
    assert sink.results == []


def test_no_sequence_is_refused_because_others_wait(make_bench: Any) -> None:
    """The limit of the queue is for programs; the scheduler takes what those that were accepted ask for."""
    bench = make_bench(40, max_queued=1, max_running=2, force_retract_every=2)
    for k in range(40):
        bench.submit([k] * 10, 5, end_ids=())
    bench.run()
    assert bench.stat("retractions") > 0


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"ids": []}, "prompt"),
        ({"ids": [1, -1]}, "prompt"),
        ({"ids": [1, 61]}, "prompt"),
        ({"ids": [2**40]}, "prompt"),
        ({"ids": [1], "n": 2}, "n"),
        ({"ids": [1], "temperature": -1.0}, "temperature"),
        ({"ids": [1], "logit_bias": {61: 1.0}}, "logit_bias"),
        ({"ids": [1], "stop_token_ids": (61,)}, "stop_token_ids"),
        ({"ids": [1], "logprob_start": 2}, "logprob_start"),
        ({"ids": [1], "logprob_start": -1}, "logprob_start"),
        ({"ids": [1], "top": -1}, "top"),
        ({"ids": [1], "top": 62}, "top"),
    ],
)
def test_bad_requests_name_the_field(make_bench: Any, fields: dict[str, Any], param: str) -> None:
    bench = make_bench()
    with pytest.raises(InvalidRequest) as caught:
        bench.submit(**fields)
    assert caught.value.param == param
    assert not bench.scheduler.has_work()
    bench.submit([1, 2])
    bench.run()


def test_an_id_in_flight_is_refused_and_free_again_afterwards(make_bench: Any) -> None:
    bench = make_bench()
    first = bench.submit([1, 2], id=5)
    with pytest.raises(InvalidRequest):
        bench.submit([1, 2], id=5)
    bench.run()
    assert first.results
    bench.submit([1, 2], id=5)
    bench.run()


def test_a_pool_without_a_page_is_refused(make_bench: Any) -> None:
    with pytest.raises(InvalidRequest) as caught:
        make_bench(10, page_size=16)
    assert caught.value.param == "max_total_tokens"


def test_pressure_retracts_the_youngest_and_the_oldest_goes_on(make_bench: Any) -> None:
    """Admission plans with less output than may come; when it all comes, the oldest never waits."""
    bench = make_bench(200, radix="off")
    order: list[int] = []
    for k in range(8):
        sink = bench.submit([k] * 12, 100, end_ids=())
        sink.on_finish = lambda _, k=k: order.append(k)
    bench.run()
    assert bench.stat("retractions") > 0
    assert order[0] == 0
    assert bench.stat("steps") < 1000


def test_retracted_sequences_go_before_new_ones(make_bench: Any) -> None:
    bench = make_bench(60, radix="off")
    for k in range(3):
        bench.submit([k] * 10, 50, end_ids=())
    while bench.stat("retractions") == 0:
        bench.step()
    retracted = list(bench.scheduler._roster._retracted)
    assert retracted
    small = bench.submit([9], 1, end_ids=())
    resumed: list[Any] = []
    small.on_finish = lambda _: resumed.extend(s for s in retracted if s not in bench.scheduler._roster._retracted)
    bench.run()
    # It would have fitted at any time, but those that had to give way come first.
    assert resumed == retracted


@pytest.mark.parametrize("every", [1, 2])
@pytest.mark.parametrize("radix", ["on", "off", "table", "force-miss"])
def test_forced_retraction_lets_a_lone_sequence_get_somewhere(make_bench: Any, every: int, radix: str) -> None:
    bench = make_bench(100, radix=radix, chunk=3, force_retract_every=every)
    sink = bench.submit(list(range(20)), 5, end_ids=())
    bench.run(limit=200)
    assert len(sink.tokens) == 5
    assert bench.stat("retractions") >= 2


@pytest.mark.parametrize("radix", ["on", "off"])
def test_room_is_noticed_when_it_appears(make_bench: Any, radix: str) -> None:
    bench = make_bench(100, radix=radix)
    steady = bench.submit([1], 60, end_ids=())
    short = bench.submit([2] * 50, 5, end_ids=())
    bench.step()
    big = bench.submit([3] * 60, 2, end_ids=())
    while not short.results:
        bench.step()
        assert not big.tokens
    bench.step()
    assert len(big.tokens) == 1
    assert not steady.results
    bench.run()


def test_idle_prefixes_leave_the_pool_to_others(make_bench: Any) -> None:
    """A hundred programs wait for a slow tool: their hints hold no slots."""
    bench = make_bench(400)
    contexts = [[k % 50, *range(k % 7, 20), k // 50] for k in range(100)]
    for ids in contexts:
        bench.submit(ids, 0)
        bench.run()
        bench.scheduler.note_future_use((), ids, 1)
    big = bench.submit([7] * 300, 100, end_ids=())
    bench.run()
    assert len(big.tokens) == 100
    for ids in contexts:
        bench.scheduler.note_future_use((), ids, -1)
    with pytest.raises(RuntimeError, match="never noted"):
        bench.scheduler.note_future_use((), contexts[0], -1)
    bench.scheduler.check_invariants()


def test_the_hint_keeps_a_prefix_over_a_newer_one(make_bench: Any) -> None:
    def cached_later(**config: str) -> int:
        bench = make_bench(100, **config)
        wanted = [5] * 40
        bench.submit(wanted, 0)
        bench.run()
        bench.scheduler.note_future_use((), wanted, 1)
        for k in range(3):
            bench.submit([10 + k] * 40, 0)
            bench.run()
        sink = bench.submit([*wanted, 1], 0)
        bench.run()
        return int(sink.result.cached_tokens)

    assert cached_later() == 40
    assert cached_later(eviction="lru") == 0
    assert cached_later(frontend_hint="off") == 0


def test_flush_drops_what_is_not_locked(make_bench: Any) -> None:
    bench = make_bench()
    bench.submit([1] * 30, 0)
    bench.run()
    running = bench.submit([2] * 30, 20, end_ids=())
    bench.step()
    assert bench.scheduler.flush_cache() == 30
    assert bench.stat("cached_slots") == 30
    bench.run()
    assert len(running.tokens) == 20
    assert bench.scheduler.flush_cache() == 30 + 20 - 1  # the last token was sampled, never computed
    assert bench.stat("cached_slots") == 0


def test_params_without_output_only_compute(make_bench: Any) -> None:
    bench = make_bench()
    sink = bench.submit(list(range(20)), params=SamplingParams(max_tokens=0))
    bench.run()
    assert sink.result.finish_reason is FinishReason.LENGTH
    assert (sink.result.output_ids, sink.result.computed_tokens) == ([], 20)
    assert bench.stat("cached_slots") == 20
