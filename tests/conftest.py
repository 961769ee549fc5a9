"""Fixtures that several rooms' tests share."""

from __future__ import annotations

import os
from pathlib import Path

import hypothesis
import pytest

# The same examples every time, however slow the machine: a test that fails here fails everywhere.
hypothesis.settings.register_profile(
    "repeatable", derandomize=True, deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("repeatable")

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def project_root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def corpus() -> Path:
    """The folder of shared test data; the test is skipped where it is absent."""
    folder = Path(os.environ.get("RADIXRT_CORPUS", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no test data at {folder}: set RADIXRT_CORPUS to a folder that holds it")
    return folder


@pytest.fixture(scope="session")
def model_file() -> Path:
    """The real model's GGUF file, fetched once into the user's cache."""
    from radixrt.model.sources import resolve_model

    return resolve_model("smollm2-135m", progress=False).path
