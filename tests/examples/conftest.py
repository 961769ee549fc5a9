from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import radixrt as rx


@pytest.fixture(scope="module")
def engine(model_file: Path) -> Iterator[rx.Engine]:
    with rx.Engine(str(model_file)) as engine:
        yield engine
