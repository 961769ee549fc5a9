"""Thread-mode engines over the scripted model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from radixrt.client.engine import Engine
from radixrt.testing.scripted_engine import scripted_engine


@pytest.fixture
def make_engine() -> Iterator[Callable[..., Engine]]:
    engines: list[Engine] = []

    def make(**options: Any) -> Engine:
        engines.append(scripted_engine(**options))
        return engines[-1]

    yield make
    for engine in engines:
        engine.close()
