"""The real model, behind one engine for the whole session."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

import radixrt as rx


@pytest.fixture(scope="session")
def engine(model_file: Path) -> Iterator[rx.Engine]:
    # Closed, not entered: `with engine:` would make it the current engine of all later tests of this process.
    with closing(rx.Engine(str(model_file))) as engine:
        yield engine


@pytest.fixture
def make_engine(model_file: Path) -> Iterator[Callable[..., rx.Engine]]:
    """Engines with flags of their own, closed after the test."""
    with ExitStack() as stack:

        def make(**flags: Any) -> rx.Engine:
            return stack.enter_context(rx.Engine(str(model_file), **flags))

        yield make
