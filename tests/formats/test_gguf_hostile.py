"""Damage and malice in GGUF files: always ModelLoadError with the file and the place, never memory."""

from __future__ import annotations

import os
import random
import struct
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from radixrt.errors import ModelLoadError
from radixrt.formats import gguf as module
from radixrt.formats.gguf import GGUFFile

MEMORY_BOUND = 1 << 20  # bytes, for files of a few hundred


@contextmanager
def bounded_memory(limit: int = MEMORY_BOUND) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < limit, f"{peak} bytes allocated"


def u32(value: int) -> bytes:
    return struct.pack("<I", value)


def u64(value: int) -> bytes:
    return struct.pack("<Q", value)


HUGE = [2**31, 2**32, 2**62, 2**63, 2**64 - 1]


def hostile(parts: Any) -> dict[str, tuple[bytes, str]]:
    """Case -> (file, what the message must say)."""
    f, entry, row = parts.file, parts.entry, parts.tensor_row
    alignment = [entry("general.alignment", 4, u32(value)) for value in (0, 3, 2**31 - 1)]
    cases: dict[str, tuple[bytes, str]] = {
        "not gguf": (f(magic=b"GGML"), "not a GGUF file"),
        "a pickle": (b"\x80\x04\x95" + bytes(64), "not a GGUF file"),
        "one byte": (b"G", "not a GGUF file"),
        "magic alone": (b"GGUF", "version"),
        "version 0": (f(version=0), "version 0"),
        "version 1": (f(version=1), "version 1"),
        "version 4": (f(version=4), "version 4"),
        "big-endian": (f(version=3 << 24), "big-endian"),
        "duplicate key": (f(entries=[entry("k", 0, b"\1"), entry("k", 0, b"\2")]), "'k' is repeated"),
        "empty key": (f(entries=[entry("", 0, b"\1")]), "empty"),
        "key not utf-8": (f(entries=[entry(b"\xff", 0, b"\1")]), "not UTF-8"),
        "value not utf-8": (f(entries=[entry("k", 8, parts.string(b"\xc3("))]), "'k' is not UTF-8"),
        "unknown value type": (f(entries=[entry("k", 13, bytes(8))]), "unknown type 13"),
        "unknown item type": (f(entries=[entry("k", 9, u32(99) + u64(0))]), "unknown type 99"),
        "bool of two": (f(entries=[entry("k", 7, b"\2")]), "neither 0 nor 1"),
        "bool array": (f(entries=[entry("k", 9, u32(7) + u64(2) + b"\1\3")]), "neither 0 nor 1"),
        "nested": (f(entries=[entry("k", 9, (u32(9) + u64(1)) * 500 + u32(0) + u64(0))]), "deeper than"),
        "alignment 0": (f(entries=alignment[:1]), "power of two"),
        "alignment 3": (f(entries=alignment[1:2]), "power of two"),
        "alignment odd": (f(entries=alignment[2:]), "power of two"),
        "alignment string": (f(entries=[entry("general.alignment", 8, parts.string("32"))]), "power of two"),
        "alignment bool": (f(entries=[entry("general.alignment", 7, b"\1")]), "power of two"),
        "alignment beyond": (
            f(
                entries=[entry("general.alignment", 4, u32(2**31))],
                rows=[row("t", [1], 0, 0)],
                data=bytes(64),
            ),
            "the file ends at",
        ),
        "split count negative": (f(entries=[entry("split.count", 5, struct.pack("<i", -1))]), r"split\.count"),
        "split count text": (f(entries=[entry("split.count", 8, parts.string("2"))]), r"split\.count"),
        "split count huge": (f(entries=[entry("split.count", 10, u64(2**63))]), "its name does not end"),
        "duplicate tensor": (
            f(rows=[row("t", [1], 0, 0), row("t", [1], 0, 32)], data=bytes(64)),
            "'t' is repeated",
        ),
        "empty tensor name": (f(rows=[row("", [1], 0, 0)], data=bytes(64)), "empty"),
        "five dimensions": (f(rows=[row("t", [1] * 5, 0, 0)], data=bytes(64)), "5 dimensions"),
        "many dimensions": (f(rows=[parts.string("t") + u32(2**32 - 1) + bytes(64)]), "dimensions"),
        "empty dimension": (f(rows=[row("t", [4, 0], 0, 0)], data=bytes(64)), "empty dimension"),
        "iq": (f(rows=[row("t", [256], 16, 0)], data=bytes(128)), "'t' is stored as IQ2_XXS"),
        "mxfp4": (f(rows=[row("t", [32], 39, 0)], data=bytes(128)), "MXFP4"),
        "unknown tensor type": (f(rows=[row("t", [32], 4242, 0)], data=bytes(128)), "unknown type 4242"),
        "half a block": (f(rows=[row("t", [48], 3, 0)], data=bytes(128)), "not a multiple of the 32 of Q4_1"),
        "half a superblock": (f(rows=[row("t", [128, 2], 12, 0)], data=bytes(512)), "256 of Q4_K"),
        "unaligned offset": (f(rows=[row("t", [1], 0, 4)], data=bytes(128)), "multiple of the alignment"),
        "past the end": (f(rows=[row("t", [9], 0, 0)], data=bytes(32)), "the file ends at"),
        "overlap": (f(rows=[row("a", [9], 0, 0), row("b", [4], 0, 32)], data=bytes(128)), "'a' and 'b' overlap"),
        "same place": (f(rows=[row("a", [4], 0, 0), row("b", [4], 0, 0)], data=bytes(128)), "overlap"),
    }
    for n in HUGE:
        cases[f"{n} tensors"] = (f(counts=(n, 0), data=bytes(99)), "number of tensors")
        cases[f"{n} entries"] = (f(counts=(0, n), data=bytes(99)), "number of metadata entries")
        cases[f"key of {n}"] = (f(entries=[u64(n) + bytes(20)]), "key of metadata entry 0")
        cases[f"string of {n}"] = (f(entries=[entry("k", 8, u64(n) + b"abc")]), "'k'")
        for kind in (0, 7, 8, 9, 12):
            cases[f"array of {n} x {kind}"] = (f(entries=[entry("k", 9, u32(kind) + u64(n))]), "the length of")
        cases[f"tensor name of {n}"] = (f(rows=[u64(n) + bytes(40)]), "name of tensor 0")
        cases[f"dimension {n}"] = (f(rows=[row("t", [n], 0, 0)], data=bytes(64)), "the file ends at")
        cases[f"product {n}"] = (f(rows=[row("t", [n] * 4, 0, 0)], data=bytes(64)), "the file ends at")
        cases[f"offset {n}"] = (f(rows=[row("t", [1], 0, n & ~31)], data=bytes(64)), "the file ends at")
    # Products that are small modulo 2**64.
    cases["wrapping product"] = (f(rows=[row("t", [2**32, 2**32], 0, 0)], data=bytes(64)), "the file ends at")
    cases["wrapping bytes"] = (f(rows=[row("t", [2**62 + 1], 0, 0)], data=bytes(64)), "the file ends at")
    return cases


def test_hostile_files_are_refused_by_name_and_cost_nothing(parts: Any, write: Any) -> None:
    for case, (data, message) in hostile(parts).items():
        path = write(data)
        with bounded_memory(), pytest.raises(ModelLoadError, match=message) as caught:
            GGUFFile.open(path)
        assert str(path) in caught.value.message, case
        assert caught.value.param == str(path), case


def honest(parts: Any) -> bytes:
    """A small file with one of everything, among it a tensor of every shape of storage."""
    entries = [
        parts.entry("general.alignment", 4, u32(32)),
        parts.entry("general.architecture", 8, parts.string("llama")),
        parts.entry("flag", 7, b"\1"),
        parts.entry("list", 9, u32(8) + u64(2) + parts.string("ab") + parts.string("")),
        parts.entry("deep", 9, u32(9) + u64(1) + u32(3) + u64(2) + bytes(4)),
    ]
    rows = [parts.tensor_row("f", [4, 2], 0, 0), parts.tensor_row("q", [32, 2], 3, 32)]
    rows.append(parts.tensor_row("k", [256], 14, 96))
    return bytes(parts.file(entries=entries, rows=rows, data=bytes(range(96)) + bytes(range(210))))


def read_everything(path: Path) -> None:
    file = GGUFFile.open(path)
    for name, info in file.tensors.items():
        assert file.read(name).shape == info.shape
        assert file.raw(name).size == info.nbytes


def test_every_truncation_is_refused(parts: Any, write: Any) -> None:
    whole = honest(parts)
    read_everything(write(whole))
    for length in range(len(whole)):
        path = write(whole[:length])
        with pytest.raises(ModelLoadError, match=r"model\.gguf"):
            GGUFFile.open(path)


def test_random_damage_never_does_anything_but_refuse(parts: Any, write: Any) -> None:
    whole = honest(parts)
    header = len(whole) - 306
    rng = random.Random(0)
    refused = 0
    with bounded_memory():
        for _ in range(1500):
            data = bytearray(whole)
            for _ in range(rng.choice((1, 1, 1, 2, 8))):
                data[rng.randrange(header)] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
            try:
                read_everything(write(bytes(data)))
            except ModelLoadError:
                refused += 1
    assert refused > 300


def test_limits_on_honest_looking_headers(parts: Any, write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # Lower limits stand in for files of gigabytes.
    monkeypatch.setattr(module, "VALUE_LIMIT", 10)
    many = parts.entry("k", 9, u32(0) + u64(11) + bytes(11))
    with pytest.raises(ModelLoadError, match="more than 10 metadata values"):
        GGUFFile.open(write(parts.file(entries=[many])))
    nested = parts.entry("k", 9, u32(9) + u64(11) + (u32(0) + u64(0)) * 11)
    with pytest.raises(ModelLoadError, match="more than 10 metadata values"):
        GGUFFile.open(write(parts.file(entries=[nested])))
    monkeypatch.setattr(module, "TENSOR_LIMIT", 1)
    rows = [parts.tensor_row("a", [1], 0, 0), parts.tensor_row("b", [1], 0, 32)]
    with pytest.raises(ModelLoadError, match="at most 1"):
        GGUFFile.open(write(parts.file(rows=rows, data=bytes(64))))
    monkeypatch.setattr(module, "STRING_LIMIT", 3)
    with pytest.raises(ModelLoadError, match="takes 4 bytes"):
        GGUFFile.open(write(parts.file(entries=[parts.entry("k", 8, parts.string("abcd"))])))
    monkeypatch.setattr(module, "HEADER_LIMIT", 64)
    with pytest.raises(ModelLoadError, match="64 bytes a header may take"):
        GGUFFile.open(write(parts.file(entries=[parts.entry("k", 9, u32(0) + u64(60) + bytes(60))])))


def test_a_sparse_file_of_terabytes_allocates_nothing(parts: Any, write: Any) -> None:
    path = write(parts.file(entries=[parts.entry("k", 8, u64(2**39))]))
    os.truncate(path, 2**40)
    with bounded_memory(), pytest.raises(ModelLoadError, match="header may take"):
        GGUFFile.open(path)


def test_what_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.gguf")
    (tmp_path / "empty.gguf").touch()
    (tmp_path / "folder.gguf").mkdir()
    (tmp_path / "loop.gguf").symlink_to("loop.gguf")
    for name, message in [
        ("pipe", "regular"),
        ("empty", "empty"),
        ("folder", "regular"),
        ("gone", "no such"),
        ("loop", "cannot be read"),
    ]:
        with pytest.raises(ModelLoadError, match=message):
            GGUFFile.open(tmp_path / f"{name}.gguf")


def test_a_file_cut_after_it_was_opened(parts: Any, write: Any) -> None:
    path = write(honest(parts))
    file = GGUFFile.open(path)
    os.truncate(path, 100)
    with pytest.raises(ModelLoadError, match="beyond the end"):
        file.read("k")


def test_damaged_scales_give_numbers_without_a_warning(parts: Any, write: Any) -> None:
    block = b"\x00\x7c" + b"\x00\x7e" + bytes(16)  # infinity and NaN
    data = parts.file(rows=[parts.tensor_row("t", [32], 3, 0)], data=block)
    assert not np.isfinite(GGUFFile.open(write(data)).read("t")).any()
