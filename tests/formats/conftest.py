"""A GGUF writer of our own, with which a test can also write what no honest tool would."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

GGUFBytes = Callable[..., bytes]
WriteFile = Callable[..., Path]


def string(text: str | bytes) -> bytes:
    raw = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(raw)) + raw


def entry(key: str | bytes, kind: int, payload: bytes) -> bytes:
    return string(key) + struct.pack("<I", kind) + payload


def tensor_row(name: str, dims: Sequence[int], kind: int, offset: int) -> bytes:
    return string(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset)


class GGUFParts:
    """The pieces of a file, and the file they make."""

    string = staticmethod(string)
    entry = staticmethod(entry)
    tensor_row = staticmethod(tensor_row)

    @staticmethod
    def file(
        *,
        entries: Sequence[bytes] = (),
        rows: Sequence[bytes] = (),
        data: bytes = b"",
        magic: bytes = b"GGUF",
        version: int = 3,
        alignment: int = 32,
        counts: tuple[int, int] | None = None,
    ) -> bytes:
        tensors, keys = counts or (len(rows), len(entries))
        head = magic + struct.pack("<IQQ", version, tensors, keys) + b"".join(entries) + b"".join(rows)
        return head + b"\0" * (-len(head) % alignment) + data


@pytest.fixture(scope="session")
def parts() -> type[GGUFParts]:
    return GGUFParts


@pytest.fixture
def write(tmp_path: Path) -> Callable[[bytes], Path]:
    def to_file(data: bytes, name: str = "model.gguf") -> Path:
        path = tmp_path / name
        path.write_bytes(data)
        return path

    return to_file
