"""How long the supervisor waits before it starts the next worker."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from radixrt.errors import RadixrtError, WorkerDied
from radixrt.testing.clock import FakeClock
from radixrt.worker import supervisor as supervisor_module
from radixrt.worker.messages import ModelInfo, Reply
from radixrt.worker.supervisor import Patience, Supervisor

MODEL = ModelInfo("m", "a", 1, 1, 1, (), None, False, 0)


class Silent:
    def on_reply(self, reply: Reply) -> None: ...

    def on_down(self, error: RadixrtError) -> Callable[[], None]:
        return lambda: None


class Falling(Supervisor):
    """Its workers are ready and then end, after as many seconds as ``lives`` says."""

    def __init__(self, lives: list[float], clock: FakeClock, **patience: Any) -> None:
        self.pauses: list[float] = []
        self.lives = lives
        self.clock = clock
        super().__init__(None, Silent(), 1.0, Patience(**patience))  # type: ignore[arg-type]
        self._thread.join(10.0)

    def _serve_one(self) -> RadixrtError:
        self._model = MODEL
        self.clock.advance(self.lives.pop(0))
        return WorkerDied("it fell")

    def _pause(self, seconds: float) -> None:
        self.pauses.append(seconds)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    clock = FakeClock()
    monkeypatch.setattr(supervisor_module, "time", SimpleNamespace(monotonic=clock, sleep=clock.sleep))
    return clock


def test_the_pause_doubles_up_to_its_limit(clock: FakeClock) -> None:
    falling = Falling([0.0] * 7, clock, pause_s=0.1, max_pause_s=1.0, max_failures=7)
    assert falling.pauses == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    with pytest.raises(WorkerDied, match="7 times in a row"):
        falling.check()


def test_a_worker_that_served_for_a_while_starts_the_count_anew(clock: FakeClock) -> None:
    falling = Falling([0.0, 0.0, 31.0, 0.0, 0.0], clock, pause_s=0.1, healthy_s=30.0, max_failures=3)
    assert falling.pauses == [0.1, 0.2, 0.1, 0.2]


def test_one_that_was_never_ready_is_not_started_again(clock: FakeClock) -> None:
    class Unready(Falling):
        def _serve_one(self) -> RadixrtError:
            return WorkerDied("no such model")

    falling = Unready([], clock)
    assert falling.pauses == []
    with pytest.raises(WorkerDied, match="no such model"):
        falling.wait_ready()
