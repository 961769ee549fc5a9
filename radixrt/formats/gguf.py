"""GGUF files, versions 2 and 3, little endian, whole or split: metadata, tensor table, tensor values.

A file is hostile until proven otherwise. Every count, length and offset is compared with the size of the file
before anything is made of it, and what a header may hold is bounded (``HEADER_LIMIT``, ``VALUE_LIMIT``), so that
damage costs an error and no memory. This module does not know what a key or a tensor is for.
"""

from __future__ import annotations

import itertools
import re
import struct
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from radixrt.errors import ModelLoadError
from radixrt.formats.dequant import dequantize
from radixrt.formats.ggml import REFUSED, TYPES
from radixrt.formats.mapped import MappedFile, TensorInfo

__all__ = ["GGUFFile", "TensorInfo"]

HEADER_LIMIT = 128 << 20  # bytes of metadata and tensor table; the largest vocabularies take 20 MiB
STRING_LIMIT = 16 << 20  # bytes of one string
VALUE_LIMIT = 1 << 22  # metadata values in one file, array items included
TENSOR_LIMIT = 1 << 17  # tensors in one file
ARRAY_DEPTH_LIMIT = 4  # arrays of arrays of arrays of arrays
MAX_DIMS = 4
DEFAULT_ALIGNMENT = 32

_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")
_SCALARS: Mapping[int, struct.Struct] = MappingProxyType(
    {
        0: struct.Struct("<B"),
        1: struct.Struct("<b"),
        2: struct.Struct("<H"),
        3: struct.Struct("<h"),
        4: struct.Struct("<I"),
        5: struct.Struct("<i"),
        6: struct.Struct("<f"),
        7: struct.Struct("<B"),
        10: struct.Struct("<Q"),
        11: struct.Struct("<q"),
        12: struct.Struct("<d"),
    }
)
_BOOL, _STRING, _ARRAY = 7, 8, 9
# The fewest bytes a value of a kind takes, to refuse impossible counts before looping over them.
_FEWEST_BYTES: Mapping[int, int] = MappingProxyType(
    {kind: scalar.size for kind, scalar in _SCALARS.items()} | {_STRING: 8, _ARRAY: 12}
)
_FEWEST_ENTRY = 8 + 1 + 4 + 1  # key length, key, type, value
_FEWEST_TENSOR = 8 + 1 + 4 + 4 + 8  # name length, name, dimensions, type, offset

_PART_NAME = re.compile(r"(?P<stem>.*)-(?P<number>[0-9]{5})-of-(?P<count>[0-9]{5})\.gguf", re.DOTALL)


class GGUFFile:
    """An open GGUF file. Make one with :meth:`open`; it is a context manager.

    ``metadata`` maps keys to bool, int, float, str or (nested) lists of them. Of a split file it is that of all
    parts together. ``tensors`` maps names to ``TensorInfo`` in file order.
    """

    def __init__(self, path: Path, parts: list[_Part]) -> None:
        self.path = path
        self.metadata: dict[str, Any] = {}
        self.tensors: dict[str, TensorInfo] = {}
        self._files = [part.file for part in parts]
        for part in parts:
            for key, value in part.metadata.items():
                known = self.metadata.setdefault(key, value)
                # "is not" first: NaN equals nothing, not even itself.
                if key != "split.no" and known is not value and known != value:
                    raise part.file.error(f"the key {key!r} disagrees with that of another part")
            for name, tensor in part.tensors.items():
                if name in self.tensors:
                    raise part.file.error(f"the tensor {name!r} is in another part too")
                self.tensors[name] = tensor

    @classmethod
    def open(cls, path: Path | str) -> GGUFFile:
        """Map ``path`` and read its header. Any part of a split file opens all of it.

        Raises ``ModelLoadError`` that names the file and the place in it.
        """
        path = Path(path)
        part = _read_part(path, 0)
        count = _split_number(part, "split.count", 1)
        if count <= 1:
            return cls(path, [part])
        names = _part_names(part, count)
        missing = [name.name for name in names if not name.is_file()]
        if missing:
            raise part.file.error(f"parts of the split file are missing: {', '.join(map(repr, missing[:8]))}")
        parts = [_read_part(name, number) for number, name in enumerate(names)]
        _check_split(parts)
        return cls(path, parts)

    def read(self, name: str) -> NDArray[Any]:
        """Return the values of a tensor in its shape: float32, integers as they are stored.

        F32 and integer tensors are views of the private map (writing to them never changes the file); all others
        are new arrays. Raises ``ModelLoadError`` for an unknown name or after ``close``.
        """
        info = self._info(name)
        data = self._files[info.part].array(info.offset, info.nbytes)
        return dequantize(data, info.type).reshape(info.shape)

    def raw(self, name: str) -> NDArray[np.uint8]:
        """Return the stored bytes of a tensor, uint8 ``[*shape[:-1], bytes per row]``, as a read-only view."""
        info = self._info(name)
        data = self._files[info.part].array(info.offset, info.nbytes)
        data.flags.writeable = False
        return data.reshape(*info.shape[:-1], -1)

    def close(self) -> None:
        """Let go of the files. Arrays already read stay valid."""
        for file in self._files:
            file.close()

    def __enter__(self) -> GGUFFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _info(self, name: str) -> TensorInfo:
        info = self.tensors.get(name)
        if info is None:
            raise ModelLoadError(f"{self.path}: no tensor named {name!r}", param=str(self.path))
        return info


class _Part:
    """One file of a model: its map, its metadata and its tensors."""

    def __init__(self, file: MappedFile, metadata: dict[str, Any], tensors: dict[str, TensorInfo]) -> None:
        self.file = file
        self.metadata = metadata
        self.tensors = tensors


class _Reader:
    """A cursor over a header that refuses to leave it. ``left`` is the budget of metadata values."""

    def __init__(self, file: MappedFile) -> None:
        self.file = file
        self.data = file.bytes
        self.end = min(file.size, HEADER_LIMIT)
        self.at = 0
        self.left = VALUE_LIMIT

    def error(self, message: str) -> ModelLoadError:
        return self.file.error(f"byte {self.at}: {message}")

    def need(self, count: int, what: str, each: int = 1) -> None:
        """Refuse unless ``count`` things of at least ``each`` bytes can still follow."""
        if count * each > self.end - self.at:
            if self.end < self.file.size:
                raise self.error(f"{what} ({count}) exceeds the {HEADER_LIMIT} bytes a header may take")
            raise self.error(f"{what} ({count}) exceeds what is left of the file ({self.end - self.at} bytes)")

    def u32(self, what: str) -> int:
        self.need(4, what)
        self.at += 4
        value: int = _U32.unpack_from(self.data, self.at - 4)[0]
        return value

    def u64(self, what: str) -> int:
        self.need(8, what)
        self.at += 8
        value: int = _U64.unpack_from(self.data, self.at - 8)[0]
        return value

    def string(self, what: str) -> str:
        length = self.u64(what)
        self.need(length, what)
        if length > STRING_LIMIT:
            raise self.error(f"{what} takes {length} bytes; at most {STRING_LIMIT} are read")
        raw = self.data[self.at : self.at + length]
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise self.error(f"{what} is not UTF-8") from error
        self.at += length
        return text

    def value(self, kind: int, what: str, depth: int = 0) -> Any:
        """Read one metadata value of type number ``kind``."""
        if kind == _ARRAY:
            return self._array(what, depth + 1)
        if kind == _STRING:
            self._spend(1, what)
            return self.string(what)
        return self._scalars(kind, 1, what)[0]

    def _array(self, what: str, depth: int) -> list[Any]:
        if depth > ARRAY_DEPTH_LIMIT:
            raise self.error(f"{what} nests arrays deeper than {ARRAY_DEPTH_LIMIT}")
        kind = self.u32(f"the item type of {what}")
        count = self.u64(f"the length of {what}")
        if kind not in _FEWEST_BYTES:
            raise self.error(f"{what} has items of the unknown type {kind}")
        self.need(count, f"the length of {what}", _FEWEST_BYTES[kind])
        if kind == _STRING:
            self._spend(count, what)
            return [self.string(what) for _ in range(count)]
        if kind == _ARRAY:
            self._spend(count, what)
            return [self._array(what, depth + 1) for _ in range(count)]
        return self._scalars(kind, count, what)

    def _scalars(self, kind: int, count: int, what: str) -> list[Any]:
        scalar = _SCALARS.get(kind)
        if scalar is None:
            raise self.error(f"{what} has the unknown type {kind}")
        self._spend(count, what)
        self.need(count, what, scalar.size)
        values = list(struct.unpack_from(f"<{count}{scalar.format[1:]}", self.data, self.at))
        if kind == _BOOL:
            if any(value > 1 for value in values):
                raise self.error(f"{what} is a bool that is neither 0 nor 1")
            values = [value == 1 for value in values]
        self.at += count * scalar.size
        return values

    def _spend(self, count: int, what: str) -> None:
        self.left -= count
        if self.left < 0:
            raise self.error(f"{what}: more than {VALUE_LIMIT} metadata values")


def _read_part(path: Path, number: int) -> _Part:
    file = MappedFile(path)
    reader = _Reader(file)
    tensor_count, entry_count = _read_preamble(reader)
    metadata = _read_metadata(reader, entry_count)
    alignment = metadata.get("general.alignment", DEFAULT_ALIGNMENT)
    if (
        isinstance(alignment, bool)
        or not isinstance(alignment, int)
        or alignment < 1
        or alignment & (alignment - 1)
    ):
        raise file.error(f"general.alignment is {alignment!r}, not a power of two")
    return _Part(file, metadata, _read_tensors(reader, tensor_count, alignment, number))


def _read_preamble(reader: _Reader) -> tuple[int, int]:
    """Check magic and version; return how many tensors and metadata entries follow."""
    if reader.data[:4] != b"GGUF":
        raise reader.error("not a GGUF file (it does not begin with 'GGUF')")
    reader.at = 4
    version = reader.u32("the version")
    if version & 0xFFFF == 0 and version:
        raise reader.error("a big-endian GGUF file; only little-endian ones are read")
    if version not in (2, 3):
        raise reader.error(f"GGUF version {version}; versions 2 and 3 are read")
    tensors = reader.u64("the number of tensors")
    entries = reader.u64("the number of metadata entries")
    reader.need(entries, "the number of metadata entries", _FEWEST_ENTRY)
    reader.need(tensors, "the number of tensors", _FEWEST_TENSOR)
    if tensors > TENSOR_LIMIT:
        raise reader.error(f"{tensors} tensors; at most {TENSOR_LIMIT} are read")
    return tensors, entries


def _read_metadata(reader: _Reader, count: int) -> dict[str, Any]:
    metadata: dict[str, Any] = {}
    for index in range(count):
        key = reader.string(f"the key of metadata entry {index}")
        if not key or key in metadata:
            raise reader.error(f"the metadata key {key[:200]!r} is {'repeated' if key else 'empty'}")
        what = f"the value of {key[:200]!r}"
        metadata[key] = reader.value(reader.u32(f"the type of {key[:200]!r}"), what)
    return metadata


def _read_tensors(reader: _Reader, count: int, alignment: int, part: int) -> dict[str, TensorInfo]:
    """Read the tensor table and check that every tensor lies inside the file and touches no other."""
    relative: dict[str, TensorInfo] = {}
    for index in range(count):
        name = reader.string(f"the name of tensor {index}")
        if not name or name in relative:
            raise reader.error(f"the tensor name {name[:200]!r} is {'repeated' if name else 'empty'}")
        relative[name] = _read_tensor(reader, name, alignment, part)
    start = -(-reader.at // alignment) * alignment
    size = reader.file.size
    tensors = {}
    for name, info in relative.items():
        offset = start + info.offset
        if offset + info.nbytes > size:
            raise reader.file.error(
                f"tensor {name[:200]!r} takes bytes {offset}..{offset + info.nbytes}, but the file ends at {size}"
            )
        tensors[name] = msgspec.structs.replace(info, offset=offset)
    ordered = sorted(tensors.values(), key=lambda info: info.offset)
    for before, after in itertools.pairwise(ordered):
        if before.offset + before.nbytes > after.offset:
            raise reader.file.error(f"tensors {before.name[:200]!r} and {after.name[:200]!r} overlap")
    return tensors


def _read_tensor(reader: _Reader, name: str, alignment: int, part: int) -> TensorInfo:
    """Read one row of the tensor table; its offset is still relative to the start of the tensor data."""
    what = f"tensor {name[:200]!r}"
    dims = reader.u32(f"the number of dimensions of {what}")
    if dims > MAX_DIMS:
        raise reader.error(f"{what} has {dims} dimensions; at most {MAX_DIMS} are read")
    shape = tuple(reader.u64(f"a dimension of {what}") for _ in range(dims))[::-1]
    number = reader.u32(f"the type of {what}")
    offset = reader.u64(f"the offset of {what}")
    kind = TYPES.get(number)
    if kind is None:
        label = REFUSED.get(number)
        raise reader.error(f"{what} is stored as {label or f'the unknown type {number}'}, which cannot be read")
    if 0 in shape:
        raise reader.error(f"{what} has an empty dimension: {list(shape)}")
    row = shape[-1] if shape else 1
    if row % kind.block:
        raise reader.error(f"{what} has rows of {row} values, not a multiple of the {kind.block} of {kind.name}")
    if offset % alignment:
        raise reader.error(f"{what} starts at offset {offset}, not a multiple of the alignment {alignment}")
    values = 1
    for dim in shape:
        values *= dim
    return TensorInfo(name, shape, kind.name, offset, values // kind.block * kind.size, part)


def _split_number(part: _Part, key: str, default: int) -> int:
    value = part.metadata.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise part.file.error(f"{key} is {value!r}, not a number of parts or tensors")
    return value


def _part_names(part: _Part, count: int) -> list[Path]:
    """The paths of all parts of a split file, from the name of one of them."""
    path = part.file.path
    match = _PART_NAME.fullmatch(path.name)
    if match is None or int(match["count"]) != count:
        raise part.file.error(f"one of {count} parts, but its name does not end in -0000N-of-{count:05d}.gguf")
    return [path.with_name(f"{match['stem']}-{number:05d}-of-{count:05d}.gguf") for number in range(1, count + 1)]


def _check_split(parts: list[_Part]) -> None:
    for number, part in enumerate(parts):
        if _split_number(part, "split.count", 1) != len(parts) or _split_number(part, "split.no", 0) != number:
            raise part.file.error(f"its split.count and split.no do not say part {number} of {len(parts)}")
    total = sum(len(part.tensors) for part in parts)
    expected = _split_number(parts[0], "split.tensors.count", total)
    if total != expected:
        raise parts[0].file.error(f"all parts together hold {total} tensors, but split.tensors.count is {expected}")
