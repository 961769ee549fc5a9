from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import radixrt as rx


@pytest.fixture(scope="module")
def engine(model_file: Path) -> Iterator[rx.Engine]:
    # Closed, not entered: `with engine:` would make it the current engine of all later tests of this process.
    with closing(rx.Engine(str(model_file))) as engine:
        yield engine
