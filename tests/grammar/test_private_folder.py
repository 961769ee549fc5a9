"""A folder of files that only the owner touches: whole files or none, and none that could be anybody else's."""

from __future__ import annotations

import logging
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from radixrt.errors import InvalidRequest
from radixrt.grammar.private_folder import PrivateFolder

CONTENT = b"some content" * 50


def only_file(path: Path) -> Path:
    (found,) = path.iterdir()
    return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "above" / "folder"


@pytest.fixture
def folder(path: Path) -> PrivateFolder:
    return PrivateFolder(path)


def test_what_was_saved_is_loaded_also_by_others(folder: PrivateFolder, path: Path) -> None:
    folder.save("a", CONTENT)
    folder.save("b", b"")
    assert [folder.load(name) for name in "abc"] == [CONTENT, b"", None]
    assert PrivateFolder(path).load("a") == CONTENT
    folder.save("a", b"new")
    assert folder.load("a") == b"new"


def test_nobody_else_may_read_it(folder: PrivateFolder, path: Path) -> None:
    old = os.umask(0)
    try:
        folder.save("a", CONTENT)
        PrivateFolder(path.parent / "another")
    finally:
        os.umask(old)
    for found in (path, path.parent / "another", only_file(path)):
        assert stat.S_IMODE(found.stat().st_mode) & 0o077 == 0


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o702])
def test_a_folder_open_to_others_is_refused(tmp_path: Path, mode: int) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(mode)
    with pytest.raises(InvalidRequest, match="closed to all others") as refused:
        PrivateFolder(tmp_path / "open", param="cache_dir")
    assert refused.value.param == "cache_dir"


def test_a_link_or_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "file").write_bytes(b"")
    for name in ("link", "file", "file/below"):
        with pytest.raises(InvalidRequest):
            PrivateFolder(tmp_path / name)


def test_damage_of_every_kind_is_no_file(
    folder: PrivateFolder, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder.save("a", CONTENT)
    file = only_file(path)
    whole = file.read_bytes()
    damaged = [b"", whole[:5], whole[:-1], whole + b"x", b"x" * len(whole)]
    damaged += [whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] for at in range(0, len(whole), 7)]
    for data in damaged:
        caplog.clear()
        file.write_bytes(data)
        assert folder.load("a") is None
        assert [record.levelno for record in caplog.records] == [logging.WARNING]
    folder.save("a", CONTENT)
    assert folder.load("a") == CONTENT


def test_a_file_under_another_name_is_not_taken(folder: PrivateFolder, path: Path) -> None:
    folder.save("a", CONTENT)
    only_file(path).rename(path / "b.bin")
    assert folder.load("b") is None


def test_a_file_that_is_not_ones_own_is_not_taken(folder: PrivateFolder, path: Path) -> None:
    folder.save("a", CONTENT)
    file = only_file(path)
    file.chmod(0o644)
    assert folder.load("a") is None
    file.chmod(0o600)
    (path / "b.bin").symlink_to(file)
    os.mkfifo(path / "c.bin", 0o600)  # must not be waited for
    (path / "d.bin").mkdir(mode=0o700)
    assert [folder.load(name) for name in "bcd"] == [None, None, None]


def test_the_longest_unused_go_first(path: Path) -> None:
    folder = PrivateFolder(path, max_bytes=2000)
    for place, name in enumerate("abc"):
        folder.save(name, b"x" * 500)
        os.utime(path / f"{name}.bin", ns=(place, place))
    assert folder.load("a") is not None  # and is the latest now
    folder.save("d", b"x" * 500)
    assert [folder.load(name) is not None for name in "abcd"] == [True, False, True, True]
    folder.save("e", b"x" * 5000)  # larger than all may be together
    assert folder.load("e") is None
    assert sum(file.stat().st_size for file in path.iterdir()) <= 2000


def test_their_number_is_bounded(path: Path) -> None:
    folder = PrivateFolder(path, max_files=3)
    for i in range(10):
        folder.save(str(i), b"")
    assert len(list(path.iterdir())) == 3


def test_a_folder_that_cannot_be_written_forgets(folder: PrivateFolder, path: Path) -> None:
    path.rename(path.parent / "moved")
    folder.save("a", CONTENT)  # goes where the folder is, whatever its name
    assert folder.load("a") == CONTENT
    (path.parent / "moved" / "a.bin").unlink()
    (path.parent / "moved").rmdir()
    folder.save("a", CONTENT)
    assert folder.load("a") is None


def test_many_writers_leave_whole_files(path: Path) -> None:
    folders = [PrivateFolder(path, max_files=2) for _ in range(4)]

    def work(seed: int) -> list[bytes | None]:
        folder = folders[seed % len(folders)]
        folder.save(str(seed % 3), bytes([seed % 3]) * 3000)
        return [folder.load(str(name)) for name in range(3)]

    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(work, range(200)):
            assert all(data in (None, bytes([name]) * 3000) for name, data in enumerate(found))
    assert not [file for file in path.iterdir() if file.name.startswith(".")]
